//! One writer: an OS lock that decides, and an owner record that tells people who it is.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::super::error::{Owner, StoreError};
use super::create::{create_dirs, create_private};
use super::read::FileId;
use super::{Open, SessionFile, Writer, read};

impl SessionFile {
    /// Becomes the session's writer, as the first append does: takes the lock, and brings a file of an old version to
    /// the current one. Does nothing for a session that is not on disk yet.
    ///
    /// # Errors
    /// Another process is the writer; the file is another one than was read; the system's.
    pub fn lock(&mut self) -> Result<(), StoreError> {
        let Some(known) = self.known.filter(|_| self.open.is_none()) else { return Ok(()) };
        let (file, metadata) = read::open_regular(&self.path, true).map_err(|error| self.changed_if_gone(error))?;
        let id = FileId::of(&metadata);
        if !lock_soon(&file).map_err(StoreError::io(&self.path, "lock"))? {
            return Err(StoreError::Locked { path: self.path.clone(), owner: find_owner(&self.writer, id) });
        }
        let mut open =
            Open { _owner: OwnerRecord::write(&self.writer, id, &self.path), file, unsynced_dirs: Vec::new() };
        // Only now: before, another writer may have been about to replace the file by its migration.
        self.check_identity(&open.file, known)?;
        if known.version < super::super::record::CURRENT_VERSION {
            open = self.migrate(open, known)?;
        }
        self.open = Some(open);
        Ok(())
    }
}

/// How often, and with what pauses, a held lock is tried again before its holder counts as another writer.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

/// Tries to take the lock for a moment. A child that this process is just starting shares the descriptions of open
/// files until it runs its program, so a lock that was given up can seem held for as long as that takes.
fn lock_soon(file: &File) -> io::Result<bool> {
    for _ in 0..LOCK_TRIES {
        if try_lock(file)? {
            return Ok(true);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    try_lock(file)
}

/// Takes the lock of the open file description, without waiting. `false`: another one has it.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    let whole_file = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file)) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        // Some network and user-space file systems have no such locks. Refusing to write there would help nobody; the
        // check before each append still finds out about other writers.
        Err(error @ (Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP | Errno::ENOLCK)) => {
            tracing::warn!(%error, "this file system has no locks; another writer of the session is not kept out");
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

/// The note that says who writes a file. It decides nothing, so failing to write it is no error.
#[derive(Debug)]
pub(super) struct OwnerRecord(Option<PathBuf>);

impl OwnerRecord {
    pub(super) fn write(writer: &Writer, id: FileId, session: &Path) -> Self {
        let path = record_path(&writer.locks_dir, id);
        match write_record(&path, writer) {
            Ok(()) => Self(Some(path)),
            Err(error) => {
                tracing::warn!(session = %session.display(), error = %error.report(), "cannot note who writes a session");
                Self(None)
            }
        }
    }
}

impl Drop for OwnerRecord {
    fn drop(&mut self) {
        // The lock is still held here (`Open` drops its file after this), so it is our record.
        if let Some(path) = self.0.take() {
            let _ = fs::remove_file(path);
        }
    }
}

fn record_path(locks_dir: &Path, id: FileId) -> PathBuf {
    locks_dir.join(format!("{:x}-{:x}.json", id.dev, id.ino))
}

fn write_record(path: &Path, writer: &Writer) -> Result<(), StoreError> {
    create_dirs(&writer.locks_dir)?;
    // A record of a writer that was killed is in the way.
    let _ = fs::remove_file(path);
    let text = serde_json::to_vec(&writer.owner).map_err(|error| StoreError::io(path, "write")(error.into()))?;
    create_private(path)?.write_all(&text).map_err(StoreError::io(path, "write"))
}

/// Finds who holds the lock: by its record, else by asking the kernel (a daemon with another runtime folder).
fn find_owner(writer: &Writer, id: FileId) -> Owner {
    read_record(&record_path(&writer.locks_dir, id)).or_else(|| find_locker(id)).unwrap_or_default()
}

fn read_record(path: &Path) -> Option<Owner> {
    let owner: Owner = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    Path::new("/proc").join(owner.pid.to_string()).exists().then_some(owner)
}

/// Looks through the processes of this user for the one that has the file open with a lock.
fn find_locker(id: FileId) -> Option<Owner> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok()).find_map(|pid| {
        let process = Path::new("/proc").join(pid.to_string());
        let holds = fs::read_dir(process.join("fd")).ok()?.flatten().any(|fd| {
            let same = fs::metadata(fd.path()).is_ok_and(|at| at.dev() == id.dev && at.ino() == id.ino);
            same && fs::read_to_string(process.join("fdinfo").join(fd.file_name()))
                .is_ok_and(|info| info.lines().any(|line| line.starts_with("lock:") && line.contains("OFDLCK")))
        });
        let name = || fs::read_to_string(process.join("comm")).unwrap_or_default().trim().to_owned();
        holds.then(|| Owner { pid, program: name(), socket: None })
    })
}

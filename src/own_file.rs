//! Small files of the user's that decide something: read only when nobody else can have put them there, and replaced
//! as a whole.
//!
//! A reader sees the old file or the new one, never a part. Writers that take the lock go one after another; who edits
//! the file by hand takes none, so before the file is replaced its identity is compared with that of what was read.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

/// How often, and with what pauses, a held lock is tried again: its holder needs milliseconds. After that it is stopped
/// or hangs, and nobody waits for it any longer.
const LOCK_TRIES: u32 = 400;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// What tells one content of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    place: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl Version {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            place: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// The right to replace a file, among those who ask for it.
#[derive(Debug)]
pub(crate) struct WriteLock {
    _lock: File,
    path: PathBuf,
}

/// Reads a file of at most `limit` bytes. `None`: there is none.
///
/// # Errors
/// The system's, and a text for people when the file is not the user's alone: a link (which is not followed), no
/// regular file, another user's, open to writes of others, or larger than any real one.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Option<(Vec<u8>, Version)>> {
    // A pipe must not block the open.
    let opened = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) if path.is_symlink() => return Err(io::Error::other("it is a symbolic link, which is not followed")),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    check(&metadata, limit)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_large(limit));
    }
    Ok(Some((bytes, Version::of(&metadata))))
}

/// Reads a file that may be somebody else's, and may be a link: what it says is no decision about anybody's rights.
/// `None`: there is none.
///
/// # Errors
/// The system's, and a text for people when it is no regular file, or larger than any real one.
pub(crate) fn read_any(path: &Path, limit: u64) -> io::Result<Option<(Vec<u8>, Version)>> {
    let file = match OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_large(limit));
    }
    Ok(Some((bytes, Version::of(&metadata))))
}

/// Returns where a file really is, so that a link to it is kept when it is replaced.
///
/// # Errors
/// It is a link that leads nowhere.
pub(crate) fn behind_links(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(_) if path.is_symlink() => Err(io::Error::other("it is a symbolic link that leads nowhere")),
        Ok(found) => Ok(found),
        Err(_) => Ok(path.to_owned()),
    }
}

fn check(metadata: &fs::Metadata, limit: u64) -> io::Result<()> {
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::other(format!("it belongs to user {}", metadata.uid())));
    }
    if metadata.mode() & 0o022 != 0 {
        let mode = metadata.mode() & 0o7777;
        return Err(io::Error::other(format!("others may write it (mode {mode:o}); run chmod 600 on it")));
    }
    if metadata.size() > limit { Err(too_large(limit)) } else { Ok(()) }
}

fn too_large(limit: u64) -> io::Error {
    io::Error::other(format!("it is larger than {limit} bytes"))
}

impl WriteLock {
    /// Takes the lock of a file, beside which it lies; makes the folder, for its owner alone. Blocks, for 2 s at most.
    ///
    /// # Errors
    /// Another process holds the lock all the time; the system's.
    pub(crate) fn take(path: &Path) -> io::Result<Self> {
        Self::take_at(&beside(path, "lock"), path)
    }

    /// As [`WriteLock::take`], with the lock at another place: nothing but the file itself is left in its folder.
    ///
    /// # Errors
    /// As for [`WriteLock::take`].
    pub(crate) fn take_at(lock: &Path, path: &Path) -> io::Result<Self> {
        for dir in [path, lock].into_iter().filter_map(Path::parent) {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(O_NOFOLLOW)
            .open(lock)?;
        for _ in 0..LOCK_TRIES {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { _lock: lock, path: path.to_owned() }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "another process is writing it and does not finish"))
    }

    /// Replaces the file, which then is its owner's alone, and forces it to the disk. `false`, and nothing is done: the
    /// file is no longer the one that was `read` (`None`: there was none).
    ///
    /// # Errors
    /// The system's; the file is as it was.
    pub(crate) fn replace(&self, read: Option<Version>, bytes: &[u8]) -> io::Result<bool> {
        let new = beside(&self.path, "new");
        // One that a killed writer left.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let written = write_private(&new, bytes).and_then(|()| {
            let is_as_read = version(&self.path)? == read;
            if is_as_read {
                fs::rename(&new, &self.path)?;
            }
            Ok(is_as_read)
        });
        match written {
            Ok(true) => sync_folder(&self.path).map(|()| true),
            other => {
                // It is ours alone, and of no use any more.
                let _ = fs::remove_file(&new);
                other
            }
        }
    }
}

fn version(path: &Path) -> io::Result<Option<Version>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(Version::of(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(O_NOFOLLOW).open(path)?;
    // The umask takes bits away, even the owner's.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_data()
}

fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(path.parent().unwrap_or(Path::new("/"))).and_then(|dir| dir.sync_all()) {
        // Some file systems cannot; the file itself is synced.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn read_text(path: &Path) -> Result<Option<String>, String> {
        let found = read(path, 100).map_err(|error| error.to_string())?;
        Ok(found.map(|(bytes, _)| String::from_utf8(bytes).unwrap()))
    }

    #[test]
    fn what_may_be_of_others_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        assert_eq!(read_text(&path), Ok(None));
        let real = dir.path().join("real");
        fs::write(&real, "text").unwrap();
        symlink(&real, &path).unwrap();
        assert_eq!(read_text(&path), Err("it is a symbolic link, which is not followed".into()));
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read_text(&path), Err("it is not a regular file".into()));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(read_text(&path), Err("it is not a regular file".into()));
        fs::set_permissions(&real, Permissions::from_mode(0o660)).unwrap();
        assert_eq!(read_text(&real), Err("others may write it (mode 660); run chmod 600 on it".into()));
        fs::set_permissions(&real, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read_text(&real), Ok(Some("text".into())));
        fs::write(&real, "x".repeat(101)).unwrap();
        assert_eq!(read_text(&real), Err("it is larger than 100 bytes".into()));
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/f");
        let lock = WriteLock::take(&path).unwrap();
        assert!(lock.replace(None, b"one").unwrap());
        assert!(!lock.replace(None, b"two").unwrap(), "it is there");
        let (_, before) = read(&path, 100).unwrap().unwrap();
        fs::write(&path, "by hand").unwrap();
        assert!(!lock.replace(Some(before), b"two").unwrap());
        assert_eq!(read_text(&path), Ok(Some("by hand".into())));
        let (_, now) = read(&path, 100).unwrap().unwrap();
        assert!(lock.replace(Some(now), b"two").unwrap());
        assert_eq!(read_text(&path), Ok(Some("two".into())));
        let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "the file and its lock: {names:?}");
        for (path, mode) in [(path.as_path(), 0o600), (path.parent().unwrap(), 0o700)] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, mode, "{}", path.display());
        }
    }

    #[test]
    fn a_planted_link_is_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("f"), dir.path().join("victim"));
        fs::write(&victim, "whole").unwrap();
        let lock = WriteLock::take(&path).unwrap();
        symlink(&victim, dir.path().join("f.new")).unwrap();
        assert!(lock.replace(None, b"one").unwrap());
        drop(lock);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "whole");
        fs::remove_file(dir.path().join("f.lock")).unwrap();
        symlink(&victim, dir.path().join("f.lock")).unwrap();
        WriteLock::take(&path).unwrap_err();
    }
}

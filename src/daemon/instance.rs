//! One daemon per socket: a lock beside it, held for life.
//!
//! The lock decides, never the file: the system drops it with the process, however that ends. The file only tells
//! who holds it, and is never removed, because a lock on a removed file excludes nobody.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use agentd_protocol::version;
use serde::{Deserialize, Serialize};

/// The right to be the daemon of a socket. Ends with the value.
#[derive(Debug)]
pub(super) struct InstanceLock {
    _file: File,
    _dir: Option<File>,
}

/// Who runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Holder {
    /// Process id; 0 while it is still starting.
    pub(super) pid: u32,
    /// Its socket.
    pub(super) socket: String,
    /// Its version.
    pub(super) version: String,
    /// Its build.
    pub(super) build: String,
}

/// Why the daemon may not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum InstanceError {
    /// Another daemon runs.
    #[error("agentd runs already: {0}; stop it with `agentctl daemon stop`, or give this one another AGENTD_SOCKET")]
    Running(Holder),
    /// The lock file cannot be used.
    #[error("cannot lock {}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.pid == 0 {
            return write!(f, "it is just starting");
        }
        write!(f, "pid {}, socket {}, version {} (build {})", self.pid, self.socket, self.version, self.build)
    }
}

impl InstanceLock {
    /// Takes the lock of `socket`, whose directory must be there.
    ///
    /// # Errors
    /// [`InstanceError::Running`] at once when another process holds it.
    pub(super) fn take(socket: &Path) -> Result<Self, InstanceError> {
        let path = lock_path(socket);
        let io = |source| InstanceError::Io { path: path.clone(), source };
        loop {
            let mut file = open(&path).map_err(io)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(InstanceError::Running(read_holder(&mut file))),
                Err(TryLockError::Error(source)) => return Err(io(source)),
            }
            // Somebody may have removed the file after we opened it; then the name is free for a second holder.
            if !is_still_at(&file, &path) {
                continue;
            }
            write_holder(&mut file, socket).map_err(io)?;
            return Ok(Self { _file: file, _dir: shield_from_cleaners(socket) });
        }
    }
}

fn lock_path(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn open(path: &Path) -> io::Result<File> {
    let no_follow = nix::fcntl::OFlag::O_NOFOLLOW.bits();
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(no_follow)
        .open(path)
}

fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

fn read_holder(file: &mut File) -> Holder {
    let mut text = String::new();
    // Half-written or empty text means that the other one is just starting.
    let _ = file.take(4096).read_to_string(&mut text);
    serde_json::from_str(&text).unwrap_or_default()
}

fn write_holder(file: &mut File, socket: &Path) -> io::Result<()> {
    let holder = Holder {
        pid: std::process::id(),
        socket: socket.display().to_string(),
        version: version::VERSION.to_owned(),
        build: version::BUILD.to_owned(),
    };
    let mut line = serde_json::to_vec(&holder)?;
    line.push(b'\n');
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&line)
}

/// Programs that tidy temporary directories leave a directory alone while somebody holds a lock on it
/// (systemd-tmpfiles does). Shared, because several daemons may have their sockets in one directory.
fn shield_from_cleaners(socket: &Path) -> Option<File> {
    let dir = File::open(socket.parent()?).ok()?;
    dir.try_lock_shared().ok()?;
    Some(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_learns_who_runs() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let lock = InstanceLock::take(&socket).unwrap();
        let InstanceError::Running(holder) = InstanceLock::take(&socket).unwrap_err() else { panic!("not running?") };
        assert_eq!((holder.pid, holder.socket.as_str()), (std::process::id(), socket.to_str().unwrap()));
        drop(lock);
        InstanceLock::take(&socket).unwrap();
    }

    #[test]
    fn a_lock_file_without_a_holder_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        std::fs::write(lock_path(&socket), "{\"pid\":1,\"socket\":\"long gone, and a longer text than ours\"}")
            .unwrap();
        let _lock = InstanceLock::take(&socket).unwrap();
        let mut file = open(&lock_path(&socket)).unwrap();
        assert_eq!(read_holder(&mut file).pid, std::process::id());
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "keep").unwrap();
        std::os::unix::fs::symlink(&victim, lock_path(&socket)).unwrap();
        assert!(matches!(InstanceLock::take(&socket), Err(InstanceError::Io { .. })));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "keep");
    }

    #[test]
    fn locks_of_two_sockets_in_one_directory_are_apart() {
        let dir = tempfile::tempdir().unwrap();
        let _a = InstanceLock::take(&dir.path().join("a")).unwrap();
        let _b = InstanceLock::take(&dir.path().join("b")).unwrap();
    }
}

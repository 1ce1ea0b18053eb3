//! The socket: bound by us or handed over by systemd.

use std::fs::Permissions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use agentd_protocol::connect::{self, ConnectError};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};

use crate::constants::LIVE_PROBE_LIMIT;

/// A socket that listens.
#[derive(Debug)]
pub(super) struct Listening {
    /// The socket, in non-blocking mode.
    pub(super) listener: UnixListener,
    /// Its path, and whether we made it.
    pub(super) file: SocketFile,
}

/// The name of the socket in the file system.
#[derive(Clone, Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode of what we bound; `None` when the socket belongs to systemd.
    bound: Option<(u64, u64)>,
}

/// Why the daemon cannot listen.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListenError {
    /// A daemon answers at the path, although nobody holds the lock.
    #[error("agentd runs already: {}socket {}; stop it with `agentctl daemon stop`", shown_pid(*pid), path.display())]
    Live {
        /// The socket.
        path: PathBuf,
        /// Process id, where it can be told.
        pid: Option<i32>,
    },
    /// Something that is no socket has the name. It is left alone.
    #[error("{} is {what}, not a socket; it was left as it is: move it away or set AGENTD_SOCKET", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The socket.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// What is at the path cannot be judged.
    #[error(transparent)]
    Probe(ConnectError),
}

/// Binds `path`, in a directory that was checked to be ours. A socket that nobody serves any more is replaced.
///
/// The caller holds the instance lock, so nobody else of our kind binds at the same time.
///
/// # Errors
/// [`ListenError::Live`] when somebody serves it, also when that one is too busy or stopped to answer.
pub(super) fn bind(path: &Path) -> Result<Listening, ListenError> {
    clear_stale(path)?;
    let io = |action| {
        let path = path.to_owned();
        move |errno: nix::errno::Errno| ListenError::Io { action, path, source: errno.into() }
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(io("make"))?;
    let address = UnixAddr::new(path).map_err(io("use"))?;
    socket::bind(fd.as_raw_fd(), &address).map_err(io("bind"))?;
    // Before listening, so that nobody connects while the file has the mode that the umask gave it.
    let restrict = std::fs::set_permissions(path, Permissions::from_mode(0o600));
    restrict.map_err(|source| ListenError::Io { action: "restrict", path: path.to_owned(), source })?;
    socket::listen(&fd, Backlog::MAXCONN).map_err(io("listen on"))?;
    Ok(Listening { listener: UnixListener::from(fd), file: SocketFile::made_at(path) })
}

/// Takes over a socket that systemd listens on for us.
///
/// # Errors
/// When it is no Unix socket with a path.
pub(super) fn adopt(listener: UnixListener) -> Result<Listening, ListenError> {
    let io = |source| ListenError::Io { action: "use", path: PathBuf::from("the socket from systemd"), source };
    let address = listener.local_addr().map_err(io)?;
    let path = address.as_pathname().ok_or_else(|| io(io::Error::other("it has no path")))?.to_owned();
    listener.set_nonblocking(true).map_err(io)?;
    Ok(Listening { listener, file: SocketFile { path, bound: None } })
}

impl SocketFile {
    fn made_at(path: &Path) -> Self {
        Self { path: path.to_owned(), bound: identity(path) }
    }

    /// Makes connecting fail from now on, so that clients look for the next daemon instead of waiting for this one.
    ///
    /// The descriptor stays open on purpose: it keeps the file's inode number from being given to another socket,
    /// by which [`SocketFile::remove`] knows its own. On a socket of systemd this does nothing: there, clients wait
    /// for the next activation.
    pub(super) fn refuse(&self, listener: &UnixListener) {
        if self.bound.is_some()
            && let Err(error) = socket::shutdown(listener.as_raw_fd(), socket::Shutdown::Both)
        {
            tracing::warn!(%error, "the socket still takes connections");
        }
    }

    /// Returns the socket's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file if it is still the one we made.
    pub(super) fn remove(&self) {
        if self.bound.is_none() || identity(&self.path) != self.bound {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "the socket was not removed");
        }
    }
}

fn shown_pid(pid: Option<i32>) -> String {
    pid.map(|pid| format!("pid {pid}, ")).unwrap_or_default()
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Removes a socket that nobody serves; leaves everything else alone.
fn clear_stale(path: &Path) -> Result<(), ListenError> {
    let io = |action| move |source| ListenError::Io { action, path: path.to_owned(), source };
    let kind = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io("look at")(error)),
    };
    if !kind.is_socket() {
        let what = match kind {
            kind if kind.is_dir() => "a directory",
            kind if kind.is_symlink() => "a link",
            kind if kind.is_file() => "a file",
            _ => "something else",
        };
        return Err(ListenError::NotASocket { path: path.to_owned(), what });
    }
    match connect::connect_within(path, LIVE_PROBE_LIMIT) {
        Err(ConnectError::NoDaemon { .. }) => {
            tracing::info!(path = %path.display(), "replacing the socket of a daemon that is gone");
            std::fs::remove_file(path).map_err(io("remove the old socket"))
        }
        // Whoever accepts, or has a full queue, is alive.
        Ok(stream) => {
            let pid = socket::getsockopt(&stream, socket::sockopt::PeerCredentials).ok().map(|peer| peer.pid());
            Err(ListenError::Live { path: path.to_owned(), pid })
        }
        Err(ConnectError::NotAnswering { .. }) => Err(ListenError::Live { path: path.to_owned(), pid: None }),
        Err(error) => Err(ListenError::Probe(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn the_socket_is_for_us_only_and_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listening = bind(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        connect::connect(&path).unwrap();
        listening.file.remove();
        assert!(!path.exists());
    }

    #[test]
    fn a_refusing_socket_looks_like_no_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listening = bind(&path).unwrap();
        listening.file.refuse(&listening.listener);
        assert!(matches!(connect::connect(&path), Err(ConnectError::NoDaemon { .. })));
        listening.file.remove();
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        drop(UnixListener::bind(&path).unwrap());
        bind(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_live_socket_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        // Never accepts: the same as a daemon that is stopped.
        let _live = UnixListener::bind(&path).unwrap();
        let before = identity(&path);
        let error = bind(&path).unwrap_err();
        assert!(error.to_string().contains(&format!("pid {}, socket", std::process::id())), "{error}");
        assert_eq!(identity(&path), before);
    }

    #[test]
    fn what_is_no_socket_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let check = |what: &str| {
            let before = identity(&path);
            let error = bind(&path).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            assert_eq!(identity(&path), before);
        };
        std::fs::write(&path, "mine").unwrap();
        check("a file");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        check("a directory");
        std::fs::remove_dir(&path).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        check("a link");
        assert!(!elsewhere.exists());
    }

    #[test]
    fn a_socket_that_another_took_over_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let ours = bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _theirs = UnixListener::bind(&path).unwrap();
        ours.file.remove();
        assert!(path.exists());
    }

    #[test]
    fn an_adopted_socket_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let adopted = adopt(UnixListener::bind(&path).unwrap()).unwrap();
        assert_eq!(adopted.file.path(), path);
        adopted.file.remove();
        assert!(path.exists());
    }
}

//! What can go wrong with files of a session.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::record::NotASession;

/// Why a session file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process writes the session.
    #[error("{} is being written by {owner}", path.display())]
    Locked {
        /// The session file.
        path: PathBuf,
        /// Who holds it, as far as is known.
        owner: Owner,
    },
    /// The file is no session. It was not touched.
    #[error("{} is not a session file: {why}", path.display())]
    NotASession {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: NotASessionReason,
    },
    /// The file is no longer the one that was read. Nothing was written; it has to be opened again.
    #[error("{} {change} since it was read; nothing was written", path.display())]
    Changed {
        /// The session file.
        path: PathBuf,
        /// What happened to it.
        change: Change,
    },
    /// A call to the system failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, such as `append to`.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl StoreError {
    /// Makes the closure that turns a system error into a [`StoreError`].
    pub(super) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), action, source }
    }

    /// Returns the whole chain as one line, for answers and logs.
    pub fn report(&self) -> String {
        match self {
            Self::Io { source, .. } => format!("{self}: {source}"),
            _ => self.to_string(),
        }
    }

    /// Tells whether the file or folder does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Why a file is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotASessionReason {
    /// It is a folder, a pipe, a socket or a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// It is a symbolic link, which is not followed.
    #[error("it is a symbolic link")]
    Link,
    /// Its content is something else.
    #[error(transparent)]
    Content(#[from] NotASession),
}

/// How a file changed under its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It became shorter.
    Shrunk,
    /// Another file has its name.
    Replaced,
    /// Its name is gone.
    Deleted,
    /// It is of an older version of the format again, or its old content could not be read again.
    Rewritten,
    /// Another daemon was its writer, and what that one left to be added to it is not read yet.
    Continued,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shrunk => "became shorter",
            Self::Replaced => "was replaced by another file",
            Self::Deleted => "was deleted",
            Self::Rewritten => "was rewritten",
            Self::Continued => "was continued by another daemon",
        })
    }
}

/// The process that writes a session, as it says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    /// Its process id; 0 when nothing is known.
    pub pid: u32,
    /// Its name and version.
    pub program: String,
    /// Where it can be talked to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == 0 {
            return f.write_str("another process");
        }
        write!(f, "{} (process {})", self.program, self.pid)?;
        match &self.socket {
            Some(socket) => write!(f, " at {}", socket.display()),
            None => Ok(()),
        }
    }
}

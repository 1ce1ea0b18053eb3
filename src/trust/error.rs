//! Why a decision could not be read or kept.

use std::io;
use std::path::PathBuf;

/// Why a decision could not be read or kept. Whatever it is: nothing is trusted because of it.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A path that is not absolute means nothing to a daemon.
    #[error("{} is not an absolute path", .0.display())]
    Relative(PathBuf),
    /// The path names something that is no folder.
    #[error("{} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// The file of decisions is text, and so are the paths in it.
    #[error("{} is not valid UTF-8, so no decision about it can be kept", .0.display())]
    NotText(PathBuf),
    /// The path cannot be followed.
    #[error("cannot follow {}: {source}", path.display())]
    Place {
        /// The path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file of decisions cannot be used. It is left as it is, and no folder is trusted.
    #[error("no folder is trusted, because {} cannot be used: {why}; mend or remove it", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The decision could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

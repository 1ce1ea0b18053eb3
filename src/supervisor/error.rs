//! What can go wrong with opening and making sessions.

use agentd_protocol::SessionId;

use crate::provider::ModelError;
use crate::store::index::IndexError;

/// Why a session could not be opened, made or listed.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// No such session.
    #[error("no session {0}; list_sessions shows those there are")]
    UnknownSession(SessionId),
    /// The end of an id fits several sessions.
    #[error("{tail} fits several sessions: {}", candidates.join(", "))]
    Ambiguous {
        /// What was asked for.
        tail: String,
        /// Sessions that it fits, at most ten.
        candidates: Vec<String>,
    },
    /// The file is not a session that can be opened.
    #[error("{0}")]
    Damaged(String),
    /// Reading or writing failed.
    #[error("{0}")]
    Storage(String),
    /// A parameter cannot be used.
    #[error("{message}")]
    InvalidParam {
        /// The parameter.
        param: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// No such model, or none that can be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The list of sessions cannot be read.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The working directory cannot be entered.
    #[error("working directory {path}: {message}")]
    WorkingDirectory {
        /// The directory.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// The daemon is stopping.
    #[error("the daemon is stopping; connect again after it has restarted")]
    ShuttingDown,
    /// The daemon's own code failed.
    #[error("the daemon failed while it opened the session; its log says more")]
    Failed,
}

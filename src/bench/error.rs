//! Why something could not be measured.

use std::io;
use std::time::Duration;

use crate::tools::search::MeasureError;

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub(super) enum BenchError {
    /// The system refused something.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The daemon answered with an error.
    #[error("the daemon refused {method}: {message}")]
    Refused {
        /// The request.
        method: String,
        /// Its words.
        message: String,
    },
    /// The daemon wrote something unexpected.
    #[error("the daemon's {what} cannot be read: {source}")]
    Decode {
        /// What it was.
        what: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The daemon closed the connection.
    #[error("the daemon closed the connection")]
    Closed,
    /// Something did not happen in time.
    #[error("{what} took longer than {} s", limit.as_secs())]
    TooSlow {
        /// What was waited for.
        what: &'static str,
        /// How long.
        limit: Duration,
    },
    /// The daemon ended by itself.
    #[error("the daemon ended: {log}")]
    Ended {
        /// The end of its log.
        log: String,
    },
    /// A run did not end with an answer.
    #[error("a run failed: {how}")]
    Run {
        /// How it ended.
        how: String,
    },
    /// A stream was not what the model had said.
    #[error("a client got {got} bytes of text, the model wrote {wrote}")]
    Lost {
        /// What came.
        got: u64,
        /// What should have come.
        wrote: u64,
    },
    /// A tree could not be searched.
    #[error("cannot search: {0}")]
    Search(#[from] MeasureError),
    /// A thread of the bench failed.
    #[error("a part of the bench failed")]
    Failed,
}

impl BenchError {
    /// Says what was tried when the system refused it.
    pub(super) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}

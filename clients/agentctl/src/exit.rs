//! Exit codes, and which failure gives which.

use std::fmt;
use std::io;
use std::process::ExitCode;

use agentd_protocol::client::ClientError;
use agentd_protocol::connect::ConnectError;
use agentd_protocol::error_code::ErrorKind;
use agentd_protocol::methods::RunEnd;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done = 0,
    /// It failed.
    Error = 1,
    /// The command line cannot be understood.
    Usage = 2,
    /// A question was denied, or nobody could answer it.
    #[expect(dead_code, reason = "no tool asks for approval yet; the code is part of the interface")]
    Approval = 3,
    /// The run was aborted.
    Aborted = 4,
    /// The provider failed, or no model can be used.
    Provider = 5,
    /// The most turns were taken, or the output limit cut the answer short.
    Budget = 6,
    /// There is no daemon, or it went away.
    NoDaemon = 75,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// Returns the code for the end of a run.
    pub(crate) fn of_run(end: RunEnd) -> Self {
        match end {
            RunEnd::Done => Self::Done,
            RunEnd::Aborted => Self::Aborted,
            RunEnd::Error => Self::Provider,
            RunEnd::MaxTurns | RunEnd::Length => Self::Budget,
            RunEnd::Storage | RunEnd::Interrupted => Self::Error,
        }
    }

    /// Returns the code for a failure; `None` when the reader of our output has left, which is no failure of ours.
    pub(crate) fn of_error(error: &anyhow::Error) -> Option<Self> {
        if error.downcast_ref::<UsageError>().is_some() {
            return Some(Self::Usage);
        }
        if error.downcast_ref::<ConnectError>().is_some() {
            return Some(Self::NoDaemon);
        }
        if let Some(error) = error.downcast_ref::<ClientError>() {
            return Some(Self::of_client_error(error));
        }
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe) { None } else { Some(Self::Error) }
    }

    fn of_client_error(error: &ClientError) -> Self {
        match error {
            ClientError::Closed(_) => Self::NoDaemon,
            ClientError::Rpc(rpc) => match rpc.kind() {
                Some(ErrorKind::ShuttingDown) => Self::NoDaemon,
                Some(ErrorKind::NoModel) => Self::Provider,
                _ => Self::Error,
            },
            ClientError::Encode { .. } | ClientError::Decode { .. } => Self::Error,
        }
    }
}

/// The command line makes no sense.
#[derive(Debug)]
pub(crate) struct UsageError(String);

impl UsageError {
    /// Wraps a message as an error.
    #[expect(clippy::new_ret_no_self, reason = "it is only ever returned as an error")]
    pub(crate) fn new(message: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self(message.into()))
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

#[cfg(test)]
mod tests {
    use agentd_protocol::client::RpcError;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_end_of_a_run_has_its_code() {
        let codes = [
            (RunEnd::Done, 0),
            (RunEnd::Aborted, 4),
            (RunEnd::Error, 5),
            (RunEnd::MaxTurns, 6),
            (RunEnd::Length, 6),
            (RunEnd::Storage, 1),
            (RunEnd::Interrupted, 1),
        ];
        for (end, code) in codes {
            assert_eq!(Exit::of_run(end) as u8, code, "{end:?}");
        }
    }

    fn rpc(kind: &str) -> anyhow::Error {
        ClientError::Rpc(RpcError { code: 0, message: String::new(), data: Some(json!({"kind": kind})) }).into()
    }

    #[test]
    fn each_failure_has_its_code() {
        let broken_pipe = io::Error::from(io::ErrorKind::BrokenPipe);
        let cases = [
            (UsageError::new("x"), Some(2)),
            (ConnectError::NoProgram.into(), Some(75)),
            (ClientError::Closed(None).into(), Some(75)),
            (rpc("shutting_down"), Some(75)),
            (rpc("no_model"), Some(5)),
            (rpc("unknown_session"), Some(1)),
            (anyhow::anyhow!("other"), Some(1)),
            (anyhow::Error::new(broken_pipe).context("printing"), None),
        ];
        for (error, code) in cases {
            assert_eq!(Exit::of_error(&error).map(|exit| exit as u8), code, "{error:?}");
        }
    }
}

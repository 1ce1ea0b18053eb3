//! The one place where failures become error answers: each variant of each module's error onto a row of the table in
//! `agentd_protocol::error_code`.

use std::borrow::Cow;
use std::fmt::Display;

use agentd_protocol::error_code::{ErrorData, ErrorKind};
use jsonrpsee::types::ErrorObjectOwned;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::agent::handle::SessionError;
use crate::constants::{MAX_ERROR_BYTES, MAX_PARAM_NAME_BYTES};
use crate::provider::ModelError;
use crate::store::index::IndexError;
use crate::supervisor::SupervisorError;

/// What a request is answered with instead of a result.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: ErrorKind,
    message: String,
    param: Option<Cow<'static, str>>,
    /// Further facts for programs.
    more: Vec<(&'static str, Value)>,
}

impl Failure {
    /// Makes a failure of a kind; `message` says what failed, on what, and what can be done.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), param: None, more: Vec::new() }
    }

    /// Makes the failure of a parameter that cannot be used.
    pub(crate) fn param(param: impl Into<Cow<'static, str>>, message: impl Display) -> Self {
        let param = param.into();
        let message = format!("parameter {param}: {message}");
        Self { param: Some(param), ..Self::new(ErrorKind::InvalidParams, message) }
    }

    /// Returns the kind.
    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the text.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.more.push((name, value.into()));
        self
    }
}

impl From<Failure> for ErrorObjectOwned {
    fn from(failure: Failure) -> Self {
        let Failure { kind, message, param, more } = failure;
        let row = kind.row();
        let more: Map<String, Value> = more.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let param = param.map(|param| shortened(param.into_owned(), MAX_PARAM_NAME_BYTES));
        let data = ErrorData { kind, retryable: row.retryable, param, more };
        Self::owned(row.code, shortened(message, MAX_ERROR_BYTES), Some(data))
    }
}

/// Cuts a text that quotes what somebody sent.
fn shortened(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes - '…'.len_utf8()));
        text.push('…');
    }
    text
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let message = error.to_string();
        let kind = match error {
            SessionError::InvalidParam { param, message } => return Self::param(param, message),
            SessionError::Locked { path, owner } => {
                let failure = Self::new(ErrorKind::SessionLocked, message);
                return failure.with("path", path).with("owner", owner);
            }
            SessionError::AlreadyResolved(answer) => {
                let failure = Self::new(ErrorKind::AlreadyResolved, message);
                return failure.with("by", answer.by).with("decision", answer.decision.as_str());
            }
            SessionError::UnknownApproval(_) => ErrorKind::UnknownApproval,
            SessionError::Busy => ErrorKind::Busy,
            SessionError::WrongState(_) => ErrorKind::WrongState,
            SessionError::UnknownEntry(_) => ErrorKind::UnknownEntry,
            SessionError::UnknownModel(_) => ErrorKind::UnknownModel,
            SessionError::NoModel(_) => ErrorKind::NoModel,
            SessionError::Storage(_) => ErrorKind::Storage,
            SessionError::WorkingDirectory { .. } => ErrorKind::WorkingDirectory,
            SessionError::Closed | SessionError::Failed => ErrorKind::SessionFailed,
        };
        Self::new(kind, message)
    }
}

impl From<SupervisorError> for Failure {
    fn from(error: SupervisorError) -> Self {
        let message = error.to_string();
        let kind = match error {
            SupervisorError::InvalidParam { param, message } => return Self::param(param, message),
            SupervisorError::Ambiguous { candidates, .. } => {
                let failure = Self::param("sessionId", message);
                return failure.with("candidates", candidates);
            }
            SupervisorError::UnknownSession(_) => ErrorKind::UnknownSession,
            SupervisorError::Damaged(_) => ErrorKind::SessionDamaged,
            SupervisorError::Storage(_) => ErrorKind::Storage,
            SupervisorError::Model(error) => return error.into(),
            SupervisorError::Index(error) => return error.into(),
            SupervisorError::WorkingDirectory { .. } => ErrorKind::WorkingDirectory,
            SupervisorError::ShuttingDown => ErrorKind::ShuttingDown,
            SupervisorError::Failed => ErrorKind::Internal,
        };
        Self::new(kind, message)
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        let message = error.to_string();
        let (kind, names) = match error {
            ModelError::NoModel { .. } | ModelError::NoKey { .. } => (ErrorKind::NoModel, Vec::new()),
            ModelError::UnsupportedApi { .. } | ModelError::UnknownLevel { .. } => {
                (ErrorKind::UnknownModel, Vec::new())
            }
            ModelError::Unknown { similar, .. } => (ErrorKind::UnknownModel, similar),
            ModelError::Ambiguous { candidates, .. } => (ErrorKind::UnknownModel, candidates),
        };
        let failure = Self::new(kind, message);
        if names.is_empty() { failure } else { failure.with("candidates", names) }
    }
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Self {
        let message = error.to_string();
        match error {
            IndexError::BadCursor => Self::param("cursor", message),
            IndexError::Unreadable(_) => Self::new(ErrorKind::Storage, message),
        }
    }
}

/// Reads the parameters of a method.
///
/// # Errors
/// They are no object, or one of them is missing or of a wrong type; the failure names it.
pub(crate) fn parse_params<P: DeserializeOwned>(text: &str) -> Result<P, Failure> {
    let text = match text.as_bytes().first() {
        Some(b'{') => text,
        Some(b'n') | None => "{}",
        Some(b'[') => {
            return Err(Failure::new(
                ErrorKind::InvalidParams,
                "parameters are given by name, as an object; an array is not taken",
            ));
        }
        Some(_) => return Err(Failure::new(ErrorKind::InvalidParams, "parameters are an object")),
    };
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        // The place in the text is of no use to somebody who sent one line.
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
        let param = match (path.as_str(), missing) {
            (".", None) => return Failure::new(ErrorKind::InvalidParams, format!("the parameters: {message}")),
            (".", Some((field, _))) => field.to_owned(),
            (path, Some((field, _))) => format!("{path}.{field}"),
            (path, None) => path.to_owned(),
        };
        Failure::param(param, if missing.is_some() { "missing" } else { message })
    })
}

#[cfg(test)]
mod tests {
    use agentd_protocol::EntryId;
    use agentd_protocol::methods::{NewSessionParams, PromptParams};
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check<P: DeserializeOwned>(params: &str, expected: Result<(), (Option<&str>, &str)>) {
        let result = parse_params::<P>(params).map(drop);
        let found = result.as_ref().copied().map_err(|failure| (failure.param.as_deref(), failure.message()));
        assert_eq!(found, expected);
    }

    #[test]
    fn parameters_at_fault_are_named() {
        check::<PromptParams>(r#"{"message":"a"}"#, Ok(()));
        check::<PromptParams>(r#"{"message":"a","novel":[]}"#, Ok(()));
        check::<PromptParams>("{}", Err((Some("message"), "parameter message: missing")));
        check::<PromptParams>("null", Err((Some("message"), "parameter message: missing")));
        check::<PromptParams>(
            r#"{"message":5}"#,
            Err((Some("message"), "parameter message: invalid type: integer `5`, expected a string")),
        );
        check::<PromptParams>(
            r#"{"message":"a","ifBusy":"never"}"#,
            Err((
                Some("ifBusy"),
                "parameter ifBusy: unknown variant `never`, expected one of `reject`, `steer`, `followUp`",
            )),
        );
        check::<NewSessionParams>(
            r#"{"tools":["a",1]}"#,
            Err((Some("tools[1]"), "parameter tools[1]: invalid type: integer `1`, expected a string")),
        );
        check::<NewSessionParams>("", Ok(()));
    }

    #[test]
    fn parameters_are_an_object() {
        let array = "parameters are given by name, as an object; an array is not taken";
        check::<PromptParams>("[]", Err((None, array)));
        check::<PromptParams>("5", Err((None, "parameters are an object")));
        check::<PromptParams>("\"a\"", Err((None, "parameters are an object")));
    }

    #[test]
    fn what_a_client_sent_is_quoted_within_limits() {
        let key = "é".repeat(100_000);
        let params = format!(r#"{{"env":{{"{key}":5}}}}"#);
        let failure = parse_params::<agentd_protocol::methods::SetEnvParams>(&params).map(drop).unwrap_err();
        let object = ErrorObjectOwned::from(failure);
        assert!(object.message().len() <= MAX_ERROR_BYTES && object.message().ends_with('…'), "{}", object.message());
        let data: Value = serde_json::from_str(object.data().unwrap().get()).unwrap();
        let param = data["param"].as_str().unwrap();
        assert!(param.len() <= MAX_PARAM_NAME_BYTES && param.starts_with("env.é"), "{param}");
    }

    #[test]
    fn a_failure_carries_its_row_and_facts() {
        let failure = Failure::from(SessionError::Locked { path: "/a".into(), owner: "pi (7)".into() });
        let object = ErrorObjectOwned::from(failure);
        assert_eq!(object.code(), -32005);
        let data: Value = serde_json::from_str(object.data().unwrap().get()).unwrap();
        assert_eq!(data, json!({"kind": "session_locked", "retryable": false, "path": "/a", "owner": "pi (7)"}));
        let failure = Failure::from(SessionError::UnknownEntry(EntryId::new("x")));
        assert_eq!((failure.kind(), failure.param), (ErrorKind::UnknownEntry, None));
    }
}

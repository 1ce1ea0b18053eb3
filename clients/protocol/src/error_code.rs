//! The one table of error codes. The daemon maps every failure onto a row of it; `proto-docs/errors.md` shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode {
    /// JSON-RPC error code.
    pub code: i32,
    /// `data.kind`: what a program should match on.
    pub kind: ErrorKind,
    /// The kind's word on the wire.
    pub name: &'static str,
    /// What happened and what the caller can do.
    pub meaning: &'static str,
    /// Whether the same request may succeed later without any change.
    pub retryable: bool,
}

macro_rules! error_codes {
    ($($kind:ident = $code:literal, $name:literal, $retryable:literal, $meaning:literal;)*) => {
        /// What went wrong, as `error.data.kind` names it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum ErrorKind {
            $(#[doc = $meaning] #[serde(rename = $name)] $kind,)*
        }

        /// Every error code of the native wire.
        pub const ERROR_CODES: &[ErrorCode] = &[
            $(ErrorCode { code: $code, kind: ErrorKind::$kind, name: $name, meaning: $meaning, retryable: $retryable },)*
        ];
    };
}

error_codes! {
    ParseError = -32700, "parse_error", false, "The message is not JSON. Send one JSON value a line.";
    InvalidRequest = -32600, "invalid_request", false, "The message is JSON but no JSON-RPC 2.0 request, or it is over the size limit.";
    MethodNotFound = -32601, "method_not_found", false, "No such method. `initialize` tells the server's version; proto-docs lists the methods.";
    InvalidParams = -32602, "invalid_params", false, "A parameter is missing, of the wrong type or out of range; `data.param` names it.";
    Internal = -32603, "internal", false, "A fault of the daemon. Its log says more; other sessions are not affected.";
    UnknownSession = -32001, "unknown_session", false, "No session with this id. `list_sessions` shows those there are.";
    NoSession = -32002, "no_session", false, "No `sessionId` was given and the connection has opened no session yet.";
    Busy = -32003, "busy", true, "A run is going on. Wait for `agent_settled`, or send `ifBusy: \"steer\"` or `\"followUp\"`.";
    WrongState = -32004, "wrong_state", false, "The session is not in a state that allows this; the message says which.";
    SessionLocked = -32005, "session_locked", false, "Another process writes this session; `data.owner` names it. Attach there, or fork the session.";
    SessionDamaged = -32006, "session_damaged", false, "The file is not a session that can be opened; it was left as it is.";
    Storage = -32007, "storage", true, "Reading or writing on disk failed; nothing was changed. The message names the file and the cause.";
    UnknownModel = -32008, "unknown_model", false, "No such model. `get_available_models` lists those that can be used.";
    NoModel = -32009, "no_model", false, "No model can be used: the message names the variable and the file that would give one a key.";
    UnknownEntry = -32010, "unknown_entry", false, "No such entry in this session.";
    AlreadyResolved = -32011, "already_resolved", false, "Another client has answered this question; `data.by` and `data.decision` say who and how.";
    UnknownApproval = -32012, "unknown_approval", false, "No such question.";
    Cancelled = -32013, "cancelled", false, "The request was cancelled by `$/cancelRequest` or because its session closed.";
    Overloaded = -32014, "overloaded", true, "A limit of the whole daemon is reached; the message names it.";
    ShuttingDown = -32015, "shutting_down", true, "The daemon is stopping. Connect again after it has restarted.";
    NotInBatch = -32016, "not_in_batch", false, "This method waits for something and cannot be part of a batch.";
    SessionFailed = -32017, "session_failed", true, "The session stopped because of a fault of the daemon. Open it again; its file is whole.";
    WorkingDirectory = -32018, "working_directory", false, "The session's working directory does not exist or cannot be entered.";
    Forbidden = -32019, "forbidden", false, "What only a person decides (answers to questions, trust, settings, keys) is not taken from a process that one of the daemon's own tool calls started.";
}

impl ErrorKind {
    /// Returns the kind's row in [`ERROR_CODES`].
    pub fn row(self) -> &'static ErrorCode {
        ERROR_CODES.iter().find(|row| row.kind == self).expect("the macro makes one row for each kind")
    }
}

/// `error.data` of every error answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorData {
    /// What went wrong.
    pub kind: ErrorKind,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// The parameter at fault, for `invalid_params`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
    /// Further facts that some kinds carry (`owner`, `by`, `decision` …).
    #[serde(flatten)]
    pub more: serde_json::Map<String, serde_json::Value>,
}

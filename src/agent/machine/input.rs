//! What can happen to a session.

use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::message::{AssistantMessage, Message, ToolResult, ToolResultMessage, UserMessage};
use agentd_protocol::methods::{Decision, IfBusy, SteerWhen};
use agentd_protocol::{ApprovalId, EntryId};

use super::failure::Untold;
use super::queue::Queues;
use crate::permissions::policy::CheckedCall;
use crate::permissions::questions::{Preview, Unanswerable};
use crate::provider::error::ErrorClass;
use crate::session::entry::EntryBody;

/// Number under which the actor keeps the sender of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyId(pub u64);

/// Number of a model request; results of another one than the current are late and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

/// Number of a retry pause; the end of another one than the current is late and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetryId(pub u64);

/// One input of the machine.
#[derive(Clone, Debug)]
pub enum Input {
    /// A user message that should start a run.
    Prompt {
        /// The message.
        user: UserMessage,
        /// What to do with it while a run is going on.
        if_busy: IfBusy,
        /// Who is answered.
        reply: ReplyId,
    },
    /// A user message to be injected after the current turn, or at once.
    Steer {
        /// The message.
        user: UserMessage,
        /// When.
        when: SteerWhen,
        /// Who is answered.
        reply: ReplyId,
    },
    /// A user message to be sent when the run would end.
    FollowUp {
        /// The message.
        user: UserMessage,
        /// Who is answered.
        reply: ReplyId,
    },
    /// Goes on with an interrupted run.
    Continue {
        /// Who is answered.
        reply: ReplyId,
    },
    /// Ends the run.
    Stop {
        /// Why.
        why: Stop,
        /// Who is answered when it has settled.
        reply: ReplyId,
    },
    /// Ends the pause before a retry.
    AbortRetry {
        /// Who is answered.
        reply: ReplyId,
    },
    /// An answer to a question. Boxed: it is rare, and larger than the others.
    Respond {
        /// The answer.
        response: Box<Response>,
        /// Who is answered.
        reply: ReplyId,
    },
    /// Empties the queues.
    ClearQueue {
        /// Who is answered.
        reply: ReplyId,
    },
    /// Waits until idle.
    Wait {
        /// Who is answered.
        reply: ReplyId,
    },
    /// The preparation of a run has ended.
    Prepared(Result<Prepared, Refusal>),
    /// The provider has accepted the request.
    StreamStarted {
        /// The request.
        request: RequestId,
        /// The assistant message as it begins.
        message: Arc<Message>,
    },
    /// The response has ended, one way or another; block ends have been announced.
    StreamFinished {
        /// The request.
        request: RequestId,
        /// The message as it will be stored.
        message: Box<AssistantMessage>,
        /// Why it is not a whole response, when it is not.
        failure: Option<Failure>,
    },
    /// A tool call was checked.
    ToolValidated {
        /// The call: the entry that its result will be.
        call: EntryId,
        /// What the gate looks at, or the result that says what is wrong with the call.
        verdict: Result<CheckedCall, ToolEnd>,
    },
    /// What a person is shown of a tool call was found out.
    ToolDescribed {
        /// The call: the entry that its result will be.
        call: EntryId,
        /// That, or the result of a call that cannot run.
        preview: Box<Result<Preview, ToolEnd>>,
    },
    /// The deadline of a question may have come.
    DeadlineReached,
    /// A tool call has ended.
    ToolFinished {
        /// The call: the entry that its result will be.
        call: EntryId,
        /// Its result.
        end: ToolEnd,
    },
    /// A retry pause is over.
    RetryDue(RetryId),
    /// The actor has performed everything up to an `Effect::Step`.
    Step,
    /// A write failed. Of the effects that were waiting behind it, those that depend on it are gone, and their
    /// requests have been answered.
    AppendFailed {
        /// What failed, for people.
        message: String,
        /// What clients were not told because of it.
        untold: Untold,
        /// The queues as they were last saved.
        saved: Queues,
    },
}

/// A client's answer to a question.
#[derive(Clone, Debug)]
pub struct Response {
    /// The question.
    pub approval: ApprovalId,
    /// The answer.
    pub decision: Decision,
    /// Name of the client; `None` for one without a name.
    pub by: Option<String>,
    /// Its process, where the system tells it.
    pub pid: Option<i32>,
    /// What it remarks.
    pub message: Option<String>,
}

/// Why a run is stopped from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A person wants it.
    Abort,
    /// The daemon ends; the run can be continued later.
    Shutdown,
}

/// What the preparation of a run found out.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// Entries to be written before the user message: settings not yet written, a new or changed system message.
    pub entries: Vec<EntryBody>,
}

/// Why a request to the session is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A run is going on.
    #[error("a run is going on")]
    Busy,
    /// The session is in another state.
    #[error("{0}")]
    WrongState(&'static str),
    /// There is no model to ask; the text says how to get one.
    #[error("{0}")]
    NoModel(String),
    /// The session's model is not configured (any more).
    #[error("{0}")]
    UnknownModel(String),
    /// The answer to a question does not count.
    #[error("the answer does not count")]
    Unanswerable(Unanswerable),
    /// The working directory cannot be entered.
    #[error("working directory {path}: {message}")]
    WorkingDirectory {
        /// The directory.
        path: String,
        /// Why.
        message: String,
    },
    /// The session file could not be written.
    #[error("{0}")]
    Storage(String),
    /// Another process writes the session.
    #[error("{path} is being written by {owner}")]
    Locked {
        /// The session file.
        path: String,
        /// Who holds it.
        owner: String,
    },
}

/// Why a response is not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind of the error.
    pub class: ErrorClass,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
}

/// How a tool call ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolEnd {
    /// Its result.
    pub result: Arc<ToolResult>,
    /// Whether it failed.
    pub is_error: bool,
    /// Milliseconds it ran; `None` when it never started.
    pub duration_ms: Option<u64>,
}

impl From<ToolResultMessage> for ToolEnd {
    fn from(message: ToolResultMessage) -> Self {
        let ToolResultMessage { content, details, is_error, duration_ms, .. } = message;
        Self { result: Arc::new(ToolResult { content, details, structured_content: None }), is_error, duration_ms }
    }
}

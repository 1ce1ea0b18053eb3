//! Events inside the daemon. They hold their content by `Arc` and carry all that the richest wire form needs;
//! `ring` projects them onto the wire.
//!
//! Pure: no clock, no file, no socket.

use std::sync::Arc;

use agentd_protocol::message::{AssistantMessage, Message, ThinkingLevel, ToolResult, Usage};
use agentd_protocol::methods::{ClientRef, Question, RunEnd, View};
use agentd_protocol::{ApprovalId, EntryId, ToolCallId};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::permissions::questions::Answer;

/// A message together with the entry that it is (or will be).
#[derive(Clone, Debug, PartialEq)]
pub struct MessageEntry {
    /// The entry.
    pub id: EntryId,
    /// The message.
    pub message: Arc<Message>,
    /// Who sent it, for user messages of which that is known. The session's actor fills it in where it publishes.
    pub client: Option<Arc<ClientRef>>,
}

/// One event of a session, before it has a number.
#[derive(Clone, Debug)]
pub enum Event {
    /// A run, or its next attempt, begins.
    AgentStart,
    /// A turn begins.
    TurnStart,
    /// A message begins; assistant messages have no content yet.
    MessageStart(MessageEntry),
    /// The streaming assistant message grew.
    MessageUpdate {
        /// Usage so far, when it changed with this update.
        usage: Option<Usage>,
        /// What was added.
        update: AssistantUpdate,
    },
    /// A message is complete and, unless it is empty by design, on disk.
    MessageEnd(MessageEntry),
    /// A turn ended.
    TurnEnd {
        /// The assistant message.
        message: MessageEntry,
        /// The tool results in call order.
        tool_results: Vec<MessageEntry>,
    },
    /// The agent stopped.
    AgentEnd {
        /// The messages of this run.
        messages: Vec<MessageEntry>,
        /// Whether the request is tried again.
        will_retry: bool,
    },
    /// The session is idle again.
    AgentSettled {
        /// Whether a person stopped the run.
        aborted: bool,
        /// Why it ended.
        reason: RunEnd,
        /// What went wrong.
        error_message: Option<String>,
    },
    /// A tool call begins.
    ToolExecutionStart(Arc<ToolStart>),
    /// A running tool printed something.
    ToolExecutionUpdate {
        /// The call.
        call: Arc<ToolStart>,
        /// New output since the update before.
        delta: Arc<str>,
    },
    /// A tool call ended.
    ToolExecutionEnd {
        /// The call.
        call: Arc<ToolStart>,
        /// Its result.
        result: Arc<ToolResult>,
        /// Whether it failed.
        is_error: bool,
        /// Milliseconds it ran; `None` when it never started.
        duration_ms: Option<u64>,
    },
    /// The queues changed.
    QueueUpdate {
        /// Steering texts.
        steering: Vec<Arc<str>>,
        /// Follow-up texts.
        follow_up: Vec<Arc<str>>,
    },
    /// A failed request will be tried again.
    AutoRetryStart {
        /// Number of this retry, from 1.
        attempt: u32,
        /// Most retries.
        max_attempts: u32,
        /// Length of the pause.
        delay_ms: u64,
        /// What failed.
        error_message: String,
    },
    /// Retrying ended.
    AutoRetryEnd {
        /// Whether a retry succeeded.
        success: bool,
        /// Number of the last retry.
        attempt: u32,
        /// What failed in the end.
        final_error: Option<String>,
    },
    /// The run waits for the answer to a question.
    ApprovalRequested(Question),
    /// A question waits no longer.
    ApprovalResolved {
        /// The question.
        approval_id: ApprovalId,
        /// How it ended.
        answer: Answer,
    },
    /// An entry other than a message was written.
    EntryAppended(Arc<RawValue>),
    /// The session's name changed.
    SessionInfoChanged {
        /// The new name.
        name: Option<String>,
    },
    /// The model changed.
    ModelChanged {
        /// `provider/id`.
        model: String,
    },
    /// The thinking level changed.
    ThinkingLevelChanged {
        /// The new level.
        level: ThinkingLevel,
    },
    /// A client attached.
    ClientAttached {
        /// Who it is.
        client: Arc<ClientRef>,
        /// How it reads.
        view: View,
        /// Clients attached now.
        clients: u32,
    },
    /// A client detached or went away.
    ClientDetached {
        /// Who it is.
        client: Arc<ClientRef>,
        /// How it reads.
        view: View,
        /// Clients attached now.
        clients: u32,
    },
    /// Something that a person should know.
    Notice {
        /// What it is about (the words are listed at the wire's `Notice`).
        kind: &'static str,
        /// What happened and what can be done.
        message: String,
    },
}

/// What was added to a streaming assistant message.
#[derive(Clone, Debug, PartialEq)]
pub enum AssistantUpdate {
    /// A block begins.
    Start {
        /// Its place in the message.
        index: usize,
        /// Its kind.
        block: BlockKind,
    },
    /// Text was added to a block.
    Delta {
        /// Its place in the message.
        index: usize,
        /// What kind of block it is.
        kind: DeltaKind,
        /// The text.
        delta: Arc<str>,
    },
    /// A block is complete.
    End {
        /// Its place in the message.
        index: usize,
        /// What kind of block it is.
        kind: DeltaKind,
    },
}

/// A block as it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Plain text.
    Text,
    /// Reasoning.
    Thinking,
    /// A tool call.
    ToolCall {
        /// The call.
        id: ToolCallId,
        /// The tool's name.
        name: String,
    },
}

/// Kind of a block, without its particulars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaKind {
    /// Plain text.
    Text,
    /// Reasoning.
    Thinking,
    /// Text of a tool call's arguments.
    ToolCall,
}

/// A tool call as it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolStart {
    /// The call.
    pub id: ToolCallId,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// Its arguments.
    pub args: Value,
    /// Why the arguments could not be parsed, with the raw text.
    pub arguments_error: Option<String>,
    /// Id that the entry of its result will have.
    pub entry_id: EntryId,
}

/// Wraps an assistant message for sharing.
pub fn shared(message: AssistantMessage) -> Arc<Message> {
    Arc::new(Message::Assistant(message))
}

//! Events of a session as a client reads them in the views `full` and `coalesced`.
//!
//! The daemon writes these bytes itself (its `ring` module, without an intermediate value); these types are what a
//! client decodes them into, and what the documentation is made from. An event or a field that this build does not
//! know never fails to decode.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::ids::{ApprovalId, EntryId, Seq, SessionId, ToolCallId};
use crate::message::{Message, ToolResult, Usage};
use crate::methods::{AttachResult, ClientRef, Entry, Question, Resolution, RunEnd, SessionRow, SessionStatus, View};

/// Name of the notification that carries events.
pub const EVENT_METHOD: &str = "event";

/// Parameters of the `event` notification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventParams {
    /// The session.
    pub session_id: SessionId,
    /// First of the events that a merged event covers; absent for a single event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Seq>,
    /// Number of the (last) event: the cursor after it.
    pub seq: Seq,
    /// The event.
    pub event: Event,
}

/// One event.
// `remote = "Self"`: the derived functions become inherent ones, and the traits below call them; see `Deserialize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Event {
    /// A run (or, after a retry, its next attempt) begins.
    AgentStart {},
    /// A turn begins.
    TurnStart {},
    /// A message begins. A finished message (system, user, tool result, failed request) comes with its content in `message_end`.
    MessageStart {
        /// Role of the message.
        role: String,
        /// The entry it is or will be.
        entry_id: EntryId,
        /// For assistant messages: the message as it begins, without content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Message>,
        /// For user messages: who sent it, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<ClientRef>,
    },
    /// The streaming assistant message grew.
    MessageUpdate {
        /// Usage so far, only when it changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// What was added.
        assistant_message_event: AssistantMessageEvent,
    },
    /// A message is complete and on disk.
    MessageEnd {
        /// The message; absent for tool results, whose content `tool_execution_end` carried, and in view `status`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Message>,
        /// Its entry.
        entry_id: EntryId,
        /// For tool results: the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<ToolCallId>,
        /// For user messages: who sent it, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<ClientRef>,
    },
    /// A turn ended.
    TurnEnd {
        /// Entry of the assistant message.
        entry_id: EntryId,
        /// Entries of the tool results, in call order.
        tool_result_ids: Vec<EntryId>,
    },
    /// The agent stopped; with `willRetry` a new attempt follows.
    AgentEnd {
        /// Entries of the messages of this run.
        entry_ids: Vec<EntryId>,
        /// Whether the request is tried again.
        will_retry: bool,
    },
    /// The session is idle again.
    AgentSettled {
        /// Whether a person stopped the run.
        aborted: bool,
        /// Why it ended.
        reason: RunEnd,
        /// What went wrong, for reasons `error` and `storage`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
    },
    /// A tool call begins.
    ToolExecutionStart {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// Its arguments; absent in view `status`.
        #[serde(default)]
        args: Value,
    },
    /// A running tool printed something.
    ToolExecutionUpdate {
        /// The call.
        tool_call_id: ToolCallId,
        /// The new output.
        delta: String,
    },
    /// A tool call ended.
    ToolExecutionEnd {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// Its result; absent in view `status`.
        #[serde(default)]
        result: ToolResult,
        /// Whether it failed.
        is_error: bool,
        /// Milliseconds it ran; absent when it never started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// The queues changed.
    QueueUpdate {
        /// Texts to be injected after the current turn.
        steering: Vec<String>,
        /// Texts to be sent when the run would end.
        follow_up: Vec<String>,
    },
    /// A failed request will be tried again after a pause.
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        final_error: Option<String>,
    },
    /// The run waits for the answer to a question, which any client may give (`respond_approval`).
    ApprovalRequested(Question),
    /// A question waits no longer.
    ApprovalResolved {
        /// The question.
        approval_id: ApprovalId,
        /// How it ended.
        decision: Resolution,
        /// Name of the client that answered; absent when nobody did, or a client without a name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Its process, where the system tells it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<i32>,
        /// What the client remarked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// An entry other than a message was written.
    EntryAppended {
        /// The entry as it stands in the file; in view `status` its `type` and `id`.
        entry: Entry,
    },
    /// The session's name changed.
    SessionInfoChanged {
        /// The name; absent when it has none any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// The model changed.
    ModelChanged {
        /// `provider/id` of the model.
        model: String,
    },
    /// The thinking level changed.
    ThinkingLevelChanged {
        /// The level.
        level: crate::message::ThinkingLevel,
    },
    /// A client attached.
    ClientAttached {
        /// Its name, or empty.
        name: String,
        /// Its process, where the system tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<i32>,
        /// How it reads, or last read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        view: Option<View>,
        /// Clients attached now.
        clients: u32,
    },
    /// A client detached or went away.
    ClientDetached {
        /// Its name, or empty.
        name: String,
        /// Its process, where the system tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<i32>,
        /// How it reads, or last read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        view: Option<View>,
        /// Clients attached now.
        clients: u32,
    },
    /// Something that a person should know: damaged lines in the file, a failed write, lines of another writer, images
    /// that a provider refused.
    Notice {
        /// What it is about: `damaged_lines` (lines of the file that cannot be read), `write_failed` (what waited for the
        /// write did not happen, and a run that was going on ends), `foreign_entries` (another program has written to the
        /// file), `login_shell_env` (no client has sent an environment), `models_file` (a fault in a file of models),
        /// `images_left_out` (a provider refused images, which are no longer sent), `key_redacted` (a configured key was
        /// taken out of a user's message), `session_failed` (a fault of the daemon; the session is loaded anew).
        kind: String,
        /// What happened and what can be done.
        message: String,
    },
    /// This client fell behind: events up to the cursor are replaced by the snapshot.
    Lagged(Box<AttachResult>),
    /// The session can no longer be read (its file is damaged or gone): this attachment has ended. `seq` repeats the
    /// last event's.
    Detached {
        /// What happened and what can be done.
        message: String,
    },
    /// An event of a later version.
    #[serde(untagged)]
    Unknown(Value),
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Event::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    /// Reads from JSON only: an internally tagged enum buffers its content, and entries cannot be taken byte for byte
    /// out of such a buffer, so the two events that carry entries are read from the text itself.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Tag<'a> {
            #[serde(rename = "type", borrow)]
            kind: Option<std::borrow::Cow<'a, str>>,
        }
        #[derive(Deserialize)]
        struct Appended {
            entry: Entry,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = raw.get();
        let kind = serde_json::from_str(text).ok().and_then(|tag: Tag<'_>| tag.kind);
        let known = match kind.as_deref() {
            Some("entry_appended") => {
                serde_json::from_str(text).ok().map(|Appended { entry }| Self::EntryAppended { entry })
            }
            Some("lagged") => serde_json::from_str(text).ok().map(Self::Lagged),
            _ => None,
        };
        match known {
            Some(event) => Ok(event),
            None => Event::deserialize(&mut serde_json::Deserializer::from_str(text)).map_err(serde::de::Error::custom),
        }
    }
}

/// Name of the notification that carries changes of the list of sessions.
pub const LIST_EVENT_METHOD: &str = "session_list_event";

/// Parameters of the `session_list_event` notification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListEventParams {
    /// Number of the change.
    pub list_seq: u64,
    /// The change.
    pub event: ListEvent,
}

/// One change of the list of sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ListEvent {
    /// A session came into the list: it got its file, or a file of another program was found.
    SessionCreated {
        /// Its row.
        session: Box<SessionRow>,
    },
    /// A session's row changed: its name, its model, what was said in it.
    SessionChanged {
        /// The whole row as it is now.
        session: Box<SessionRow>,
    },
    /// A session does something else.
    SessionStatus {
        /// The session.
        session_id: SessionId,
        /// What it is doing.
        status: SessionStatus,
        /// Until when the provider is not asked again (milliseconds since the epoch), in retry wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<i64>,
    },
    /// A session left the list: its file is gone, or is no session any more.
    SessionGone {
        /// The session.
        session_id: SessionId,
    },
    /// Changes are missing before this number (the client fell behind, or the list was made anew): list the sessions
    /// again. Later changes follow by themselves.
    Lagged {},
    /// A change of a later version.
    #[serde(untagged)]
    Unknown(Value),
}

/// What was added to a streaming assistant message. `contentIndex` is the block's place in the message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AssistantMessageEvent {
    /// A text block begins.
    TextStart {
        /// Its place.
        content_index: usize,
    },
    /// Text was added.
    TextDelta {
        /// Its place.
        content_index: usize,
        /// The text.
        delta: String,
    },
    /// A text block is complete.
    TextEnd {
        /// Its place.
        content_index: usize,
    },
    /// A thinking block begins.
    ThinkingStart {
        /// Its place.
        content_index: usize,
    },
    /// Thinking was added.
    ThinkingDelta {
        /// Its place.
        content_index: usize,
        /// The text.
        delta: String,
    },
    /// A thinking block is complete.
    ThinkingEnd {
        /// Its place.
        content_index: usize,
    },
    /// A tool call begins.
    #[serde(rename = "toolcall_start")]
    ToolcallStart {
        /// Its place.
        content_index: usize,
        /// The call.
        id: ToolCallId,
        /// The tool.
        tool_name: String,
    },
    /// Text of the arguments was added.
    #[serde(rename = "toolcall_delta")]
    ToolcallDelta {
        /// Its place.
        content_index: usize,
        /// The text.
        delta: String,
    },
    /// A tool call is complete; its parsed arguments come with `message_end`.
    #[serde(rename = "toolcall_end")]
    ToolcallEnd {
        /// Its place.
        content_index: usize,
    },
    /// An update of a later version.
    #[serde(untagged)]
    Unknown(Value),
}

#[cfg(test)]
mod tests;

//! Attaching to a session.

use super::*;

/// How a client wants to read a session's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// Every event.
    #[default]
    Full,
    /// Deltas of one block that came close together are merged.
    Coalesced,
    /// What is complete: no deltas and no beginnings of messages. `seq` has gaps.
    Entries,
    /// What a list of sessions shows: runs, retries, names of running tools, ids of new entries, but no content.
    /// `seq` has gaps.
    Status,
}

/// A client, as the others of its session are told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientRef {
    /// Its name from `initialize` or the front, else empty.
    pub name: String,
    /// Its process, where the system tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

/// Parameters of [`Attach`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachParams {
    /// The session, its id or a unique tail of it; the connection's current one when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The last event seen before; a snapshot when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Cursor>,
    /// How to read; `full` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view: Option<View>,
    /// Whether a snapshot carries entries; when left out, true in every view but `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<bool>,
}

/// Result of [`Attach`], and what the `lagged` event carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttachResult {
    /// The session attached to.
    pub session_id: SessionId,
    /// The session's epoch.
    pub epoch: Epoch,
    /// The cursor from which events follow.
    pub seq: Seq,
    /// Whether the missing events follow, or a snapshot stands for them.
    pub replay: Replay,
    /// The session's state.
    pub state: SessionState,
    /// What stands for the events up to `seq`, unless they are replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
}

/// How an attachment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Replay {
    /// The missing events follow.
    Exact,
    /// The snapshot stands for them.
    Snapshot,
}

/// A session as it is at one cursor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Snapshot {
    /// The tail of the active branch, oldest first: as many entries as fit into 256 KiB, and the last one whatever its
    /// size.
    pub entries: Vec<Entry>,
    /// Cursor for the entries before them (`get_entries`); absent when `entries` begins at the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<EntryId>,
    /// The assistant message that is streaming, so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<OpenMessage>,
    /// Tool calls that run or wait for their siblings, with their output so far.
    pub tools: Vec<RunningTool>,
    /// Messages waiting to be sent.
    pub queue: Queue,
    /// Questions waiting for an answer.
    pub questions: Vec<Question>,
    /// By entry, who sent the user messages among `entries`: those of which the daemon knows it, that is since it loaded
    /// the session. It is not kept in the file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub senders: BTreeMap<EntryId, ClientRef>,
}

/// An assistant message that is still streaming.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenMessage {
    /// Id that its entry will have.
    pub entry_id: EntryId,
    /// The message so far; an unfinished tool call has `argumentsText` instead of `arguments`.
    #[serde(flatten)]
    pub message: AssistantMessage,
}

/// A tool call of the current turn whose result message is not among the entries yet: it runs, or it has ended and
/// waits for the other calls of the turn (results are written in call order, after all have ended).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningTool {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub tool_name: String,
    /// Its arguments.
    pub args: Value,
    /// Output so far, the tail if it is long.
    pub output: String,
    /// Its end, if it has ended: what `tool_execution_end` carried, which later events will not repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<EndedTool>,
}

/// How a tool call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndedTool {
    /// Its result.
    pub result: ToolResult,
    /// Whether it failed.
    pub is_error: bool,
    /// Milliseconds it ran; absent when it never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

//! Every method: its parameters, its result and what it is for.
//!
//! A method is a type that implements [`Method`]. The list [`REGISTRY`] is made from the same declaration, so the
//! daemon's registration, the typed client and the pages of `proto-docs/` cannot differ.
//!
//! Parameters of session methods carry `sessionId`; left out, it means the connection's current session. Their
//! results also carry `seq`, the cursor that the answer reflects (see [`WithSeq`]).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::ids::{Cursor, EntryId, Epoch, Seq, SessionId, ToolCallId};
use crate::message::{AssistantMessage, ContentBlock, Message, ThinkingLevel, ToolResult};
use crate::model::Model;

/// One method of the wire.
pub trait Method {
    /// Name on the wire.
    const NAME: &'static str;
    /// Whether it concerns one session.
    const SCOPE: Scope;
    /// Whether its answer waits for something to happen; such a method is refused in a batch and can be cancelled.
    const WAITS: bool;
    /// What it does, in a sentence or two.
    const DOC: &'static str;
    /// Parameters, an object.
    type Params: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
    /// Result, an object.
    type Result: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static;
}

/// What a method concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The daemon or the connection.
    Daemon,
    /// One session; its parameters may leave `sessionId` out.
    Session,
}

/// A row of [`REGISTRY`].
#[derive(Clone, Copy)]
pub struct MethodInfo {
    /// [`Method::NAME`].
    pub name: &'static str,
    /// [`Method::SCOPE`].
    pub scope: Scope,
    /// [`Method::WAITS`].
    pub waits: bool,
    /// [`Method::DOC`].
    pub doc: &'static str,
    /// Makes the JSON schema of the parameters.
    pub params: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
    /// Makes the JSON schema of the result.
    pub result: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
}

macro_rules! methods {
    ($($(#[doc = $doc:literal])* $ty:ident = $name:literal, $scope:ident, $waits:literal, $params:ty => $result:ty;)*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $ty;

            impl Method for $ty {
                const NAME: &'static str = $name;
                const SCOPE: Scope = Scope::$scope;
                const WAITS: bool = $waits;
                const DOC: &'static str = concat!($($doc, "\n"),*);
                type Params = $params;
                type Result = $result;
            }
        )*

        /// Every method, in the order of the documentation.
        pub const REGISTRY: &[MethodInfo] = &[
            $(MethodInfo {
                name: $name,
                scope: Scope::$scope,
                waits: $waits,
                doc: <$ty as Method>::DOC,
                params: |generator| generator.subschema_for::<$params>(),
                result: |generator| generator.subschema_for::<$result>(),
            },)*
        ];
    };
}

methods! {
    /// Says who the client is and learns who the server is. Optional for one-line scripts.
    Initialize = "initialize", Daemon, false, InitializeParams => InitializeResult;
    /// Answers at once.
    Ping = "ping", Daemon, false, Empty => PingResult;
    /// Tells what the daemon is doing: version, sessions, clients, memory.
    GetDaemonStatus = "get_daemon_status", Daemon, false, Empty => DaemonStatus;
    /// Stops the daemon in order: runs are aborted and recorded first.
    Shutdown = "shutdown", Daemon, false, ShutdownParams => Empty;
    /// Lists the models that can be used with the keys of the session (or of the connection's environment).
    GetAvailableModels = "get_available_models", Daemon, false, GetAvailableModelsParams => GetAvailableModelsResult;
    /// Makes a session, makes it the connection's current one and attaches to it. Its file appears with the first prompt.
    NewSession = "new_session", Daemon, false, NewSessionParams => NewSessionResult;
    /// Lists sessions, latest use first, in pages.
    ListSessions = "list_sessions", Daemon, false, ListSessionsParams => ListSessionsResult;
    /// Subscribes the connection to a session's events from a cursor on, and makes it the current session.
    Attach = "attach", Session, false, AttachParams => AttachResult;
    /// Ends the subscription. The session and its run go on.
    Detach = "detach", Session, false, SessionParams => Empty;
    /// Starts a run with a user message. Answered once the message is on disk.
    Prompt = "prompt", Session, false, PromptParams => PromptResult;
    /// Queues a message to be injected after the current turn. Answered once it is journalled.
    Steer = "steer", Session, false, QueueParams => PromptResult;
    /// Queues a message to be sent when the run would end. Answered once it is journalled.
    FollowUp = "follow_up", Session, false, QueueParams => PromptResult;
    /// Ends the run and waits until it has settled. Success without a run.
    Abort = "abort", Session, true, SessionParams => Empty;
    /// Ends the pause before a failed request is tried again, and with it the run. Success without a pause.
    AbortRetry = "abort_retry", Session, false, SessionParams => Empty;
    /// Empties both queues and returns what was in them.
    ClearQueue = "clear_queue", Session, false, SessionParams => ClearQueueResult;
    /// Goes on with an interrupted run from the last entry, without a new user message.
    Continue = "continue", Session, false, SessionParams => PromptResult;
    /// Waits until the session is idle and tells how its last run ended.
    Wait = "wait", Session, true, SessionParams => WaitResult;
    /// Tells the session's state.
    GetState = "get_state", Session, false, SessionParams => SessionState;
    /// Returns the model context, system message first.
    GetMessages = "get_messages", Session, false, SessionParams => GetMessagesResult;
    /// Returns entries as they stand in the file.
    GetEntries = "get_entries", Session, false, GetEntriesParams => GetEntriesResult;
    /// Returns the text of the last assistant message; no `text` when there is none.
    GetLastAssistantText = "get_last_assistant_text", Session, false, SessionParams => GetLastAssistantTextResult;
    /// Names the session.
    SetSessionName = "set_session_name", Session, false, SetSessionNameParams => Empty;
    /// Chooses the model of the next requests. Give `model`, or pi's `provider` and `modelId`.
    SetModel = "set_model", Session, false, SetModelParams => Model;
    /// Chooses how much the model is asked to think; clamped to what it supports.
    SetThinkingLevel = "set_thinking_level", Session, false, SetThinkingLevelParams => Empty;
    /// Chooses the next thinking level that the model supports; after the last comes the first.
    CycleThinkingLevel = "cycle_thinking_level", Session, false, SessionParams => CycleThinkingLevelResult;
    /// Lists the thinking levels that the model supports, least first.
    GetAvailableThinkingLevels = "get_available_thinking_levels", Session, false, SessionParams => GetAvailableThinkingLevelsResult;
    /// Chooses the next model that can be used with the session's keys; after the last comes the first. The demo model
    /// is never chosen.
    CycleModel = "cycle_model", Session, false, SessionParams => CycleModelResult;
    /// Chooses whether failed requests of the session are tried again; kept with the session.
    SetAutoRetry = "set_auto_retry", Session, false, SetAutoRetryParams => Empty;
    /// Chooses how steering is taken out of its queue; kept with the session.
    SetSteeringMode = "set_steering_mode", Session, false, SetQueueModeParams => Empty;
    /// Chooses how follow-ups are taken out of their queue; kept with the session.
    SetFollowUpMode = "set_follow_up_mode", Session, false, SetQueueModeParams => Empty;
    /// Counts messages, tokens and cost over all entries of the file.
    GetSessionStats = "get_session_stats", Session, false, SessionParams => SessionStats;
    /// Replaces the environment that the session's tools and key look-up use. Held in memory only.
    SetEnv = "set_env", Session, false, SetEnvParams => Empty;
}

/// Adds to a session method's result the cursor that it reflects.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WithSeq<T> {
    /// The result.
    #[serde(flatten)]
    pub result: T,
    /// Number of the last event that the answer reflects; events up to it are written before the answer.
    pub seq: Seq,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for WithSeq<T> {
    /// Reads from JSON only: a flattened result is buffered, and entries cannot be taken byte for byte out of that.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct OnlySeq {
            seq: Seq,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let result = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        let OnlySeq { seq } = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        Ok(Self { result, seq })
    }
}

/// Nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Empty {}

/// Parameters of methods that need only the session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionParams {
    /// The session; the connection's current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

/// Parameters of [`Initialize`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InitializeParams {
    /// The client's name and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_info: Option<PeerInfo>,
    /// The version of the wire that the client speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<Value>,
    /// What the client can do; unknown members are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Value>,
}

/// A program at one end of the wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PeerInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its build: a short text that differs between builds; absent where the program does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}

/// Result of [`Initialize`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The daemon.
    pub server_info: PeerInfo,
    /// The version of the wire that the daemon speaks.
    pub protocol_version: u32,
    /// What the daemon can do.
    pub capabilities: Capabilities,
    /// Its limits.
    pub limits: Limits,
    /// Set when client and daemon are of different builds: which side is older and the command that mends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_mismatch: Option<String>,
}

/// What the daemon can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// The views that `attach` offers; a client passes over those that it does not know.
    #[serde(deserialize_with = "known_views")]
    pub views: Vec<View>,
    /// How tools are confined: `none` while they run unconfined.
    pub confinement: String,
}

fn known_views<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<View>, D::Error> {
    let values = Vec::<Value>::deserialize(deserializer)?;
    Ok(values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect())
}

/// The daemon's limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Largest message accepted, in bytes.
    pub max_message_bytes: u64,
    /// Most requests in one batch.
    pub max_batch: u64,
}

/// Result of [`Ping`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PingResult {
    /// Milliseconds since the epoch on the daemon's clock.
    pub time: i64,
}

/// Parameters of [`Shutdown`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShutdownParams {
    /// Why, for the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Result of [`GetDaemonStatus`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonStatus {
    /// Version and build.
    pub server_info: PeerInfo,
    /// Process id.
    pub pid: u32,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Its socket.
    pub socket: String,
    /// Where sessions are written.
    pub sessions_dir: String,
    /// Sessions held in memory.
    pub loaded_sessions: u64,
    /// Sessions with a run going on.
    pub running_sessions: u64,
    /// Bytes of encoded events held for replay, over all sessions.
    pub ring_bytes: u64,
    /// Open connections.
    pub clients: Vec<ClientStatus>,
    /// Tools that did not stop when told and were abandoned since the start.
    pub abandoned_tools: u64,
    /// State of the session index, for people: `opening`, `ready`, `comparing with the session files` (either with `; `
    /// and what is amiss), `stopped: ` and why, or `closed`.
    pub index: String,
    /// How tools are confined: `none` while they run unconfined.
    pub confinement: String,
}

/// One open connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientStatus {
    /// The client's name from `initialize` or the front, else empty.
    pub name: String,
    /// Process id of the peer, where the system tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Sessions it is attached to, and in which view.
    pub attached: Vec<Attachment>,
    /// Bytes written to it.
    pub bytes_out: u64,
}

/// One subscription of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// The session.
    pub session_id: SessionId,
    /// In which view.
    pub view: View,
}

/// Parameters of [`GetAvailableModels`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GetAvailableModelsParams {
    /// Look keys up in this session's environment; in the connection's when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

/// Result of [`GetAvailableModels`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetAvailableModelsResult {
    /// Models with usable credentials, in the order in which they are configured; `demo` last.
    pub models: Vec<Model>,
    /// The model that a new session would get, as `provider/id`; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_model: Option<String>,
    /// What is wrong in the files that describe models, with file and place; absent when nothing is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// Parameters of [`NewSession`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NewSessionParams {
    /// Working directory, absolute; the connection's when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `provider/id[:thinkingLevel]`, or a part of it that fits only one; the default model when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Name of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Names of the tools it may use; the default set when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Permission mode. There is only `full` yet: tools run unconfined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Most turns of one run, 1 to 1000000; 50 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Path of the session it comes from, kept in the header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// Whether to attach the caller; true when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attach: Option<bool>,
    /// View of that attachment; `full` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view: Option<View>,
}

/// Result of [`NewSession`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewSessionResult {
    /// The new session.
    pub session_id: SessionId,
    /// Where its file will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_file: Option<String>,
    /// Its epoch.
    pub epoch: Epoch,
    /// The cursor from which events follow.
    pub seq: Seq,
    /// Its state.
    pub state: SessionState,
}

/// Parameters of [`ListSessions`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListSessionsParams {
    /// Only sessions of this working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Only sessions whose name or first message contains this text, letter case aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Rows of a page, 1 to 500; 50 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `nextCursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Result of [`ListSessions`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListSessionsResult {
    /// The page, latest use first.
    pub sessions: Vec<SessionRow>,
    /// Cursor of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Rows over all pages.
    pub total: u64,
    /// Number of the last change of the list that this answer reflects.
    pub list_seq: u64,
}

/// One session in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    /// Its id; a derived one for a second file with the same id.
    pub session_id: SessionId,
    /// Its file. A session is listed once it has one, that is from its first prompt on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_file: Option<String>,
    /// Working directory.
    pub cwd: String,
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Beginning of the first user message (at most 200 characters, one line).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_message: Option<String>,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// Milliseconds since the epoch of the last entry.
    pub modified: i64,
    /// Messages in the file.
    pub message_count: u64,
    /// Last model used, as `provider/id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Cost of all responses, in dollars.
    pub cost: f64,
    /// What it is doing.
    pub status: SessionStatus,
    /// Until when the provider is not asked again (milliseconds since the epoch), in retry wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<i64>,
    /// The session of which this file is a second copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<SessionId>,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SessionStatus {
    /// Not in memory.
    Unloaded,
    /// Loaded, no run.
    Idle,
    /// A run is going on.
    Running,
    /// A run waits until the provider may be asked again.
    RetryWait,
    /// A run is being stopped.
    Stopping,
}

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
    pub questions: Vec<Value>,
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

/// Texts of the messages waiting to be sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Queue {
    /// To be injected after the current turn.
    pub steering: Vec<String>,
    /// To be sent when the run would end.
    pub follow_up: Vec<String>,
}

/// What to do with a prompt while a run is going on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum IfBusy {
    /// Answer `busy`.
    #[default]
    Reject,
    /// Queue it as steering.
    Steer,
    /// Queue it as a follow-up.
    FollowUp,
}

/// Parameters of [`Prompt`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptParams {
    /// The session; the connection's current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The text; blank only beside images.
    pub message: String,
    /// Image blocks (`{type: "image", data, mimeType}`) that go with it, at most 100. The type is taken from their
    /// content, and what is over the limits for images (tools page) is made smaller before it is stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ContentBlock>,
    /// What to do while a run is going on; `reject` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_busy: Option<IfBusy>,
    /// pi's name for `ifBusy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streaming_behavior: Option<IfBusy>,
    /// The client's own id of the message; a repeat is answered like the first and runs nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<String>,
}

/// Parameters of [`Steer`] and [`FollowUp`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueParams {
    /// The session; the connection's current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The text; blank only beside images.
    pub message: String,
    /// Image blocks that go with it, as for `prompt`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ContentBlock>,
    /// The client's own id of the message; a repeat is answered like the first and queues nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<String>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Disposition {
    /// A run has started with it.
    Started,
    /// It waits in a queue.
    Queued,
    /// It was dealt with without a run. Nothing is yet: only messages that are commands will be.
    Handled,
}

/// Result of [`Prompt`], [`Steer`], [`FollowUp`] and [`Continue`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptResult {
    /// What became of the message.
    pub disposition: Disposition,
    /// Entry of the user message, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_id: Option<EntryId>,
}

/// Result of [`ClearQueue`].
pub type ClearQueueResult = Queue;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RunEnd {
    /// The model had said all.
    Done,
    /// A person stopped it.
    Aborted,
    /// A request failed for good.
    Error,
    /// The most turns of one run were taken.
    MaxTurns,
    /// The output limit cut the last answer short.
    Length,
    /// The session file could not be written.
    Storage,
    /// The daemon was stopped or killed during the run; `continue` goes on with it.
    Interrupted,
}

/// Result of [`Wait`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitResult {
    /// How the last run since the session was loaded ended; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RunEnd>,
    /// What went wrong, for the reasons `error`, `storage` and `length` where there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// How queued messages are taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QueueMode {
    /// One each time.
    #[default]
    #[serde(rename = "one-at-a-time")]
    OneAtATime,
    /// All of them.
    #[serde(rename = "all")]
    All,
}

/// Result of [`GetState`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionState {
    /// The model; absent when none can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// How much it is asked to think.
    pub thinking_level: ThinkingLevel,
    /// Whether a run is going on (retry wait included).
    pub is_streaming: bool,
    /// Whether a compaction is going on.
    pub is_compacting: bool,
    /// How steering is taken out of its queue.
    pub steering_mode: QueueMode,
    /// How follow-ups are taken out of their queue.
    pub follow_up_mode: QueueMode,
    /// The session's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_file: Option<String>,
    /// The session.
    pub session_id: SessionId,
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    /// Whether it is compacted by itself.
    pub auto_compaction_enabled: bool,
    /// Messages in the model context, the system message included.
    pub message_count: u64,
    /// Messages waiting in both queues.
    pub pending_message_count: u64,
    /// Working directory.
    pub cwd: String,
    /// What it is doing.
    pub status: SessionStatus,
    /// The entry that the next one hangs from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf_id: Option<EntryId>,
    /// Tools the model may call.
    pub tools: Vec<String>,
    /// Most turns of one run.
    pub max_turns: u32,
    /// Where the environment of tools comes from.
    pub env_source: EnvSource,
    /// How tools are confined: `none` while they run unconfined.
    pub confinement: String,
    /// Whether the last run was cut short by the end of the daemon; `continue` goes on with it.
    pub interrupted: bool,
    /// Whether failed requests are tried again.
    #[serde(default)]
    pub auto_retry_enabled: bool,
    /// Until when the provider is not asked again (milliseconds since the epoch), in retry wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<i64>,
    /// What is waited for, in retry wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryState>,
    /// Clients attached.
    pub clients: u32,
}

/// A pause before a failed request is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryState {
    /// Number of the retry, from 1.
    pub attempt: u32,
    /// Most retries.
    pub max_attempts: u32,
    /// Length of the pause.
    pub delay_ms: u64,
    /// What failed.
    pub error_message: String,
}

/// Where a session's environment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EnvSource {
    /// A client sent it.
    Client,
    /// The user's login shell: no client has sent one since the daemon started.
    LoginShell,
}

/// Result of [`GetMessages`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetMessagesResult {
    /// The model context.
    pub messages: Vec<std::sync::Arc<Message>>,
}

/// An entry of a session file, byte for byte.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(transparent)]
pub struct Entry(#[schemars(with = "Map<String, Value>")] pub std::sync::Arc<RawValue>);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

/// Parameters of [`GetEntries`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GetEntriesParams {
    /// The session; the connection's current one when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Only entries written after this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<EntryId>,
    /// Only entries before this one (for paging back).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<EntryId>,
    /// Only the active branch instead of the whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<bool>,
    /// Most entries; with `before` the latest of them. All when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Result of [`GetEntries`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetEntriesResult {
    /// Entries, oldest first.
    pub entries: Vec<Entry>,
    /// The entry that the next one hangs from; null in an empty session.
    pub leaf_id: Option<EntryId>,
}

/// Result of [`GetLastAssistantText`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GetLastAssistantTextResult {
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Parameters of [`SetSessionName`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetSessionNameParams {
    /// The session; the connection's current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The name, 1 to 1000 characters; blanks around it are dropped.
    pub name: String,
}

/// Parameters of [`SetModel`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SetModelParams {
    /// The session; the connection's current one when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// `provider/id[:thinkingLevel]`, or a part of it that fits only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Provider id, with `modelId`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Model id, with `provider`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
}

/// Parameters of [`SetThinkingLevel`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetThinkingLevelParams {
    /// The session; the connection's current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The level.
    pub level: ThinkingLevel,
}

/// Result of [`CycleThinkingLevel`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CycleThinkingLevelResult {
    /// The level chosen; absent when the model has only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<ThinkingLevel>,
}

/// Result of [`GetAvailableThinkingLevels`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetAvailableThinkingLevelsResult {
    /// The levels; never empty.
    pub levels: Vec<ThinkingLevel>,
}

/// Result of [`CycleModel`]; empty when there is no other model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CycleModelResult {
    /// The model chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// The thinking level, clamped to what that model supports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
    /// Whether only some of the models were gone through; false, since nothing limits them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_scoped: Option<bool>,
}

/// Parameters of [`SetAutoRetry`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetAutoRetryParams {
    /// The session; the connection's current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Whether failed requests are tried again. A pause that is under way is not touched.
    pub enabled: bool,
}

/// Parameters of [`SetSteeringMode`] and [`SetFollowUpMode`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetQueueModeParams {
    /// The session; the connection's current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The mode.
    pub mode: QueueMode,
}

/// Result of [`GetSessionStats`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionStats {
    /// The session's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_file: Option<String>,
    /// The session.
    pub session_id: SessionId,
    /// User messages in the file.
    pub user_messages: u64,
    /// Assistant messages in the file.
    pub assistant_messages: u64,
    /// Tool calls in them.
    pub tool_calls: u64,
    /// Tool results in the file.
    pub tool_results: u64,
    /// All messages in the file.
    pub total_messages: u64,
    /// Tokens over all responses.
    pub tokens: TokenTotals,
    /// Cost over all responses, in dollars.
    pub cost: f64,
    /// How full the context window is; absent without a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_usage: Option<ContextUsage>,
}

/// Tokens over all responses of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenTotals {
    /// Uncached prompt tokens.
    pub input: u64,
    /// Generated tokens.
    pub output: u64,
    /// Cached prompt tokens read.
    pub cache_read: u64,
    /// Prompt tokens written to a cache.
    pub cache_write: u64,
    /// The sum.
    pub total: u64,
}

/// How full the context window is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextUsage {
    /// Tokens; null when not known (right after a compaction).
    pub tokens: Option<u64>,
    /// The model's window.
    pub context_window: u64,
    /// Tokens in percent of the window; null when not known.
    pub percent: Option<f64>,
}

/// Parameters of [`SetEnv`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetEnvParams {
    /// The session; the connection's current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The whole environment; it replaces the one before. At most 1 MiB, a variable at most 128 KiB, as the system
    /// hands no more to a program.
    pub env: BTreeMap<String, String>,
}

/// The `front` notification that a stdio front or `agentctl` sends first, LF-framed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontParams {
    /// Working directory of the program behind the front.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Its environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

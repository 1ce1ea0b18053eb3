//! Making and listing sessions.

use super::*;

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
    /// What its tools may do without a question; what the settings say when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// What becomes of a question when nobody is attached who could answer; what the settings say when left out. A
    /// question that was asked waits for an answer, also when everybody has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headless: Option<Headless>,
    /// How long a question waits before it is taken for answered with no, in milliseconds; 0: for ever. What the settings
    /// say when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask_timeout_ms: Option<u64>,
    /// Most turns of one run, 1 to 1000000; what `max_turns` of the settings says when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Settings by key, such as `{"retry.max_retries": 5}`: values of their own types, or as text. They count more than
    /// those of all other places, and are kept with the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Map<String, Value>>,
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
    /// Rows of a page, 1 to 500; what `max_turns` of the settings says when left out.
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
    /// Number of the last change of the list that this answer reflects. Numbers grow over restarts of the daemon, too.
    pub list_seq: u64,
}

/// Parameters of [`WatchSessions`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WatchSessionsParams {
    /// `listSeq` of the list that the client has; when left out, only changes from now on are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
}

/// Result of [`WatchSessions`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchSessionsResult {
    /// The number after which changes follow.
    pub list_seq: u64,
    /// Whether they follow on what the client has.
    pub replay: ListReplay,
}

/// How watching the list begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListReplay {
    /// Every change after `since` follows.
    Exact,
    /// `since` was left out, is too old, or is of another life of the daemon: only changes after `listSeq` follow. List
    /// the sessions again.
    List,
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
    /// A run waits for the answer to a question (`list_approvals`).
    Asking,
    /// A run is being stopped.
    Stopping,
    /// A word of a later version.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

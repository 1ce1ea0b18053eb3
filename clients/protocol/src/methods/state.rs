//! What a session tells of itself.

use super::*;

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
    /// What tools may do without a question.
    #[serde(default, deserialize_with = "permissions::known_mode", skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
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
    /// Whether what the working directory brings along is loaded.
    #[serde(default)]
    pub trust: ProjectTrust,
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

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

mod approvals;
mod attach;
mod config;
mod daemon;
mod keys;
mod permissions;
mod rules;
mod run;
mod sessions;
mod settings;
mod state;
mod trust;

pub use approvals::*;
pub use attach::*;
pub use config::*;
pub use daemon::*;
pub use keys::*;
pub use permissions::*;
pub use rules::*;
pub use run::*;
pub use sessions::*;
pub use settings::*;
pub use state::*;
pub use trust::*;

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
    /// Tells the connection of changes to the list of sessions from a number on, by notifications `session_list_event`.
    WatchSessions = "watch_sessions", Daemon, false, WatchSessionsParams => WatchSessionsResult;
    /// Ends the notifications of `watch_sessions`.
    UnwatchSessions = "unwatch_sessions", Daemon, false, Empty => Empty;
    /// Subscribes the connection to a session's events from a cursor on, and makes it the current session.
    Attach = "attach", Session, false, AttachParams => AttachResult;
    /// Ends the subscription. The session and its run go on.
    Detach = "detach", Session, false, SessionParams => Empty;
    /// Starts a run with a user message. Answered once the message is on disk.
    Prompt = "prompt", Session, false, PromptParams => PromptResult;
    /// Queues a message to be injected after the current turn, or at once. Answered once it is journalled.
    Steer = "steer", Session, false, SteerParams => PromptResult;
    /// Queues a message to be sent when the run would end. Answered once it is journalled.
    FollowUp = "follow_up", Session, false, QueueParams => PromptResult;
    /// Ends the run and waits until it has settled. Success without a run.
    Abort = "abort", Session, true, SessionParams => Empty;
    /// Ends the pause before a failed request is tried again, and with it the run. Success without a pause.
    AbortRetry = "abort_retry", Session, false, SessionParams => Empty;
    /// Empties both queues and returns what was in them.
    ClearQueue = "clear_queue", Session, false, SessionParams => ClearQueueResult;
    /// Lists the questions that wait for an answer, in one session or in all.
    ListApprovals = "list_approvals", Daemon, false, ListApprovalsParams => ListApprovalsResult;
    /// Answers a question. The first answer counts; a later one is told who answered and how (`already_resolved`).
    RespondApproval = "respond_approval", Daemon, false, RespondApprovalParams => Empty;
    /// Decides whether what a folder and those below it bring along may be loaded. Counts from the next run of each session on.
    Trust = "trust", Daemon, false, TrustParams => TrustResult;
    /// Forgets what was decided about a folder. What was decided about one above it holds again.
    Untrust = "untrust", Daemon, false, UntrustParams => UntrustResult;
    /// Lists what was decided about folders.
    ListTrust = "list_trust", Daemon, false, Empty => ListTrustResult;
    /// Lists the rules of the user and of a project, and what in their files cannot be followed.
    ListRules = "list_rules", Daemon, false, ListRulesParams => ListRulesResult;
    /// Adds a rule to the user's file or a project's. It counts from the next tool call of each session on.
    AddRule = "add_rule", Daemon, false, ChangeRuleParams => ChangeRuleResult;
    /// Takes a rule out of the user's file or a project's.
    RemoveRule = "remove_rule", Daemon, false, ChangeRuleParams => ChangeRuleResult;
    /// Tells what would become of a tool call, by which rules. Nothing is run.
    TestRule = "test_rule", Daemon, false, TestRuleParams => TestRuleResult;
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
    /// Chooses what the session's tools may do without a question; kept with the session. It holds from the next tool
    /// call on.
    SetMode = "set_mode", Session, false, SetModeParams => Empty;
    /// Chooses whether failed requests of the session are tried again; kept with the session.
    SetAutoRetry = "set_auto_retry", Session, false, SetAutoRetryParams => Empty;
    /// Chooses how steering is taken out of its queue; kept with the session.
    SetSteeringMode = "set_steering_mode", Session, false, SetQueueModeParams => Empty;
    /// Chooses how follow-ups are taken out of their queue; kept with the session.
    SetFollowUpMode = "set_follow_up_mode", Session, false, SetQueueModeParams => Empty;
    /// Counts messages, tokens and cost over all entries of the file.
    GetSessionStats = "get_session_stats", Session, false, SessionParams => SessionStats;
    /// Tells what every setting is, and which place says so: for a session, or for a new one of this connection.
    GetConfig = "get_config", Daemon, false, GetConfigParams => GetConfigResult;
    /// Sets a key in the user's or the project's file, or takes it out. All else in the file stays as it is.
    SetConfig = "set_config", Daemon, false, SetConfigParams => SetConfigResult;
    /// Keeps the key of a provider, in a file that only the user can read.
    SetKey = "set_key", Daemon, false, SetKeyParams => SetKeyResult;
    /// Forgets the key of a provider that `set_key` has kept.
    RemoveKey = "remove_key", Daemon, false, RemoveKeyParams => RemoveKeyResult;
    /// Tells of which providers there are keys, and where each comes from.
    ListKeys = "list_keys", Daemon, false, ListKeysParams => ListKeysResult;
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

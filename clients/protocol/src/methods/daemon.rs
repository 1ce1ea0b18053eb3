//! The daemon and the connection: who is who, and how it is.

use super::*;

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
    pub capabilities: Option<ClientCapabilities>,
}

/// What a client can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientCapabilities {
    /// Whether it lets somebody answer questions; true when left out. A run asks only while a client is attached that
    /// does; else it takes the answer `deny` at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<bool>,
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
    /// What is wrong in the files and variables of settings, as it was when they were last read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_faults: Vec<ConfigFault>,
}

/// One open connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientStatus {
    /// The client's name from `initialize` or the front, else empty.
    pub name: String,
    /// Its version, as it says, else empty.
    #[serde(default)]
    pub version: String,
    /// Process id of the peer, where the system tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// When it connected, in milliseconds since the epoch.
    #[serde(default)]
    pub connected: i64,
    /// Sessions it is attached to, and in which view.
    pub attached: Vec<Attachment>,
    /// Whether it watches the list of sessions.
    #[serde(default)]
    pub watches_list: bool,
    /// Bytes written to it.
    pub bytes_out: u64,
    /// Bytes of answers and events that are ready for it and that it has not taken yet. Events that it has not come to are
    /// not among them: see `lag`.
    #[serde(default)]
    pub bytes_unsent: u64,
}

/// One subscription of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// The session.
    pub session_id: SessionId,
    /// In which view.
    pub view: View,
    /// How many events it is behind.
    #[serde(default)]
    pub lag: u64,
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

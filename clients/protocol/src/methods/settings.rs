//! What of a session can be set.

use super::*;

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

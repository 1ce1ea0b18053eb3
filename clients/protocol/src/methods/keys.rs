//! Keys of providers.

use super::*;

/// Parameters of [`SetKey`].
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetKeyParams {
    /// Id of the provider.
    pub provider: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Debug for SetKeyParams {
    /// Shows no key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetKeyParams").field("provider", &self.provider).finish_non_exhaustive()
    }
}

/// Result of [`SetKey`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SetKeyResult {
    /// The file that holds it.
    pub file: String,
}

/// Parameters of [`RemoveKey`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoveKeyParams {
    /// Id of the provider.
    pub provider: String,
}

/// Result of [`RemoveKey`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RemoveKeyResult {
    /// The file.
    pub file: String,
    /// Whether there was one.
    pub removed: bool,
}

/// Parameters of [`ListKeys`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListKeysParams {
    /// Look variables up in this session's environment; in the connection's when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

/// Result of [`ListKeys`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListKeysResult {
    /// Where `set_key` keeps keys.
    pub file: String,
    /// Providers with a key, by id.
    pub keys: Vec<KeyStatus>,
}

/// Where the key of a provider comes from. The key itself is never told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyStatus {
    /// Id of the provider.
    pub provider: String,
    /// The kind of place.
    pub source: KeySource,
    /// The file or the variable.
    pub place: String,
}

/// The places that keys come from, the one that counts most first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum KeySource {
    /// A file of keys: ours, else pi's.
    #[default]
    AuthFile,
    /// `apiKey` of a file that describes models.
    ModelsFile,
    /// A variable that programs of the provider know.
    Variable,
}

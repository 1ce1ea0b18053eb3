//! Models as clients see them (pi's model object).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A model that can be chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// Id at the provider.
    pub id: String,
    /// Name for people; the id where none is configured.
    pub name: String,
    /// Dialect, such as `openai-completions`.
    pub api: String,
    /// Provider id.
    pub provider: String,
    /// Base of the provider's URLs; empty for the built-in demo provider.
    pub base_url: String,
    /// Whether it can be asked to think.
    pub reasoning: bool,
    /// Kinds of input: `text`, `image`.
    pub input: Vec<String>,
    /// Prices per million tokens.
    pub cost: ModelCost,
    /// Context window in tokens.
    pub context_window: u64,
    /// Most tokens in one response.
    pub max_tokens: u64,
    /// The provider's words for thinking levels; `null` marks a level as unsupported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level_map: Option<Value>,
    /// Quirks of the server (pi's `compat` object).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compat: Option<Value>,
}

/// Prices per million tokens, in dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelCost {
    /// Uncached prompt tokens.
    #[serde(serialize_with = "crate::message::write_amount")]
    pub input: f64,
    /// Generated tokens.
    #[serde(serialize_with = "crate::message::write_amount")]
    pub output: f64,
    /// Cached prompt tokens read.
    #[serde(serialize_with = "crate::message::write_amount")]
    pub cache_read: f64,
    /// Prompt tokens written to a cache.
    #[serde(serialize_with = "crate::message::write_amount")]
    pub cache_write: f64,
}

//! Models as clients see them (pi's model object).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
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
    /// Base of the provider's URLs; empty for the built-in demo provider. What may be a key in it (user and password,
    /// values of a query) is not shown.
    #[serde(serialize_with = "write_without_keys")]
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
    /// How long the provider keeps a prompt in its cache, in seconds: `short` and `long`, where configured. For clients
    /// to show; the daemon sends nothing to keep a cache warm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_cache: Option<Value>,
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

/// Returns a URL without what may be a key in it: user and password, and the values of a query. Also for what is no
/// URL, such as one with a letter missing.
pub fn without_keys(url: &str) -> String {
    let (scheme, rest) = url.find("://").map_or(("", url), |at| url.split_at(at + 3));
    let is_query = |c: char| matches!(c, '?' | '#');
    let head = rest.find(is_query).unwrap_or(rest.len());
    // A question mark in a password ends nothing, though it should have been escaped.
    let head = if rest[..head].contains('/') { head } else { rest.rfind('@').map_or(head, |at| head.max(at + 1)) };
    let user_end = rest[..head].rfind('@').map_or(0, |at| at + 1);
    let (user, rest) = rest.split_at(user_end);
    let (path, query) = rest.split_at(rest.find(is_query).unwrap_or(rest.len()));
    let mut shown = scheme.to_owned();
    if !user.is_empty() {
        shown.push_str("***@");
    }
    shown.push_str(path);
    for (index, part) in query.split('&').filter(|part| !part.is_empty()).enumerate() {
        if index > 0 {
            shown.push('&');
        }
        match part.split_once('=') {
            Some((name, _)) => shown.extend([name, "=***"]),
            None => shown.extend([&part[..usize::from(index == 0)], "***"]),
        }
    }
    shown
}

fn write_without_keys<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&without_keys(url))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_may_be_a_key_in_a_url_is_not_shown() {
        for (url, shown) in [
            ("", ""),
            ("https://api.example.com/v1", "https://api.example.com/v1"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("https://u:KEY@h/v1", "https://***@h/v1"),
            ("https://KEY@h", "https://***@h"),
            ("https://h/v1?key=KEY&api-version=KEY", "https://h/v1?key=***&api-version=***"),
            ("https://h/v1?KEY", "https://h/v1?***"),
            ("https://h/v1#KEY", "https://h/v1#***"),
            ("https://u:K?EY@h/v1?key=KEY", "https://***@h/v1?key=***"),
            ("https://u:K/EY@h/v1", "https://***@h/v1"),
            ("htp//u:KEY@h?a=KEY&KEY", "***@h?a=***&***"),
            ("u:KEY@h", "***@h"),
        ] {
            assert_eq!(without_keys(url), shown, "{url}");
            assert_eq!(without_keys(shown), shown);
        }
    }
}

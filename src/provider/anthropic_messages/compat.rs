//! Quirks of servers that speak Anthropic Messages: the `compat` object of pi's `models.json`.
//!
//! Fields that are left out have the value that Anthropic's own API needs. pi's other fields for this dialect change
//! nothing here: later system messages and tool changes are always folded into the first, strict schemas, hour-long
//! caching and session headers are not asked for.

use serde::Deserialize;
use serde_json::Value;

/// How a server differs from Anthropic's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compat {
    /// Streams the input of a tool call as it is made when the tool says so (`eager_input_streaming`). Where it does
    /// not, the older beta header asks for the same.
    pub supports_eager_tool_input_streaming: bool,
    /// Takes `cache_control` on tools.
    pub supports_cache_control_on_tools: bool,
    /// Takes `temperature`.
    pub supports_temperature: bool,
    /// The model decides itself how long it thinks (`thinking.type: "adaptive"`), guided by an effort; a budget is
    /// refused.
    pub force_adaptive_thinking: bool,
    /// Sends thinking without a signature, and wants it back with an empty one.
    pub allow_empty_signature: bool,
}

impl Default for Compat {
    fn default() -> Self {
        Self {
            supports_eager_tool_input_streaming: true,
            supports_cache_control_on_tools: true,
            supports_temperature: true,
            force_adaptive_thinking: false,
            allow_empty_signature: false,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Configured {
    supports_eager_tool_input_streaming: Option<bool>,
    supports_cache_control_on_tools: Option<bool>,
    supports_temperature: Option<bool>,
    force_adaptive_thinking: Option<bool>,
    allow_empty_signature: Option<bool>,
}

impl Compat {
    /// Returns the quirks that a `compat` object describes. A value of a wrong type counts as left out.
    pub fn resolve(configured: Option<&Value>) -> Self {
        let set = configured.map(Configured::read).unwrap_or_default();
        let plain = Self::default();
        Self {
            supports_eager_tool_input_streaming: set
                .supports_eager_tool_input_streaming
                .unwrap_or(plain.supports_eager_tool_input_streaming),
            supports_cache_control_on_tools: set
                .supports_cache_control_on_tools
                .unwrap_or(plain.supports_cache_control_on_tools),
            supports_temperature: set.supports_temperature.unwrap_or(plain.supports_temperature),
            force_adaptive_thinking: set.force_adaptive_thinking.unwrap_or(plain.force_adaptive_thinking),
            allow_empty_signature: set.allow_empty_signature.unwrap_or(plain.allow_empty_signature),
        }
    }
}

impl Configured {
    /// Reads the flags one by one, so that one of a wrong type does not lose the others.
    fn read(value: &Value) -> Self {
        let Value::Object(map) = value else { return Self::default() };
        let flags = map.iter().filter(|(_, value)| value.is_boolean()).map(|(k, v)| (k.clone(), v.clone())).collect();
        serde_json::from_value(Value::Object(flags)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_out_or_not_understood_is_as_at_anthropic() {
        assert_eq!(Compat::resolve(None), Compat::default());
        let configured = json!({"forceAdaptiveThinking": true, "allowEmptySignature": "yes", "supportsTemperature": null,
            "supportsEagerToolInputStreaming": false, "supportsCacheControlOnTools": false, "somethingNew": {}});
        let expected = Compat {
            force_adaptive_thinking: true,
            supports_eager_tool_input_streaming: false,
            supports_cache_control_on_tools: false,
            ..Compat::default()
        };
        assert_eq!(Compat::resolve(Some(&configured)), expected);
    }
}

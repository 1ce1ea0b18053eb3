//! A context to the body of a request, and to the beta features that it needs.
//!
//! Members stand in the order in which pi sends them.

use std::sync::Arc;

use agentd_protocol::message::{Message, ThinkingLevel, ToolDefinition};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::conversation::{convert, is_amid_unthought_turn};
use super::wire::{Role, WireMessage, cache_marker};
use crate::provider::context::{available_tools, folded_system, prompt_text};
use crate::provider::levels::{clamp_level, effort_word};
use crate::provider::room::max_tokens;
use crate::provider::spec::ModelSpec;

/// Lets the model think between tool calls, not only before the first.
const BETA_INTERLEAVED_THINKING: &str = "interleaved-thinking-2025-05-14";
/// Streams the input of tool calls as it is made, for servers that do not know the tools' own member for that.
const BETA_FINE_GRAINED_TOOLS: &str = "fine-grained-tool-streaming-2025-05-14";

/// Least thinking budget that the API accepts, in tokens.
const MIN_BUDGET: u64 = 1024;
/// Tokens that a thinking budget leaves for the answer (pi: the same).
const MIN_ANSWER_TOKENS: u64 = 1024;

/// Members that configuration cannot change: without them there is no answer that could be read.
const FIXED: &[&str] = &["model", "messages", "stream", "system", "tools"];

/// Returns the body of a request.
pub fn body(spec: &ModelSpec, messages: &[Arc<Message>], thinking: ThinkingLevel) -> Vec<u8> {
    let level = clamp_level(&spec.model, thinking);
    let tools = available_tools(messages.iter().map(Arc::as_ref));
    let mut wire = convert(messages, spec);
    let max_tokens = max_tokens(spec, messages, &tools);
    let thinking = Thinking::choose(spec, level, max_tokens, is_amid_unthought_turn(&wire));
    // Up to here the next request will be the same.
    if let Some(last) = wire.last_mut().filter(|last| last.role == Role::User) {
        last.is_marked = true;
    }
    let system = folded_system(messages.iter().map(Arc::as_ref)).map(|system| prompt_text(&system));
    let system = system.filter(|text| !text.trim().is_empty());
    let body = Body { spec, level, max_tokens, thinking, system, messages: wire, tools };
    // Writing to memory cannot fail, and nothing in a body has keys that are no strings.
    serde_json::to_vec(&body).unwrap_or_default()
}

/// Returns the beta features that a request needs, as the header `anthropic-beta` names them.
pub fn betas(spec: &ModelSpec, messages: &[Arc<Message>], thinking: ThinkingLevel) -> Vec<&'static str> {
    let is_thinking = spec.model.reasoning && clamp_level(&spec.model, thinking) != ThinkingLevel::Off;
    let has_tools = || !available_tools(messages.iter().map(Arc::as_ref)).is_empty();
    let mut betas = Vec::new();
    if !spec.anthropic.supports_eager_tool_input_streaming && has_tools() {
        betas.push(BETA_FINE_GRAINED_TOOLS);
    }
    // Models that choose for themselves think between calls anyway.
    if is_thinking && !spec.anthropic.force_adaptive_thinking {
        betas.push(BETA_INTERLEAVED_THINKING);
    }
    betas
}

/// How a model is asked to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thinking<'a> {
    /// It cannot: nothing is said.
    Unknown,
    Off,
    Budget(u64),
    Effort(&'a str),
}

impl<'a> Thinking<'a> {
    fn choose(spec: &'a ModelSpec, level: ThinkingLevel, max_tokens: u64, is_amid_unthought_turn: bool) -> Self {
        if !spec.model.reasoning {
            return Self::Unknown;
        }
        if level == ThinkingLevel::Off {
            return Self::Off;
        }
        if spec.anthropic.force_adaptive_thinking {
            return Self::Effort(effort(spec, level));
        }
        let budget = budget(level).min(max_tokens.saturating_sub(MIN_ANSWER_TOKENS));
        if budget < MIN_BUDGET || is_amid_unthought_turn { Self::Off } else { Self::Budget(budget) }
    }

    /// Whether the text of the thoughts is sent as a summary; newer models leave it out otherwise.
    fn members(self) -> Vec<(&'static str, Value)> {
        match self {
            Self::Unknown => Vec::new(),
            Self::Off => vec![("thinking", json!({"type": "disabled"}))],
            Self::Budget(tokens) => {
                vec![("thinking", json!({"type": "enabled", "budget_tokens": tokens, "display": "summarized"}))]
            }
            Self::Effort(word) => vec![
                ("thinking", json!({"type": "adaptive", "display": "summarized"})),
                ("output_config", json!({"effort": word})),
            ],
        }
    }
}

/// The API's words begin at `low`.
fn effort(spec: &ModelSpec, level: ThinkingLevel) -> &str {
    match effort_word(&spec.model, level) {
        Some("minimal") | None => "low",
        Some(word) => word,
    }
}

/// Returns the tokens that a level may think for (pi: the same).
fn budget(level: ThinkingLevel) -> u64 {
    match level {
        ThinkingLevel::Off => 0,
        ThinkingLevel::Minimal => 1024,
        ThinkingLevel::Low => 2048,
        ThinkingLevel::Medium => 8192,
        ThinkingLevel::High | ThinkingLevel::Xhigh | ThinkingLevel::Max => 16_384,
    }
}

struct Body<'a> {
    spec: &'a ModelSpec,
    level: ThinkingLevel,
    max_tokens: u64,
    thinking: Thinking<'a>,
    system: Option<String>,
    messages: Vec<WireMessage<'a>>,
    tools: Vec<&'a ToolDefinition>,
}

impl Body<'_> {
    /// Members that are neither content nor tools: ours, with what is configured in their place or behind them.
    fn settings(&self) -> Map<String, Value> {
        let mut settings = Map::from_iter([("max_tokens".to_owned(), json!(self.max_tokens))]);
        settings.extend(self.thinking.members().into_iter().map(|(name, value)| (name.to_owned(), value)));
        for (name, value) in self.spec.sampling.at(self.level) {
            let is_refused = match name.as_str() {
                // With thinking on, the API takes no other temperature than its own.
                "temperature" => !self.spec.anthropic.supports_temperature || self.is_thinking(),
                name => FIXED.contains(&name),
            };
            if value.is_null() {
                settings.shift_remove(&name);
            } else if !is_refused {
                settings.insert(name, value);
            }
        }
        settings
    }

    fn is_thinking(&self) -> bool {
        matches!(self.thinking, Thinking::Budget(_) | Thinking::Effort(_))
    }
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &self.spec.model.id)?;
        map.serialize_entry("messages", &self.messages)?;
        map.serialize_entry("stream", &true)?;
        if let Some(text) = &self.system {
            map.serialize_entry("system", &[json!({"type": "text", "text": text, "cache_control": cache_marker()})])?;
        }
        if !self.tools.is_empty() {
            map.serialize_entry("tools", &self.tools())?;
        }
        for (name, value) in self.settings() {
            map.serialize_entry(&name, &value)?;
        }
        map.end()
    }
}

impl Body<'_> {
    fn tools(&self) -> Vec<Tool<'_>> {
        let compat = &self.spec.anthropic;
        let last = self.tools.len() - 1;
        let tool = |(at, definition)| Tool {
            definition,
            is_eager: compat.supports_eager_tool_input_streaming,
            is_marked: at == last && compat.supports_cache_control_on_tools,
        };
        self.tools.iter().copied().enumerate().map(tool).collect()
    }
}

struct Tool<'a> {
    definition: &'a ToolDefinition,
    is_eager: bool,
    is_marked: bool,
}

impl Serialize for Tool<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ToolDefinition { name, description, parameters, .. } = self.definition;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", name)?;
        map.serialize_entry("description", description)?;
        if self.is_eager {
            map.serialize_entry("eager_input_streaming", &true)?;
        }
        map.serialize_entry("input_schema", parameters)?;
        if self.is_marked {
            map.serialize_entry("cache_control", &cache_marker())?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests;

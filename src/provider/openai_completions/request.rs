//! A context to the body of a request.
//!
//! Members stand in the order in which pi sends them.

use std::sync::Arc;

use agentd_protocol::message::{Message, ThinkingLevel, ToolDefinition};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::cache_marks;
use super::conversation::{WireMessage, convert};
use super::thinking::thinking_fields;
use crate::provider::context::available_tools;
use crate::provider::levels::clamp_level;
use crate::provider::room::max_tokens;
use crate::provider::spec::ModelSpec;

/// Returns the body of a request.
pub fn body(spec: &ModelSpec, messages: &[Arc<Message>], thinking: ThinkingLevel) -> Vec<u8> {
    let level = clamp_level(&spec.model, thinking);
    let tools = available_tools(messages.iter().map(Arc::as_ref));
    let body = Body {
        spec,
        level,
        max_tokens: max_tokens(spec, messages, &tools),
        messages: convert(messages, spec, spec.model.reasoning && level != ThinkingLevel::Off),
        tools,
    };
    // Writing to memory cannot fail, and nothing in a body has keys that are no strings.
    if spec.compat.marks_cache {
        let mut body = serde_json::to_value(&body).unwrap_or_default();
        cache_marks::set(&mut body);
        return serde_json::to_vec(&body).unwrap_or_default();
    }
    serde_json::to_vec(&body).unwrap_or_default()
}

struct Body<'a> {
    spec: &'a ModelSpec,
    level: ThinkingLevel,
    max_tokens: u64,
    messages: Vec<WireMessage<'a>>,
    tools: Vec<&'a ToolDefinition>,
}

/// Members that configuration cannot change: without them there is no answer that could be read.
const FIXED: &[&str] = &["model", "messages", "stream", "tools"];

impl Body<'_> {
    /// Members that stand before the tools.
    fn settings(&self) -> Map<String, Value> {
        let compat = &self.spec.compat;
        let mut settings = Map::new();
        if compat.supports_usage_in_streaming {
            settings.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
        if compat.supports_store {
            settings.insert("store".to_owned(), json!(false));
        }
        settings.insert(compat.max_tokens_field.as_str().to_owned(), json!(self.max_tokens));
        let configured = self.spec.sampling.at(self.level);
        settings.into_iter().filter_map(|(name, value)| overridden(name, value, &configured)).collect()
    }

    /// Members that stand after the tools; what is configured comes last.
    fn wishes(&self) -> Map<String, Value> {
        let compat = &self.spec.compat;
        let mut wishes = Map::new();
        if compat.zai_tool_stream && !self.tools.is_empty() {
            wishes.insert("tool_stream".to_owned(), json!(true));
        }
        if let Some(priority) = &compat.vllm_priority {
            wishes.insert("priority".to_owned(), priority.clone());
        }
        let thinking = thinking_fields(self.spec, self.level, self.max_tokens);
        wishes.extend(thinking.into_iter().map(|(name, value)| (name.to_owned(), value)));
        if let Some(routing) = &compat.open_router_routing {
            wishes.insert("provider".to_owned(), routing.clone());
        }
        if let Some(routing) = &compat.vercel_gateway_routing {
            wishes.insert("providerOptions".to_owned(), json!({"gateway": routing}));
        }
        let configured = self.spec.sampling.at(self.level);
        let settings = self.settings();
        let mut wishes: Map<String, Value> =
            wishes.into_iter().filter_map(|(name, value)| overridden(name, value, &configured)).collect();
        for (name, value) in configured {
            let is_placed = settings.contains_key(&name) || wishes.contains_key(&name);
            if !is_placed && !value.is_null() && !FIXED.contains(&name.as_str()) {
                wishes.insert(name, value);
            }
        }
        wishes
    }

    fn has_calls(&self) -> bool {
        self.messages.iter().any(|message| matches!(message, WireMessage::ToolResult { .. }))
    }
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let compat = &self.spec.compat;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &self.spec.model.id)?;
        map.serialize_entry("messages", &self.messages)?;
        map.serialize_entry("stream", &true)?;
        for (name, value) in self.settings() {
            map.serialize_entry(&name, &value)?;
        }
        if !self.tools.is_empty() || (compat.requires_tools_with_tool_history && self.has_calls()) {
            let tools: Vec<Tool<'_>> = self.tools.iter().map(|tool| Tool(tool)).collect();
            map.serialize_entry("tools", &tools)?;
        }
        for (name, value) in self.wishes() {
            map.serialize_entry(&name, &value)?;
        }
        map.end()
    }
}

/// Puts a configured value in the place of ours; `null` takes the member away.
fn overridden(name: String, value: Value, configured: &Map<String, Value>) -> Option<(String, Value)> {
    match configured.get(&name) {
        Some(Value::Null) => None,
        Some(other) => Some((name, other.clone())),
        None => Some((name, value)),
    }
}

struct Tool<'a>(&'a ToolDefinition);

impl Serialize for Tool<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            description: &'a str,
            parameters: &'a Value,
        }
        let ToolDefinition { name, description, parameters, .. } = self.0;
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("type", "function")?;
        map.serialize_entry("function", &Function { name, description, parameters })?;
        map.end()
    }
}

#[cfg(test)]
mod tests;

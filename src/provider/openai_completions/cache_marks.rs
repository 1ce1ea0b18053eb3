//! Marks that tell a provider up to where a prompt is to be cached, in Anthropic's notation, which OpenRouter and other
//! gateways take over Chat Completions.
//!
//! Three places are marked, as in pi: the system prompt, the last tool, and the last text of the conversation.

use serde_json::{Value, json};

/// Sets the marks in the body of a request.
pub(super) fn set(body: &mut Value) {
    if let Some(tool) = body["tools"].as_array_mut().and_then(|tools| tools.last_mut()) {
        tool["cache_control"] = mark();
    }
    let Some(messages) = body["messages"].as_array_mut() else { return };
    let is_system = |message: &Value| message["role"] == "system" || message["role"] == "developer";
    if let Some(system) = messages.iter_mut().find(|message| is_system(message)) {
        mark_text(system);
    }
    // Messages without text cannot be marked; the one before them then is.
    messages.iter_mut().rev().filter(|message| !is_system(message)).any(mark_text);
}

fn mark() -> Value {
    json!({"type": "ephemeral"})
}

/// Marks the last text of a message; tells whether it has one.
fn mark_text(message: &mut Value) -> bool {
    let content = &mut message["content"];
    if let Some(text) = content.as_str().filter(|text| !text.is_empty()) {
        *content = json!([{"type": "text", "text": text, "cache_control": mark()}]);
        return true;
    }
    let parts = content.as_array_mut().into_iter().flatten().rev();
    parts.filter(|part| part["type"] == "text").take(1).map(|part| part["cache_control"] = mark()).count() > 0
}

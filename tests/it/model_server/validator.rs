//! What a strict provider refuses about a request. Each finding is one line; an empty list means that it is legal.

use std::collections::HashSet;

use serde_json::Value;

mod anthropic;

use super::images::{self, Images};
pub(crate) use anthropic::anthropic;

/// Context windows of the models of the recordings.
const WINDOWS: &[(&str, u64)] = &[("claude", 200_000), ("plain", 128_000), ("thinker", 128_000), ("small", 20_000)];
/// Characters of a token, for the check of the window.
const CHARS_PER_TOKEN: u64 = 4;
/// Members of a request that servers without quirks know, as far as they are ever sent.
const MEMBERS: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "store",
    "max_tokens",
    "max_completion_tokens",
    "tools",
    "tool_choice",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "reasoning_effort",
];
/// Members of a message. `reasoning_content` is what servers of thinking models want back.
const MESSAGE_MEMBERS: &[&str] =
    &["role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "reasoning", "reasoning_text"];
/// Longest tool-call id and tool name that providers accept.
const MAX_ID: usize = 64;

/// Checks a Chat Completions request.
pub(crate) fn chat(request: &Value) -> Vec<String> {
    let mut check = Check::default();
    check.envelope(request);
    match request["messages"].as_array() {
        Some(messages) if !messages.is_empty() => check.messages(messages),
        _ => check.report("messages is missing or empty"),
    }
    check.all()
}

#[derive(Default)]
struct Check {
    found: Vec<String>,
    /// Ids of the calls of the whole conversation.
    ids: HashSet<String>,
    /// Calls of the assistant message right before that have no result yet.
    open: Vec<String>,
    images: Images,
}

impl Check {
    fn all(mut self) -> Vec<String> {
        self.found.extend(self.images.findings());
        self.found
    }

    fn report(&mut self, finding: impl Into<String>) {
        self.found.push(finding.into());
    }

    fn envelope(&mut self, request: &Value) {
        if request["model"].as_str().is_none_or(str::is_empty) {
            self.report("model is missing");
        }
        if request.get("max_tokens").is_some() && request.get("max_completion_tokens").is_some() {
            self.report("max_tokens and max_completion_tokens exclude each other");
        }
        if request.get("stream_options").is_some() && request["stream"] != Value::Bool(true) {
            self.report("stream_options without stream");
        }
        let most = ["max_tokens", "max_completion_tokens"].iter().find_map(|name| request.get(name));
        match most.map(|most| most.as_u64().filter(|tokens| *tokens > 0)) {
            Some(None) => self.report("the most tokens of the response are no positive number"),
            Some(Some(most)) => self.found.extend(over_window(request, most)),
            None => {}
        }
        if request["model"] == "plain" {
            self.members("the request", request, MEMBERS);
        }
        if let Some(tools) = request.get("tools") {
            self.tools(tools);
        }
    }

    fn members(&mut self, place: &str, value: &Value, known: &[&str]) {
        for key in value.as_object().into_iter().flat_map(|members| members.keys()) {
            if !known.contains(&key.as_str()) {
                self.report(format!("{place} has the unknown member {key}"));
            }
        }
    }

    fn tools(&mut self, tools: &Value) {
        let Some(tools) = tools.as_array().filter(|tools| !tools.is_empty()) else {
            return self.report("tools is not a non-empty array");
        };
        let mut names = HashSet::new();
        for tool in tools {
            let function = &tool["function"];
            let name = function["name"].as_str().unwrap_or_default();
            if tool["type"] != "function" || !is_legal_id(name) {
                self.report(format!("tool {name:?} is no function with a legal name"));
            }
            if !is_object_schema(&function["parameters"]) {
                self.report(format!("parameters of tool {name} are no object schema"));
            }
            if !names.insert(name) {
                self.report(format!("tool {name} is listed twice"));
            }
        }
    }

    fn messages(&mut self, messages: &[Value]) {
        let mut before = "";
        for (index, message) in messages.iter().enumerate() {
            let role = message["role"].as_str().unwrap_or_default();
            if index == 0 && !matches!(role, "system" | "developer") {
                self.report(format!("the first message is {role:?}, not the system prompt"));
            }
            if role != "tool" {
                self.results_complete(index);
            }
            self.members(&format!("message {index}"), message, MESSAGE_MEMBERS);
            if role != "assistant" && message.get("tool_calls").is_some() {
                self.report(format!("message {index} of the role {role:?} has tool calls"));
            }
            match role {
                "system" | "developer" | "user" => self.content(index, message),
                "assistant" => self.assistant(index, message, before),
                "tool" => self.result(index, message),
                other => self.report(format!("message {index} has the unknown role {other:?}")),
            }
            before = role;
        }
        self.results_complete(messages.len());
        if matches!(before, "assistant") {
            self.report("the last message is the assistant's: there is nothing to answer");
        }
    }

    fn assistant(&mut self, index: usize, message: &Value, before: &str) {
        if before == "assistant" {
            self.report(format!("message {index} is the second assistant message in a row"));
        }
        let calls = message.get("tool_calls");
        if message["content"].is_null() && calls.is_none() {
            self.report(format!("assistant message {index} has neither content nor tool calls"));
        }
        if !message["content"].is_null() {
            self.content(index, message);
        }
        match calls.map(Value::as_array) {
            None => {}
            Some(Some(calls)) if !calls.is_empty() => calls.iter().for_each(|call| self.call(index, call)),
            Some(_) => self.report(format!("tool_calls of message {index} is not a non-empty array")),
        }
    }

    fn call(&mut self, index: usize, call: &Value) {
        let id = call["id"].as_str().unwrap_or_default();
        if !is_legal_id(id) {
            self.report(format!("message {index} has a call with the illegal id {id:?}"));
        }
        if !self.ids.insert(id.to_owned()) {
            self.report(format!("message {index} has a call with the id {id}, which an earlier call has"));
        }
        let name = call.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
        if call["type"] != "function" || !is_legal_id(name) {
            self.report(format!("call {id} is no function call with a legal name: {name:?}"));
        }
        let arguments = call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
        if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
            self.report(format!("arguments of call {id} are no JSON object: {arguments:?}"));
        }
        self.open.push(id.to_owned());
    }

    fn result(&mut self, index: usize, message: &Value) {
        let id = message["tool_call_id"].as_str().unwrap_or_default();
        match self.open.iter().position(|open| open == id) {
            Some(place) => {
                self.open.remove(place);
            }
            None => self.report(format!(
                "message {index} is a result for {id:?}, which is no open call of the assistant message before it"
            )),
        }
        self.content(index, message);
    }

    fn results_complete(&mut self, index: usize) {
        for id in std::mem::take(&mut self.open) {
            self.report(format!("call {id} has no result before message {index}"));
        }
    }

    /// Content is a text that is not empty, or parts of which none is empty.
    fn content(&mut self, index: usize, message: &Value) {
        match &message["content"] {
            Value::String(text) if !text.is_empty() => {}
            Value::Array(parts) if !parts.is_empty() => {
                for part in parts {
                    self.part(&format!("message {index}"), part);
                }
            }
            other => self.report(format!("content of message {index} is empty or of the wrong type: {other}")),
        }
    }

    fn part(&mut self, place: &str, part: &Value) {
        let legal = match part["type"].as_str() {
            Some("text") => part["text"].as_str().is_some_and(|text| !text.is_empty()),
            Some("image_url") => match part.pointer("/image_url/url").and_then(Value::as_str) {
                Some(url) => return self.images.add(images::of_url(url)),
                None => false,
            },
            _ => false,
        };
        if !legal {
            let shown: String = part.to_string().chars().take(120).collect();
            self.report(format!("{place} has an empty or illegal part: {shown}"));
        }
    }
}

/// Properties are schemas, and only they are required.
fn is_object_schema(schema: &Value) -> bool {
    let properties = schema.get("properties").map(Value::as_object);
    let is_required = |name: &Value| name.as_str().is_some_and(|name| schema["properties"].get(name).is_some());
    schema["type"] == "object"
        && properties
            .is_none_or(|all| all.is_some_and(|all| all.values().all(|one| one.is_object() || one.is_boolean())))
        && schema.get("required").is_none_or(|all| all.as_array().is_some_and(|all| all.iter().all(is_required)))
}

/// Says what is too much where prompt and response together might not fit a model that is known.
fn over_window(request: &Value, most: u64) -> Option<String> {
    let (_, window) = WINDOWS.iter().find(|(known, _)| request["model"] == *known)?;
    let prompt =
        ["messages", "system", "tools"].iter().map(|part| chars(&request[*part])).sum::<u64>() / CHARS_PER_TOKEN;
    let is_over = prompt + most > *window;
    is_over.then(|| format!("the prompt's {prompt} tokens and max_tokens {most} exceed the window of {window}"))
}

/// Counts the characters of all texts but those of images.
fn chars(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.chars().count() as u64,
        Value::Array(items) => items.iter().map(chars).sum(),
        Value::Object(members) if !members.get("type").is_some_and(|kind| kind == "image" || kind == "image_url") => {
            members.values().map(chars).sum()
        }
        _ => 0,
    }
}

fn is_legal_id(id: &str) -> bool {
    (1..=MAX_ID).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(messages: Value, expected: &[&str]) {
        assert_eq!(chat(&json!({"model": "m", "messages": messages})), expected);
    }

    fn calls(ids: &[&str]) -> Value {
        let calls: Vec<_> = ids
            .iter()
            .map(|id| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}}))
            .collect();
        json!({"role": "assistant", "content": null, "tool_calls": calls})
    }

    fn result(id: &str) -> Value {
        json!({"role": "tool", "content": "x", "tool_call_id": id})
    }

    fn system() -> Value {
        json!({"role": "system", "content": "s"})
    }

    fn user() -> Value {
        json!({"role": "user", "content": "u"})
    }

    #[test]
    fn legal_conversations_pass() {
        check(json!([system(), user()]), &[]);
        check(json!([system(), user(), calls(&["a", "b"]), result("b"), result("a"), user()]), &[]);
        check(json!([system(), user(), calls(&["a"]), result("a"), calls(&["b"]), result("b")]), &[]);
        check(json!([system(), {"role": "user", "content": [{"type": "text", "text": "u"}]}]), &[]);
    }

    #[test]
    fn calls_and_results_pair_up() {
        check(
            json!([system(), user(), calls(&["a"])]),
            &[
                "call a has no result before message 3",
                "the last message is the assistant's: there is nothing to answer",
            ],
        );
        check(json!([system(), user(), calls(&["a"]), user()]), &["call a has no result before message 3"]);
        check(
            json!([system(), user(), result("a")]),
            &["message 2 is a result for \"a\", which is no open call of the assistant message before it"],
        );
        check(
            json!([system(), user(), calls(&["a"]), result("a"), result("a")]),
            &["message 4 is a result for \"a\", which is no open call of the assistant message before it"],
        );
        check(
            json!([system(), user(), calls(&["a"]), result("a"), calls(&["a"]), result("a")]),
            &["message 4 has a call with the id a, which an earlier call has"],
        );
        check(
            json!([system(), user(), calls(&["a|b"]), result("a|b")]),
            &["message 2 has a call with the illegal id \"a|b\""],
        );
    }

    #[test]
    fn roles_and_contents_are_checked() {
        check(json!([user()]), &["the first message is \"user\", not the system prompt"]);
        check(
            json!([system(), {"role": "user", "content": ""}]),
            &["content of message 1 is empty or of the wrong type: \"\""],
        );
        check(
            json!([system(), {"role": "user", "content": [{"type": "text", "text": ""}]}]),
            &["message 1 has an empty or illegal part: {\"type\":\"text\",\"text\":\"\"}"],
        );
        check(
            json!([system(), user(), {"role": "assistant", "content": null}, user()]),
            &["assistant message 2 has neither content nor tool calls"],
        );
        check(json!([]), &["messages is missing or empty"]);
    }

    #[test]
    fn tools_are_checked() {
        let request = |tools: Value| chat(&json!({"model": "m", "messages": [system(), user()], "tools": tools}));
        let tool = json!({"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}});
        assert_eq!(request(json!([tool])), Vec::<String>::new());
        assert_eq!(request(json!([])), ["tools is not a non-empty array"]);
        assert_eq!(request(json!([tool, tool])), ["tool read is listed twice"]);
        for (parameters, is_sane) in [
            (json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}), true),
            (json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}), false),
            (json!({"type": "object", "required": ["b"]}), false),
            (json!({"type": "object", "properties": {"a": "string"}}), false),
            (json!({"type": "object", "properties": ["a"]}), false),
            (json!({"type": "string"}), false),
            (json!(null), false),
        ] {
            let tool = json!({"type": "function", "function": {"name": "read", "parameters": parameters}});
            let expected: &[&str] = if is_sane { &[] } else { &["parameters of tool read are no object schema"] };
            assert_eq!(request(json!([tool])), expected, "{parameters}");
        }
    }

    #[test]
    fn members_and_the_window_are_checked() {
        let request = |model: &str, more: Value| {
            let mut request = json!({"model": model, "messages": [system(), user()]});
            request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            chat(&request)
        };
        let none = Vec::<String>::new();
        assert_eq!(request("plain", json!({"stream": true, "store": false, "max_tokens": 4096})), none);
        assert_eq!(request("plain", json!({"thinking": {}})), ["the request has the unknown member thinking"]);
        assert_eq!(request("other", json!({"thinking": {}, "max_tokens": 1_000_000})), none);
        assert_eq!(
            request("small", json!({"max_completion_tokens": 20_000})),
            ["the prompt's 3 tokens and max_tokens 20000 exceed the window of 20000"]
        );
        assert_eq!(request("m", json!({"max_tokens": 0})), ["the most tokens of the response are no positive number"]);
    }
}

//! What Anthropic's Messages API refuses: its rules as its reference has them, read strictly.

use std::collections::HashSet;

use serde_json::Value;

use super::{is_legal_id, over_window};

/// Members of a request; the API refuses others.
const MEMBERS: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "stream",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
    "service_tier",
];
/// Most cache markers of a request.
const MAX_MARKERS: usize = 4;
/// Least thinking budget.
const MIN_BUDGET: u64 = 1024;
/// Largest image, in bytes of base64.
const MAX_IMAGE: usize = 5 * 1024 * 1024;

/// Checks a request.
pub(crate) fn anthropic(request: &Value) -> Vec<String> {
    let mut check = Check { thinks: request.pointer("/thinking/type") == Some(&"enabled".into()), ..Check::default() };
    check.members("request", request, MEMBERS);
    if request["model"].as_str().is_none_or(str::is_empty) {
        check.report("model is missing");
    }
    check.limits(request);
    check.thinking(request);
    check.system(request.get("system"));
    if let Some(tools) = request.get("tools") {
        check.tools(tools);
    }
    match request["messages"].as_array() {
        Some(messages) if !messages.is_empty() => check.messages(messages),
        _ => check.report("messages is missing or empty"),
    }
    if check.markers > MAX_MARKERS {
        check.report(format!("{} cache markers, where {MAX_MARKERS} are the most", check.markers));
    }
    check.found
}

#[derive(Default)]
struct Check {
    found: Vec<String>,
    /// Thinking with a budget is on.
    thinks: bool,
    markers: usize,
    /// Ids of the calls of the whole conversation.
    ids: HashSet<String>,
    /// Calls of the assistant message right before that have no result yet.
    open: Vec<String>,
}

impl Check {
    fn report(&mut self, finding: impl Into<String>) {
        self.found.push(finding.into());
    }

    fn members(&mut self, place: &str, value: &Value, known: &[&str]) {
        for key in value.as_object().into_iter().flat_map(|members| members.keys()) {
            if !known.contains(&key.as_str()) {
                self.report(format!("{place} has the unknown member {key}"));
            }
        }
    }

    fn limits(&mut self, request: &Value) {
        let Some(most) = request["max_tokens"].as_u64().filter(|tokens| *tokens > 0) else {
            return self.report("max_tokens is missing");
        };
        self.found.extend(over_window(request, most));
    }

    fn thinking(&mut self, request: &Value) {
        let Some(thinking) = request.get("thinking") else { return };
        let budget = thinking["budget_tokens"].as_u64();
        match (thinking["type"].as_str(), budget) {
            (Some("enabled"), Some(budget)) if budget >= MIN_BUDGET => {
                if request["max_tokens"].as_u64().is_some_and(|most| most <= budget) {
                    self.report("max_tokens is not greater than the thinking budget");
                }
            }
            (Some("disabled" | "adaptive"), None) => {}
            _ => self.report(format!("thinking is illegal: {thinking}")),
        }
        let is_on = thinking["type"] != "disabled";
        if is_on && request.get("temperature").is_some_and(|temperature| temperature.as_f64() != Some(1.0)) {
            self.report("temperature beside thinking");
        }
    }

    fn system(&mut self, system: Option<&Value>) {
        match system {
            None => {}
            Some(Value::String(text)) if !text.trim().is_empty() => {}
            Some(Value::Array(parts)) if !parts.is_empty() => {
                for part in parts {
                    if part["type"] == "text" {
                        self.part("system", part);
                    } else {
                        self.report(format!("system has a part of type {}", part["type"]));
                    }
                }
            }
            Some(_) => self.report("system is empty or of the wrong type"),
        }
    }

    fn tools(&mut self, tools: &Value) {
        let Some(tools) = tools.as_array().filter(|tools| !tools.is_empty()) else {
            return self.report("tools is not a non-empty array");
        };
        let mut names = HashSet::new();
        for tool in tools {
            let known = ["name", "description", "input_schema", "eager_input_streaming", "cache_control"];
            self.members("tool", tool, &known);
            self.marker("tool", tool);
            let name = tool["name"].as_str().unwrap_or_default();
            if !is_legal_id(name) {
                self.report(format!("tool {name:?} has no legal name"));
            }
            if tool["input_schema"]["type"] != "object" {
                self.report(format!("input_schema of tool {name} is no object schema"));
            }
            if !names.insert(name) {
                self.report(format!("tool {name} is listed twice"));
            }
        }
    }

    /// User and assistant take turns; the results of a turn's calls begin the next user message.
    fn messages(&mut self, messages: &[Value]) {
        let mut expected = "user";
        for (index, message) in messages.iter().enumerate() {
            let place = format!("message {index}");
            self.members(&place, message, &["role", "content"]);
            if message["role"] != expected {
                self.report(format!("{place} is {}, where {expected} was due", message["role"]));
            }
            let is_user = message["role"] == "user";
            match &message["content"] {
                Value::String(text) if !text.trim().is_empty() => {}
                Value::Array(parts) if !parts.is_empty() => self.parts(&place, is_user, parts),
                other => self.report(format!("content of {place} is empty or of the wrong type: {other}")),
            }
            if is_user {
                self.results_complete(index + 1);
            }
            expected = if is_user { "assistant" } else { "user" };
        }
        self.results_complete(messages.len());
        if expected == "user" {
            self.report("the last message is the assistant's: there is nothing to answer");
        }
        if self.thinks {
            self.turn_begins_with_thinking(messages);
        }
    }

    /// While results of calls are sent, the model's turn goes on: it must have begun with thinking where thinking is
    /// on.
    fn turn_begins_with_thinking(&mut self, messages: &[Value]) {
        let has_results = |message: &Value| message["content"][0]["type"] == "tool_result";
        let mut first = None;
        let mut at = messages.len();
        while at >= 2 && has_results(&messages[at - 1]) {
            at -= 2;
            first = Some(at);
        }
        let Some(first) = first else { return };
        let kind = &messages[first]["content"][0]["type"];
        if kind != "thinking" && kind != "redacted_thinking" {
            self.report(format!("message {first} begins a turn with {kind}, where thinking was due"));
        }
    }

    fn results_complete(&mut self, index: usize) {
        for id in std::mem::take(&mut self.open) {
            self.report(format!("call {id} has no result before message {index}"));
        }
    }

    fn parts(&mut self, place: &str, of_user: bool, parts: &[Value]) {
        let mut results_over = false;
        for part in parts {
            match part["type"].as_str() {
                Some("tool_use") if !of_user => self.tool_use(place, part),
                Some("tool_result") if of_user => {
                    if results_over {
                        self.report(format!("{place} has a result after other content"));
                    }
                    self.tool_result(place, part);
                }
                Some("thinking") if !of_user => self.thought(place, part, &["thinking", "signature"]),
                Some("redacted_thinking") if !of_user => self.thought(place, part, &["data"]),
                Some("image") if !of_user => self.report(format!("{place} is the assistant's and has an image")),
                _ => self.part(place, part),
            }
            results_over |= part["type"] != "tool_result";
        }
    }

    /// Thinking goes back as it came: signed, and without a cache marker.
    fn thought(&mut self, place: &str, part: &Value, members: &[&str]) {
        self.members(place, part, &[&["type"], members].concat());
        let proof = members.last().map(|name| &part[*name]);
        if proof.and_then(Value::as_str).is_none_or(str::is_empty) {
            self.report(format!("{place} has thinking without a signature"));
        }
    }

    fn tool_use(&mut self, place: &str, part: &Value) {
        self.members(place, part, &["type", "id", "name", "input", "cache_control"]);
        self.marker(place, part);
        let id = part["id"].as_str().unwrap_or_default();
        if !is_legal_id(id) || !is_legal_id(part["name"].as_str().unwrap_or_default()) {
            self.report(format!("{place} has a call with an illegal id or name: {id:?} {}", part["name"]));
        }
        if !self.ids.insert(id.to_owned()) {
            self.report(format!("{place} has a call with the id {id}, which an earlier call has"));
        }
        if !part["input"].is_object() {
            self.report(format!("input of call {id} is no object: {}", part["input"]));
        }
        self.open.push(id.to_owned());
    }

    fn tool_result(&mut self, place: &str, part: &Value) {
        self.members(place, part, &["type", "tool_use_id", "content", "is_error", "cache_control"]);
        self.marker(place, part);
        let id = part["tool_use_id"].as_str().unwrap_or_default();
        match self.open.iter().position(|open| open == id) {
            Some(at) => {
                self.open.remove(at);
            }
            None => self.report(format!(
                "{place} is a result for {id:?}, which is no open call of the assistant message before it"
            )),
        }
        match &part["content"] {
            Value::String(text) if !text.trim().is_empty() => {}
            Value::Array(parts) if !parts.is_empty() => parts.iter().for_each(|part| self.part(place, part)),
            other => self.report(format!("{place} has a result without content: {other}")),
        }
    }

    fn part(&mut self, place: &str, part: &Value) {
        self.marker(place, part);
        let is_legal = match part["type"].as_str() {
            Some("text") => {
                self.members(place, part, &["type", "text", "cache_control"]);
                part["text"].as_str().is_some_and(|text| !text.trim().is_empty())
            }
            Some("image") => {
                self.members(place, part, &["type", "source", "cache_control"]);
                is_image(&part["source"])
            }
            _ => false,
        };
        if !is_legal {
            let shown: String = part.to_string().chars().take(120).collect();
            self.report(format!("{place} has an empty or illegal part: {shown}"));
        }
    }

    fn marker(&mut self, place: &str, part: &Value) {
        let Some(marker) = part.get("cache_control") else { return };
        self.markers += 1;
        if marker["type"] != "ephemeral" || marker.get("ttl").is_some_and(|ttl| ttl != "5m" && ttl != "1h") {
            self.report(format!("{place} has the illegal cache marker {marker}"));
        }
    }
}

fn is_image(source: &Value) -> bool {
    let kind = source["media_type"].as_str().unwrap_or_default();
    let size = source["data"].as_str().map_or(0, str::len);
    source["type"] == "base64"
        && ["image/jpeg", "image/png", "image/gif", "image/webp"].contains(&kind)
        && (1..=MAX_IMAGE).contains(&size)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(messages: Value, expected: &[&str]) {
        let request = json!({"model": "m", "max_tokens": 5000, "messages": messages});
        assert_eq!(anthropic(&request), expected);
    }

    #[track_caller]
    fn check_with(members: Value, messages: Value, expected: &[&str]) {
        let mut request = json!({"model": "claude", "max_tokens": 5000, "messages": messages});
        request.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        assert_eq!(anthropic(&request), expected);
    }

    fn user() -> Value {
        json!({"role": "user", "content": "u"})
    }

    fn of_user(parts: Value) -> Value {
        json!({"role": "user", "content": parts})
    }

    fn calls(ids: &[&str]) -> Value {
        let parts: Vec<_> =
            ids.iter().map(|id| json!({"type": "tool_use", "id": id, "name": "read", "input": {}})).collect();
        json!({"role": "assistant", "content": parts})
    }

    fn result(id: &str) -> Value {
        json!({"type": "tool_result", "tool_use_id": id, "content": "x", "is_error": false})
    }

    fn text() -> Value {
        json!({"type": "text", "text": "t"})
    }

    #[test]
    fn calls_and_results_pair_up() {
        check(json!([user(), calls(&["a", "b"]), of_user(json!([result("b"), result("a"), text()]))]), &[]);
        check(
            json!([user(), calls(&["a", "b"]), of_user(json!([result("a")]))]),
            &["call b has no result before message 3"],
        );
        check(
            json!([user(), calls(&["a", "b"]), of_user(json!([result("a"), text(), result("b")]))]),
            &["message 2 has a result after other content"],
        );
        check(
            json!([user(), calls(&["a"]), of_user(json!([result("a")])), calls(&["a"]), of_user(json!([result("a")]))]),
            &["message 3 has a call with the id a, which an earlier call has"],
        );
        check(
            json!([of_user(json!([result("a")]))]),
            &["message 0 is a result for \"a\", which is no open call of the assistant message before it"],
        );
    }

    #[test]
    fn roles_take_turns_and_nothing_is_blank() {
        check(json!([user(), user()]), &["message 1 is \"user\", where assistant was due"]);
        check(
            json!([user(), {"role": "assistant", "content": [text()]}]),
            &["the last message is the assistant's: there is nothing to answer"],
        );
        let blank = json!({"type": "text", "text": " \n"});
        check(
            json!([of_user(json!([blank]))]),
            &["message 0 has an empty or illegal part: {\"type\":\"text\",\"text\":\" \\n\"}"],
        );
        check(json!([of_user(json!([]))]), &["content of message 0 is empty or of the wrong type: []"]);
    }

    #[test]
    fn thinking_is_signed_and_comes_first() {
        let thought = |part: Value| json!({"role": "assistant", "content": [part, text()]});
        let signed = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
        check(json!([user(), thought(signed.clone()), user()]), &[]);
        check(
            json!([user(), thought(json!({"type": "thinking", "thinking": "hm", "signature": ""})), user()]),
            &["message 1 has thinking without a signature"],
        );
        check(
            json!([user(), thought(json!({"type": "redacted_thinking", "data": ""})), user()]),
            &["message 1 has thinking without a signature"],
        );
        let on = json!({"thinking": {"type": "enabled", "budget_tokens": 2000}});
        let mut thoughtful = calls(&["a"]);
        thoughtful["content"].as_array_mut().unwrap().insert(0, signed);
        let results = || of_user(json!([result("a")]));
        check_with(on.clone(), json!([user(), thoughtful, results()]), &[]);
        check_with(
            on.clone(),
            json!([user(), calls(&["a"]), results()]),
            &["message 1 begins a turn with \"tool_use\", where thinking was due"],
        );
        check_with(on, json!([user(), calls(&["a"]), results(), {"role": "assistant", "content": "t"}, user()]), &[]);
    }

    #[test]
    fn limits() {
        let budget = |tokens: u64| json!({"thinking": {"type": "enabled", "budget_tokens": tokens}});
        check_with(budget(4999), json!([user()]), &[]);
        check_with(budget(5000), json!([user()]), &["max_tokens is not greater than the thinking budget"]);
        check_with(budget(7), json!([user()]), &["thinking is illegal: {\"type\":\"enabled\",\"budget_tokens\":7}"]);
        let warm = json!({"thinking": {"type": "adaptive"}, "temperature": 0.5});
        check_with(warm, json!([user()]), &["temperature beside thinking"]);
        check_with(
            json!({"max_tokens": 200_000}),
            json!([{"role": "user", "content": "x".repeat(40)}]),
            &["the prompt's 11 tokens and max_tokens 200000 exceed the window of 200000"],
        );
        check_with(json!({"store": false}), json!([user()]), &["request has the unknown member store"]);
    }

    #[test]
    fn cache_markers() {
        let marked = |marker: Value| json!({"type": "text", "text": "t", "cache_control": marker});
        let usual = || marked(json!({"type": "ephemeral"}));
        check(json!([of_user(json!([usual(), usual(), usual(), usual()]))]), &[]);
        check(
            json!([of_user(json!([usual(), usual(), usual(), usual(), usual()]))]),
            &["5 cache markers, where 4 are the most"],
        );
        check(
            json!([of_user(json!([marked(json!({"type": "for ever"}))]))]),
            &["message 0 has the illegal cache marker {\"type\":\"for ever\"}"],
        );
    }

    #[test]
    fn images() {
        let image = |kind: &str, data: &str| {
            of_user(json!([{"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}]))
        };
        check(json!([image("image/png", "QUJD")]), &[]);
        for wrong in
            [image("image/bmp", "QUJD"), image("image/png", ""), image("image/png", &"A".repeat(MAX_IMAGE + 1))]
        {
            let request = json!({"model": "m", "max_tokens": 1, "messages": [wrong]});
            assert_eq!(anthropic(&request).len(), 1);
        }
    }

    #[test]
    fn tools_are_checked() {
        let tool = json!({"name": "read", "input_schema": {"type": "object"}});
        check_with(json!({"tools": [tool]}), json!([user()]), &[]);
        check_with(json!({"tools": []}), json!([user()]), &["tools is not a non-empty array"]);
        check_with(json!({"tools": [tool, tool]}), json!([user()]), &["tool read is listed twice"]);
    }
}

//! One spelling for what two runs say differently without meaning anything: times, ids, paths, wording.
//!
//! Everything here applies to both sides alike. Prompts and descriptions are each program's own wording; of a JSON
//! schema the names, types and required members are kept. Numbers are compared by value (`1` is `1.0`).

use std::collections::HashMap;
use std::path::Path;

use ring::digest::{SHA256, digest};
use serde_json::{Map, Number, Value, json};

use crate::harness::Home;

/// Longest string that the recordings keep whole, and what they keep of a longer one at both ends, in characters.
const LONGEST: usize = 4000;
const KEPT: usize = 1200;

/// How names of files of full output begin in the recordings; a random part and the ending follow.
const FULL_OUTPUT: &str = "/tmp/pi-bash-";

/// The names of one run that are rewritten.
pub(super) struct Names {
    /// Texts and what stands for them, the longest first.
    texts: Vec<(String, String)>,
    /// Entry ids by their place in the session files.
    entries: HashMap<String, String>,
    /// Labels given.
    count: usize,
}

impl Names {
    /// Returns the names of a recording: its paths are placeholders already.
    pub(super) fn recorded(sessions: &[Vec<Value>], is_left_out: impl Fn(&Value) -> bool) -> Self {
        let mut names = Self { texts: Vec::new(), entries: HashMap::new(), count: 0 };
        names.add_sessions(sessions, is_left_out);
        names
    }

    /// Returns the names of a run in a home.
    pub(super) fn played(
        home: &Home,
        port: u16,
        sessions: &[Vec<Value>],
        is_left_out: impl Fn(&Value) -> bool,
    ) -> Self {
        let path = |path: &Path| path.to_str().expect("a UTF-8 path").to_owned();
        let encoded = format!("--{}--", path(&home.cwd()).trim_start_matches('/').replace(['/', '\\', ':'], "-"));
        let texts = vec![
            (path(&home.sessions()), "<AGENT>/sessions".to_owned()),
            (path(&home.state().join("agentd/outputs/bash-")), FULL_OUTPUT.to_owned()),
            (encoded, "--<CWD-ENCODED>--".to_owned()),
            (path(&home.cwd()), "<CWD>".to_owned()),
            (path(&home.pi_agent()), "<AGENT>".to_owned()),
            (path(&home.user()), "<HOME>".to_owned()),
            (format!("127.0.0.1:{port}"), "127.0.0.1:<PORT>".to_owned()),
        ];
        let mut names = Self { texts, entries: HashMap::new(), count: 0 };
        names.add_sessions(sessions, is_left_out);
        names
    }

    fn add_sessions(&mut self, sessions: &[Vec<Value>], is_left_out: impl Fn(&Value) -> bool) {
        for (file, lines) in sessions.iter().enumerate() {
            let Some((header, entries)) = lines.split_first() else { continue };
            if let Some(id) = header["id"].as_str() {
                self.texts.insert(0, (id.to_owned(), format!("<SESSION {}>", file + 1)));
            }
            for entry in entries {
                if let Some(id) = entry["id"].as_str() {
                    // An entry that is left out has no place of its own: what hangs from it hangs from its parent.
                    let parent =
                        entry["parentId"].as_str().and_then(|id| self.entries.get(id)).filter(|_| is_left_out(entry));
                    if let Some(parent) = parent.cloned() {
                        self.entries.insert(id.to_owned(), parent);
                        continue;
                    }
                    let label = format!("<entry {}>", self.count + 1);
                    if !self.entries.contains_key(id) {
                        self.count += 1;
                        self.entries.insert(id.to_owned(), label);
                    }
                }
            }
        }
    }

    /// Returns a value in the one spelling.
    pub(super) fn rewrite(&self, value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let rewritten = members.iter().map(|(key, value)| (key.clone(), self.member(key, value)));
                Value::Object(rewritten.collect())
            }
            Value::Array(items) => Value::Array(items.iter().map(|item| self.rewrite(item)).collect()),
            Value::String(text) => Value::String(self.text(text)),
            Value::Number(number) => Value::Number(by_value(number)),
            other => other.clone(),
        }
    }

    fn member(&self, key: &str, value: &Value) -> Value {
        match key {
            "timestamp" => json!(if value.is_string() { "<ISO time>" } else { "<ms>" }),
            "durationMs" => json!("<ms>"),
            "wall_time_seconds" => json!("<s>"),
            "sections" => json!("<sections>"),
            "toolsAdded" | "tools" => Value::Array(value.as_array().into_iter().flatten().map(tool).collect()),
            _ => self.rewrite(value),
        }
    }

    fn text(&self, text: &str) -> String {
        if let Some(label) = self.entries.get(text) {
            return label.clone();
        }
        let mut text = text.to_owned();
        for (name, placeholder) in &self.texts {
            text = text.replace(name, placeholder);
        }
        elided(full_output(session_path(&text).unwrap_or(text)))
    }
}

/// Returns what of a tool is compared: its name and the shape of its parameters.
fn tool(tool: &Value) -> Value {
    // Anthropic has the members in the tool itself, and calls the parameters a schema of its input.
    let function = tool.get("function").unwrap_or(tool);
    let parameters = if function.get("input_schema").is_some() { "input_schema" } else { "parameters" };
    let mut out = Map::new();
    for (key, value) in tool.as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "function" | "description" | "parameters" | "input_schema") {
            out.insert(key.clone(), value.clone());
        }
    }
    out.insert("name".to_owned(), function["name"].clone());
    out.insert(parameters.to_owned(), shape(&function[parameters]));
    for key in function.as_object().into_iter().flat_map(Map::keys) {
        if !matches!(key.as_str(), "name" | "description" | "parameters" | "input_schema") {
            out.insert(key.clone(), function[key].clone());
        }
    }
    Value::Object(out)
}

/// Returns the names, types and required members of a JSON schema.
fn shape(schema: &Value) -> Value {
    let mut out = Map::new();
    out.insert("type".to_owned(), schema["type"].clone());
    if let Some(required) = schema["required"].as_array() {
        let mut required = required.clone();
        required.sort_by_key(Value::to_string);
        out.insert("required".to_owned(), json!(required));
    }
    if let Some(properties) = schema["properties"].as_object() {
        let mut names: Vec<_> = properties.iter().collect();
        names.sort_by_key(|(name, _)| *name);
        let properties: Map<_, _> = names.into_iter().map(|(name, schema)| (name.clone(), shape(schema))).collect();
        out.insert("properties".to_owned(), Value::Object(properties));
    }
    if let Some(items) = schema.get("items") {
        out.insert("items".to_owned(), shape(items));
    }
    Value::Object(out)
}

/// Numbers that are equal in JSON's sense get one spelling: whole ones without a fraction.
fn by_value(number: &Number) -> Number {
    let whole = number.as_f64().filter(|value| value.fract() == 0.0 && value.abs() < 9e15);
    #[expect(clippy::cast_possible_truncation, reason = "whole and small, as just checked")]
    whole.map_or_else(|| number.clone(), |value| Number::from(value as i64))
}

/// Replaces the random part of a file of full output.
fn full_output(text: String) -> String {
    let Some((before, rest)) = text.split_once(FULL_OUTPUT) else { return text };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    let random = if rest.starts_with(".log") { "<RAND>" } else { "" };
    format!("{before}{FULL_OUTPUT}{random}{rest}")
}

/// Returns a session file's path with its creation time and id replaced.
fn session_path(text: &str) -> Option<String> {
    let (folder, name) = text.rsplit_once('/')?;
    let (time, id) = name.strip_suffix(".jsonl")?.split_once('_')?;
    let is_time = time.len() == "2026-11-30T10-08-06-000Z".len() && time.ends_with('Z');
    is_time.then(|| format!("{folder}/<time>_{id}.jsonl"))
}

/// Returns a long string as the recordings keep it: both ends, the length, and a hash of the whole.
fn elided(text: String) -> String {
    let count = text.chars().count();
    if count <= LONGEST || text.contains("<<<elided: ") {
        return text;
    }
    let hash: String =
        digest(&SHA256, text.as_bytes()).as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let head: String = text.chars().take(KEPT).collect();
    let tail: String = text.chars().skip(count - KEPT).collect();
    format!("{head}<<<elided: {count} chars in all, sha256 {hash}>>>{tail}")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn names() -> Names {
        let lines = [
            json!({"type": "session", "id": "u-1"}),
            json!({"id": "aaaa0001", "parentId": null}),
            json!({"id": "left", "parentId": "aaaa0001"}),
            json!({"id": "aaaa0002", "parentId": "left"}),
        ];
        Names::recorded(&[lines.to_vec()], |entry| entry["id"] == "left")
    }

    #[track_caller]
    fn check(value: Value, expected: Value) {
        assert_eq!(names().rewrite(&value), expected);
    }

    #[test]
    fn ids_times_and_paths_are_rewritten() {
        check(json!({"parentId": "aaaa0001", "timestamp": 5}), json!({"parentId": "<entry 1>", "timestamp": "<ms>"}));
        check(json!({"id": "aaaa0002", "parentId": "left"}), json!({"id": "<entry 2>", "parentId": "<entry 1>"}));
        check(json!("/s/2026-11-30T10-08-06-000Z_u-1.jsonl"), json!("/s/<time>_<SESSION 1>.jsonl"));
        check(json!({"timestamp": "2026", "cost": 1.0}), json!({"timestamp": "<ISO time>", "cost": 1}));
    }

    #[test]
    fn of_tools_name_and_shape_stay() {
        let parameters = json!({"type": "object", "properties": {"p": {"type": "string", "description": "d"}}});
        let expected = json!([{
            "type": "function", "name": "read",
            "parameters": {"type": "object", "properties": {"p": {"type": "string"}}},
        }]);
        let function = json!({"name": "read", "description": "d", "parameters": parameters});
        check(json!({"tools": [{"type": "function", "function": function}]}), json!({"tools": expected}));
        let direct = json!({"name": "read", "description": "d", "input_schema": parameters, "eager": true});
        let schema = json!({"type": "object", "properties": {"p": {"type": "string"}}});
        let expected = json!([{"name": "read", "input_schema": schema, "eager": true}]);
        check(json!({"tools": [direct]}), json!({"tools": expected}));
    }

    #[test]
    fn long_strings_are_elided_as_in_the_recordings() {
        let lines: Vec<_> = (1..=2000).map(|number| format!("l{number}")).collect();
        let text = format!("{}\n\n[Showing lines 1-2000 of 2501. Use offset=2001 to continue.]", lines.join("\n"));
        assert!(elided(text).contains("<<<elided: 10954 chars in all, sha256 17dd02aca8722bb8>>>"));
    }
}

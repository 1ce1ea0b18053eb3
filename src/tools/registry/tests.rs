use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::tools::test_support::{all_tools, call};

fn registry() -> ToolRegistry {
    ToolRegistry::builtin()
}

#[track_caller]
fn check_refused(enabled: &[&str], call: &ToolCall, expected: &str) {
    let enabled: Vec<_> = enabled.iter().map(|name| (*name).to_owned()).collect();
    let output = registry().validate(&enabled, call).unwrap_err();
    assert_eq!((output.is_error, output.first_text()), (true, expected));
    assert_eq!(output.result.details, Some(json!({})));
    assert_eq!(output.result.structured_content, None);
}

#[test]
fn unknown_and_disabled_tools() {
    check_refused(&["read"], &call("nosuchtool", json!({"a": 1})), "Tool nosuchtool not found");
    check_refused(&["write"], &call("read", json!({"path": "a"})), "Tool read not found");
}

#[test]
fn broken_arguments() {
    let mut broken = call("read", json!({}));
    broken.arguments_error = Some(
        "Unterminated string in JSON at position 15 (line 1 column 16)\n\nReceived arguments:\n{\"path\": \"ten.t"
            .to_owned(),
    );
    check_refused(
        &["read"],
        &broken,
        "Invalid arguments for tool \"read\": Unterminated string in JSON at position 15 (line 1 column 16)\n\n\
         Received arguments:\n{\"path\": \"ten.t",
    );
}

#[test]
fn arguments_that_do_not_fit() {
    for arguments in [json!({}), Value::Null] {
        check_refused(
            &["read"],
            &call("read", arguments),
            "Validation failed for tool \"read\":\n  - path: missing\n\nReceived arguments:\n{}",
        );
    }
    check_refused(
        &["write"],
        &call("write", json!({"content": [1], "path": "q"})),
        "Validation failed for tool \"write\":\n  - content: expected string\n\nReceived arguments:\n\
         {\n  \"content\": [\n    1\n  ],\n  \"path\": \"q\"\n}",
    );
}

#[test]
fn arguments_are_made_to_fit() {
    let call = call("read", json!("{\"path\": \"f\", \"offset\": \"2\", \"limit\": null, \"more\": 1}"));
    let invocation = registry().validate(&all_tools(), &call).unwrap();
    assert_eq!(invocation.name(), "read");
    assert_eq!(invocation.effect(), EffectClass::Read);
    assert_eq!(invocation.arguments(), &json!({"path": "f", "offset": 2}));
}

/// The schemas of a recorded system message, descriptions blanked.
fn recorded_tools() -> Vec<Value> {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pi/transcripts/grep-find-ls.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let messages = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut tools = messages.map(|line| line["msg"]["message"]["toolsAdded"].clone()).find(Value::is_array).unwrap();
    blank_descriptions(&mut tools);
    tools.as_array().unwrap().clone()
}

fn blank_descriptions(value: &mut Value) {
    match value {
        Value::Object(map) => map.iter_mut().for_each(|(name, value)| match value {
            Value::String(text) if name == "description" => text.clear(),
            other => blank_descriptions(other),
        }),
        Value::Array(items) => items.iter_mut().for_each(blank_descriptions),
        _ => {}
    }
}

#[test]
fn definitions_have_the_recorded_shape() {
    let names = all_tools();
    let definitions = registry().definitions(&names);
    let recorded = recorded_tools();
    assert_eq!(definitions.len(), names.len());
    for definition in definitions {
        let mut ours = serde_json::to_value(&definition).unwrap();
        blank_descriptions(&mut ours);
        let theirs = recorded.iter().find(|tool| tool["name"] == definition.name.as_str()).unwrap();
        // Compared as text, so that the order counts.
        assert_eq!(ours.to_string(), theirs.to_string());
    }
}

#[test]
fn everything_is_described() {
    fn check(schema: &Value, at: &str) {
        for (name, part) in schema["properties"].as_object().into_iter().flatten() {
            let description = part["description"].as_str().unwrap_or_default();
            assert!(!description.is_empty(), "{at}.{name} has no description");
            check(part, name);
            check(&part["items"], name);
        }
    }
    let registry = registry();
    for definition in registry.definitions(&all_tools()) {
        assert!(definition.description.len() > 60 && !definition.description.contains("  "), "{}", definition.name);
        check(&definition.parameters, &definition.name);
    }
    for usage in registry.usages(&all_tools()) {
        assert!(!usage.summary.is_empty() && !usage.habits.is_empty());
    }
}

use std::collections::HashSet;

use agentd_protocol::message::ThinkingLevel::{High, Low, Medium, Minimal, Off, Xhigh};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::provider::anthropic_messages::compat::Compat;
use crate::provider::demo;

/// The model of the recording.
fn claude() -> ModelSpec {
    let mut spec = demo::spec();
    spec.model.id = "claude".to_owned();
    spec.model.api = "anthropic-messages".to_owned();
    spec.model.provider = "fakeanth".to_owned();
    spec.model.reasoning = true;
    spec.model.input = vec!["text".to_owned(), "image".to_owned()];
    (spec.model.context_window, spec.model.max_tokens) = (200_000, 8192);
    spec
}

fn with_compat(compat: Value) -> ModelSpec {
    let mut spec = claude();
    spec.anthropic = Compat::resolve(Some(&compat));
    spec
}

fn messages(values: &[Value]) -> Vec<Arc<Message>> {
    values.iter().map(|value| Arc::new(serde_json::from_value(value.clone()).unwrap())).collect()
}

fn body_of(spec: &ModelSpec, values: &[Value], level: ThinkingLevel) -> Value {
    serde_json::from_slice(&body(spec, &messages(values), level)).unwrap()
}

#[track_caller]
fn check(spec: &ModelSpec, values: &[Value], expected: Value) {
    let mut sent = body_of(spec, values, Off);
    // Where the cache marker stands is tested apart.
    for message in sent["messages"].as_array_mut().unwrap() {
        for part in message["content"].as_array_mut().unwrap() {
            part.as_object_mut().unwrap().shift_remove("cache_control");
        }
    }
    // Compared as text: the order of members counts.
    assert_eq!(sent["messages"].to_string(), expected.to_string());
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

fn assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content, "api": "anthropic-messages", "provider": "fakeanth",
        "model": "claude", "stopReason": "stop"})
}

fn foreign(content: Value) -> Value {
    json!({"role": "assistant", "content": content, "api": "openai-completions", "provider": "fake",
        "model": "thinker", "stopReason": "stop"})
}

fn call(id: &str, arguments: Value) -> Value {
    json!({"type": "toolCall", "id": id, "name": "read", "arguments": arguments})
}

fn thinking(text: &str, signature: Option<&str>) -> Value {
    json!({"type": "thinking", "thinking": text, "thinkingSignature": signature})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "read", "content": [{"type": "text", "text": text}]})
}

fn sent_text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn sent_user(text: &str) -> Value {
    json!({"role": "user", "content": [sent_text(text)]})
}

fn sent_result(id: &str, text: &str, is_error: bool) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error})
}

fn sent_call(id: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": "read", "input": input})
}

fn system() -> Value {
    let tool = |name: &str| json!({"name": name, "description": "d", "parameters": {"type": "object"}});
    json!({"role": "system", "content": "", "sections": {"a": "A"}, "toolsAdded": [tool("read"), tool("bash")]})
}

#[test]
fn a_whole_body() {
    let body = body(&claude(), &messages(&[system(), user("go")]), High);
    let marker = json!({"type": "ephemeral"});
    let tool = |name: &str| {
        json!({"name": name, "description": "d", "eager_input_streaming": true,
            "input_schema": {"type": "object"}})
    };
    let mut last = tool("bash");
    last["cache_control"] = marker.clone();
    let expected = json!({
        "model": "claude",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "go", "cache_control": marker}]}],
        "stream": true,
        "system": [{"type": "text", "text": "A", "cache_control": marker}],
        "tools": [tool("read"), last],
        "max_tokens": 8192,
        "thinking": {"type": "enabled", "budget_tokens": 7168, "display": "summarized"},
    });
    assert_eq!(String::from_utf8(body).unwrap(), expected.to_string());
}

#[test]
fn thinking_by_level() {
    let adaptive = |map: Value| {
        let mut spec = with_compat(json!({"forceAdaptiveThinking": true}));
        spec.model.thinking_level_map = Some(map);
        spec
    };
    let wide = || {
        let mut spec = claude();
        spec.model.max_tokens = 64_000;
        spec
    };
    let narrow = |max_tokens| {
        let mut spec = claude();
        spec.model.max_tokens = max_tokens;
        spec
    };
    let plain = || {
        let mut spec = claude();
        spec.model.reasoning = false;
        spec
    };
    let budget = |tokens: u64| json!({"type": "enabled", "budget_tokens": tokens, "display": "summarized"});
    let chosen = || json!({"type": "adaptive", "display": "summarized"});
    let off = || json!({"type": "disabled"});
    for (name, spec, level, thinking, effort) in [
        // Recorded: the first two.
        ("high in 8192", claude(), High, budget(7168), None),
        ("off", claude(), Off, off(), None),
        ("minimal", wide(), Minimal, budget(1024), None),
        ("low", wide(), Low, budget(2048), None),
        ("medium", wide(), Medium, budget(8192), None),
        ("high", wide(), High, budget(16_384), None),
        ("no room for a budget", narrow(2000), High, off(), None),
        ("just room for one", narrow(2048), High, budget(1024), None),
        ("a model that cannot", plain(), High, Value::Null, None),
        ("adaptive", adaptive(json!({})), Medium, chosen(), Some("medium")),
        ("adaptive minimal", adaptive(json!({})), Minimal, chosen(), Some("low")),
        ("adaptive with words", adaptive(json!({"xhigh": "max"})), Xhigh, chosen(), Some("max")),
        ("adaptive off", adaptive(json!({})), Off, off(), None),
        ("always on", adaptive(json!({"off": null, "minimal": null})), Off, chosen(), Some("low")),
    ] {
        let sent = body_of(&spec, &[user("go")], level);
        assert_eq!(sent["thinking"], thinking, "{name}");
        let found = sent.pointer("/output_config/effort").and_then(Value::as_str);
        assert_eq!(found, effort, "{name}");
        let tokens = sent.pointer("/thinking/budget_tokens").and_then(Value::as_u64).unwrap_or(0);
        assert!(tokens < sent["max_tokens"].as_u64().unwrap(), "{name}");
    }
}

#[test]
fn beta_features() {
    let of = |spec: &ModelSpec, level| betas(spec, &messages(&[system(), user("go")]), level).join(",");
    assert_eq!(of(&claude(), High), "interleaved-thinking-2025-05-14");
    assert_eq!(of(&claude(), Off), "");
    assert_eq!(of(&with_compat(json!({"forceAdaptiveThinking": true})), High), "");
    let old = with_compat(json!({"supportsEagerToolInputStreaming": false}));
    assert_eq!(of(&old, High), "fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14");
    assert_eq!(betas(&old, &messages(&[user("go")]), Off), Vec::<&str>::new());
    let sent = body_of(&old, &[system(), user("go")], Off);
    assert_eq!(sent["tools"][0].get("eager_input_streaming"), None);
    let sent = body_of(&with_compat(json!({"supportsCacheControlOnTools": false})), &[system(), user("go")], Off);
    assert!(!sent["tools"].to_string().contains("cache_control"));
}

#[test]
fn the_marker_stands_on_the_last_user_block() {
    let sent = body_of(
        &claude(),
        &[
            user("go"),
            assistant(json!([call("a", json!({})), call("b", json!({}))])),
            result("a", "x"),
            result("b", "y"),
        ],
        Off,
    );
    let marked: Vec<_> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|message| message["content"].as_array().unwrap())
        .filter(|part| part.get("cache_control").is_some())
        .map(|part| part["tool_use_id"].as_str().unwrap())
        .collect();
    assert_eq!(marked, ["b"]);
}

#[test]
fn configured_members() {
    let mut spec = claude();
    let over = json!({"temperature": 0.3, "top_k": 5, "max_tokens": 77, "model": "other", "stream": false});
    spec.sampling.always = over.as_object().unwrap().clone();
    let sent = body_of(&spec, &[user("go")], Off);
    assert_eq!((&sent["temperature"], &sent["top_k"], &sent["max_tokens"]), (&json!(0.3), &json!(5), &json!(77)));
    assert_eq!((&sent["model"], &sent["stream"]), (&json!("claude"), &json!(true)));
    assert_eq!(body_of(&spec, &[user("go")], High).get("temperature"), None, "thinking takes none");
    spec.anthropic.supports_temperature = false;
    assert_eq!(body_of(&spec, &[user("go")], Off).get("temperature"), None);
    spec.sampling.always = json!({"thinking": null}).as_object().unwrap().clone();
    assert_eq!(body_of(&spec, &[user("go")], High).get("thinking"), None);
}

#[test]
fn a_run_with_tools_as_recorded() {
    check(
        &claude(),
        &[
            user("go"),
            assistant(json!([thinking("consider", Some("c2lnMQ==")), {"type": "text", "text": "reading"},
                call("toolu_1", json!({"path": "a.txt"})), call("toolu_2", json!({}))])),
            result("toolu_1", "alpha\n"),
            json!({"role": "toolResult", "toolCallId": "toolu_2", "toolName": "bash", "isError": true,
                "content": [{"type": "text", "text": "no"}]}),
        ],
        json!([
            sent_user("go"),
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "consider", "signature": "c2lnMQ=="}, sent_text("reading"),
                sent_call("toolu_1", json!({"path": "a.txt"})), sent_call("toolu_2", json!({})),
            ]},
            {"role": "user", "content": [
                sent_result("toolu_1", "alpha\n", false), sent_result("toolu_2", "no", true)]},
        ]),
    );
}

#[test]
fn results_stand_right_behind_their_calls() {
    let late =
        [user("go"), assistant(json!([call("a", json!({})), call("b", json!({}))])), user("steer"), result("b", "y")];
    check(
        &claude(),
        &late,
        json!([
            sent_user("go"),
            {"role": "assistant", "content": [sent_call("a", json!({})), sent_call("b", json!({}))]},
            {"role": "user", "content": [
                sent_result("a", "No result provided", true), sent_result("b", "y", false), sent_text("steer")]},
        ]),
    );
    check(&claude(), &[user("go"), result("a", "orphan")], json!([sent_user("go")]));
}

#[test]
fn messages_of_one_role_are_one() {
    check(
        &claude(),
        &[
            user("a"),
            user("b"),
            assistant(json!([{"type": "text", "text": "c"}])),
            assistant(json!([{"type": "text", "text": "d"}])),
        ],
        json!([
            {"role": "user", "content": [sent_text("a"), sent_text("b")]},
            {"role": "assistant", "content": [sent_text("c"), sent_text("d")]},
        ]),
    );
}

#[test]
fn what_is_empty_failed_or_unknown_is_left_out() {
    let mut failed = assistant(json!([{"type": "text", "text": "half"}]));
    failed["stopReason"] = json!("error");
    let mut aborted = assistant(json!([call("x", json!({}))]));
    aborted["stopReason"] = json!("aborted");
    let blank = assistant(json!([{"type": "text", "text": " \n"}]));
    let thoughts = assistant(json!([thinking("hm", Some("s"))]));
    check(
        &claude(),
        &[
            user("go"),
            user(" \n"),
            failed,
            aborted,
            blank,
            thoughts,
            json!({"role": "later", "x": 1}),
            json!({"role": "bashExecution", "command": "ls", "output": "f", "exitCode": 0}),
            json!({"role": "bashExecution", "command": "secret", "excludeFromContext": true}),
            json!({"role": "branchSummary", "summary": "S"}),
        ],
        json!([{"role": "user", "content": [sent_text("go"), sent_text("Ran `ls`\n```\nf\n```"),
            sent_text("This conversation went another way before and came back here. What happened there:\n\n<summary>\nS\n</summary>")]}]),
    );
}

#[test]
fn b049_thinking_goes_back_only_signed_and_to_its_own_model() {
    let answer = |model: Value| {
        let mut message = assistant(json!([thinking("own", Some("s")), thinking("unsigned", None),
            thinking("unsigned too", Some("")), {"type": "thinking", "thinking": "", "thinkingSignature": "ZW5j",
            "redacted": true}, {"type": "text", "text": "t"}]));
        message.as_object_mut().unwrap().extend(model.as_object().unwrap().clone());
        message
    };
    let sent = json!([sent_user("go"), {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "own", "signature": "s"}, {"type": "redacted_thinking", "data": "ZW5j"},
        sent_text("t")]}, sent_user("on")]);
    check(&claude(), &[user("go"), answer(json!({})), user("on")], sent);
    let without = json!([sent_user("go"), {"role": "assistant", "content": [sent_text("t")]}, sent_user("on")]);
    for other in [json!({"model": "x"}), json!({"provider": "x"}), json!({"api": "openai-completions"})] {
        check(&claude(), &[user("go"), answer(other), user("on")], without.clone());
    }
    let open = with_compat(json!({"allowEmptySignature": true}));
    let unsigned = assistant(json!([thinking("unsigned", None), {"type": "text", "text": "t"}]));
    let sent = json!([sent_user("go"), {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "unsigned", "signature": ""}, sent_text("t")]}, sent_user("on")]);
    check(&open, &[user("go"), unsigned, user("on")], sent);
}

/// A model that is asked in the middle of a turn which did not begin with thinking is not asked to think.
#[test]
fn a_turn_begun_without_thinking_goes_on_without() {
    let own = |content: Value| assistant(content);
    let thought = || own(json!([thinking("hm", Some("s")), call("a", json!({}))]));
    let unthought = || own(json!([call("b", json!({}))]));
    for (name, values, expected) in [
        ("begun with thinking", vec![user("go"), thought(), result("a", "x")], "enabled"),
        (
            "thinking only at first",
            vec![user("go"), thought(), result("a", "x"), unthought(), result("b", "y")],
            "enabled",
        ),
        ("begun by another", vec![user("go"), foreign(json!([call("a", json!({}))])), result("a", "x")], "disabled"),
        ("begun without", vec![user("go"), unthought(), result("b", "y"), thought(), result("a", "x")], "disabled"),
        (
            "a turn before",
            vec![user("go"), unthought(), result("b", "y"), own(json!([{"type": "text", "text": "t"}])), user("on")],
            "enabled",
        ),
    ] {
        assert_eq!(body_of(&claude(), &values, High)["thinking"]["type"], expected, "{name}");
    }
    let adaptive = with_compat(json!({"forceAdaptiveThinking": true}));
    let values = [user("go"), foreign(json!([call("a", json!({}))])), result("a", "x")];
    assert_eq!(body_of(&adaptive, &values, High)["thinking"]["type"], "adaptive");
}

#[test]
fn images() {
    let png = json!({"type": "image", "data": "QUJD", "mimeType": "image/png"});
    let bmp = json!({"type": "image", "data": "QUJD", "mimeType": "image/bmp"});
    let values = [
        json!({"role": "user", "content": [{"type": "text", "text": "see"}, png, bmp]}),
        assistant(json!([call("a", json!({})), call("b", json!({})), call("c", json!({}))])),
        json!({"role": "toolResult", "toolCallId": "a", "toolName": "read", "content": [{"type": "text", "text": "t"}, png]}),
        json!({"role": "toolResult", "toolCallId": "b", "toolName": "read", "content": [png]}),
        json!({"role": "toolResult", "toolCallId": "c", "toolName": "read", "content": [bmp]}),
    ];
    let sent = || json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}});
    let odd = "(image omitted: the provider does not take \"image/bmp\")";
    let calls = json!({"role": "assistant", "content":
        [sent_call("a", json!({})), sent_call("b", json!({})), sent_call("c", json!({}))]});
    let with_images = |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "content": [sent_text(text), sent()], "is_error": false});
    check(
        &claude(),
        &values,
        json!([
            {"role": "user", "content": [sent_text("see"), sent(), sent_text(odd)]},
            calls,
            {"role": "user", "content": [with_images("a", "t"), with_images("b", "(see attached image)"),
                sent_result("c", &format!("(see attached image)\n{odd}"), false)]},
        ]),
    );
    let mut blind = claude();
    blind.model.input = vec!["text".to_owned()];
    let note = "(image omitted: model does not support images)";
    let tool_note = "(tool image omitted: model does not support images)";
    check(
        &blind,
        &values,
        json!([
            {"role": "user", "content": [sent_text("see"), sent_text(note), sent_text(note)]},
            calls,
            {"role": "user", "content": [sent_result("a", &format!("t\n{tool_note}"), false),
                sent_result("b", tool_note, false), sent_result("c", tool_note, false)]},
        ]),
    );
}

#[test]
fn b047_ids_of_other_dialects_are_made_legal_and_stay_the_same() {
    let id = format!("call_x|fc_{}+/==", "a".repeat(200));
    let values =
        [user("go"), foreign(json!([call(&id, json!({})), call("a b", json!("no object"))])), result(&id, "x")];
    let first = body_of(&claude(), &values, Off);
    let calls = &first["messages"][1]["content"];
    assert_eq!((&calls[0]["id"], &calls[1]["input"]), (&json!("call_x"), &json!({})));
    let results = &first["messages"][2]["content"];
    assert_eq!((&results[0]["tool_use_id"], &results[1]["tool_use_id"]), (&calls[0]["id"], &calls[1]["id"]));
    let longer = [&values[..], &[assistant(json!([{"type": "text", "text": "t"}])), user("on")]].concat();
    let second = body_of(&claude(), &longer, Off);
    assert_eq!(second["messages"][1], first["messages"][1]);
}

#[test]
fn later_prompts_are_folded_into_the_first() {
    let change =
        json!({"role": "system", "content": "", "sections": {"b": "B", "a": null}, "toolsRemoved": ["read", "bash"]});
    let sent = body_of(&claude(), &[system(), user("go"), change], Off);
    assert_eq!((&sent["system"][0]["text"], sent.get("tools")), (&json!("B"), None));
    assert_eq!(sent["messages"].as_array().unwrap().len(), 1);
    assert_eq!(body_of(&claude(), &[user("go")], Off).get("system"), None);
}

#[test]
fn a_response_has_room_in_the_window() {
    let mut small = claude();
    small.model.context_window = 20_000;
    let sent = body_of(&small, &[user(&"x".repeat(60_000))], High);
    assert_eq!((&sent["max_tokens"], &sent["thinking"]["type"]), (&json!(904), &json!("disabled")));
}

fn any_message() -> impl Strategy<Value = Value> {
    let id = prop::sample::select(vec!["a", "b", "x|y z", ""]);
    let block = prop_oneof![
        "[a \n]{0,3}".prop_map(|text| json!({"type": "text", "text": text})),
        (any::<bool>(), any::<bool>()).prop_map(|(signed, redacted)| json!({"type": "thinking", "thinking": "hm",
            "thinkingSignature": if signed { "s" } else { "" }, "redacted": redacted})),
        id.clone().prop_map(|id| call(id, json!({}))),
    ];
    let blocks = prop::collection::vec(block, 0..4);
    prop_oneof![
        "[a \n]{0,3}".prop_map(|text| user(&text)),
        (id, "[a \n]{0,2}").prop_map(|(id, text)| result(id, &text)),
        (blocks.clone(), prop::sample::select(vec!["stop", "toolUse", "error", "aborted"])).prop_map(
            |(content, stop)| {
                let mut message = assistant(json!(content));
                message["stopReason"] = json!(stop);
                message
            }
        ),
        blocks.prop_map(|content| foreign(json!(content))),
    ]
}

proptest! {
    /// Whatever a session holds, what is sent keeps the rules of the API.
    #[test]
    fn all_requests_are_legal(values in prop::collection::vec(any_message(), 0..12)) {
        let sent = body_of(&claude(), &values, Off);
        let mut ids = HashSet::new();
        let mut open: Vec<String> = Vec::new();
        for (at, message) in sent["messages"].as_array().unwrap().iter().enumerate() {
            let parts = message["content"].as_array().unwrap();
            prop_assert!(!parts.is_empty());
            prop_assert!(at == 0 || sent["messages"][at - 1]["role"] != message["role"]);
            let mut results_are_over = false;
            for part in parts {
                match part["type"].as_str().unwrap() {
                    "text" => prop_assert!(!part["text"].as_str().unwrap().trim().is_empty()),
                    "tool_use" => {
                        let id = part["id"].as_str().unwrap().to_owned();
                        prop_assert!(ids.insert(id.clone()));
                        open.push(id);
                    }
                    "tool_result" => {
                        prop_assert!(!results_are_over);
                        let id = open.remove(0);
                        prop_assert_eq!(part["tool_use_id"].as_str(), Some(id.as_str()));
                    }
                    "thinking" => prop_assert_eq!(part["signature"].as_str(), Some("s")),
                    "redacted_thinking" => prop_assert_eq!(part["data"].as_str(), Some("s")),
                    other => prop_assert!(false, "{}", other),
                }
                results_are_over |= part["type"] != "tool_result";
            }
            prop_assert!(message["role"] == "assistant" || open.is_empty());
        }
        prop_assert!(open.is_empty());
    }
}

use std::collections::HashSet;
use std::path::Path;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::provider::demo;
use crate::provider::openai_completions::compat::Compat;

/// A model of the recordings.
fn fake(id: &str) -> ModelSpec {
    let mut spec = demo::spec();
    spec.model.id = id.to_owned();
    spec.model.api = "openai-completions".to_owned();
    spec.model.provider = "fake".to_owned();
    spec.model.reasoning = id == "thinker";
    if id == "thinker" {
        spec.model.input = vec!["text".to_owned(), "image".to_owned()];
    }
    (spec.model.context_window, spec.model.max_tokens) = if id == "small" { (20_000, 2000) } else { (128_000, 4096) };
    spec.compat = Compat::resolve("fake", "http://127.0.0.1:1/v1", None);
    spec
}

fn with_compat(id: &str, compat: Value) -> ModelSpec {
    let mut spec = fake(id);
    spec.compat = Compat::resolve("fake", "http://127.0.0.1:1/v1", Some(&compat));
    spec
}

fn message(value: Value) -> Arc<Message> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

fn assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content, "api": "openai-completions", "provider": "fake", "model": "thinker",
        "stopReason": "stop"})
}

fn call(id: &str, arguments: Value) -> Value {
    json!({"type": "toolCall", "id": id, "name": "read", "arguments": arguments})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "read", "content": [{"type": "text", "text": text}]})
}

fn body_of(spec: &ModelSpec, messages: &[Value], level: ThinkingLevel) -> Value {
    let messages: Vec<Arc<Message>> = messages.iter().cloned().map(message).collect();
    serde_json::from_slice(&body(spec, &messages, level)).unwrap()
}

#[track_caller]
fn check(spec: &ModelSpec, messages: &[Value], expected: Value) {
    let sent = body_of(spec, messages, ThinkingLevel::Off);
    // Compared as text: the order of members counts.
    assert_eq!(sent["messages"].to_string(), expected.to_string());
}

/// Recordings whose requests follow from the messages alone (no compaction, no hidden messages).
const RECORDINGS: &[&str] = &[
    "abort-mid-stream",
    "abort-mid-tool",
    "abort-mid-toolcall-args",
    "bash-tool",
    "connection-dropped",
    "edit-write",
    "error-400-401",
    "follow-up-mid-run",
    "grep-find-ls",
    "image-on-text-model",
    "parallel-tools-order",
    "read-tool",
    "retry-429",
    "simple-text",
    "steer-all-mode",
    "steer-mid-run",
    "stream-cut-mid-toolcall",
    "thinking-tools-parallel",
    "unicode-text",
];

/// Long texts are cut in the recordings, an image in a message elsewhere than the same one in a data URL.
fn without_cut_images(body: &Value) -> String {
    let text = body.to_string();
    let mut pieces = text.split("data:image/jpeg;base64,");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.split_once('"').map_or("", |(_, rest)| rest))
}

/// pi sends a user message of text only as a list of one part, we as a string.
fn with_plain_text(body: &Value) -> Value {
    let mut body = body.clone();
    for message in body["messages"].as_array_mut().unwrap() {
        let parts = message["content"].as_array().filter(|parts| parts.iter().all(|part| part["type"] == "text"));
        let texts = parts.map(|parts| parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>());
        if let Some(texts) = texts.filter(|_| message["role"] == "user") {
            message["content"] = json!(texts.join("\n"));
        }
    }
    body
}

#[test]
fn recorded_requests() {
    for name in RECORDINGS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/pi/transcripts/{name}.jsonl"));
        let lines: Vec<Value> =
            std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |dir: &'static str| lines.iter().filter(move |line| line["dir"] == dir).map(|line| &line["msg"]);
        let messages: Vec<Arc<Message>> =
            of("out").filter(|msg| msg["type"] == "message_end").map(|msg| message(msg["message"].clone())).collect();
        let requests: Vec<&Value> = of("llm-request").map(|msg| &msg["body"]).collect();
        assert!(!requests.is_empty(), "{name}");
        // From its 15th request on, edit-write shows arguments that pi's edit tool changed in memory after they were
        // stored; we send what is stored.
        let comparable = if *name == "edit-write" { 14 } else { requests.len() };
        let mut known = 1;
        for (at, recorded) in requests.iter().take(comparable).enumerate() {
            let spec = fake(recorded["model"].as_str().unwrap());
            let level = recorded["reasoning_effort"].as_str().and_then(ThinkingLevel::parse).unwrap_or_default();
            // Requests and events were recorded from two pipes, so which messages came before is not certain.
            let found = (known..=messages.len()).find(|count| {
                let mut sent: Value = serde_json::from_slice(&body(&spec, &messages[..*count], level)).unwrap();
                // pi's prompt is recorded by its length only.
                sent["messages"][0]["content"] = recorded["messages"][0]["content"].clone();
                without_cut_images(&sent) == without_cut_images(&with_plain_text(recorded))
            });
            let all = || serde_json::from_slice::<Value>(&body(&spec, &messages, level)).unwrap();
            known =
                found.unwrap_or_else(|| panic!("{name}, request {}:\n{recorded}\nall messages:\n{}", at + 1, all()));
        }
    }
}

#[test]
fn b051_members_of_the_plain_dialect() {
    let messages = [json!({"role": "system", "sections": {"a": "A", "b": "B"}}), user("hi")];
    assert_eq!(
        body_of(&fake("plain"), &messages, ThinkingLevel::High).to_string(),
        json!({
            "model": "plain",
            "messages": [{"role": "system", "content": "A\n\nB"}, {"role": "user", "content": "hi"}],
            "stream": true, "stream_options": {"include_usage": true}, "store": false, "max_completion_tokens": 4096,
        })
        .to_string()
    );
}

#[test]
fn quirks_change_members() {
    let sent = |spec: &ModelSpec, level| {
        body_of(spec, &[json!({"role": "system", "sections": {"a": "A"}}), user("hi")], level)
    };
    let old = sent(
        &with_compat(
            "thinker",
            json!({"supportsStore": false, "supportsUsageInStreaming": false, "maxTokensField": "max_tokens",
            "supportsReasoningEffort": false, "openRouterRouting": {"only": ["x"]}, "vercelGatewayRouting": {"order": ["y"]}}),
        ),
        ThinkingLevel::High,
    );
    let members: Vec<&String> = old.as_object().unwrap().keys().collect();
    assert_eq!(members, ["model", "messages", "stream", "max_tokens", "provider", "providerOptions"]);
    assert_eq!(old["providerOptions"], json!({"gateway": {"order": ["y"]}}));
    let role = |spec: &ModelSpec| sent(spec, ThinkingLevel::Off)["messages"][0]["role"].clone();
    assert_eq!(role(&with_compat("thinker", json!({"supportsDeveloperRole": true}))), "developer");
    assert_eq!(role(&with_compat("plain", json!({"supportsDeveloperRole": true}))), "system");
}

#[test]
fn configured_members_come_last_or_in_the_place_of_ours() {
    let mut spec = fake("thinker");
    let object = |value: Value| value.as_object().unwrap().clone();
    spec.sampling.always =
        object(json!({"temperature": 0.5, "store": null, "max_completion_tokens": 7, "stream": false, "top_p": 1}));
    spec.sampling.by_level = object(json!({"high": {"top_p": 0.9}, "low": {"top_p": 0.1}}));
    let sent = body_of(&spec, &[user("hi")], ThinkingLevel::High);
    let members: Vec<String> =
        sent.as_object().unwrap().iter().skip(2).map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!(
        members,
        [
            "stream true",
            "stream_options {\"include_usage\":true}",
            "max_completion_tokens 7",
            "reasoning_effort \"high\"",
            "temperature 0.5",
            "top_p 0.9"
        ]
    );
}

#[test]
fn thinking_in_the_words_of_the_server() {
    let fields = |format: &str, map: Value, level| {
        let mut spec = with_compat("thinker", json!({"thinkingFormat": format}));
        spec.model.thinking_level_map = Some(map);
        let fields = thinking_fields(&spec, clamp_level(&spec.model, level), 4096);
        json!(fields.into_iter().collect::<std::collections::BTreeMap<_, _>>())
    };
    use ThinkingLevel::{High, Off};
    for (format, map, level, expected) in [
        ("openai", json!({}), High, json!({"reasoning_effort": "high"})),
        ("openai", json!({"high": "max"}), High, json!({"reasoning_effort": "max"})),
        ("openai", json!({}), Off, json!({})),
        ("openai", json!({"off": "none"}), Off, json!({"reasoning_effort": "none"})),
        ("openrouter", json!({}), High, json!({"reasoning": {"effort": "high"}})),
        ("openrouter", json!({}), Off, json!({"reasoning": {"effort": "none"}})),
        ("deepseek", json!({}), High, json!({"reasoning_effort": "high", "thinking": {"type": "enabled"}})),
        ("deepseek", json!({}), Off, json!({"thinking": {"type": "disabled"}})),
        (
            "zai",
            json!({}),
            High,
            json!({"reasoning_effort": "high", "thinking": {"type": "enabled", "clear_thinking": false}}),
        ),
        ("zai", json!({}), Off, json!({"thinking": {"type": "disabled"}})),
        ("together", json!({}), Off, json!({"reasoning": {"enabled": false}})),
        ("qwen", json!({}), High, json!({"enable_thinking": true, "reasoning_effort": "high"})),
        (
            "qwen-chat-template",
            json!({}),
            Off,
            json!({"chat_template_kwargs": {"enable_thinking": false, "preserve_thinking": true}}),
        ),
        ("string-thinking", json!({"off": "none"}), Off, json!({"thinking": "none"})),
    ] {
        assert_eq!(fields(format, map.clone(), level), expected, "{format} {map} {level:?}");
    }
}

#[track_caller]
fn check_thinking(compat: Value, levels: Option<Value>, level: ThinkingLevel, expected: Value) {
    let mut spec = with_compat("thinker", compat.clone());
    spec.model.thinking_level_map = levels;
    let sent = body_of(&spec, &[user("hi")], level);
    let names = [
        "chat_template_kwargs",
        "chat_template_args",
        "enable_thinking",
        "reasoning",
        "reasoning_effort",
        "thinking",
        "thinking_budget",
        "thinking_budget_tokens",
        "thinking_token_budget",
    ];
    let found: Map<String, Value> =
        names.iter().filter_map(|name| Some(((*name).to_owned(), sent.get(*name)?.clone()))).collect();
    assert_eq!(Value::Object(found), expected, "{compat} {level:?}");
}

#[test]
fn settings_of_chat_templates_are_filled_in() {
    use ThinkingLevel::{High, Low, Off};
    let values = json!({"thinking": {"$var": "thinking.enabled"}, "effort": {"$var": "thinking.effort"},
        "budget": {"$var": "thinking.budget", "omitWhenOff": true}, "always": {"$var": "thinking.enabled", "omitWhenOff": true},
        "fixed": 7, "unknown": {"$var": "thinking.colour"}});
    let template = json!({"thinkingFormat": "chat-template", "chatTemplateKwargs": values});
    let on = json!({"thinking": true, "effort": "low", "budget": 2048, "always": true, "fixed": 7});
    check_thinking(template.clone(), None, Low, json!({"chat_template_kwargs": on}));
    check_thinking(template, None, Off, json!({"chat_template_kwargs": {"thinking": false, "fixed": 7}}));
    check_thinking(json!({"thinkingFormat": "chat-template"}), None, High, json!({}));
    let baseten = json!({"thinkingFormat": "baseten", "chatTemplateArgs": {"on": {"$var": "thinking.enabled"}}});
    let words = Some(json!({"off": "none"}));
    check_thinking(
        baseten.clone(),
        words.clone(),
        High,
        json!({"chat_template_args": {"on": true}, "reasoning_effort": "high"}),
    );
    check_thinking(baseten, words, Off, json!({"chat_template_args": {"on": false}, "reasoning_effort": "none"}));
}

#[test]
fn a_budget_leaves_room_for_the_answer() {
    use ThinkingLevel::{High, Minimal, Off};
    // The model answers in at most 4096 tokens.
    for (compat, name) in [
        (json!({"thinkingTokenBudgetField": "thinking_budget"}), "thinking_budget"),
        (json!({"thinkingTokenBudgetField": "thinking_budget_tokens"}), "thinking_budget_tokens"),
        (json!({"thinkingTokenBudgetField": "thinking_token_budget"}), "thinking_token_budget"),
        (json!({"supportsThinkingTokenBudget": true}), "thinking_token_budget"),
    ] {
        check_thinking(compat.clone(), None, Minimal, json!({"reasoning_effort": "minimal", name: 1024}));
        check_thinking(compat.clone(), None, High, json!({"reasoning_effort": "high", name: 3072}));
        check_thinking(compat, None, Off, json!({}));
    }
    check_thinking(json!({"thinkingTokenBudgetField": "later"}), None, High, json!({"reasoning_effort": "high"}));
}

#[test]
fn ant_ling_is_told_only_levels_that_its_map_names() {
    use ThinkingLevel::{High, Low, Off};
    let compat = json!({"thinkingFormat": "ant-ling"});
    let words = Some(json!({"high": "deep"}));
    check_thinking(compat.clone(), words.clone(), High, json!({"reasoning": {"effort": "deep"}}));
    check_thinking(compat.clone(), words.clone(), Low, json!({}));
    check_thinking(compat, words, Off, json!({}));
}

#[test]
fn further_wishes_of_servers() {
    let sent = |compat: Value, messages: &[Value]| body_of(&with_compat("plain", compat), messages, ThinkingLevel::Off);
    let tool = json!({"name": "read", "description": "d", "parameters": {"type": "object"}});
    let system = json!({"role": "system", "content": "", "sections": {"preamble": "p"}, "toolsAdded": [tool]});
    let with_tools = sent(json!({"zaiToolStream": true, "vllmPriority": -2}), &[system, user("hi")]);
    assert_eq!((&with_tools["tool_stream"], &with_tools["priority"]), (&json!(true), &json!(-2)));
    let without = sent(json!({"zaiToolStream": true, "vllmPriority": "high"}), &[user("hi")]);
    assert_eq!((without.get("tool_stream"), without.get("priority")), (None, None));
}

#[test]
fn signatures_of_thoughts_go_back_with_their_calls() {
    let signed = |signature: &str| {
        let mut call = call("c1", json!({}));
        call["thoughtSignature"] = json!(signature);
        call
    };
    let sent = |compat: Value, model: &str, calls: Value| {
        let body = body_of(&with_compat(model, compat), &[user("hi"), assistant(calls)], ThinkingLevel::Off);
        let calls = body["messages"][1]["tool_calls"].as_array().unwrap().clone();
        calls.iter().map(|call| call.get("extra_content").cloned()).collect::<Vec<_>>()
    };
    let google = |signature: &str| Some(json!({"google": {"thought_signature": signature}}));
    let wants = json!({"requiresThoughtSignature": true});
    assert_eq!(sent(json!({}), "thinker", json!([signed("sig")])), [google("sig")]);
    assert_eq!(sent(json!({}), "plain", json!([signed("sig")])), [None], "another model made it");
    assert_eq!(sent(json!({}), "thinker", json!([signed("{\"type\": \"reasoning.encrypted\"}")])), [None], "pi's own");
    assert_eq!(sent(wants.clone(), "thinker", json!([signed("sig"), call("c2", json!({}))])), [google("sig"), None]);
    let unsigned = json!([call("c1", json!({})), call("c2", json!({}))]);
    assert_eq!(sent(wants, "thinker", unsigned), [google("skip_thought_signature_validator"), None]);
}

#[test]
fn prompts_are_marked_for_the_cache_where_the_server_wants_it() {
    let mark = json!({"type": "ephemeral"});
    let tool = json!({"name": "read", "description": "d", "parameters": {"type": "object"}});
    let system = json!({"role": "system", "content": "", "sections": {"preamble": "p"}, "toolsAdded": [tool]});
    let conversation = [
        system,
        user("look"),
        assistant(json!([call("c1", json!({}))])),
        result("c1", "seen"),
        assistant(json!([call("c2", json!({}))])),
        result("c2", "seen too"),
    ];
    let marked =
        body_of(&with_compat("plain", json!({"cacheControlFormat": "anthropic"})), &conversation, ThinkingLevel::Off);
    assert_eq!(marked["messages"][0]["content"], json!([{"type": "text", "text": "p", "cache_control": mark}]));
    assert_eq!(marked["tools"][0]["cache_control"], mark);
    assert_eq!(marked["messages"][5]["content"], json!([{"type": "text", "text": "seen too", "cache_control": mark}]));
    assert_eq!(marked.to_string().matches("cache_control").count(), 3);
    let routed = |id: &str| Compat::resolve("openrouter", "x", None).of_model("openrouter", id).marks_cache;
    assert_eq!((routed("anthropic/some"), routed("z-ai/other")), (true, false));
    // An image at the end cannot carry the mark; the text before it does.
    let mut sees = with_compat("thinker", json!({"cacheControlFormat": "anthropic"}));
    sees.model.reasoning = false;
    let image = json!({"role": "user", "content": [{"type": "text", "text": "what is it?"}, {"type": "image", "data": "AA==", "mimeType": "image/png"}]});
    let sent = body_of(&sees, &[image], ThinkingLevel::Off);
    assert_eq!(sent["messages"][0]["content"][0]["cache_control"], mark);
}

#[test]
fn failed_and_empty_messages_are_left_out() {
    let stopped = |reason: &str| {
        let mut response = assistant(json!([{"type": "text", "text": "half"}, call("c", json!({}))]));
        response["stopReason"] = json!(reason);
        response
    };
    check(
        &fake("thinker"),
        &[
            user("a"),
            stopped("error"),
            result("c", "orphan"),
            stopped("aborted"),
            user(""),
            assistant(json!([])),
            assistant(json!([{"type": "text", "text": " \n"}])),
            assistant(json!([{"type": "thinking", "thinking": "t", "thinkingSignature": "reasoning_content"}])),
            json!({"role": "user", "content": [{"type": "text", "text": ""}, {"type": "image", "data": "AA==", "mimeType": "image/png"}]}),
            json!({"role": "from the future", "content": "x"}),
            user("b"),
        ],
        json!([
            {"role": "user", "content": "a"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
            {"role": "user", "content": "b"},
        ]),
    );
}

#[test]
fn every_call_gets_one_result_right_after_it() {
    check(
        &fake("thinker"),
        &[
            assistant(json!([call("a", json!({"path": "x"})), call("b", json!([1])), call("c", json!({}))])),
            result("c", "C"),
            user("steering"),
            result("a", "A"),
            result("a", "again"),
            result("z", "orphan"),
            assistant(json!([{"type": "text", "text": "done"}])),
            result("b", "too late"),
        ],
        json!([
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}},
                {"id": "b", "type": "function", "function": {"name": "read", "arguments": "{}"}},
                {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}},
            ]},
            {"role": "tool", "content": "A", "tool_call_id": "a"},
            {"role": "tool", "content": "No result provided", "tool_call_id": "b"},
            {"role": "tool", "content": "C", "tool_call_id": "c"},
            {"role": "user", "content": "steering"},
            {"role": "assistant", "content": "done"},
        ]),
    );
}

#[test]
fn a_repeated_id_is_told_apart() {
    let sent = body_of(
        &fake("thinker"),
        &[
            assistant(json!([call("call_0", json!({"n": 1}))])),
            result("call_0", "one"),
            assistant(json!([call("call_0", json!({"n": 2}))])),
            result("call_0", "two"),
        ],
        ThinkingLevel::Off,
    );
    let messages = sent["messages"].as_array().unwrap();
    assert_eq!((&messages[1]["tool_call_id"], &messages[1]["content"]), (&json!("call_0"), &json!("one")));
    assert_eq!(messages[2]["tool_calls"][0]["id"], messages[3]["tool_call_id"]);
    assert_ne!(messages[3]["tool_call_id"], "call_0");
    assert_eq!(messages[3]["content"], "two");
}

#[test]
fn thinking_goes_back_only_to_the_model_that_made_it() {
    let thought = |model: &str, signature: Value| {
        let mut response = assistant(json!([
            {"type": "thinking", "thinking": "one", "thinkingSignature": signature},
            {"type": "thinking", "thinking": "two", "thinkingSignature": signature},
            {"type": "text", "text": "said"},
        ]));
        response["model"] = json!(model);
        response
    };
    let plain = json!([{"role": "assistant", "content": "said"}]);
    let spec = fake("thinker");
    check(
        &spec,
        &[thought("thinker", json!("reasoning"))],
        json!([{"role": "assistant", "content": "said", "reasoning": "one\ntwo"}]),
    );
    check(&spec, &[thought("other", json!("reasoning"))], plain.clone());
    check(&spec, &[thought("thinker", json!("c2lnbmF0dXJl"))], plain.clone());
    check(&spec, &[thought("thinker", json!(null))], plain);
    check(
        &with_compat("thinker", json!({"requiresThinkingAsText": true})),
        &[thought("thinker", json!("reasoning"))],
        json!([{"role": "assistant", "content": "one\ntwo\n\nsaid"}]),
    );
    let deepseek = with_compat("thinker", json!({"requiresReasoningContentOnAssistantMessages": true}));
    let sent = body_of(&deepseek, &[thought("other", json!("x"))], ThinkingLevel::High);
    assert_eq!(sent["messages"][0]["reasoning_content"], "");
    check(&deepseek, &[thought("other", json!("x"))], json!([{"role": "assistant", "content": "said"}]));
}

#[test]
fn images_and_empty_results() {
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let with_image = |id: &str, text: &str| json!({"role": "toolResult", "toolCallId": id, "toolName": "read", "content": [{"type": "text", "text": text}, image]});
    let messages =
        [assistant(json!([call("a", json!({})), call("b", json!({}))])), with_image("a", ""), with_image("b", "B")];
    let url = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let sent = body_of(&fake("thinker"), &messages, ThinkingLevel::Off);
    assert_eq!(sent["messages"][1]["content"], "(see attached image)");
    assert_eq!(sent["messages"][2]["content"], "B");
    let expected = json!([{"type": "text", "text": "Attached image(s) from tool result:"}, url, url]);
    assert_eq!(sent["messages"][3]["content"], expected);
    let sent = body_of(&fake("plain"), &messages, ThinkingLevel::Off);
    assert_eq!(sent["messages"][1]["content"], "(tool image omitted: model does not support images)");
    assert_eq!(sent["messages"].as_array().unwrap().len(), 3);
    let sent =
        body_of(&fake("plain"), &[assistant(json!([call("a", json!({}))])), result("a", "")], ThinkingLevel::Off);
    assert_eq!(sent["messages"][1]["content"], "(no tool output)");
}

#[test]
fn messages_of_other_kinds() {
    let bash = |more: Value| {
        let mut bash =
            json!({"role": "bashExecution", "command": "ls", "output": "", "cancelled": false, "truncated": false});
        bash.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        bash
    };
    let text = |value: Value| {
        let sent = body_of(&fake("plain"), &[value], ThinkingLevel::Off);
        sent["messages"][0]["content"].as_str().map(str::to_owned)
    };
    for (value, expected) in [
        (bash(json!({"exitCode": 0})), Some("Ran `ls`\n(no output)")),
        (bash(json!({"exitCode": 4, "output": "x\n"})), Some("Ran `ls`\n```\nx\n\n```\n\nCommand exited with code 4")),
        (bash(json!({"cancelled": true})), Some("Ran `ls`\n(no output)\n\n(command cancelled)")),
        (
            bash(json!({"truncated": true, "fullOutputPath": "/t/x.log", "output": "x"})),
            Some("Ran `ls`\n```\nx\n```\n\n[Output truncated. Full output: /t/x.log]"),
        ),
        (bash(json!({"excludeFromContext": true})), None),
        (json!({"role": "custom", "customType": "x", "content": "said"}), Some("said")),
    ] {
        assert_eq!(text(value.clone()).as_deref(), expected, "{value}");
    }
    let summary = text(json!({"role": "compactionSummary", "summary": "S"})).unwrap();
    assert!(summary.ends_with("\n\n<summary>\nS\n</summary>"), "{summary}");
}

#[test]
fn system_messages_lead_or_stay_where_they_are() {
    let first = json!({"role": "system", "sections": {"a": "A", "b": "B"}, "toolsAdded": [{"name": "x", "description": "d", "parameters": {"type": "object"}}]});
    let change = json!({"role": "system", "sections": {"b": "B2"}, "toolsRemoved": ["x"]});
    let messages = [json!({"role": "bashExecution", "command": "ls", "output": "o"}), first, user("q"), change];
    let roles = |spec: &ModelSpec| {
        let sent = body_of(spec, &messages, ThinkingLevel::Off);
        assert!(sent.get("tools").is_none());
        let texts = sent["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "system");
        (
            sent["messages"][0]["role"].clone(),
            texts.map(|m| m["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>(),
        )
    };
    assert_eq!(roles(&fake("plain")), (json!("system"), vec!["A\n\nB".to_owned(), "B2".to_owned()]));
    let folded = with_compat("plain", json!({"supportsMidConvoSystemMessages": false}));
    assert_eq!(roles(&folded), (json!("system"), vec!["A\n\nB2".to_owned()]));
}

#[test]
fn servers_that_want_more() {
    let messages = [assistant(json!([call("a", json!({}))])), result("a", "A"), user("next")];
    let demanding = json!({"requiresToolResultName": true, "requiresAssistantAfterToolResult": true,
        "requiresNonNullAssistantContent": true, "requiresToolsWithToolHistory": true});
    let sent = body_of(&with_compat("plain", demanding), &messages, ThinkingLevel::Off);
    assert_eq!(sent["messages"][0]["content"], "");
    assert_eq!(sent["messages"][1]["name"], "read");
    assert_eq!(sent["messages"][2]["role"], "assistant");
    assert_eq!(sent["tools"], json!([]));
}

/// What strict servers check.
fn validate(messages: &[Value]) -> Result<(), String> {
    let is_legal = |id: &str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    let mut used = HashSet::new();
    let mut waiting: Vec<String> = Vec::new();
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let at =
                waiting.iter().position(|known| known == id).ok_or_else(|| format!("result without call: {id}"))?;
            waiting.remove(at);
            if message["content"].as_str().is_none_or(str::is_empty) {
                return Err("empty result".into());
            }
            continue;
        }
        if !waiting.is_empty() {
            return Err(format!("calls without result: {waiting:?}"));
        }
        match role {
            "user" => {
                if message["content"].as_str().is_some_and(|text| !text.is_empty()) {
                    continue;
                }
                let parts = message["content"].as_array().ok_or("no content")?;
                if parts.is_empty() || parts.iter().any(|part| part["text"] == "") {
                    return Err("empty part".into());
                }
            }
            "assistant" => {
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let id = call["id"].as_str().unwrap_or_default();
                    if !is_legal(id) || !used.insert(id.to_owned()) {
                        return Err(format!("bad id {id:?}"));
                    }
                    let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
                    if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                        return Err(format!("bad arguments {arguments}"));
                    }
                    waiting.push(id.to_owned());
                }
                if message["content"].as_str().is_none_or(str::is_empty) && message.get("tool_calls").is_none() {
                    return Err("empty message".into());
                }
            }
            "system" => {}
            other => return Err(format!("role {other}")),
        }
    }
    if waiting.is_empty() { Ok(()) } else { Err(format!("calls without result: {waiting:?}")) }
}

fn any_message() -> impl Strategy<Value = Value> {
    let id = || prop_oneof![Just("a"), Just("b"), Just("a|b/+"), Just(""), Just("é")];
    let block = prop_oneof![
        "[a ]{0,3}".prop_map(|text| json!({"type": "text", "text": text})),
        id().prop_map(|id| call(id, json!({"x": 1}))),
        Just(json!({"type": "thinking", "thinking": "t", "thinkingSignature": "reasoning"})),
        Just(json!({"type": "image", "data": "AA==", "mimeType": "image/png"})),
        Just(json!({"type": "other"})),
    ];
    let blocks = prop::collection::vec(block, 0..4);
    prop_oneof![
        blocks.clone().prop_map(|content| json!({"role": "user", "content": content})),
        (blocks.clone(), prop_oneof![Just("stop"), Just("toolUse"), Just("length"), Just("error"), Just("aborted")])
            .prop_map(|(content, stop)| {
                let mut response = assistant(json!(content));
                response["stopReason"] = json!(stop);
                response
            }),
        (id(), blocks).prop_map(
            |(id, content)| json!({"role": "toolResult", "toolCallId": id, "toolName": "read", "content": content})
        ),
        Just(json!({"role": "system", "sections": {"a": "A"}})),
        Just(json!({"role": "system", "sections": {"a": null}})),
    ]
}

proptest! {
    #[test]
    fn whatever_the_history_the_request_is_legal(
        messages in prop::collection::vec(any_message(), 0..12),
        takes_images in any::<bool>(),
    ) {
        let spec = fake(if takes_images { "thinker" } else { "plain" });
        let sent = body_of(&spec, &messages, ThinkingLevel::Off);
        prop_assert_eq!(validate(sent["messages"].as_array().unwrap()), Ok(()), "{}", sent["messages"]);
    }

    #[test]
    fn a_longer_conversation_begins_as_the_shorter_one(messages in prop::collection::vec(any_message(), 0..8)) {
        // Results may still come for the last calls, so a conversation is compared where it rests: before a user message.
        let rest = [&[json!({"role": "system", "sections": {"a": "A"}})], &messages[..], &[user("q"), assistant(json!([{"type": "text", "text": "x"}]))]].concat();
        let longer = [&rest[..], &[user("more"), assistant(json!([call("a", json!({}))])), result("a", "r")]].concat();
        let spec = fake("plain");
        let (short, long) = (body_of(&spec, &rest, ThinkingLevel::Off), body_of(&spec, &longer, ThinkingLevel::Off));
        let short = short["messages"].as_array().unwrap();
        prop_assert_eq!(&long["messages"].as_array().unwrap()[..short.len()], &short[..]);
    }
}

//! Anthropic Messages: streams as they really come, and conversations as the API demands them. The model server
//! checks every request against the API's rules.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home, bounded};
use crate::model_server::ModelServer;

const CLAUDE: &str = "fakeanth/claude:high";

/// Starts a daemon whose retries come at once, and makes a session.
async fn session(server: &ModelServer, model: &str) -> (Daemon, Client) {
    let daemon = Daemon::start_with(Home::with_models(server), [("AGENTD_RETRY_BASE_DELAY_MS", "1")]);
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), model).await;
    (daemon, client)
}

/// The messages of the session file with this role.
fn stored(daemon: &Daemon, role: &str) -> Vec<Value> {
    let messages = daemon.home().only_session().into_iter().map(|line| line["message"].clone());
    messages.filter(|message| message["role"] == role).collect()
}

/// The text of all deltas.
fn streamed(events: &[Value]) -> String {
    let deltas = events.iter().filter_map(|event| event.pointer("/event/assistantMessageEvent/delta")?.as_str());
    deltas.collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"]["type"].as_str().unwrap()).collect()
}

fn event(kind: &str, members: Value) -> String {
    let mut data = json!({"type": kind});
    data.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    format!("event: {kind}\ndata: {data}\n\n")
}

fn begin(usage: Value) -> String {
    event("message_start", json!({"message": {"id": "msg_raw", "model": "claude", "content": [], "usage": usage}}))
}

fn text(text: &str) -> String {
    event("content_block_delta", json!({"index": 0, "delta": {"type": "text_delta", "text": text}}))
}

fn start(text: &str) -> String {
    event("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": text}}))
}

fn end() -> String {
    event("content_block_stop", json!({"index": 0}))
        + &event("message_delta", json!({"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}))
        + &event("message_stop", json!({}))
}

#[tokio::test]
async fn b001_characters_cut_by_the_network_stay_whole() {
    let body = begin(json!({"input_tokens": 5})) + &start("") + &text("你好🌍é") + &end();
    let server = ModelServer::replies(json!([{"raw": [body], "raw_split": 1}]));
    let (daemon, mut client) = session(&server, CLAUDE).await;
    let events = client.run("go").await;
    assert_eq!(streamed(&events), "你好🌍é");
    assert_eq!(stored(&daemon, "assistant")[0]["content"], json!([{"type": "text", "text": "你好🌍é"}]));
}

#[tokio::test]
async fn b003_b009_noise_is_passed_over_and_what_a_start_carries_is_kept() {
    let noise = ": PROCESSING\n\n".repeat(10)
        + &event("ping", json!({}))
        + "event: done\ndata: [DONE]\n\nevent: invented\ndata: ?\n\nid: 7\nretry: 10\n\n";
    let usage = begin(json!({"input_tokens": 5}));
    let body = [noise.clone(), usage, noise.clone(), start("He"), noise.clone(), text("llo"), noise, end()].concat();
    let server = ModelServer::replies(json!([{"raw": [body]}]));
    let (daemon, mut client) = session(&server, CLAUDE).await;
    let events = client.run("go").await;
    assert_eq!(streamed(&events), "Hello");
    assert_eq!(stored(&daemon, "assistant")[0]["content"], json!([{"type": "text", "text": "Hello"}]));
    assert_eq!(server.requests().len(), 1);
}

/// The recorded shape of a thinking model's turn with a call.
fn reading(id: &str) -> Value {
    json!([{"thinking": "consider", "signature": "c2lnMQ=="}, {"text": "reading"},
        {"tool": "read", "args": {"path": "a.txt"}, "id": id}])
}

#[tokio::test]
async fn b005_a_stream_without_its_last_event_is_tried_again_wherever_it_ends() {
    // message_start, thinking (4), text (3), call (3), message_delta, message_stop.
    const EVENTS: usize = 13;
    let replies: Vec<Value> = (1..EVENTS)
        .flat_map(|count| {
            let how = if count % 2 == 0 { "end_after" } else { "cut_after" };
            [json!({"blocks": reading("toolu_1"), how: count}), json!({"text": "whole"})]
        })
        .collect();
    let server = ModelServer::replies(json!(replies));
    let (daemon, mut client) = session(&server, CLAUDE).await;
    for count in 1..EVENTS {
        let events = client.run("go").await;
        let kinds = kinds(&events);
        let retries = kinds.iter().filter(|kind| **kind == "auto_retry_start").count();
        assert_eq!((retries, kinds.contains(&"tool_execution_start")), (1, false), "after {count} events");
    }
    let whole = json!([{"type": "text", "text": "whole"}]);
    let (good, failed): (Vec<_>, Vec<_>) =
        stored(&daemon, "assistant").into_iter().partition(|message| message["stopReason"] == "stop");
    assert_eq!((good.len(), failed.len()), (EVENTS - 1, EVENTS - 1));
    assert!(good.iter().all(|message| message["content"] == whole));
    let last = server.requests().pop().unwrap();
    assert!(!last.text.contains("consider") && !last.text.contains("reading"), "failed attempts are not replayed");
}

#[tokio::test]
async fn an_error_inside_a_stream_is_tried_again_and_a_refused_key_is_not() {
    let error = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "no"}});
    let server = ModelServer::replies(json!([
        {"text": "half", "error_after": 3, "error": error("overloaded_error")}, {"text": "whole"},
        {"text": "half", "error_after": 3, "error": error("authentication_error")},
    ]));
    let (daemon, mut client) = session(&server, CLAUDE).await;
    assert!(kinds(&client.run("one").await).contains(&"auto_retry_start"));
    assert!(!kinds(&client.run("two").await).contains(&"auto_retry_start"));
    let ends: Vec<_> = stored(&daemon, "assistant").iter().map(|message| message["stopReason"].clone()).collect();
    assert_eq!(ends, ["error", "stop", "error"]);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn b020_a_call_cut_off_by_the_limit_is_not_run_and_the_next_request_is_legal() {
    let cut = json!([{"tool": "write", "raw_args": "{\"path\": \"t.txt\", \"content\": \"abc", "id": "toolu_1"}]);
    let server = ModelServer::replies(json!([{"blocks": cut, "stop": "length"}, {"text": "sorry"}]));
    let (daemon, mut client) = session(&server, CLAUDE).await;
    client.run("go").await;
    assert!(!daemon.home().cwd().join("t.txt").exists());
    let result = server.requests()[1].messages()[2]["content"][0].clone();
    assert_eq!((&result["tool_use_id"], &result["is_error"]), (&json!("toolu_1"), &json!(true)));
}

#[tokio::test]
async fn broken_arguments_are_shown_to_the_model() {
    let broken = json!([{"tool": "read", "raw_args": "{\"path\": oops}", "id": "toolu_1"}]);
    let server = ModelServer::replies(json!([{"blocks": broken}, {"text": "sorry"}]));
    let (_daemon, mut client) = session(&server, CLAUDE).await;
    client.run("go").await;
    let request = server.requests().remove(1);
    assert_eq!(request.messages()[1]["content"][0]["input"], json!({}));
    let said = request.messages()[2]["content"][0]["content"].as_str().unwrap();
    assert!(said.contains("{\"path\": oops}"), "{said}");
}

#[tokio::test]
async fn b040_what_the_cache_gave_counts_as_context() {
    let usage = json!({"input_tokens": 50, "cache_read_input_tokens": 90_000, "cache_creation_input_tokens": 5000,
        "output_tokens": 1, "cache_creation": {"ephemeral_5m_input_tokens": 4000, "ephemeral_1h_input_tokens": 1000}});
    let body = begin(usage) + &start("x") + &end();
    let server = ModelServer::replies(json!([{"raw": [body]}]));
    let (daemon, mut client) = session(&server, CLAUDE).await;
    let events = client.run("go").await;
    let stats = client.ok("get_session_stats", json!({})).await;
    assert_eq!(stats["contextUsage"]["tokens"], 95_053);
    assert_eq!(
        stats["tokens"],
        json!({"input": 50, "output": 3, "cacheRead": 90_000, "cacheWrite": 5000, "total": 95_053})
    );
    let usage = stored(&daemon, "assistant")[0]["usage"].clone();
    assert_eq!((&usage["totalTokens"], &usage["cacheWrite1h"]), (&json!(95_053), &json!(1000)));
    // The prices of the recordings: 1, 2, 0.1 and 1.25; twice the input for what is kept an hour.
    let cost = (50.0 + 3.0 * 2.0 + 90_000.0 * 0.1 + 4000.0 * 1.25 + 1000.0 * 2.0) / 1e6;
    assert!((usage["cost"]["total"].as_f64().unwrap() - cost).abs() < 1e-12);
    let told = events.iter().filter(|event| event.pointer("/event/usage").is_some()).count();
    assert_eq!(told, 1, "usage travels when it changed: the last report comes after the last update");
}

#[tokio::test]
async fn withheld_thinking_goes_back_as_it_came() {
    let replies = json!([
        {"blocks": [{"redacted": "ZW5j"}, {"tool": "read", "args": {"path": "a.txt"}, "id": "toolu_1"}]}, {"text": "done"},
    ]);
    let server = ModelServer::replies(replies);
    let (daemon, mut client) = session(&server, CLAUDE).await;
    daemon.home().write("a.txt", "alpha\n");
    client.run("go").await;
    let request = server.requests().remove(1);
    assert_eq!(request.messages()[1]["content"][0], json!({"type": "redacted_thinking", "data": "ZW5j"}));
    assert_eq!(request.body["thinking"]["type"], "enabled");
    let block = json!({"type": "thinking", "thinking": "", "thinkingSignature": "ZW5j", "redacted": true});
    assert_eq!(stored(&daemon, "assistant")[0]["content"][0], block);
}

#[tokio::test]
async fn images_are_sent_as_the_api_has_them() {
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let call = json!([{"tool": "read", "args": {"path": "dot.png"}, "id": "toolu_1"}]);
    let server = ModelServer::replies(json!([{"blocks": call}, {"text": "a dot"}]));
    let (daemon, mut client) = session(&server, "fakeanth/claude:off").await;
    let bytes = STANDARD.decode(png).unwrap();
    daemon.home().write("dot.png", bytes);
    let image = json!({"type": "image", "data": png, "mimeType": "image/png"});
    client.ok("prompt", json!({"message": "look", "images": [image]})).await;
    client.events_until("agent_settled").await;
    let sent = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}});
    let request = server.requests().remove(1);
    assert_eq!(request.messages()[0]["content"], json!([{"type": "text", "text": "look"}, sent]));
    let result = &request.messages()[2]["content"][0]["content"];
    assert_eq!((&result[0]["type"], &result[1]), (&json!("text"), &sent));
}

/// What a model is told of everything but the cache markers.
fn prompt(request: &Value) -> Vec<Value> {
    let mut messages = request["messages"].as_array().unwrap().clone();
    for part in messages.iter_mut().filter_map(|message| message["content"].as_array_mut()).flatten() {
        part.as_object_mut().unwrap().shift_remove("cache_control");
    }
    messages
}

#[tokio::test]
async fn b047_b049_a_session_changes_between_apis_and_back() {
    let foreign_id = format!("call_x|fc_{}+/==", "a".repeat(200));
    let server = ModelServer::replies(json!([
        {"blocks": reading("toolu_1")}, {"text": "of claude"},
        {"blocks": [{"thinking": "foreign thought"}, {"tool": "read", "args": {"path": "a.txt"}, "id": foreign_id}]},
        {"blocks": [{"thinking": "another"}, {"text": "of thinker"}]},
        {"blocks": reading("toolu_1")}, {"text": "again"},
    ]));
    let (daemon, mut client) = session(&server, CLAUDE).await;
    daemon.home().write("a.txt", "alpha\n");
    client.run("one").await;
    client.ok("set_model", json!({"model": "fake/thinker:high"})).await;
    client.run("two").await;
    client.ok("set_model", json!({"model": CLAUDE})).await;
    client.run("three").await;
    let requests = server.requests();
    assert_eq!(requests.len(), 6);
    // B is told nothing of A's thoughts, and A nothing of B's; A's own go back as they came.
    for request in &requests[2..4] {
        assert!(!request.text.contains("consider") && !request.text.contains("c2lnMQ=="), "{}", request.text);
    }
    let own = json!({"type": "thinking", "thinking": "consider", "signature": "c2lnMQ=="});
    for request in &requests[4..] {
        assert!(!request.text.contains("foreign thought") && !request.text.contains("<thinking"), "{}", request.text);
        assert_eq!(prompt(&request.body)[1]["content"][0], own);
        assert_eq!(request.body["thinking"]["type"], "enabled");
    }
    // The prompt only grows, so that the provider's cache holds.
    let (before, after) = (prompt(&requests[4].body), prompt(&requests[5].body));
    assert_eq!(after[..before.len()], before);
    assert_eq!(prompt(&requests[4].body)[..3], prompt(&requests[1].body)[..3]);
    let ids: Vec<_> = after.iter().flat_map(|message| message["content"].as_array().unwrap().clone()).collect();
    let ids: Vec<_> = ids.iter().filter_map(|part| part["id"].as_str()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 3, "{ids:?}");
    assert_eq!(ids[1], "call_x");
}

#[tokio::test]
async fn b049_thinking_that_was_broken_off_is_not_sent_again() {
    let stopped = json!({"blocks": [{"thinking": "abcdef", "signature": "s"}], "chunk": 2, "gates": {"3": "never"}});
    let server = ModelServer::replies(json!([stopped, {"text": "done"}]));
    let (daemon, mut client) = session(&server, CLAUDE).await;
    client.ok("prompt", json!({"message": "go"})).await;
    client.find("a delta", |message| message.pointer("/params/event/assistantMessageEvent/delta").is_some()).await;
    client.ok("abort", json!({})).await;
    client.events_until("agent_settled").await;
    client.run("on").await;
    let aborted = stored(&daemon, "assistant").remove(0);
    assert_eq!((&aborted["stopReason"], &aborted["content"][0]["type"]), (&json!("aborted"), &json!("thinking")));
    let both = json!([{"role": "user", "content": [{"type": "text", "text": "go"}, {"type": "text", "text": "on"}]}]);
    assert_eq!(json!(prompt(&server.requests()[1].body)), both);
}

#[tokio::test]
async fn a_model_that_takes_over_in_the_middle_of_a_turn_goes_on_without_thinking() {
    let slow = json!([{"tool": "bash", "args": {"command": "cat fifo"}, "id": "c1"}]);
    let server = ModelServer::replies(json!([{"blocks": slow}, {"text": "done"}]));
    let (daemon, mut client) = session(&server, "fake/thinker:high").await;
    let fifo = daemon.home().cwd().join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    client.ok("prompt", json!({"message": "go"})).await;
    client
        .find("the tool", |message| message.pointer("/params/event/type") == Some(&json!("tool_execution_start")))
        .await;
    client.ok("set_model", json!({"model": CLAUDE})).await;
    let write = tokio::task::spawn_blocking(move || std::fs::write(fifo, "beta"));
    bounded("the tool to read", write).await.unwrap().unwrap();
    client.events_until("agent_settled").await;
    let request = server.requests().remove(1);
    assert_eq!((&request.body["model"], &request.body["thinking"]["type"]), (&json!("claude"), &json!("disabled")));
    assert_eq!(request.messages()[2]["content"][0]["content"], "beta");
}

#[tokio::test]
async fn key_and_features_are_in_the_headers() {
    let server = ModelServer::replies(json!([{"text": "one"}, {"text": "two"}]));
    let (_daemon, mut client) = session(&server, CLAUDE).await;
    client.run("go").await;
    client.ok("set_thinking_level", json!({"level": "off"})).await;
    client.run("on").await;
    let requests = server.requests();
    let of = |at: usize, name: &str| requests[at].header(name).map(str::to_owned);
    assert_eq!(requests[0].path, "/v1/messages?beta=true");
    assert_eq!(of(0, "x-api-key").as_deref(), Some("test-key"));
    assert_eq!((of(0, "anthropic-version").as_deref(), of(0, "authorization")), (Some("2023-06-01"), None));
    assert_eq!(of(0, "anthropic-beta").as_deref(), Some("interleaved-thinking-2025-05-14"));
    assert_eq!(of(1, "anthropic-beta"), None);
}

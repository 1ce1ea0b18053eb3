//! Runs: prompt, abort, continue, wait.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Daemon, Home};
use crate::model_server::ModelServer;

/// A reply that stops in the middle of `abcdef` until the gate `go` is released.
fn gated() -> Value {
    json!({"text": "abcdef", "chunk": 2, "gates": {"2": "go"}})
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"]["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn prompt_is_answered_when_its_entry_is_on_disk() {
    let server = ModelServer::replies(json!([gated()]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    let answer = client.ok("prompt", json!({"message": "hello"})).await;
    let lines = daemon.home().only_session();
    let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["session", "model_change", "thinking_level_change", "message", "message"]);
    let user = lines.last().unwrap();
    assert_eq!(user["message"]["content"], json!([{"type": "text", "text": "hello"}]));
    assert_eq!((&answer["disposition"], &answer["entryId"]), (&json!("started"), &user["id"]));
    server.release("go");
    client.events_until("agent_settled").await;
}

#[tokio::test]
async fn seq_is_contiguous_and_answers_come_after_the_events_they_reflect() {
    let server = ModelServer::replies(json!([{"text": "abcdef", "chunk": 1}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let made = client.ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "fake/plain"})).await;
    let mut seq = made["seq"].as_u64().unwrap();
    let prompt = client.request("prompt", json!({"message": "x"})).await;
    let mut answered_at = None;
    loop {
        let message = client.next().await.unwrap();
        if message["id"] == prompt {
            answered_at = message["result"]["seq"].as_u64();
            assert!(
                answered_at <= Some(seq),
                "events up to the answer's seq are written before it: {answered_at:?} {seq}"
            );
            continue;
        }
        seq += 1;
        assert_eq!(message["params"]["seq"], seq);
        if message["params"]["event"]["type"] == "agent_settled" {
            break;
        }
    }
    assert!(answered_at.is_some(), "the answer comes before the end of the run");
}

#[tokio::test]
async fn a_prompt_during_a_run_is_refused_or_queued_as_told() {
    let server = ModelServer::replies(json!([gated(), {"text": "steered"}, {"text": "followed"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "one"})).await;
    let error = client.err("prompt", json!({"message": "refused"})).await;
    assert_eq!((error.code, error.kind(), &error.data["retryable"]), (-32003, "busy", &json!(true)));
    client.err("prompt", json!({"message": "refused", "ifBusy": "reject"})).await;
    let steer = client.ok("prompt", json!({"message": "steer", "ifBusy": "steer"})).await;
    let follow = client.ok("prompt", json!({"message": "follow", "streamingBehavior": "followUp"})).await;
    assert_eq!((&steer["disposition"], &follow["disposition"]), (&json!("queued"), &json!("queued")));
    server.release("go");
    client.events_until("agent_settled").await;
    let texts: Vec<_> = server.requests()[2].messages()[1..].iter().map(text).collect();
    assert_eq!(texts, ["one", "abcdef", "steer", "steered", "follow"]);
}

/// Returns a message's text, however its content is spelled.
fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        parts => parts.as_array().unwrap().iter().filter_map(|part| part["text"].as_str()).collect(),
    }
}

#[tokio::test]
async fn b153_two_prompts_in_one_write_never_make_two_runs() {
    let server = ModelServer::replies(json!([gated()]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    let prompt = |id: &str| json!({"jsonrpc": "2.0", "id": id, "method": "prompt", "params": {"message": id}});
    client.send_raw(format!("{}\n{}\n", prompt("a"), prompt("b"))).await;
    assert_eq!(client.answer("a").await.unwrap()["disposition"], "started");
    assert_eq!(client.answer("b").await.unwrap_err().kind(), "busy");
    server.release("go");
    let events = client.events_until("agent_settled").await;
    assert_eq!(kinds(&events).iter().filter(|kind| **kind == "agent_start").count(), 1);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_empty_prompt_asks_the_model_nothing() {
    let server = ModelServer::replies(json!([{"text": "hm"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    let before = daemon.home().only_session();
    // pi keeps it and asks without it, so that the request ends with the answer before; strict providers refuse that.
    for method in ["prompt", "steer", "follow_up"] {
        assert_eq!(client.err(method, json!({"message": " "})).await.data["param"], "message");
    }
    assert_eq!((server.requests().len(), daemon.home().only_session()), (1, before));
}

#[tokio::test]
async fn a_repeated_client_message_id_runs_nothing_twice() {
    let server = ModelServer::replies(json!([gated(), {"text": "second"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    let params = json!({"sessionId": session, "message": "once", "clientMessageId": "cm-1"});
    let first = client.ok("prompt", params.clone()).await;
    let during = client.ok("prompt", params.clone()).await;
    server.release("go");
    client.events_until("agent_settled").await;
    let after = client.ok("prompt", params.clone()).await;
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    let restarted = client.ok("prompt", params).await;
    for repeat in [during, after, restarted] {
        assert_eq!((&repeat["disposition"], &repeat["entryId"]), (&first["disposition"], &first["entryId"]));
    }
    assert_eq!(server.requests().len(), 1);
    let users = daemon.home().only_session().iter().filter(|line| line["message"]["role"] == "user").count();
    assert_eq!(users, 1);
}

#[tokio::test]
async fn abort_settles_before_it_answers_and_a_prompt_starts_at_once() {
    let server = ModelServer::replies(json!([gated(), {"text": "fresh"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    client.events_until("message_update").await;
    let abort = client.request("abort", json!({})).await;
    let prompt = client.request("prompt", json!({"message": "y"})).await;
    let mut order = Vec::new();
    while order.len() < 3 {
        let message = client.next().await.unwrap();
        if message["params"]["event"]["type"] == "agent_settled" {
            assert_eq!(message["params"]["event"]["aborted"], true);
            assert_eq!(message["params"]["event"]["reason"], "aborted");
            order.push("settled");
        } else if message["id"] == abort {
            order.push("abort");
        } else if message["id"] == prompt {
            // Applied in order: the abort was going on, or had ended.
            order.push(if message.get("result").is_some() { "started" } else { "busy" });
        }
    }
    assert_eq!(
        order.iter().position(|step| *step == "settled"),
        Some(order.iter().position(|s| *s == "abort").unwrap() - 1)
    );
    server.client_gone(1).await;
    if !order.contains(&"started") {
        client.ok("prompt", json!({"message": "y"})).await;
    }
    let events = client.events_until("agent_settled").await;
    assert_eq!(events.last().unwrap()["event"]["reason"], "done");
}

#[tokio::test]
async fn b163_abort_while_idle_is_a_success_without_events() {
    let server = ModelServer::replies(json!([{"text": "a"}, {"text": "b"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    let before = client.ok("abort", json!({})).await["seq"].clone();
    client.run("x").await;
    client.ok("abort", json!({})).await;
    let second = client.ok("abort", json!({})).await["seq"].clone();
    assert_eq!(client.ok("get_state", json!({})).await["seq"], second);
    assert_ne!(before, second);
    let events = client.run("y").await;
    assert_eq!(events.last().unwrap()["event"]["aborted"], false);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn b165_abort_before_the_headers_is_an_abort_and_not_retried() {
    let server = ModelServer::replies(json!([{"text": "never", "first_gate": "never"}, {"text": "next"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    server.request(1).await;
    client.ok("abort", json!({})).await;
    let events = client.events_until("agent_settled").await;
    assert!(!kinds(&events).contains(&"auto_retry_start"), "{:?}", kinds(&events));
    server.client_gone(1).await;
    client.run("y").await;
    let assistants: Vec<_> = daemon
        .home()
        .only_session()
        .into_iter()
        .filter(|line| line["message"]["role"] == "assistant")
        .map(|line| line["message"]["stopReason"].clone())
        .collect();
    assert_eq!(assistants, ["aborted", "stop"]);
}

#[tokio::test]
async fn a_wait_for_the_provider_is_visible_and_can_be_ended() {
    let server = ModelServer::replies(json!([{"status": 503, "headers": {"Retry-After": "43"}, "body": "busy"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.ok("abort_retry", json!({})).await;
    client.ok("prompt", json!({"message": "x"})).await;
    client.events_until("auto_retry_start").await;
    let mut other = daemon.connect().await;
    let state = other.ok("attach", json!({"sessionId": session})).await["state"].clone();
    assert_eq!((&state["status"], &state["isStreaming"]), (&json!("retryWait"), &json!(true)));
    let retry = &state["retry"];
    assert_eq!((&retry["attempt"], &retry["maxAttempts"]), (&json!(1), &json!(3)));
    assert_eq!(retry["errorMessage"], "503 busy");
    let delay = retry["delayMs"].as_u64().unwrap();
    assert!((43_000..60_000).contains(&delay), "{delay}");
    let row = other.ok("list_sessions", json!({})).await["sessions"][0].clone();
    assert_eq!((&row["status"], &row["retryAt"]), (&json!("retryWait"), &state["retryAt"]));
    other.ok("abort_retry", json!({})).await;
    let events = client.events_until("agent_settled").await;
    let end = events.iter().find(|event| event["event"]["type"] == "auto_retry_end").unwrap();
    assert_eq!(end["event"]["finalError"], "Retry cancelled");
    let settled = &events.last().unwrap()["event"];
    assert_eq!((&settled["aborted"], &settled["reason"]), (&json!(false), &json!("error")));
    assert_eq!(settled["errorMessage"], "503 busy");
    let state = client.ok("get_state", json!({})).await;
    assert_eq!((state.get("retry"), state.get("retryAt")), (None, None));
    server.push(json!({"text": "ok"}));
    client.run("y").await;
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn without_automatic_retry_a_failed_request_ends_the_run() {
    let server = ModelServer::replies(json!([{"status": 500, "body": "boom"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.ok("set_auto_retry", json!({"enabled": false})).await;
    let events = client.run("x").await;
    assert_eq!(events.last().unwrap()["event"]["errorMessage"], "500 boom");
    assert_eq!(server.requests().len(), 1);
    daemon.kill();
    daemon.restart();
    let state = daemon.connect().await.ok("get_state", json!({"sessionId": session})).await;
    assert_eq!(state["autoRetryEnabled"], false, "it is kept with the session");
}

#[tokio::test]
async fn calls_with_one_id_are_run_and_answered_each() {
    let call = |word: &str| json!({"tool": "bash", "args": {"command": format!("echo {word}")}, "id": "same"});
    let server = ModelServer::replies(json!([{"blocks": [call("one"), call("two")]}, {"text": "done"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("x").await;
    let requests = server.requests();
    let results: Vec<_> = requests[1].messages().iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results.iter().map(|result| text(result)).collect::<Vec<_>>(), ["one\n", "two\n"]);
    assert_ne!(results[0]["tool_call_id"], results[1]["tool_call_id"]);
}

#[tokio::test]
async fn continue_needs_something_to_go_on_with() {
    let server = ModelServer::replies(json!([gated()]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    let error = client.err("continue", json!({})).await;
    assert_eq!((error.code, error.kind()), (-32004, "wrong_state"), "an empty session");
    client.ok("prompt", json!({"message": "x"})).await;
    let error = client.err("continue", json!({})).await;
    assert_eq!(error.kind(), "busy", "a run is going on");
    server.release("go");
    client.events_until("agent_settled").await;
    let error = client.err("continue", json!({})).await;
    assert_eq!(error.kind(), "wrong_state", "the last answer is complete");
}

#[tokio::test]
async fn continue_goes_on_after_an_abort() {
    let server = ModelServer::replies(json!([gated(), {"text": "whole"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    client.events_until("message_update").await;
    client.ok("abort", json!({})).await;
    client.events_until("agent_settled").await;
    assert_eq!(client.ok("continue", json!({})).await["disposition"], "started");
    client.events_until("agent_settled").await;
    let roles: Vec<_> = server.requests()[1].messages().iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["system", "user"], "the aborted answer is left out, and no user message is added");
    assert_eq!(client.ok("get_last_assistant_text", json!({})).await["text"], "whole");
}

#[tokio::test]
async fn wait_tells_how_the_run_ended() {
    let server = ModelServer::replies(json!([gated(), {"status": 400, "body": {"error": {"message": "bad"}}}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    assert_eq!(client.ok("wait", json!({})).await.get("reason"), None, "no run yet");
    client.ok("prompt", json!({"message": "x"})).await;
    let wait = client.request("wait", json!({})).await;
    client.ok("ping", json!({})).await;
    server.release("go");
    assert_eq!(client.answer(wait).await.unwrap()["reason"], "done");
    client.ok("prompt", json!({"message": "y"})).await;
    let ended = client.ok("wait", json!({})).await;
    assert_eq!(ended["reason"], "error");
    assert!(ended["errorMessage"].as_str().unwrap().contains("bad"), "{ended}");
}

#[tokio::test]
async fn a_run_ends_at_the_most_turns() {
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": "true"}}], "repeat": 9});
    let server = ModelServer::replies(json!([call]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.ok("initialize", json!({"capabilities": {"answers": false}})).await;
    client.ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "fake/plain", "maxTurns": 3})).await;
    let events = client.run("x").await;
    assert!(!kinds(&events).contains(&"approval_requested"), "nobody is there who answers");
    assert_eq!(events.last().unwrap()["event"]["reason"], "maxTurns");
    assert_eq!(server.requests().len(), 3);
    // The conversation is left such that a strict provider takes it up again.
    server.push(json!({"text": "done"}));
    client.run("go on").await;
}

#[tokio::test]
async fn tools_read_makes_a_session_that_cannot_write() {
    let write = json!({"blocks": [{"tool": "write", "args": {"path": "f.txt", "content": "x"}}, {"tool": "bash", "args": {"command": "touch g.txt"}}]});
    let server = ModelServer::replies(json!([write, {"text": "ok"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "fake/plain", "tools": ["read"]})).await;
    client.run("x").await;
    let requests = server.requests();
    let tools = requests[0].body["tools"].as_array().unwrap();
    assert_eq!(tools.iter().map(|tool| &tool["function"]["name"]).collect::<Vec<_>>(), ["read"]);
    let results: Vec<_> = requests[1].messages().iter().filter(|message| message["role"] == "tool").map(text).collect();
    assert_eq!(results, ["Tool write not found", "Tool bash not found"]);
    assert_eq!(std::fs::read_dir(daemon.home().cwd()).unwrap().count(), 0);
}

/// Two clients prompt in the same moment, again and again: one runs, the other is told or queued; nothing is lost, and
/// there are never two runs.
#[tokio::test]
async fn b153_of_prompts_that_race_exactly_one_starts() {
    const ROUNDS: usize = 20;
    let replies = json!([{"text": "ok", "repeat": 4 * ROUNDS}]);
    let server = ModelServer::replies(replies);
    let daemon = Daemon::start(Home::with_models(&server));
    let mut clients = [daemon.connect().await, daemon.connect().await];
    let session = clients[0].new_session(daemon.home(), "fake/plain").await;
    clients[1].ok("attach", json!({"sessionId": session})).await;
    let mut sent = Vec::new();
    for round in 0..ROUNDS {
        let if_busy = ["reject", "steer", "followUp"][round % 3];
        let mut requests = Vec::new();
        for turn in 0..2 {
            let place = (turn + round) % 2;
            let message = format!("{round} of {place}");
            let params = json!({"sessionId": session, "message": message, "ifBusy": if_busy});
            requests.push((place, message, clients[place].request("prompt", params).await));
        }
        let mut outcomes = Vec::new();
        for (place, message, request) in requests {
            match clients[place].answer(request).await {
                Ok(answer) => {
                    outcomes.push(answer["disposition"].as_str().unwrap().to_owned());
                    sent.push(message);
                }
                Err(error) => outcomes.push(error.kind().to_owned()),
            }
        }
        clients[0].ok("wait", json!({})).await;
        // A run can be over before the other prompt comes; then that one starts the next.
        outcomes.sort();
        let other = if if_busy == "reject" { "busy" } else { "queued" };
        assert!(outcomes == [other, "started"] || outcomes == ["started", "started"], "{outcomes:?}");
    }
    assert_eq!(server.max_parallel(), 1, "never two runs");
    let mut texts: Vec<String> = daemon
        .home()
        .only_session()
        .iter()
        .filter(|line| line["message"]["role"] == "user")
        .map(|line| line["message"]["content"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    texts.sort();
    sent.sort();
    assert_eq!(texts, sent, "what was accepted is in the session once");
}

//! Ending in order: runs are recorded, children are gone, clients are told, the exit code is 0.

use nix::sys::signal::Signal;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

#[tokio::test]
async fn sigterm_records_a_streaming_answer_and_exits_0() {
    let server = ModelServer::replies(json!([{"text": "abcdef", "chunk": 1, "gates": {"4": "never"}}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    let mut text = String::new();
    while text != "abc" {
        let event = client.event().await;
        text.push_str(event["event"]["assistantMessageEvent"]["delta"].as_str().unwrap_or_default());
    }
    assert!(daemon.terminate().success());
    server.client_gone(1).await;
    let last = daemon.home().only_session().pop().unwrap();
    assert_eq!(
        (&last["message"]["stopReason"], &last["message"]["content"][0]["text"]),
        (&json!("aborted"), &json!("abc"))
    );
    assert!(!daemon.home().socket().exists());
    client.rest().await;
}

#[tokio::test]
async fn b105_b169_sigterm_ends_tools_and_records_their_results() {
    let command = "trap 'echo trapped; exit 3' TERM; echo up; sleep 300 & wait";
    let server =
        ModelServer::replies(json!([{"blocks": [{"tool": "bash", "args": {"command": command}, "id": "c1"}]}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    let mut output = String::new();
    while !output.contains("up") {
        let event = client.events_until("tool_execution_update").await.pop().unwrap();
        output.push_str(event["event"]["delta"].as_str().unwrap());
    }
    assert!(daemon.terminate().success());
    assert_eq!(daemon.home().processes(), Vec::<i32>::new(), "no child is left");
    let result = daemon.home().only_session().into_iter().find(|line| line["message"]["role"] == "toolResult");
    let result = result.expect("the result is recorded before the session closes");
    assert_eq!(result["message"]["isError"], true);
    let text = result["message"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("up\n"), "{text}");
}

#[tokio::test]
async fn after_the_drain_the_session_can_go_on() {
    let server =
        ModelServer::replies(json!([{"text": "abcdef", "chunk": 1, "gates": {"4": "never"}}, {"text": "whole"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    client.events_until("message_update").await;
    assert!(daemon.terminate().success());
    daemon.restart();
    let mut client = daemon.connect().await;
    let attached = client.ok("attach", json!({"sessionId": session})).await;
    assert_eq!(attached["state"]["interrupted"], true, "the end of the daemon cut the run short");
    client.ok("continue", json!({})).await;
    client.events_until("agent_settled").await;
    assert_eq!(client.ok("get_last_assistant_text", json!({})).await["text"], "whole");
}

#[tokio::test]
async fn sigint_ends_it_like_sigterm() {
    let mut daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.ok("ping", json!({})).await;
    daemon.signal(Signal::SIGINT);
    assert!(daemon.wait().success());
    assert_eq!(client.rest().await.iter().filter(|message| message.get("id").is_some()).count(), 0);
}

#[tokio::test]
async fn a_second_signal_exits_at_once() {
    // A process that cannot be told to stop keeps the drain busy until its grace is over.
    let command = "(trap '' TERM INT HUP; while :; do sleep 1; done) & echo up; wait";
    let server = ModelServer::replies(json!([{"blocks": [{"tool": "bash", "args": {"command": command}}]}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    client.events_until("tool_execution_update").await;
    daemon.signal(Signal::SIGTERM);
    until_draining(&mut client).await;
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait().code(), Some(143), "not the 0 of a drain that came to its end");
}

/// Waits until the daemon refuses new work: a second signal before that would be one with the first.
async fn until_draining(client: &mut Client) {
    loop {
        let params = json!({"cwd": "/", "model": "demo", "attach": false});
        client.send(&json!({"jsonrpc": "2.0", "id": "probe", "method": "new_session", "params": params})).await;
        let answer = loop {
            match client.next().await {
                Some(message) if message["id"] == "probe" => break message,
                Some(_) => {}
                None => return,
            }
        };
        if answer["error"]["data"]["kind"] == "shutting_down" {
            return;
        }
    }
}

//! `agentd stdio`: the same wire for an editor, nothing else on stdout, and an end that loses nothing.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

#[tokio::test]
async fn a_session_through_stdio_is_in_the_directory_of_its_editor() {
    let server = ModelServer::replies(json!([{"text": "hello"}]));
    let home = Home::with_models(&server);
    let project = home.root().join("project");
    fs::create_dir(&project).unwrap();
    let daemon = Daemon::start(home);
    let mut front = Client::stdio_in(daemon.home(), &project, &daemon.home().env());
    let made = front.ok("new_session", json!({"model": "fake/plain"})).await;
    assert_eq!(made["state"]["cwd"], json!(project));
    assert_eq!(made["state"]["envSource"], "client");
    let events = front.run("x").await;
    assert_eq!(events.last().unwrap()["event"]["reason"], "done");
    let mut other = daemon.connect().await;
    assert_eq!(other.ok("list_sessions", json!({})).await["sessions"][0]["sessionId"], made["sessionId"]);
}

#[tokio::test]
async fn answers_to_what_was_sent_before_the_end_are_delivered() {
    let daemon = Daemon::start(Home::new());
    let mut front = Client::stdio(daemon.home());
    for _ in 0..50 {
        front.request("ping", json!({})).await;
    }
    // Without a line feed at the end, too.
    front.send_raw(r#"{"jsonrpc":"2.0","id":"tail","method":"ping"}"#).await;
    front.close_input().await;
    let answers = front.rest().await;
    assert_eq!(answers.len(), 51);
    assert_eq!(answers.last().unwrap()["id"], "tail");
    assert_eq!(front.exit_code().await, Some(0));
}

#[tokio::test]
async fn b151_the_end_of_stdin_detaches_and_the_run_goes_on() {
    let server = ModelServer::replies(json!([{"text": "abc", "gates": {"1": "go"}}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut front = Client::stdio(daemon.home());
    let session = front.new_session(daemon.home(), "fake/plain").await;
    front.ok("prompt", json!({"message": "x"})).await;
    front.close_input().await;
    front.rest().await;
    assert_eq!(front.exit_code().await, Some(0));
    let mut other = daemon.connect().await;
    let attached = other.ok("attach", json!({"sessionId": session})).await;
    assert_eq!(attached["state"]["isStreaming"], true);
    server.release("go");
    let events = other.events_until("agent_settled").await;
    assert_eq!(events.last().unwrap()["event"]["reason"], "done");
}

#[tokio::test]
async fn lsp_framing_passes_through() {
    let daemon = Daemon::start(Home::new());
    let mut front = Client::stdio(daemon.home());
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    front.send_raw(format!("Content-Length: {}\r\n\r\n{body}", body.len())).await;
    let head = front.read_line().await.unwrap();
    assert!(head.starts_with("Content-Length: "), "{head:?}");
}

#[tokio::test]
async fn the_daemon_that_stdio_started_outlives_it() {
    let home = Home::new();
    let mut front = Client::stdio(&home);
    let pid = front.ok("get_daemon_status", json!({})).await["pid"].clone();
    front.close_input().await;
    front.rest().await;
    assert_eq!(front.exit_code().await, Some(0));
    let mut again = Client::stdio(&home);
    assert_eq!(again.ok("get_daemon_status", json!({})).await["pid"], pid);
}

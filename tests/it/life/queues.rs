//! What waits in the queues is kept: without a prompt before, beside a second daemon, and at the cost of its size.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

async fn queued(client: &mut Client, session: &str) -> Value {
    client.ok("attach", json!({"sessionId": session})).await["snapshot"]["queue"].clone()
}

fn journal_bytes(home: &Home) -> u64 {
    let files = fs::read_dir(home.state().join("agentd/journal")).into_iter().flatten().flatten();
    files.map(|file| file.metadata().map_or(0, |facts| facts.len())).sum()
}

#[tokio::test]
async fn a_message_to_a_session_that_was_never_prompted_survives_a_kill() {
    let server = ModelServer::replies(json!([{"text": "a"}, {"text": "b"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let params = json!({"cwd": daemon.home().cwd(), "model": "fake/plain", "name": "kept"});
    let session = client.ok("new_session", params).await["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(daemon.home().session_files().len(), 0, "no file before there is something to keep");
    client.ok("steer", json!({"message": "s"})).await;
    client.ok("follow_up", json!({"message": "f"})).await;
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    let row = client.ok("list_sessions", json!({})).await["sessions"][0].clone();
    assert_eq!((&row["sessionId"], &row["name"]), (&json!(session), &json!("kept")));
    assert_eq!(queued(&mut client, &session).await, json!({"steering": ["s"], "followUp": ["f"]}));
    client.ok("set_env", json!({"env": daemon.home().env()})).await;
    client.run("p").await;
    let entries = daemon.home().only_session();
    let texts: Vec<_> = entries.iter().filter(|entry| entry["message"]["role"] == "user").collect();
    assert_eq!(texts.len(), 3, "{entries:?}");
    // The journal is emptied after the last event, and before the next answer.
    client.ok("get_state", json!({})).await;
    assert_eq!(journal_bytes(daemon.home()), 0);
}

/// A daemon that reads a session of another one leaves that one's journal alone, and takes it over when it may.
#[tokio::test]
async fn a_second_daemon_takes_nothing_from_the_first() {
    let server = ModelServer::replies(json!([{"text": "a"}]));
    let mut first = Daemon::start(Home::with_models(&server));
    let mut client = first.connect().await;
    let session = client.new_session(first.home(), "fake/plain").await;
    client.run("p").await;
    client.ok("follow_up", json!({"message": "one"})).await;

    let (second, mut other) = first.start_second().await;
    let none = json!({"steering": [], "followUp": []});
    assert_eq!(queued(&mut other, &session).await, none, "what waits elsewhere is not its own");
    assert_eq!(other.err("follow_up", json!({"message": "no"})).await.kind(), "session_locked");
    assert_eq!(other.err("prompt", json!({"message": "no"})).await.kind(), "session_locked");
    client.ok("follow_up", json!({"message": "two"})).await;

    first.kill();
    let error = other.err("follow_up", json!({"message": "no"})).await;
    assert!(error.message.contains("continued by another daemon"), "{error:?}");
    let lagged = other.events_until("lagged").await.pop().unwrap();
    let waiting = json!({"steering": [], "followUp": ["one", "two"]});
    assert_eq!(lagged["event"]["snapshot"]["queue"], waiting);
    other.ok("follow_up", json!({"message": "three"})).await;
    assert_eq!(queued(&mut other, &session).await["followUp"], json!(["one", "two", "three"]));
    drop(second);
}

#[tokio::test]
async fn queues_cost_their_size_and_have_an_end() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "demo").await;
    let text = "x".repeat(200_000);
    let mut taken = 0;
    let refused = loop {
        match client.call("follow_up", json!({"message": text})).await {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((refused.kind(), taken), ("wrong_state", 4 * 1024 * 1024 / 200_000), "{refused:?}");
    assert!(journal_bytes(daemon.home()) < 2 * 200_000 * taken, "{}", journal_bytes(daemon.home()));
    assert_eq!(queued(&mut client, &session).await["followUp"].as_array().unwrap().len() as u64, taken);
    client.ok("clear_queue", json!({})).await;
    assert!(journal_bytes(daemon.home()) < 1000, "{}", journal_bytes(daemon.home()));
    for number in 0..256 {
        client.ok("steer", json!({"message": number.to_string()})).await;
    }
    assert_eq!(client.err("steer", json!({"message": "x"})).await.kind(), "wrong_state");
    // One alone is bounded by what a connection takes.
    client.ok("clear_queue", json!({})).await;
    client.ok("steer", json!({"message": "x".repeat(5_000_000)})).await;
}

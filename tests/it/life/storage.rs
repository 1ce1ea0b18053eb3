//! What happens when a session file cannot be written any more, or is no longer the one that was read.

use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

/// Puts a copy in a file's place, as editors and synchronising programs do.
fn replace(file: &Path) {
    let copy = file.with_extension("copy");
    fs::copy(file, &copy).unwrap();
    fs::rename(&copy, file).unwrap();
}

fn texts(home: &Home) -> Vec<(Value, Value)> {
    let messages = home.only_session().into_iter().map(|line| line["message"].clone());
    let spoken = messages.filter(|message| message["role"] == "user" || message["role"] == "assistant");
    spoken.map(|message| (message["content"][0]["text"].clone(), message["stopReason"].clone())).collect()
}

/// Reads events until the session is told anew, from its file.
async fn until_reloaded(client: &mut Client) -> Value {
    client.events_until("lagged").await.pop().unwrap()["event"].take()
}

#[tokio::test]
async fn a_file_that_was_replaced_before_a_run_is_read_anew() {
    let server = ModelServer::replies(json!([{"text": "one"}, {"text": "two"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let made = client.ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "fake/plain"})).await;
    client.run("first").await;
    replace(&daemon.home().session_files()[0]);
    let refused = client.err("prompt", json!({"message": "second"})).await;
    assert_eq!(refused.kind(), "storage");
    assert_ne!(until_reloaded(&mut client).await["epoch"], made["epoch"]);
    client.run("second").await;
    let said: Vec<Value> = texts(daemon.home()).into_iter().map(|(text, _)| text).collect();
    assert_eq!(said, ["first", "one", "second", "two"]);
}

#[tokio::test]
async fn b069_what_could_not_be_written_comes_into_the_file_with_the_next_load() {
    let server = ModelServer::replies(
        json!([{"text": "one"}, {"text": "abcdef", "chunk": 1, "gates": {"6": "go"}}, {"text": "on"}]),
    );
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    client.ok("prompt", json!({"message": "second"})).await;
    client.events_until("message_update").await;
    replace(&daemon.home().session_files()[0]);
    server.release("go");
    let settled = client.events_until("agent_settled").await.pop().unwrap();
    assert_eq!(settled["event"]["reason"], "storage");
    let state = until_reloaded(&mut client).await["state"].take();
    assert_eq!(state["interrupted"], true);
    assert_eq!(
        texts(daemon.home()),
        [
            (json!("first"), Value::Null),
            (json!("one"), json!("stop")),
            (json!("second"), Value::Null),
            (json!("abcdef"), json!("aborted")),
        ]
    );
    assert_eq!(client.ok("continue", json!({})).await["disposition"], "started");
    client.events_until("agent_settled").await;
    assert_eq!(client.ok("get_last_assistant_text", json!({})).await["text"], "on");
}

fn journals(home: &Home) -> Vec<PathBuf> {
    let folder = fs::read_dir(home.state().join("agentd/journal")).unwrap();
    folder.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test]
async fn a_journal_goes_with_a_session_that_was_moved_and_not_to_a_copy_of_it() {
    for is_moved in [true, false] {
        let server = ModelServer::replies(json!([{"text": "abc", "chunk": 1, "gates": {"2": "never"}}]));
        let mut daemon = Daemon::start(Home::with_models(&server));
        let mut client = daemon.connect().await;
        let session = client.new_session(daemon.home(), "fake/plain").await;
        client.ok("prompt", json!({"message": "x"})).await;
        client.events_until("message_update").await;
        daemon.kill();
        let file = daemon.home().session_files().remove(0);
        if is_moved {
            let name = file.file_name().unwrap().to_str().unwrap().replacen("20", "19", 1);
            fs::rename(&file, file.with_file_name(name)).unwrap();
        } else {
            // The journal is that of another file, which is still there.
            let kept = daemon.home().root().join("kept.jsonl");
            fs::copy(&file, &kept).unwrap();
            let journal = journals(daemon.home()).remove(0);
            let text = fs::read_to_string(&journal).unwrap();
            fs::write(&journal, text.replace(file.to_str().unwrap(), kept.to_str().unwrap())).unwrap();
        }
        daemon.restart();
        let mut client = daemon.connect().await;
        let attached = client.ok("attach", json!({"sessionId": session})).await;
        assert_eq!(attached["state"]["interrupted"], is_moved);
        assert_eq!(journals(daemon.home()).len(), usize::from(!is_moved), "the other file's journal stays");
    }
}

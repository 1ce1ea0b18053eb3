//! kill -9 and restart: every acknowledged entry, the queue and the partial answer are there, and nothing runs twice.

use std::fs;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home, bounded};
use crate::model_server::{ModelServer, Recorded};

fn delta(event: &Value) -> &str {
    event["event"]["assistantMessageEvent"]["delta"].as_str().unwrap_or_default()
}

/// Reads events until the streamed text is this.
async fn until_text(client: &mut Client, text: &str) {
    let mut seen = String::new();
    while seen != text {
        seen.push_str(delta(&client.event().await));
    }
}

/// Waits until the crash journal holds a text; deltas reach it a moment after the clients.
async fn until_journalled(home: &Home, text: &str) {
    let journals = home.state().join("agentd/journal");
    let holds = |entry: fs::DirEntry| fs::read_to_string(entry.path()).is_ok_and(|journal| journal.contains(text));
    let wait = async {
        while !fs::read_dir(&journals).is_ok_and(|entries| entries.flatten().any(holds)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    bounded(&format!("{text} in the crash journal"), wait).await;
}

fn roles(request: &Recorded) -> Vec<&str> {
    request.messages().iter().map(|message| message["role"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn killed_in_mid_answer() {
    let server =
        ModelServer::replies(json!([{"text": "abcdefghij", "chunk": 1, "gates": {"7": "never"}}, {"text": "whole"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    until_text(&mut client, "abcdef").await;
    until_journalled(daemon.home(), "f\"]").await;
    let before = fs::read(&daemon.home().session_files()[0]).unwrap();
    daemon.kill();
    daemon.restart();

    let mut client = daemon.connect().await;
    let attached = client.ok("attach", json!({"sessionId": session})).await;
    assert_eq!((&attached["state"]["interrupted"], &attached["state"]["isStreaming"]), (&json!(true), &json!(false)));
    let after = fs::read(&daemon.home().session_files()[0]).unwrap();
    assert!(after.starts_with(&before), "what was there is untouched");
    let last = daemon.home().only_session().pop().unwrap();
    assert_eq!(last["message"]["role"], "assistant");
    assert_eq!(last["message"]["stopReason"], "aborted");
    assert_eq!(
        last["message"]["content"],
        json!([{"type": "text", "text": "abcdef"}]),
        "the partial answer as it was seen"
    );
    assert!(last["message"]["errorMessage"].is_string(), "it says why it is partial");
    assert_eq!(attached["snapshot"]["entries"].as_array().unwrap().last(), Some(&last));
    assert_eq!(server.requests().len(), 1, "nothing goes on by itself");

    assert_eq!(client.ok("continue", json!({})).await["disposition"], "started");
    client.events_until("agent_settled").await;
    assert_eq!(roles(&server.requests()[1]), ["system", "user"]);
    assert_eq!(client.ok("get_last_assistant_text", json!({})).await["text"], "whole");
    assert_eq!(client.ok("get_state", json!({})).await["interrupted"], false);
}

#[tokio::test]
async fn killed_in_mid_tool() {
    let calls = json!([
        {"tool": "bash", "args": {"command": "echo done"}, "id": "c1"},
        {"tool": "bash", "args": {"command": "echo ran >> count; echo up; sleep 300"}, "id": "c2"},
    ]);
    let server = ModelServer::replies(json!([{"blocks": calls}, {"text": "went on"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    let (mut ended, mut output) = (false, String::new());
    while !ended || output != "up\n" {
        let event = client.event().await["event"].take();
        ended |= event["type"] == "tool_execution_end" && event["toolCallId"] == "c1";
        if event["type"] == "tool_execution_update" && event["toolCallId"] == "c2" {
            output.push_str(event["delta"].as_str().unwrap());
        }
    }
    daemon.kill();
    daemon.restart();

    let mut client = daemon.connect().await;
    let attached = client.ok("attach", json!({"sessionId": session})).await;
    assert_eq!(attached["state"]["interrupted"], true);
    let lines = daemon.home().only_session();
    let results: Vec<_> =
        lines.iter().filter(|line| line["message"]["role"] == "toolResult").map(|line| &line["message"]).collect();
    assert_eq!(results.len(), 2);
    assert_eq!((&results[0]["toolCallId"], &results[0]["isError"]), (&json!("c1"), &json!(false)));
    assert_eq!(results[0]["content"], json!([{"type": "text", "text": "done\n"}]), "a finished result survives");
    assert_eq!((&results[1]["toolCallId"], &results[1]["isError"]), (&json!("c2"), &json!(true)));
    let text = results[1]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("not run again"), "the running one says what happened: {text}");

    client.ok("continue", json!({})).await;
    client.events_until("agent_settled").await;
    assert_eq!(roles(&server.requests()[1]), ["system", "user", "assistant", "tool", "tool"]);
    assert_eq!(daemon.home().read("count"), "ran\n", "the tool ran once");
}

#[tokio::test]
async fn the_queue_survives_a_kill() {
    let server = ModelServer::replies(json!([
        {"text": "abc", "chunk": 1, "gates": {"2": "never"}}, {"text": "whole"}, {"text": "steered"}, {"text": "followed"},
    ]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    server.request(1).await;
    let steer = client.ok("steer", json!({"message": "s", "clientMessageId": "q1"})).await;
    client.ok("follow_up", json!({"message": "f"})).await;
    daemon.kill();
    daemon.restart();

    let mut client = daemon.connect().await;
    let attached = client.ok("attach", json!({"sessionId": session})).await;
    assert_eq!(attached["snapshot"]["queue"], json!({"steering": ["s"], "followUp": ["f"]}));
    assert_eq!(attached["state"]["pendingMessageCount"], 2);
    let repeat = client.ok("steer", json!({"message": "s", "clientMessageId": "q1"})).await;
    assert_eq!(repeat["disposition"], steer["disposition"]);
    assert_eq!(client.ok("get_state", json!({})).await["pendingMessageCount"], 2, "a repeat queues nothing");

    client.ok("continue", json!({})).await;
    client.events_until("agent_settled").await;
    let last = server.requests().pop().unwrap();
    let users = last.messages().iter().filter(|message| message["role"] == "user").count();
    assert_eq!(users, 3, "prompt, steering and follow-up, each once");
    assert_eq!(client.ok("get_state", json!({})).await["pendingMessageCount"], 0);
}

#[tokio::test]
async fn a_queue_of_an_idle_session_survives_too() {
    let server = ModelServer::replies(json!([{"text": "a"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.run("x").await;
    client.ok("follow_up", json!({"message": "later"})).await;
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    let attached = client.ok("attach", json!({"sessionId": session})).await;
    assert_eq!(attached["snapshot"]["queue"], json!({"steering": [], "followUp": ["later"]}));
    assert_eq!(attached["state"]["interrupted"], false);
}

#[tokio::test]
async fn a_session_goes_on_after_a_restart_and_opening_writes_nothing() {
    let server = ModelServer::replies(json!([{"text": "one"}, {"text": "two"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let made = client
        .ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "fake/thinker:low", "name": "kept"}))
        .await;
    let session = made["sessionId"].clone();
    client.run("first").await;
    assert!(daemon.terminate().success());
    let file = &daemon.home().session_files()[0];
    let (bytes, modified) = (fs::read(file).unwrap(), fs::metadata(file).unwrap().modified().unwrap());
    daemon.restart();

    let mut client = daemon.connect().await;
    let attached = client.ok("attach", json!({"sessionId": session})).await;
    let state = &attached["state"];
    assert_eq!((&state["model"]["id"], &state["thinkingLevel"]), (&json!("thinker"), &json!("low")));
    assert_eq!(
        (&state["sessionName"], &state["interrupted"], &state["messageCount"]),
        (&json!("kept"), &json!(false), &json!(3))
    );
    assert_ne!(attached["epoch"], made["epoch"], "an epoch for each load");
    assert_eq!((fs::read(file).unwrap(), fs::metadata(file).unwrap().modified().unwrap()), (bytes.clone(), modified));
    client.run("second").await;
    assert_eq!(roles(&server.requests()[1]), ["system", "user", "assistant", "user"]);
    assert!(fs::read(file).unwrap().starts_with(&bytes));
}

#[tokio::test]
async fn after_a_restart_an_old_cursor_gets_a_snapshot() {
    let server = ModelServer::replies(json!([{"text": "one"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let made = client.ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "fake/plain"})).await;
    let last = client.run("x").await.pop().unwrap()["seq"].clone();
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    let since = json!({"epoch": made["epoch"], "seq": last});
    let attached = client.ok("attach", json!({"sessionId": made["sessionId"], "since": since})).await;
    assert_eq!(attached["replay"], "snapshot");
}

#[tokio::test]
async fn b065_a_torn_tail_is_kept_skipped_and_reported_once() {
    for (name, keep_lf, cut) in [("in JSON", false, 20), ("before the line feed", true, 1)] {
        let server = ModelServer::replies(json!([{"text": "éé"}, {"text": "two"}]));
        let mut daemon = Daemon::start(Home::with_models(&server));
        let mut client = daemon.connect().await;
        let session = client.new_session(daemon.home(), "fake/plain").await;
        client.run("first").await;
        daemon.kill();
        let file = daemon.home().session_files().remove(0);
        let mut bytes = fs::read(&file).unwrap();
        bytes.truncate(bytes.len() - cut);
        fs::write(&file, &bytes).unwrap();
        daemon.restart();

        let mut client = daemon.connect().await;
        let attached = client.ok("attach", json!({"sessionId": session})).await;
        let entries = attached["snapshot"]["entries"].as_array().unwrap().len();
        assert_eq!(entries, if keep_lf { 5 } else { 4 }, "{name}: a whole record without its line feed is kept");
        let events = client.run("second").await;
        let notices = events.iter().filter(|event| event["event"]["kind"] == "damaged_lines").count();
        assert_eq!(notices, usize::from(!keep_lf), "{name}: told to who attaches first");
        let mut second = daemon.connect().await;
        second.ok("attach", json!({"sessionId": session})).await;
        client.ok("set_session_name", json!({"name": "n"})).await;
        let events = second.events_until("session_info_changed").await;
        assert!(events.iter().all(|event| event["event"]["type"] != "notice"), "{name}: and to nobody else");
        let after = fs::read(&file).unwrap();
        assert!(after.starts_with(&bytes), "{name}: kept byte for byte");
        assert_eq!(after[bytes.len()], b'\n', "{name}: the next entry is on a line of its own");
        let lines: Vec<_> =
            after[bytes.len() + 1..].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 3, "{name}: user, assistant and the name");
        lines.iter().for_each(|line| drop(serde_json::from_slice::<Value>(line).unwrap()));
        let expected: &[&str] =
            if keep_lf { &["system", "user", "assistant", "user"] } else { &["system", "user", "user"] };
        assert_eq!(roles(&server.requests()[1]), expected, "{name}");
    }
}

#[tokio::test]
async fn kills_at_any_moment_leave_a_session_that_goes_on() {
    // Each round is killed at another event of its run, whatever it is.
    let call = json!({"blocks": [{"text": "abc"}, {"tool": "bash", "args": {"command": "echo hi"}}], "chunk": 1});
    let server = ModelServer::start(json!({
        "replies": [],
        "routes": [{"contains": "first prompt", "replies": [{"text": "unused"}]}],
        "default": call,
    }));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client
        .ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "fake/plain", "maxTurns": 1_000_000}))
        .await["sessionId"]
        .clone();
    let mut known: Vec<Value> = Vec::new();
    for round in 0..12 {
        client.ok("prompt", json!({"sessionId": session, "message": format!("round {round}")})).await;
        for _ in 0..round * 5 + 2 {
            let event = client.event().await["event"].take();
            if event["type"] == "message_end" {
                known.push(event["entryId"].clone());
            }
        }
        daemon.kill();
        daemon.restart();
        client = daemon.connect().await;
        let attached = client.ok("attach", json!({"sessionId": session})).await;
        assert_eq!(attached["state"]["isStreaming"], false);
        let lines = daemon.home().only_session();
        for id in &known {
            assert!(lines.iter().any(|line| line["id"] == *id), "entry {id} was announced and is lost (round {round})");
        }
        let mut ids: Vec<_> = lines.iter().map(|line| line["id"].to_string()).collect();
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count, "an id twice (round {round})");
    }
}

//! Attaching: snapshots, exact replay, views, several clients.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

/// Twelve letters, one a delta, with a stop in the middle.
fn letters() -> Value {
    json!({"text": "abcdefghijkl", "chunk": 1, "gates": {"6": "go"}})
}

fn delta(event: &Value) -> &str {
    event["event"]["assistantMessageEvent"]["delta"].as_str().unwrap_or_default()
}

fn text_of(events: &[Value]) -> String {
    events.iter().map(delta).collect()
}

/// Reads events until the letters so far have come.
async fn until_text(client: &mut Client, text: &str) -> Vec<Value> {
    let mut events = Vec::new();
    while text_of(&events) != text {
        events.push(client.event().await);
    }
    events
}

#[tokio::test]
async fn all_clients_see_the_same_events_and_closing_any_changes_nothing() {
    let server = ModelServer::replies(json!([letters()]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut one = daemon.connect().await;
    let session = one.new_session(daemon.home(), "fake/plain").await;
    let mut two = daemon.connect().await;
    let attached = two.ok("attach", json!({"sessionId": session})).await;
    let cursor = attached["seq"].as_u64().unwrap();
    let mut prompter = daemon.connect().await;
    prompter.ok("prompt", json!({"sessionId": session, "message": "x"})).await;
    let begin = until_text(&mut two, "abcde").await;
    drop(prompter);
    server.release("go");
    let mut seen_by_two = begin;
    seen_by_two.extend(two.events_until("agent_settled").await);
    let seen_by_one = one.events_until("agent_settled").await;
    let since: Vec<_> = seen_by_one.into_iter().filter(|event| event["seq"].as_u64().unwrap() > cursor).collect();
    assert_eq!(since, seen_by_two, "the same events with the same seq");
    assert_eq!(text_of(&seen_by_two), "abcdefghijkl");
    assert_eq!(seen_by_two.last().unwrap()["event"]["reason"], "done");
}

#[tokio::test]
async fn a_snapshot_holds_the_half_streamed_message() {
    let server = ModelServer::replies(json!([letters()]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut one = daemon.connect().await;
    let session = one.new_session(daemon.home(), "fake/plain").await;
    one.ok("prompt", json!({"message": "x"})).await;
    until_text(&mut one, "abcde").await;
    one.ok("steer", json!({"message": "s"})).await;
    let mut two = daemon.connect().await;
    let attached = two.ok("attach", json!({"sessionId": session})).await;
    let snapshot = &attached["snapshot"];
    assert_eq!((&attached["replay"], &attached["state"]["isStreaming"]), (&json!("snapshot"), &json!(true)));
    assert_eq!(snapshot["message"]["content"], json!([{"type": "text", "text": "abcde"}]));
    assert_eq!(snapshot["message"]["stopReason"], "pending");
    assert_eq!(snapshot["queue"], json!({"steering": ["s"], "followUp": []}));
    assert_eq!(snapshot["entries"].as_array().unwrap()[..], daemon.home().only_session()[1..]);
    assert_eq!(snapshot.get("before"), None, "the entries begin at the root");
    server.release("go");
    let events = two.events_until("message_end").await;
    assert_eq!(text_of(&events), "fghijkl", "nothing lost, nothing twice");
    assert_eq!(events[0]["seq"].as_u64(), attached["seq"].as_u64().map(|seq| seq + 1));
    assert_eq!(events.last().unwrap()["event"]["entryId"], snapshot["message"]["entryId"]);
    two.ok("abort", json!({})).await;
}

#[tokio::test]
async fn a_snapshot_holds_running_tools_with_their_output() {
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": "echo up; sleep 60"}, "id": "c1"}]});
    let server = ModelServer::replies(json!([call]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut one = daemon.connect().await;
    let session = one.new_session(daemon.home(), "fake/plain").await;
    one.ok("prompt", json!({"message": "x"})).await;
    let mut output = String::new();
    while output != "up\n" {
        let event = one.events_until("tool_execution_update").await.pop().unwrap();
        output.push_str(event["event"]["delta"].as_str().unwrap());
    }
    let mut two = daemon.connect().await;
    let attached = two.ok("attach", json!({"sessionId": session})).await;
    let tool = &attached["snapshot"]["tools"][0];
    assert_eq!(
        (&tool["toolCallId"], &tool["toolName"], &tool["output"]),
        (&json!("c1"), &json!("bash"), &json!("up\n"))
    );
    assert_eq!(tool["args"], json!({"command": "echo up; sleep 60"}));
    two.ok("abort", json!({})).await;
}

#[tokio::test]
async fn exact_replay_from_every_cursor_of_a_run() {
    let server = ModelServer::replies(json!([letters()]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut one = daemon.connect().await;
    let made = one.ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "fake/plain"})).await;
    let (session, epoch) = (made["sessionId"].clone(), made["epoch"].clone());
    server.release("go");
    let events = one.run("x").await;
    for from in events.iter().map(|event| event["seq"].as_u64().unwrap()) {
        let mut two = daemon.connect().await;
        let since = json!({"epoch": epoch, "seq": from});
        let attached = two.ok("attach", json!({"sessionId": session, "since": since})).await;
        assert_eq!((&attached["replay"], &attached["seq"]), (&json!("exact"), &json!(from)));
        assert_eq!(attached.get("snapshot"), None);
        let missed: Vec<_> = events.iter().filter(|event| event["seq"].as_u64().unwrap() > from).collect();
        for event in missed {
            assert_eq!(two.event().await, *event);
        }
    }
}

#[tokio::test]
async fn unknown_and_future_cursors_get_a_snapshot() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let made = client.ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "demo"})).await;
    for since in [json!({"epoch": "another", "seq": 1}), json!({"epoch": made["epoch"], "seq": 1_000_000})] {
        let attached = client.ok("attach", json!({"since": since})).await;
        assert_eq!(attached["replay"], "snapshot", "{since}");
        assert!(attached["snapshot"].is_object());
    }
}

#[tokio::test]
async fn the_coalesced_view_covers_contiguous_ranges() {
    let server = ModelServer::replies(json!([letters()]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut one = daemon.connect().await;
    let session = one.new_session(daemon.home(), "fake/plain").await;
    let mut two = daemon.connect().await;
    let attached = two.ok("attach", json!({"sessionId": session, "view": "coalesced"})).await;
    server.release("go");
    let full = one.run("x").await;
    let merged = two.events_until("agent_settled").await;
    let mut next = attached["seq"].as_u64().unwrap() + 1;
    for event in &merged {
        let from = event["from"].as_u64().unwrap_or_else(|| event["seq"].as_u64().unwrap());
        assert_eq!(from, next, "{event}");
        next = event["seq"].as_u64().unwrap() + 1;
    }
    assert_eq!(text_of(&merged), "abcdefghijkl");
    let kinds = |events: &[Value]| -> Vec<String> {
        let others = events.iter().filter(|event| event["event"]["type"] != "message_update");
        let since = others.filter(|event| event["seq"].as_u64() > attached["seq"].as_u64());
        since.map(|event| event["event"]["type"].to_string()).collect()
    };
    assert_eq!(kinds(&merged), kinds(&full));
}

#[tokio::test]
async fn attaching_again_replaces_view_and_cursor() {
    let server = ModelServer::replies(json!([letters()]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    until_text(&mut client, "abcde").await;
    let again = client.ok("attach", json!({"view": "coalesced", "history": false})).await;
    assert_eq!(again["snapshot"]["entries"], json!([]), "no history was asked for");
    server.release("go");
    let events = client.events_until("agent_settled").await;
    assert_eq!(text_of(&events), "fghijkl");
    let seqs: Vec<_> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "one stream, not two: {seqs:?}");
}

#[tokio::test]
async fn a_unique_tail_of_the_id_is_enough() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "demo").await;
    let tail = &session[session.len() - 8..];
    let attached = client.ok("attach", json!({"sessionId": tail})).await;
    assert_eq!(attached["sessionId"], json!(session));
    assert_eq!(client.ok("get_state", json!({"sessionId": tail})).await["sessionId"], json!(session));
}

#[tokio::test]
async fn content_travels_once() {
    let call =
        json!({"blocks": [{"text": "CANARY-TEXT"}, {"tool": "bash", "args": {"command": "echo CANARY-$((40+2))"}}]});
    let server = ModelServer::replies(json!([call, {"text": "end"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    let events = client.run("x").await;
    let holders = |needle: &str| -> Vec<String> {
        let holding = events.iter().filter(|event| event.to_string().contains(needle));
        holding.map(|event| event["event"]["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(holders("CANARY-TEXT"), ["message_update", "message_end"]);
    assert_eq!(holders("CANARY-42"), ["tool_execution_update", "tool_execution_end"]);
}

#[tokio::test]
async fn poorer_views_show_what_is_complete_and_can_be_left_for_richer_ones() {
    let call = json!({"blocks": [{"text": "I look."}, {"tool": "bash", "args": {"command": "echo up"}, "id": "c1"}]});
    let server = ModelServer::replies(json!([call, letters()]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut full = daemon.connect().await;
    let session = full.new_session(daemon.home(), "fake/plain").await;
    let mut entries = daemon.connect().await;
    entries.ok("attach", json!({"sessionId": session, "view": "entries"})).await;
    let mut status = daemon.connect().await;
    let attached = status.ok("attach", json!({"sessionId": session, "view": "status"})).await;
    assert_eq!(attached["snapshot"]["entries"], json!([]), "a list shows no content");
    full.ok("prompt", json!({"message": "x"})).await;
    let mut all = full.events_until("tool_execution_end").await;
    all.extend(until_text(&mut full, "abcde").await);

    // In the middle of the second answer both have what is complete, in order, and nothing that grows.
    let last = all.iter().rfind(|event| event["event"]["type"] == "turn_start").unwrap()["seq"].as_u64().unwrap();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|event: &Value| event["seq"].as_u64() < Some(last)) {
        seen.push(entries.event().await);
    }
    let growing = ["message_start", "message_update", "tool_execution_update"];
    let is_whole = |event: &&Value| !growing.contains(&event["event"]["type"].as_str().unwrap());
    let from = seen[0]["seq"].as_u64();
    let expected: Vec<_> = all.iter().filter(is_whole).filter(|event| event["seq"].as_u64() >= from).cloned().collect();
    assert_eq!(seen, expected);
    let brief = status.events_until("tool_execution_end").await.pop().unwrap();
    assert_eq!((&brief["event"]["toolName"], &brief["event"]["result"]), (&json!("bash"), &Value::Null));

    // The deltas so far were not seen: the richer view begins with a snapshot, and goes on exactly.
    let cursor = seen.last().unwrap();
    let since = json!({"epoch": attached["epoch"], "seq": cursor["seq"], "view": "entries"});
    let again = entries.ok("attach", json!({"sessionId": session, "since": since, "view": "full"})).await;
    assert_eq!(again["replay"], "exact", "the turn has begun, its message had not");
    assert_eq!(text_of(&until_text(&mut entries, "abcde").await), "abcde");
    let mut other = daemon.connect().await;
    other.ok("attach", json!({"sessionId": session})).await;
    let inside = full.events_until("client_attached").await.pop().unwrap();
    let since = json!({"epoch": attached["epoch"], "seq": inside["seq"], "view": "status"});
    let again = status.ok("attach", json!({"sessionId": session, "since": since, "view": "coalesced"})).await;
    assert_eq!(again["replay"], "snapshot", "inside of a message");
    assert_eq!(again["snapshot"]["message"]["content"][0]["text"], "abcde");
    server.release("go");
    for client in [&mut full, &mut entries, &mut status] {
        assert_eq!(text_of(&client.events_until("agent_settled").await), "fghijkl");
    }
}

#[tokio::test]
async fn clients_know_who_is_there_and_who_said_what() {
    let server = ModelServer::replies(json!([letters(), {"text": "two"}, {"text": "three"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut one = daemon.connect().await;
    let session = one.new_session(daemon.home(), "fake/plain").await;
    let own = json!({"name": "test", "pid": std::process::id()});
    let mut front = Client::stdio(daemon.home());
    front.ok("initialize", json!({"clientInfo": {"name": "an editor", "version": "3"}})).await;
    front.ok("attach", json!({"sessionId": session, "view": "entries"})).await;
    let joined = one.find("a client", |message| message["params"]["event"]["name"] == "an editor").await;
    let event = &joined["params"]["event"];
    assert_eq!((&event["type"], &event["view"]), (&json!("client_attached"), &json!("entries")));
    let editor = json!({"name": "an editor", "pid": event["pid"]});
    assert_eq!(event["pid"], front.pid());

    one.ok("prompt", json!({"message": "x"})).await;
    front.ok("steer", json!({"message": "y"})).await;
    front.ok("follow_up", json!({"message": "z"})).await;
    server.release("go");
    let events = one.events_until("agent_settled").await;
    let user = |event: &&Value| event["event"]["message"]["role"] == "user" || event["event"]["role"] == "user";
    let said: Vec<_> = events.iter().filter(user).map(|event| event["event"]["client"].clone()).collect();
    assert_eq!(
        said,
        [&own, &own, &editor, &editor, &editor, &editor].map(Clone::clone),
        "with beginning and end of each"
    );

    let mut later = daemon.connect().await;
    let snapshot = later.ok("attach", json!({"sessionId": session})).await["snapshot"].clone();
    let senders: Vec<_> = snapshot["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| snapshot["senders"].get(entry["id"].as_str().unwrap()).cloned())
        .collect();
    assert_eq!(senders, [own, editor.clone(), editor]);
    let file = std::fs::read_to_string(&daemon.home().session_files()[0]).unwrap();
    assert!(!file.contains("an editor"), "the file is pi's");
    front.close_input().await;
    let left = one.find("its end", |message| message["params"]["event"]["type"] == "client_detached").await;
    assert_eq!(
        (&left["params"]["event"]["name"], &left["params"]["event"]["view"]),
        (&json!("an editor"), &json!("entries"))
    );
    let status = one.ok("get_daemon_status", json!({})).await;
    let shown = &status["clients"][0];
    assert_eq!(
        (&shown["name"], &shown["version"], &shown["attached"][0]["lag"]),
        (&json!("test"), &json!("0"), &json!(0))
    );
}

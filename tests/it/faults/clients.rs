//! Clients that stop, leave, or come at the wrong moment: what the others see, and what is left.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream as StdStream;
use std::process::{Command, Stdio};

use agentd_protocol::event::EventParams;
use agentd_protocol::methods::{AttachResult, View};
use agentd_protocol::session_view::SessionView;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::settled;
use crate::harness::{Client, Daemon, Home, bounded, usage_of};
use crate::model_server::ModelServer;

/// Returns `count` words that tell their place, each of six bytes.
fn numbered(count: usize) -> String {
    (0..count).map(|number| format!("{number:05} ")).collect()
}

fn text_of(events: &[Value]) -> String {
    let update = |event: &Value| event["event"]["assistantMessageEvent"].clone();
    let deltas = events.iter().map(update).filter(|update| update["type"] == "text_delta");
    deltas.map(|update| update["delta"].as_str().unwrap().to_owned()).collect()
}

/// Returns the text of the last message of a session's file.
fn text_in_file(daemon: &Daemon) -> String {
    let lines = daemon.home().only_session();
    lines.last().unwrap()["message"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn b149_a_client_that_closes_or_does_not_read_harms_nobody() {
    let text = numbered(5000);
    let server = ModelServer::replies(json!([{"text": text, "chunk": 6, "gates": {"50": "go"}}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    let attach = json!({"jsonrpc": "2.0", "id": 1, "method": "attach", "params": {"sessionId": session}});
    let attach_raw = || {
        let mut stream = StdStream::connect(daemon.home().socket()).unwrap();
        std::io::Write::write_all(&mut stream, format!("{attach}\n").as_bytes()).unwrap();
        stream
    };
    // One that closes its reading end, one that is gone, and one that never reads, all in mid-answer.
    let (closes, leaves, sleeps) = (attach_raw(), attach_raw(), attach_raw());
    client.ok("prompt", json!({"message": "x"})).await;
    let attached = async { while client.ok("get_state", json!({})).await["clients"] != 4 {} };
    bounded("all attachments", attached).await;
    closes.shutdown(std::net::Shutdown::Read).unwrap();
    drop(leaves);
    server.release("go");
    let events = client.events_until("agent_settled").await;
    assert_eq!(settled(&events)["reason"], "done");
    assert_eq!(text_of(&events), text, "whole and in order");
    assert_eq!(text_in_file(&daemon), text);
    // What the sleeper has not read is told; next to nothing is held for it.
    let status = client.ok("get_daemon_status", json!({})).await;
    let sleeper = status["clients"].as_array().unwrap().iter().find(|client| client["attached"][0]["lag"] != 0);
    let unsent = sleeper.expect("a client that is behind")["bytesUnsent"].as_u64().unwrap();
    assert!(unsent > 0 && unsent < 256 * 1024, "{status}");
    drop(sleeps);
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
    assert!(daemon.terminate().success());
}

/// Whatever the front inherits for SIGPIPE, and whoever reads its output no longer.
#[tokio::test]
async fn b149_a_front_whose_reader_has_left_ends() {
    let daemon = Daemon::start(Home::new());
    let pings = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}\n"#.repeat(2000);
    for trap in ["trap '' PIPE", "trap - PIPE"] {
        let line = format!(r#"{trap}; (printf '{pings}'; sleep 60) | "$0" stdio | head -1"#);
        let mut command = Command::new("sh");
        command.args(["-c", &line, env!("CARGO_BIN_EXE_agentd")]).env_clear().envs(daemon.home().env());
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        // The shell waits for `sleep`, which has nobody to write to and is ended with the home; `head` ends at once.
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        assert!(line.contains(r#""id":1"#), "{line}");
        let mut client = daemon.connect().await;
        // This one and nobody else.
        let left =
            async { while client.ok("get_daemon_status", json!({})).await["clients"].as_array().unwrap().len() > 1 {} };
        bounded("the end of the front", left).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// An editor that stops reading holds up its front, which holds one buffer; the daemon holds its place in the stream.
#[tokio::test]
async fn b149_an_editor_that_stops_reading_costs_neither_its_front_nor_the_daemon_memory() {
    let synth = json!({"deltas": 20_000, "text": "x".repeat(400), "per_write": 20});
    let server = ModelServer::replies(json!([{"synth": synth}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    let mut editor = Client::stdio(daemon.home());
    editor.ok("attach", json!({"sessionId": session})).await;
    client.ok("attach", json!({"view": "status"})).await;
    let before = usage_of(editor.pid());
    client.ok("prompt", json!({"message": "x"})).await;
    assert_eq!(settled(&client.events_until("agent_settled").await)["reason"], "done");
    let after = usage_of(editor.pid());
    assert!(after.resident_kib <= before.resident_kib + 1024, "{before:?}, then {after:?}");
    let status = client.ok("get_daemon_status", json!({})).await;
    let front = status["clients"].as_array().unwrap().iter().find(|client| client["name"] == "agentd stdio").unwrap();
    assert!(front["attached"][0]["lag"].as_u64().unwrap() > 10_000, "{status}");
    assert!(front["bytesUnsent"].as_u64().unwrap() < 256 * 1024, "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b154_a_stopped_client_holds_nobody_up() {
    let text = numbered(20_000);
    let route = |word: &str, gate: &str| json!({"contains": word, "replies": [{"text": text, "chunk": 6, "gates": {"1": gate}}]});
    let server = ModelServer::start(json!({"routes": [route("first", "one"), route("second", "two")]}));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut one = daemon.connect().await;
    let first = one.new_session(daemon.home(), "fake/plain").await;
    let mut others = Vec::new();
    let mut stopped = Client::stdio(daemon.home());
    stopped.ok("attach", json!({"sessionId": first})).await;
    for view in ["full", "coalesced"] {
        let mut client = daemon.connect().await;
        client.ok("attach", json!({"sessionId": first, "view": view})).await;
        others.push(client);
    }
    let mut two = daemon.connect().await;
    two.new_session(daemon.home(), "fake/plain").await;
    one.ok("prompt", json!({"message": "first"})).await;
    two.ok("prompt", json!({"message": "second"})).await;
    others.push(two);
    let front = Pid::from_raw(stopped.pid());
    kill(front, Signal::SIGSTOP).unwrap();
    server.release("one");
    server.release("two");
    let reading: Vec<_> = others
        .into_iter()
        .map(|mut client| tokio::spawn(async move { client.events_until("agent_settled").await }))
        .collect();
    for events in reading {
        let events = events.await.unwrap();
        assert_eq!(settled(&events)["reason"], "done");
        assert!(text_of(&events) == text, "whole and in order");
    }
    let status = one.ok("get_daemon_status", json!({})).await;
    let behind: Vec<_> =
        status["clients"].as_array().unwrap().iter().filter(|client| client["name"] == "agentd stdio").collect();
    assert!(behind[0]["attached"][0]["lag"].as_u64().unwrap() > 10_000, "{status}");
    assert!(behind[0]["bytesUnsent"].as_u64().unwrap() < 256 * 1024, "{status}");
    // It goes on where it was.
    kill(front, Signal::SIGCONT).unwrap();
    let events = stopped.events_until("agent_settled").await;
    assert!(text_of(&events) == text, "whole and in order");
}

/// What each client of a session may see: its own session, its own token, its own ids.
#[derive(Clone)]
struct Own {
    session: String,
    token: String,
}

impl Own {
    fn check(&self, message: &Value, ids: &mut BTreeSet<u64>) {
        if message["method"] == "event" {
            assert_eq!(message["params"]["sessionId"], json!(self.session), "{message}");
        } else {
            assert!(ids.remove(&message["id"].as_u64().unwrap()), "an id that was not asked, or twice: {message}");
        }
        let text = message.to_string();
        let foreign = text.split("token-").skip(1).find(|rest| !rest.starts_with(self.token.as_str()));
        assert_eq!(foreign, None, "a foreign token");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b156_nothing_of_one_session_or_connection_reaches_another() {
    const SESSIONS: usize = 50;
    let reply = |number: usize| {
        let words = format!("token-{number:02}. ").repeat(40);
        json!({"contains": format!("token-{number:02}"), "replies": [{"text": words, "chunk": 10, "repeat": 2}]})
    };
    let server = ModelServer::start(json!({"routes": (0..SESSIONS).map(reply).collect::<Vec<_>>()}));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut work = Vec::new();
    for number in 0..SESSIONS {
        let (mut one, mut two) = (daemon.connect().await, daemon.connect().await);
        let session = one.new_session(daemon.home(), "fake/plain").await;
        let own = Own { session, token: format!("{number:02}.") };
        work.push(tokio::spawn(async move {
            let (mut of_one, mut of_two) = (BTreeSet::new(), BTreeSet::new());
            let session = json!({"sessionId": own.session});
            of_two.insert(two.request("attach", session.clone()).await);
            let message = format!("say token-{}", own.token);
            of_one.insert(one.request("prompt", json!({"message": message, "clientMessageId": message})).await);
            for _ in 0..10 {
                of_one.insert(one.request("get_state", json!({})).await);
                of_two.insert(two.request("get_messages", session.clone()).await);
            }
            if number % 5 == 0 {
                of_two.insert(two.request("abort", session.clone()).await);
            }
            for (client, ids) in [(&mut one, &mut of_one), (&mut two, &mut of_two)] {
                // In whatever order they come: an abort may be answered after the end of its run.
                while !ids.is_empty() {
                    own.check(&client.next().await.expect("a message"), ids);
                }
                ids.insert(client.request("wait", session.clone()).await);
                while !ids.is_empty() {
                    own.check(&client.next().await.expect("a message"), ids);
                }
            }
        }));
    }
    for work in work {
        work.await.unwrap();
    }
}

#[tokio::test]
async fn b158_attached_at_any_moment_the_text_is_whole() {
    let text = numbered(4000);
    let server = ModelServer::replies(json!([{"text": text, "chunk": 6, "delay_ms": 1}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    let mut random = 7_u64;
    let mut next = |below: u64| {
        // Any odd sequence does, as long as it is the same one each time.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut reader = daemon.connect().await;
    let mut view: Option<SessionView> = None;
    for round in 0..1000 {
        let wire = if next(2) == 0 { View::Full } else { View::Coalesced };
        let mut params = json!({"sessionId": session, "view": wire});
        match &view {
            // On the same connection or a new one, from the cursor or from a snapshot.
            Some(view) if next(2) == 0 => params["since"] = json!(view.cursor()),
            _ => {}
        }
        if next(3) == 0 {
            reader = daemon.connect().await;
        }
        let id = reader.request("attach", params).await;
        let answer = loop {
            match reader.read().await.expect("an answer") {
                answer if answer["id"] == json!(id) => break answer["result"].clone(),
                // Of the attachment before, which this one replaces.
                event => assert_eq!(event["method"], "event"),
            }
        };
        let result: AttachResult = serde_json::from_value(answer).unwrap();
        view = Some(match (view.take(), result.snapshot.is_some()) {
            (Some(mut view), false) => {
                view.view = wire;
                view.resume(result).unwrap_or_else(|error| panic!("round {round}: {error}"));
                view
            }
            (_, _) => SessionView::new(result, wire),
        });
        let view = view.as_mut().unwrap();
        for _ in 0..next(6) {
            if !view.state.is_streaming {
                break;
            }
            apply(view, reader.read().await.expect("an event"));
        }
        check_text(view, &text);
    }
    let mut view = view.unwrap();
    while view.state.is_streaming {
        apply(&mut view, reader.read().await.expect("an event"));
    }
    check_text(&view, &text);
    assert_eq!(text_in_file(&daemon), text);
}

fn apply(view: &mut SessionView, mut message: Value) {
    assert_eq!(message["method"], "event", "{message}");
    let params: EventParams = serde_json::from_value(message["params"].take()).unwrap();
    view.apply(&params).unwrap_or_else(|error| panic!("{error}: {params:?}"));
}

/// What a client has so far is the beginning of the text, and all of it when the message is complete.
fn check_text(view: &SessionView, text: &str) {
    match &view.open {
        Some(open) => {
            let so_far = view.text_of(&open.entry_id).unwrap_or_default();
            assert!(text.starts_with(&so_far), "{so_far:?}");
        }
        None => {
            if let Some(last) = view.entries.last().filter(|_| !view.state.is_streaming) {
                assert_eq!(view.text_of(&last.id).as_deref(), Some(text));
            }
        }
    }
}

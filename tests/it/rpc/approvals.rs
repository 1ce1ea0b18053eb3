//! Questions to people: list_approvals, respond_approval, and what becomes of the run that asks.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home, bounded};
use crate::model_server::ModelServer;

/// A reply that calls a tool, as often as it is asked for.
fn calls() -> Value {
    json!({"blocks": [{"tool": "bash", "args": {"command": "true"}}], "repeat": 99})
}

/// Starts a run of one turn in a new session and waits until it asks; returns the session and the question.
async fn asked(daemon: &Daemon, client: &mut Client) -> (String, Value) {
    let params = json!({"cwd": daemon.home().cwd(), "model": "fake/plain", "maxTurns": 1});
    let session = client.ok("new_session", params).await["sessionId"].as_str().unwrap().to_owned();
    client.ok("prompt", json!({"message": "x"})).await;
    let question = client.events_until("approval_requested").await.pop().unwrap()["event"].clone();
    (session, question)
}

fn respond(question: &Value, decision: &str) -> Value {
    json!({"approvalId": question["approvalId"], "decision": decision})
}

async fn reason(client: &mut Client) -> Value {
    client.events_until("agent_settled").await.pop().unwrap()["event"]["reason"].clone()
}

#[tokio::test]
async fn at_its_limit_of_turns_a_run_asks_and_goes_on_when_told() {
    let server = ModelServer::replies(json!([calls()]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let (session, question) = asked(&daemon, &mut client).await;
    assert_eq!((&question["kind"], &question["turns"]), (&json!("maxTurns"), &json!(1)));
    assert_eq!(question["options"], json!(["once", "session", "deny"]));
    let state = client.ok("get_state", json!({})).await;
    assert_eq!((&state["status"], &state["isStreaming"]), (&json!("asking"), &json!(true)));
    let row = client.ok("list_sessions", json!({})).await["sessions"][0].clone();
    assert_eq!(row["status"], "asking");

    // It stands in lists and in the snapshot of whoever comes later.
    let mut other = daemon.connect().await;
    let listed = other.ok("list_approvals", json!({})).await["approvals"].clone();
    let mut expected = question.clone();
    expected.as_object_mut().unwrap().remove("type");
    let shown = other.ok("attach", json!({"sessionId": session})).await["snapshot"]["questions"].clone();
    assert_eq!(shown, json!([expected]));
    expected["sessionId"] = json!(session);
    assert_eq!(listed, json!([expected]));
    assert_eq!(other.ok("list_approvals", json!({"sessionId": session})).await["approvals"], listed);

    // Meanwhile the session is busy, and an answer that the question does not take changes nothing.
    assert_eq!(client.err("prompt", json!({"message": "y"})).await.kind(), "busy");
    assert_eq!(client.err("continue", json!({})).await.kind(), "busy");
    let error = client.err("respond_approval", respond(&question, "always")).await;
    assert_eq!((error.code, &error.data["param"]), (-32602, &json!("decision")));
    assert!(error.message.contains("it takes once, session, deny"), "{error:?}");

    other.ok("initialize", json!({"clientInfo": {"name": "other", "version": "1"}})).await;
    let answer = json!({"approvalId": question["approvalId"], "decision": "once", "message": "go"});
    other.ok("respond_approval", answer).await;
    let resolved = client.events_until("approval_resolved").await.pop().unwrap();
    let expected = json!({"type": "approval_resolved", "approvalId": question["approvalId"], "decision": "once",
        "by": "other", "pid": std::process::id(), "message": "go"});
    assert_eq!(resolved["event"], expected);
    let second = client.events_until("approval_requested").await.pop().unwrap()["event"].clone();
    assert_ne!(second["approvalId"], question["approvalId"]);

    client.ok("respond_approval", respond(&second, "deny")).await;
    assert_eq!(reason(&mut client).await, "maxTurns");
    assert_eq!(client.ok("list_approvals", json!({})).await["approvals"], json!([]));
    assert_eq!(server.requests().len(), 2);

    let lines = daemon.home().only_session();
    let kept: Vec<_> = lines.iter().filter(|line| line["customType"] == "agentd.approval").collect();
    assert_eq!(kept.len(), 2);
    let data = &kept[0]["data"];
    assert_eq!((&data["decision"], &data["by"], &data["message"]), (&json!("once"), &json!("other"), &json!("go")));
    assert_eq!(
        (&data["kind"], &data["turns"], &data["approvalId"]),
        (&json!("maxTurns"), &json!(1), &question["approvalId"])
    );
    assert!(data["askedAt"].as_i64() <= data["answeredAt"].as_i64());
    // The conversation is left such that a strict provider takes it up again.
    server.push(json!({"text": "done"}));
    client.ok("prompt", json!({"message": "more"})).await;
}

#[tokio::test]
async fn for_the_session_no_further_question_is_asked() {
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": "true"}}], "repeat": 4});
    let server = ModelServer::replies(json!([call, {"text": "done"}, {"text": "again"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let (session, question) = asked(&daemon, &mut client).await;
    client.ok("respond_approval", respond(&question, "session")).await;
    assert_eq!(reason(&mut client).await, "done");
    assert_eq!(client.ok("get_state", json!({})).await["maxTurns"], 1_000_000);
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    assert_eq!(client.ok("get_state", json!({"sessionId": session})).await["maxTurns"], 1_000_000);
}

/// Of any number of answers exactly one counts; every other one is told which.
#[tokio::test]
async fn of_answers_that_race_exactly_one_counts() {
    let server = ModelServer::replies(json!([calls()]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut watcher = daemon.connect().await;
    let (session, mut question) = asked(&daemon, &mut watcher).await;
    let mut clients = Vec::new();
    for name in ["one", "two", "three"] {
        let mut client = daemon.connect().await;
        client.ok("initialize", json!({"clientInfo": {"name": name, "version": "1"}})).await;
        clients.push((name, client));
    }
    clients[0].1.ok("attach", json!({"sessionId": session})).await;
    for round in 0..30 {
        let mut requests = Vec::new();
        for place in 0..clients.len() {
            let (_, client) = &mut clients[(place + round) % 3];
            requests.push(client.request("respond_approval", respond(&question, "once")).await);
        }
        let mut winners = Vec::new();
        let mut losers = Vec::new();
        for (place, request) in requests.into_iter().enumerate() {
            let (name, client) = &mut clients[(place + round) % 3];
            match client.answer(request).await {
                Ok(_) => winners.push(*name),
                Err(error) => losers.push(error),
            }
        }
        let [winner] = winners[..] else { panic!("round {round}: {winners:?} won") };
        for error in losers {
            assert_eq!((error.code, error.kind()), (-32011, "already_resolved"), "round {round}");
            assert_eq!((&error.data["by"], &error.data["decision"]), (&json!(winner), &json!("once")), "round {round}");
        }
        let events = watcher.events_until("approval_requested").await;
        let resolved: Vec<_> = events.iter().filter(|event| event["event"]["type"] == "approval_resolved").collect();
        let [resolved] = resolved[..] else { panic!("round {round}: {resolved:?}") };
        assert_eq!((&resolved["event"]["by"], &resolved["event"]["decision"]), (&json!(winner), &json!("once")));
        question = events.last().unwrap()["event"].clone();
    }
    watcher.ok("abort", json!({})).await;
    assert_eq!(server.requests().len(), 31, "each question let the run go on once");
}

/// Whoever was there may go: the question waits for the next one.
#[tokio::test]
async fn a_question_outlives_every_client() {
    let server = ModelServer::replies(json!([calls(), {"text": "done"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let (session, question) = asked(&daemon, &mut client).await;
    drop(client);
    let mut next = daemon.connect().await;
    let gone = async { while next.ok("get_state", json!({"sessionId": session})).await["clients"] != 0 {} };
    bounded("the end of the client", gone).await;
    let attached = next.ok("attach", json!({"sessionId": session})).await;
    assert_eq!(attached["snapshot"]["questions"][0]["approvalId"], question["approvalId"]);
    next.ok("respond_approval", respond(&question, "deny")).await;
    assert_eq!(reason(&mut next).await, "maxTurns");
}

#[tokio::test]
async fn without_anybody_attached_the_run_ends() {
    let server = ModelServer::replies(json!([calls()]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let params = json!({"cwd": daemon.home().cwd(), "model": "fake/plain", "maxTurns": 1, "attach": false});
    client.ok("new_session", params).await;
    client.ok("prompt", json!({"message": "x"})).await;
    assert_eq!(client.ok("wait", json!({})).await["reason"], "maxTurns");
}

#[tokio::test]
async fn b177_abort_resolves_a_question_as_cancelled() {
    let server = ModelServer::replies(json!([calls(), {"text": "next"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let (_, question) = asked(&daemon, &mut client).await;
    client.ok("abort", json!({})).await;
    let events = client.events_until("agent_settled").await;
    let resolved = events.iter().find(|event| event["event"]["type"] == "approval_resolved").expect("it is told");
    assert_eq!((&resolved["event"]["decision"], resolved["event"].get("by")), (&json!("cancelled"), None));
    assert_eq!(events.last().unwrap()["event"]["reason"], "aborted");
    let error = client.err("respond_approval", respond(&question, "once")).await;
    assert_eq!((error.kind(), &error.data["decision"]), ("already_resolved", &json!("cancelled")));
    assert_eq!(client.ok("list_approvals", json!({})).await["approvals"], json!([]));
}

#[tokio::test]
async fn a_question_that_was_never_asked_is_unknown() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "demo").await;
    for id in ["nothing", "01a22bed-0000-7000-8000-00000000dead.00000000", &format!("{session}.00000000")] {
        let error = client.err("respond_approval", json!({"approvalId": id, "decision": "once"})).await;
        assert_eq!((error.code, error.kind()), (-32012, "unknown_approval"), "{id}: {error:?}");
    }
}

/// Ends the daemon while a question waits, in order or not, and answers it in the next one.
async fn answered_after(end: impl Fn(&mut Daemon), decision: &str) -> (Daemon, Client, ModelServer) {
    let server =
        ModelServer::replies(json!([{"blocks": [{"tool": "bash", "args": {"command": "true"}}]}, {"text": "done"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let (session, question) = asked(&daemon, &mut client).await;
    client.ok("steer", json!({"message": "and then"})).await;
    for _ in 0..2 {
        end(&mut daemon);
        daemon.restart();
        let mut client = daemon.connect().await;
        // Nobody has opened the session; who asks for questions finds it all the same.
        let listed = client.ok("list_approvals", json!({})).await["approvals"].clone();
        assert_eq!((&listed[0]["approvalId"], &listed[0]["sessionId"]), (&question["approvalId"], &json!(session)));
        let state = client.ok("get_state", json!({"sessionId": session})).await;
        assert_eq!((&state["status"], &state["interrupted"]), (&json!("asking"), &json!(false)));
    }
    let mut client = daemon.connect().await;
    client.ok("set_env", json!({"sessionId": session, "env": daemon.home().env()})).await;
    let attached = client.ok("attach", json!({"sessionId": session})).await;
    assert_eq!(attached["snapshot"]["questions"][0]["approvalId"], question["approvalId"]);
    let mut other = daemon.connect().await;
    other.ok("respond_approval", respond(&question, decision)).await;
    let late = client.err("respond_approval", respond(&question, "once")).await;
    assert_eq!((late.kind(), &late.data["decision"]), ("already_resolved", &json!(decision)));
    (daemon, client, server)
}

#[tokio::test]
async fn a_question_survives_a_kill_and_its_answer_goes_on_with_the_run() {
    let (mut daemon, mut client, server) = answered_after(Daemon::kill, "once").await;
    assert_eq!(reason(&mut client).await, "done");
    let requests = server.requests();
    let last = requests[1].messages().last().unwrap().clone();
    assert_eq!((requests.len(), last["role"].as_str()), (2, Some("user")), "what was queued goes along: {last}");
    client.ok("get_state", json!({})).await;
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    assert_eq!(client.ok("list_approvals", json!({})).await["approvals"], json!([]));
}

#[tokio::test]
async fn a_question_survives_an_ordered_stop_and_can_be_denied() {
    let stop = |daemon: &mut Daemon| assert!(daemon.terminate().success());
    let (_daemon, mut client, server) = answered_after(stop, "deny").await;
    assert_eq!(reason(&mut client).await, "maxTurns");
    let state = client.ok("get_state", json!({})).await;
    assert_eq!((&state["status"], &state["interrupted"]), (&json!("idle"), &json!(false)));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_session_that_could_not_be_loaded_is_tried_again() {
    let server = ModelServer::replies(json!([calls()]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let (_, question) = asked(&daemon, &mut client).await;
    daemon.kill();
    let file = daemon.home().session_files().pop().unwrap();
    let aside = file.with_extension("aside");
    std::fs::rename(&file, &aside).unwrap();
    daemon.restart();
    let mut client = daemon.connect().await;
    assert_eq!(client.ok("list_approvals", json!({})).await["approvals"], json!([]));
    std::fs::rename(&aside, &file).unwrap();
    let listed = client.ok("list_approvals", json!({})).await["approvals"].clone();
    assert_eq!(listed[0]["approvalId"], question["approvalId"]);
}

/// A crash after an answer is on disk, and before the run has gone on, does not ask again.
#[tokio::test]
async fn an_answer_survives_a_kill() {
    let server = ModelServer::replies(json!([calls()]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let (session, question) = asked(&daemon, &mut client).await;
    client.ok("respond_approval", respond(&question, "deny")).await;
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    assert_eq!(client.ok("list_approvals", json!({"sessionId": session})).await["approvals"], json!([]));
    let error = client.err("respond_approval", respond(&question, "once")).await;
    assert_eq!((error.kind(), &error.data["decision"]), ("already_resolved", &json!("deny")));
}

#[tokio::test]
async fn a_tool_cannot_answer_for_a_person() {
    let agentd = env!("CARGO_BIN_EXE_agentd");
    let command = format!(
        "({agentd} ctl approvals --watch | while read -r id _; do {agentd} ctl approve $id >answered 2>&1; break; done) >/dev/null &"
    );
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": command}}]});
    let server = ModelServer::replies(json!([call, calls()]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let (_, question) = asked(&daemon, &mut client).await;
    let answer = async {
        loop {
            match std::fs::read_to_string(daemon.home().cwd().join("answered")) {
                Ok(text) if text.ends_with('\n') => break text,
                _ => tokio::task::yield_now().await,
            }
            // Gives the tool time, and shows that the question still waits.
            assert_eq!(client.ok("get_state", json!({})).await["status"], "asking");
        }
    };
    let answer = bounded("the tool's answer", answer).await;
    assert!(answer.contains("comes from a person"), "{answer}");
    client.ok("respond_approval", respond(&question, "deny")).await;
    assert_eq!(reason(&mut client).await, "maxTurns");
}

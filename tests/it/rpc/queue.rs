//! The queues: steer, follow_up, clear_queue.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Daemon, Home};
use crate::model_server::ModelServer;

fn user_texts(request: &crate::model_server::Recorded) -> Vec<String> {
    let users = request.messages().iter().filter(|message| message["role"] == "user");
    users
        .map(|message| {
            message["content"]
                .as_str()
                .map_or_else(|| message["content"][0]["text"].as_str().unwrap().to_owned(), str::to_owned)
        })
        .collect()
}

#[tokio::test]
async fn steer_and_follow_up_while_idle_stay_queued() {
    let server = ModelServer::replies(json!([{"text": "a"}, {"text": "b"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    assert_eq!(client.ok("steer", json!({"message": "s"})).await["disposition"], "queued");
    assert_eq!(client.ok("follow_up", json!({"message": "f"})).await["disposition"], "queued");
    let state = client.ok("get_state", json!({})).await;
    assert_eq!((&state["pendingMessageCount"], &state["isStreaming"]), (&json!(2), &json!(false)));
    client.run("p").await;
    let requests = server.requests();
    assert_eq!(user_texts(&requests[0]), ["p", "s"], "steering goes right after the prompt, in the same request");
    assert_eq!(user_texts(&requests[1]), ["p", "s", "f"]);
}

#[tokio::test]
async fn queue_update_comes_before_the_answer() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "demo").await;
    for (method, steering, follow_up) in [("steer", json!(["m"]), json!([])), ("follow_up", json!(["m"]), json!(["m"]))]
    {
        let id = client.request(method, json!({"message": "m"})).await;
        let event = client.events_until("queue_update").await.pop().unwrap();
        assert_eq!(event["event"], json!({"type": "queue_update", "steering": steering, "followUp": follow_up}));
        let answer = client.next().await.unwrap();
        assert_eq!((&answer["id"], &answer["result"]["seq"]), (&json!(id), &event["seq"]));
    }
}

#[tokio::test]
async fn clear_queue_returns_what_was_in_it_and_always_tells() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "demo").await;
    client.ok("steer", json!({"message": "s"})).await;
    client.ok("follow_up", json!({"message": "f"})).await;
    let cleared = client.ok("clear_queue", json!({})).await;
    assert_eq!((&cleared["steering"], &cleared["followUp"]), (&json!(["s"]), &json!(["f"])));
    let again = client.ok("clear_queue", json!({})).await;
    assert_eq!((&again["steering"], &again["followUp"]), (&json!([]), &json!([])));
    let mut updates = Vec::new();
    while updates.len() < 4 {
        updates.push(client.events_until("queue_update").await.pop().unwrap()["event"].take());
    }
    let empty = json!({"type": "queue_update", "steering": [], "followUp": []});
    assert_eq!(updates[2..], [empty.clone(), empty]);
}

#[tokio::test]
async fn a_repeated_client_message_id_queues_nothing_twice() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "demo").await;
    for _ in 0..2 {
        client.ok("steer", json!({"message": "s", "clientMessageId": "q-1"})).await;
        client.ok("follow_up", json!({"message": "f", "clientMessageId": "q-2"})).await;
    }
    assert_eq!(client.ok("get_state", json!({})).await["pendingMessageCount"], 2);
}

#[tokio::test]
async fn what_abort_leaves_in_the_queue_comes_with_the_next_prompt() {
    let sleep = json!({"blocks": [{"tool": "bash", "args": {"command": "echo up; sleep 60"}}]});
    let server = ModelServer::replies(json!([sleep, {"text": "a"}, {"text": "b"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "p"})).await;
    client.events_until("tool_execution_update").await;
    client.ok("follow_up", json!({"message": "f"})).await;
    client.ok("abort", json!({})).await;
    client.events_until("agent_settled").await;
    assert_eq!(client.ok("get_state", json!({})).await["pendingMessageCount"], 1);
    client.run("next").await;
    assert_eq!(user_texts(&server.requests()[2]), ["p", "next", "f"]);
    let left: Vec<Value> = Vec::new();
    assert_eq!(client.ok("clear_queue", json!({})).await["followUp"], json!(left));
}

#[tokio::test]
async fn queue_modes_are_kept_with_the_session_and_the_others_are_told() {
    let server = ModelServer::replies(json!([{"text": "a"}, {"text": "b"}, {"text": "c"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    client.ok("set_steering_mode", json!({"mode": "all"})).await;
    let told = client.events_until("entry_appended").await.pop().unwrap();
    assert_eq!(told["event"]["entry"]["data"], json!({"steeringMode": "all"}));
    client.ok("set_follow_up_mode", json!({"mode": "all"})).await;
    let seq = client.ok("set_follow_up_mode", json!({"mode": "all"})).await["seq"].clone();
    assert_eq!(client.ok("get_state", json!({})).await["seq"], seq, "no entry when nothing changes");
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    let state = client.ok("attach", json!({"sessionId": session})).await["state"].clone();
    assert_eq!((&state["steeringMode"], &state["followUpMode"]), (&json!("all"), &json!("all")));
    for message in ["s1", "s2"] {
        client.ok("steer", json!({"message": message})).await;
        client.ok("follow_up", json!({"message": message.replace('s', "f")})).await;
    }
    client.run("p").await;
    let requests = server.requests();
    assert_eq!(user_texts(&requests[1]), ["first", "p", "s1", "s2"]);
    assert_eq!(user_texts(&requests[2]), ["first", "p", "s1", "s2", "f1", "f2"]);
    let settings = daemon.home().pi_agent().join("settings.json");
    assert!(!settings.exists(), "the user's own settings are left alone");
}

/// Returns the last text of a request; where the dialect wants it, users' messages in a row are one.
fn last_text(request: &crate::model_server::Recorded) -> String {
    let content = &request.messages().last().unwrap()["content"];
    let text = content.as_str().or_else(|| content.as_array()?.last()?["text"].as_str());
    text.expect("a text comes last").to_owned()
}

/// Streams half of an answer and steers at once, in both dialects; the next request is one that strict providers take.
#[tokio::test]
async fn steering_now_cuts_the_answer_and_goes_on_in_the_same_run() {
    for model in ["fake/plain", "fakeanth/claude"] {
        let server =
            ModelServer::replies(json!([{"text": "abcdef", "chunk": 2, "gates": {"3": "never"}}, {"text": "b"}]));
        let daemon = Daemon::start(Home::with_models(&server));
        let mut client = daemon.connect().await;
        client.new_session(daemon.home(), model).await;
        client.ok("prompt", json!({"message": "p"})).await;
        let is_half = |message: &Value| message["params"]["event"]["assistantMessageEvent"]["delta"] == "ab";
        client.find("half of the answer", is_half).await;
        client.ok("steer", json!({"message": "later"})).await;
        let steered = client.ok("steer", json!({"message": "now", "when": "now"})).await;
        assert_eq!(steered["disposition"], "queued");
        server.client_gone(1).await;
        let events = client.events_until("agent_settled").await;
        assert_eq!(events.last().unwrap()["event"]["reason"], "done");
        let starts = events.iter().filter(|event| event["event"]["type"] == "agent_start").count();
        assert_eq!(starts, 1, "the same run goes on");
        assert_eq!(last_text(&server.requests()[1]), "now");
        assert_eq!(last_text(&server.requests()[2]), "later");
        let lines = daemon.home().only_session();
        let partial = lines.iter().find(|line| line["message"]["role"] == "assistant").unwrap();
        let message = &partial["message"];
        assert_eq!(message["stopReason"], "aborted");
        // How much came before the cut is the dialect's affair.
        assert!(message["content"][0]["text"].as_str().unwrap().starts_with("ab"), "{message}");
        assert_eq!(message["errorMessage"], "Cut short by a steering message");
    }
}

#[tokio::test]
async fn steering_now_in_mid_call_and_in_mid_tool() {
    let half_call = json!({"blocks": [{"tool": "bash", "args": {"command": "false # and so on"}}], "chunk": 4, "gates": {"2": "never"}});
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": "touch begun; until test -e go; do sleep 0.02; done"}}]});
    let server = ModelServer::replies(json!([half_call, call, {"text": "done"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "p"})).await;
    client.events_until("message_update").await;
    client.ok("steer", json!({"message": "one", "when": "now"})).await;
    let events = client.events_until("tool_execution_start").await;
    assert_eq!(events.iter().filter(|event| event["event"]["type"] == "tool_execution_start").count(), 1);
    client.ok("steer", json!({"message": "two", "when": "now"})).await;
    // The tool is not stopped: it ends when it finds what it waits for.
    daemon.home().write("go", "");
    let events = client.events_until("agent_settled").await;
    let end = events.iter().find(|event| event["event"]["type"] == "tool_execution_end").unwrap();
    assert_eq!(end["event"]["isError"], false);
    let roles: Vec<_> = server.requests()[2].messages()[1..].iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["user", "user", "assistant", "tool", "user"]);
    assert_eq!(user_texts(&server.requests()[2]), ["p", "one", "two"]);
}

//! Modes: what tools may do without a question.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

/// One reply with a read, a write inside and one outside of the working directory, and a command.
fn calls(outside: &str) -> Value {
    json!({"blocks": [
        {"tool": "read", "args": {"path": "here"}},
        {"tool": "write", "args": {"path": "new", "content": "new"}},
        {"tool": "write", "args": {"path": outside, "content": "new"}},
        {"tool": "bash", "args": {"command": "touch ran"}},
    ]})
}

/// Runs the calls and returns, for each, the text of its result if it failed.
async fn failures(client: &mut Client) -> Vec<Option<String>> {
    let events = client.run("x").await;
    let ends = events.iter().map(|event| &event["event"]).filter(|event| event["type"] == "tool_execution_end");
    ends.map(|end| {
        let text = end["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        (end["isError"] == true).then_some(text)
    })
    .collect()
}

#[tokio::test]
async fn a_mode_says_what_tools_may_do_without_a_question() {
    let server = ModelServer::replies(json!([]));
    let daemon = Daemon::start(Home::with_models(&server));
    daemon.home().write("here", "text");
    let outside = daemon.home().user().join("outside");
    let left = |name: &str| std::fs::remove_file(daemon.home().cwd().join(name)).is_ok();
    let mut client = daemon.connect().await;
    for (mode, expected) in
        [("read-only", [false; 3]), ("ask", [false; 3]), ("auto-edit", [true, false, false]), ("full", [true; 3])]
    {
        let params = json!({"cwd": daemon.home().cwd(), "model": "fake/plain", "mode": mode});
        assert_eq!(client.ok("new_session", params).await["state"]["mode"], mode);
        server.push(calls(outside.to_str().unwrap()));
        server.push(json!({"text": "done"}));
        // Nobody is there to be asked.
        client.ok("detach", json!({})).await;
        client.ok("prompt", json!({"message": "x"})).await;
        client.ok("wait", json!({})).await;
        let messages = client.ok("get_messages", json!({})).await["messages"].clone();
        let results = messages.as_array().unwrap().iter().filter(|message| message["role"] == "toolResult");
        let failed: Vec<bool> = results.map(|result| result["isError"] == true).collect();
        let [read, inside, out, command] = failed[..] else { panic!("{failed:?}") };
        assert_eq!((read, [!inside, !out, !command]), (false, expected), "{mode}: {messages}");
        let done = [left("new"), std::fs::remove_file(&outside).is_ok(), left("ran")];
        assert_eq!(done, expected, "{mode}");
    }
}

#[tokio::test]
async fn a_mode_is_kept_with_the_session_and_the_others_are_told() {
    let server = ModelServer::replies(json!([{"text": "a"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    client.ok("set_mode", json!({"mode": "read-only"})).await;
    let told = client.events_until("entry_appended").await.pop().unwrap();
    assert_eq!(told["event"]["entry"]["data"], json!({"mode": "read-only"}));
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    let state = client.ok("attach", json!({"sessionId": session})).await["state"].clone();
    assert_eq!(state["mode"], "read-only");
    server.push(calls("outside"));
    server.push(json!({"text": "done"}));
    let failures = failures(&mut client).await;
    let denied = failures.iter().flatten().filter(|text| text.contains("the session is read-only")).count();
    assert_eq!((failures.len(), denied), (4, 3), "{failures:?}");
}

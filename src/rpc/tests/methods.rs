use agentd_protocol::methods::{REGISTRY, Scope};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::client::Client;
use super::fake::Fake;

#[tokio::test]
async fn every_method_of_the_registry_is_served() {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    for info in REGISTRY {
        let error = client.fail(info.name, json!([1])).await;
        let kind = error["data"]["kind"].as_str().unwrap();
        assert_eq!(kind, "invalid_params", "{}", info.name);
        assert!(error["message"].as_str().unwrap().contains("by name"), "{error}");
    }
}

#[tokio::test]
async fn session_methods_need_a_session_that_there_is() {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let more = json!({"message": "a", "name": "a", "model": "a/b", "level": "high", "env": {}, "enabled": true, "mode": "all"});
    for info in REGISTRY.iter().filter(|info| info.scope == Scope::Session) {
        let mut params = more.clone();
        if info.name == "set_mode" {
            params["mode"] = json!("ask");
        }
        client.check_fail(info.name, params.clone(), "no_session", None).await;
        params["sessionId"] = json!("nope");
        client.check_fail(info.name, params, "unknown_session", None).await;
        client.check_fail(info.name, json!({"sessionId": 5}), "invalid_params", Some("sessionId")).await;
    }
}

#[tokio::test]
async fn the_current_session_is_that_of_the_last_opening_call() {
    let fake = Fake::new(usize::MAX);
    fake.load("aaa-1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let new = client.call("new_session", json!({"cwd": "/work"})).await;
    assert_eq!(client.call("get_state", json!({})).await["sessionId"], new["sessionId"]);
    assert_eq!(client.call("attach", json!({"sessionId": "a-1"})).await["sessionId"], "aaa-1");
    assert_eq!(client.call("get_state", json!({})).await["sessionId"], "aaa-1");
    let other = json!({"sessionId": new["sessionId"]});
    assert_eq!(client.call("get_state", other).await["sessionId"], new["sessionId"]);
}

#[tokio::test]
async fn a_request_that_meets_a_session_leaving_memory_is_sent_to_its_next_load() {
    let fake = Fake::new(usize::MAX);
    fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    for is_in_mailbox in [true, false] {
        fake.leave_when_found("s1", is_in_mailbox);
        assert_eq!(client.call("attach", json!({"sessionId": "s1"})).await["epoch"], "e1");
        fake.leave_when_found("s1", is_in_mailbox);
        let prompt = json!({"sessionId": "s1", "message": "once"});
        assert_eq!(client.call("prompt", prompt).await["disposition"], "started");
    }
}

#[tokio::test]
async fn requests_reach_their_session() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("initialize", json!({"clientInfo": {"name": "me", "version": "1"}})).await;
    client.call("attach", json!({"sessionId": "s1"})).await;
    let calls = [
        ("prompt", json!({"message": "a", "streamingBehavior": "steer"}), "prompt a Steer from me"),
        ("prompt", json!({"message": "b", "ifBusy": "followUp"}), "prompt b FollowUp from me"),
        ("prompt", json!({"message": "c"}), "prompt c Reject from me"),
        ("steer", json!({"message": "d"}), "steer d AfterTools"),
        ("steer", json!({"message": "d", "when": "now"}), "steer d Now"),
        ("follow_up", json!({"message": "e"}), "follow_up e"),
        ("continue", json!({}), "continue"),
        ("abort_retry", json!({}), "abort_retry"),
        ("clear_queue", json!({}), "clear_queue"),
        ("get_messages", json!({}), "get_messages"),
        ("get_entries", json!({"limit": 3}), "get_entries"),
        ("get_last_assistant_text", json!({}), "get_last_assistant_text"),
        ("get_session_stats", json!({}), "get_session_stats"),
        ("set_session_name", json!({"name": "  n  "}), "set_name n"),
        ("set_model", json!({"model": "p/m:high"}), "set_model p/m:high"),
        ("set_model", json!({"provider": "p", "modelId": "m"}), "set_model p/m"),
        ("set_thinking_level", json!({"level": "low"}), "set_thinking_level low"),
        ("cycle_thinking_level", json!({}), "cycle_thinking_level"),
        ("get_available_thinking_levels", json!({}), "get_available_thinking_levels"),
        ("cycle_model", json!({}), "cycle_model"),
        ("set_mode", json!({"mode": "ask"}), "set_mode ask"),
        ("set_auto_retry", json!({"enabled": false}), "set_auto_retry false"),
        ("set_steering_mode", json!({"mode": "all"}), "set_steering_mode All"),
        ("set_follow_up_mode", json!({"mode": "one-at-a-time"}), "set_follow_up_mode OneAtATime"),
        ("set_env", json!({"env": {"A": "b"}}), "set_env {\"A\": \"b\"}"),
        ("detach", json!({}), "detach"),
    ];
    let mut expected = vec!["attach"];
    for (method, params, log) in calls {
        let result = client.call(method, params).await;
        assert!(result["seq"].is_u64(), "{method}: {result}");
        expected.push(log);
    }
    assert_eq!(session.log(), expected);
    client.check_fail("prompt", json!({"message": "busy"}), "busy", None).await;
}

#[tokio::test]
async fn answers_reach_the_session_that_their_question_names() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load_idle("s.1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("initialize", json!({"clientInfo": {"name": "me", "version": "1"}})).await;
    let answer = |id: &str| json!({"approvalId": id, "decision": "deny"});
    assert_eq!(client.call("respond_approval", answer("s.1.e1")).await, json!({}));
    assert_eq!(session.log(), ["respond s.1.e1 Deny"]);
    let error = client.fail("respond_approval", answer("s.1.e1")).await;
    let data = json!({"kind": "already_resolved", "retryable": false, "by": "me", "decision": "deny"});
    assert_eq!((&error["code"], &error["data"]), (&json!(-32011), &data));
    for id in ["nope.e1", "e1", ""] {
        client.check_fail("respond_approval", answer(id), "unknown_approval", None).await;
    }
    client.check_fail("list_approvals", json!({"sessionId": "nope"}), "unknown_session", None).await;
}

#[tokio::test]
async fn parameters_are_checked() {
    let fake = Fake::new(usize::MAX);
    fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("attach", json!({"sessionId": "s1"})).await;
    let bad = [
        ("prompt", json!({}), "message"),
        ("prompt", json!({"message": "a", "ifBusy": "x"}), "ifBusy"),
        ("steer", json!({"message": null}), "message"),
        ("new_session", json!({"cwd": "relative"}), "cwd"),
        ("new_session", json!({"cwd": "/work", "maxTurns": 0}), "maxTurns"),
        ("new_session", json!({"cwd": "/work", "maxTurns": 1_000_001}), "maxTurns"),
        ("list_sessions", json!({"limit": 0}), "limit"),
        ("list_sessions", json!({"limit": 501}), "limit"),
        ("set_session_name", json!({"name": " "}), "name"),
        ("set_model", json!({}), "model"),
        ("set_model", json!({"provider": "p"}), "modelId"),
        ("set_model", json!({"modelId": "p"}), "provider"),
        ("set_model", json!({"model": "a/b", "modelId": "p"}), "model"),
        ("set_thinking_level", json!({"level": "maximal"}), "level"),
        ("set_env", json!({"env": {"A": 1}}), "env.A"),
        ("attach", json!({"since": {"epoch": "e1"}}), "since.seq"),
        ("attach", json!({"since": {"epoch": "e1", "seq": -1}}), "since.seq"),
        ("attach", json!({"view": "best"}), "view"),
    ];
    for (method, params, param) in bad {
        client.check_fail(method, params, "invalid_params", Some(param)).await;
    }
    client.check_fail("new_session", json!({"cwd": "/missing"}), "working_directory", None).await;
}

#[tokio::test]
async fn initialize_tells_who_the_daemon_is() {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let result = client.call("initialize", json!({"protocolVersion": "next", "capabilities": {"novel": 1}})).await;
    assert_eq!(
        result,
        json!({
            "serverInfo": {"name": "agentd", "version": "1.2.3", "build": "b"},
            "protocolVersion": 1,
            "capabilities": {"views": ["full", "coalesced", "entries", "status"], "confinement": "none"},
            "limits": {"maxMessageBytes": 67_108_864, "maxBatch": 1000},
        })
    );
    let other = json!({"clientInfo": {"name": "me", "version": "1.2.4", "build": "c"}});
    let result = client.call("initialize", other).await;
    assert!(result["buildMismatch"].as_str().unwrap().starts_with("the daemon is older"), "{result}");
}

#[tokio::test]
async fn the_status_lists_connections() {
    let fake = Fake::new(usize::MAX);
    fake.load("s1", "e1");
    let server = fake.server();
    let mut one = Client::connect(&server, &fake.tasks);
    one.call("initialize", json!({"clientInfo": {"name": "one", "version": "1"}})).await;
    one.call("attach", json!({"sessionId": "s1", "view": "coalesced"})).await;
    let mut two = Client::connect(&server, &fake.tasks);
    let status = two.call("get_daemon_status", json!({})).await;
    let shown = &status["clients"][0];
    assert_eq!(shown["attached"], json!([{"sessionId": "s1", "view": "coalesced", "lag": 0}]));
    assert_eq!((&shown["name"], &shown["version"], &shown["pid"]), (&json!("one"), &json!("1"), &json!(7)));
    assert!(shown["bytesOut"].as_u64().unwrap() > 0 && shown["connected"].as_i64().unwrap() > 0, "{shown}");
    assert_eq!((&shown["watchesList"], &status["clients"][1]["watchesList"]), (&json!(false), &json!(false)));
    assert_eq!(status["clients"].as_array().unwrap().len(), 2);
    assert_eq!((&status["loadedSessions"], &status["index"]), (&json!(1), &json!("ready")));
    one.call("watch_sessions", json!({})).await;
    one.call("detach", json!({})).await;
    let status = two.call("get_daemon_status", json!({})).await;
    let shown = &status["clients"][0];
    assert_eq!((&shown["attached"], &shown["watchesList"]), (&json!([]), &json!(true)));
    drop(one);
    while two.call("get_daemon_status", json!({})).await["clients"].as_array().unwrap().len() > 1 {}
}

#[tokio::test]
async fn models_are_those_of_a_session_or_of_the_client() {
    let fake = Fake::new(usize::MAX);
    fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let provider = |result: Value| result["models"][0]["provider"].clone();
    assert_eq!(provider(client.call("get_available_models", json!({})).await), "login");
    assert_eq!(provider(client.call("get_available_models", json!({"sessionId": "s1"})).await), "its");
    client.check_fail("get_available_models", json!({"sessionId": "no"}), "unknown_session", None).await;
}

#[tokio::test]
async fn shutdown_asks_the_daemon_to_stop() {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    assert_eq!(client.call("shutdown", json!({"reason": "an update"})).await, json!({}));
    assert_eq!(*fake.stopped.lock().unwrap(), ["an update (shutdown from client \"\")"]);
}

//! What holds for every method: bad parameters are named, an unknown session and a missing one have errors of their own.

use std::collections::BTreeSet;

use agentd_protocol::methods::{REGISTRY, Scope};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Daemon, Home};

/// Illegal parameters of each method, and the parameter at fault. Every method takes the first rows' `sessionId`.
fn illegal() -> Vec<(&'static str, Value, &'static str)> {
    let mut rows = vec![
        ("initialize", json!({"clientInfo": 5}), "clientInfo"),
        ("shutdown", json!({"reason": 5}), "reason"),
        ("get_available_models", json!({"sessionId": 5}), "sessionId"),
        ("new_session", json!({"cwd": 5}), "cwd"),
        ("new_session", json!({"cwd": "relative/folder"}), "cwd"),
        ("new_session", json!({"model": 5}), "model"),
        ("new_session", json!({"tools": "read"}), "tools"),
        ("new_session", json!({"tools": ["nosuchtool"], "model": "demo"}), "tools"),
        ("new_session", json!({"maxTurns": 0, "model": "demo"}), "maxTurns"),
        ("new_session", json!({"mode": "reckless", "model": "demo"}), "mode"),
        ("new_session", json!({"attach": "yes"}), "attach"),
        ("new_session", json!({"view": "sideways"}), "view"),
        ("list_sessions", json!({"limit": "many"}), "limit"),
        ("list_sessions", json!({"limit": 0}), "limit"),
        ("list_sessions", json!({"cursor": 5}), "cursor"),
        ("list_sessions", json!({"cursor": "no cursor of ours"}), "cursor"),
        ("attach", json!({"since": 5}), "since"),
        ("attach", json!({"since": {"epoch": "x"}}), "since"),
        ("attach", json!({"since": {"epoch": "x", "seq": -1}}), "since"),
        ("attach", json!({"view": "sideways"}), "view"),
        ("attach", json!({"history": 1}), "history"),
        ("prompt", json!({}), "message"),
        ("prompt", json!({"message": 5}), "message"),
        ("prompt", json!({"message": "x", "images": "none"}), "images"),
        ("prompt", json!({"message": "x", "ifBusy": "shout"}), "ifBusy"),
        ("prompt", json!({"message": "x", "clientMessageId": 5}), "clientMessageId"),
        ("steer", json!({}), "message"),
        ("steer", json!({"message": ["x"]}), "message"),
        ("follow_up", json!({}), "message"),
        ("follow_up", json!({"message": null}), "message"),
        ("steer", json!({"message": "x", "when": "later"}), "when"),
        ("initialize", json!({"capabilities": {"answers": 1}}), "capabilities"),
        ("list_approvals", json!({"sessionId": 5}), "sessionId"),
        ("respond_approval", json!({"decision": "once"}), "approvalId"),
        ("respond_approval", json!({"approvalId": "a.b"}), "decision"),
        ("respond_approval", json!({"approvalId": "a.b", "decision": "cancelled"}), "decision"),
        ("respond_approval", json!({"approvalId": "a.b", "decision": "once", "message": 5}), "message"),
        ("respond_approval", json!({"approvalId": "a.b", "decision": "deny", "message": "m".repeat(4001)}), "message"),
        ("trust", json!({"path": 5}), "path"),
        ("trust", json!({"decision": "perhaps"}), "decision"),
        ("untrust", json!({"path": 5}), "path"),
        ("get_entries", json!({"since": 5}), "since"),
        ("get_entries", json!({"limit": "all"}), "limit"),
        ("get_entries", json!({"branch": "yes"}), "branch"),
        ("set_session_name", json!({}), "name"),
        ("set_session_name", json!({"name": 5}), "name"),
        ("set_session_name", json!({"name": "  "}), "name"),
        ("set_model", json!({}), "model"),
        ("set_model", json!({"model": 5}), "model"),
        ("set_model", json!({"provider": "fake"}), "modelId"),
        ("set_thinking_level", json!({}), "level"),
        ("set_thinking_level", json!({"level": "furious"}), "level"),
        ("new_session", json!({"mode": "yolo", "model": "demo"}), "mode"),
        ("set_mode", json!({}), "mode"),
        ("set_mode", json!({"mode": "Full"}), "mode"),
        ("set_auto_retry", json!({}), "enabled"),
        ("set_auto_retry", json!({"enabled": "no"}), "enabled"),
        ("set_steering_mode", json!({}), "mode"),
        ("set_steering_mode", json!({"mode": "some"}), "mode"),
        ("set_follow_up_mode", json!({"mode": true}), "mode"),
        ("watch_sessions", json!({"since": "x"}), "since"),
        ("watch_sessions", json!({"since": -1}), "since"),
        ("get_config", json!({"sessionId": 5}), "sessionId"),
        ("get_config", json!({"key": 5}), "key"),
        ("set_config", json!({"value": 5}), "key"),
        ("set_config", json!({"key": "max_turns"}), "value"),
        ("set_config", json!({"key": "nosuch", "value": 5}), "key"),
        ("set_config", json!({"key": "max_turns", "value": "many"}), "value"),
        ("set_config", json!({"key": "max_turns", "value": 5, "cwd": "relative"}), "cwd"),
        ("set_config", json!({"key": "durability", "value": "flush", "project": true}), "project"),
        ("set_key", json!({"key": "k"}), "provider"),
        ("set_key", json!({"provider": "openai"}), "key"),
        ("set_key", json!({"provider": "openai", "key": " "}), "key"),
        ("set_key", json!({"provider": "nosuch", "key": "k"}), "provider"),
        ("remove_key", json!({}), "provider"),
        ("list_keys", json!({"sessionId": 5}), "sessionId"),
        ("get_config", json!({"settings": []}), "settings"),
        ("new_session", json!({"settings": {"nosuch": 1}, "model": "demo"}), "settings"),
        ("set_env", json!({}), "env"),
        ("set_env", json!({"env": {"A": 5}}), "env"),
        ("set_env", json!({"env": {"A=B": "x"}}), "env"),
        ("set_env", json!({"env": {"A": "x\u{0}"}}), "env"),
        ("prompt", json!({"message": " \n"}), "message"),
        ("steer", json!({"message": ""}), "message"),
        ("follow_up", json!({"message": "\t", "images": []}), "message"),
        ("set_session_name", json!({"name": "n".repeat(1001)}), "name"),
        ("new_session", json!({"name": "n".repeat(1001), "model": "demo"}), "name"),
    ];
    let session_methods = REGISTRY.iter().filter(|method| method.scope == Scope::Session);
    rows.extend(
        session_methods.map(|method| (method.name, with(legal(method.name), "sessionId", json!(5)), "sessionId")),
    );
    rows
}

/// The same for rules.
fn illegal_rules() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("list_rules", json!({"cwd": 5}), "cwd"),
        ("list_rules", json!({"cwd": "relative"}), "cwd"),
        ("add_rule", json!({}), "rule"),
        ("add_rule", json!({"rule": {"action": "never", "tool": "bash"}}), "rule"),
        ("add_rule", json!({"rule": {"action": "allow", "tool": "bash"}}), "rule"),
        ("add_rule", json!({"rule": {"action": "allow", "tool": "bash", "command": "ls && rm"}}), "rule"),
        ("add_rule", json!({"rule": {"action": "allow", "tool": "bash", "command": "sudo"}}), "rule"),
        ("add_rule", json!({"rule": {"action": "deny", "tool": "write", "path": "a/../b"}}), "rule"),
        ("add_rule", json!({"rule": {"action": "deny", "tool": "write"}, "scope": "mine"}), "scope"),
        ("remove_rule", json!({"rule": 5}), "rule"),
        ("test_rule", json!({}), "command"),
        ("test_rule", json!({"command": "ls", "tool": "bash"}), "command"),
        ("test_rule", json!({"tool": "nothing"}), "args"),
        ("test_rule", json!({"tool": "read", "args": {}}), "args"),
        ("test_rule", json!({"command": "ls", "mode": "careful"}), "mode"),
    ]
}

/// Legal parameters of a session method, without `sessionId`.
fn legal(method: &str) -> Value {
    match method {
        "prompt" | "steer" | "follow_up" => json!({"message": "hello"}),
        "set_session_name" => json!({"name": "n"}),
        "set_model" => json!({"model": "demo/demo"}),
        "set_thinking_level" => json!({"level": "off"}),
        "set_mode" => json!({"mode": "ask"}),
        "set_auto_retry" => json!({"enabled": true}),
        "set_steering_mode" | "set_follow_up_mode" => json!({"mode": "all"}),
        "set_env" => json!({"env": {}}),
        _ => json!({}),
    }
}

fn with(mut params: Value, name: &str, value: Value) -> Value {
    params[name] = value;
    params
}

#[tokio::test]
async fn bad_parameters_are_named() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "demo").await;
    let mut wrong = Vec::new();
    for (method, params, param) in illegal().into_iter().chain(illegal_rules()) {
        match client.call(method, params.clone()).await {
            Err(error) if error.code == -32602 && names(&error.data["param"], param) => {}
            outcome => wrong.push(format!("{method} {params}: {outcome:?}")),
        }
    }
    assert!(wrong.is_empty(), "-32602 with the parameter's name was wanted:\n{}", wrong.join("\n"));
}

/// A member of a parameter (`since.seq`, `env.A`) names the parameter too.
fn names(named: &Value, param: &str) -> bool {
    named.as_str().is_some_and(|named| named.split(['.', '[']).next() == Some(param))
}

#[test]
fn every_method_with_parameters_has_rows() {
    let rows: BTreeSet<_> = illegal().into_iter().chain(illegal_rules()).map(|(method, _, _)| method).collect();
    let without: Vec<_> = REGISTRY.iter().map(|method| method.name).filter(|name| !rows.contains(name)).collect();
    // These take no parameters.
    assert_eq!(without, ["ping", "get_daemon_status", "unwatch_sessions", "list_trust"]);
}

#[tokio::test]
async fn an_unknown_session_has_an_error_of_its_own() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "demo").await;
    let session_methods = REGISTRY.iter().filter(|method| method.scope == Scope::Session).map(|method| method.name);
    for method in session_methods.chain(["get_available_models", "list_approvals"]) {
        for id in ["01a22bed-0000-7000-8000-00000000dead", "", "../../etc/passwd"] {
            let error = client.err(method, with(legal(method), "sessionId", json!(id))).await;
            assert_eq!((error.code, error.kind()), (-32001, "unknown_session"), "{method} {id:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn without_a_current_session_the_id_is_asked_for() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    for method in REGISTRY.iter().filter(|method| method.scope == Scope::Session) {
        let error = client.err(method.name, legal(method.name)).await;
        assert_eq!((error.code, error.kind()), (-32002, "no_session"), "{}: {error:?}", method.name);
    }
}

#[tokio::test]
async fn unknown_members_are_ignored() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.ok("ping", json!({"more": 1})).await;
    client.ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "demo", "more": {}})).await;
    client.ok("get_state", json!({"more": []})).await;
}

#[tokio::test]
async fn session_answers_carry_the_seq_they_reflect() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "demo").await;
    let not_run = ["prompt", "continue", "detach"];
    for method in REGISTRY.iter().filter(|method| method.scope == Scope::Session && !not_run.contains(&method.name)) {
        let result = client.ok(method.name, legal(method.name)).await;
        assert!(result["seq"].is_u64(), "{}: {result}", method.name);
    }
}

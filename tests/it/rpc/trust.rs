//! Which folders are trusted: trust, untrust, list_trust, and what of it a session tells and does.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};
use crate::model_server::{ModelServer, Recorded};

const CANARY: &str = "CANARY-INSTRUCTIONS";

/// A home whose working directory has instructions, and a server that answers so many prompts.
fn project(answers: usize) -> (ModelServer, Daemon) {
    let server = ModelServer::replies(json!(vec![json!({"text": "done"}); answers]));
    let home = Home::with_models(&server);
    home.write("AGENTS.md", CANARY);
    home.write(".agentd/config.toml", "");
    (server, Daemon::start(home))
}

/// A client in whose name nobody answers questions.
async fn connect(daemon: &Daemon) -> Client {
    let mut client = daemon.connect().await;
    let params = json!({"clientInfo": {"name": "test", "version": "1"}, "capabilities": {"answers": false}});
    client.ok("initialize", params).await;
    client
}

fn has_instructions(request: &Recorded) -> bool {
    request.text.contains(CANARY)
}

async fn trust_of(client: &mut Client) -> Value {
    client.ok("get_state", json!({})).await["trust"].clone()
}

#[tokio::test]
async fn b206_a_folder_gives_nothing_before_it_is_trusted_and_all_of_it_after() {
    let (server, daemon) = project(4);
    let cwd = daemon.home().cwd().canonicalize().unwrap();
    let mut client = connect(&daemon).await;
    client.new_session(daemon.home(), "fake/plain").await;
    let withheld = [cwd.join("AGENTS.md"), cwd.join(".agentd")];
    assert_eq!(trust_of(&mut client).await, json!({"withheld": withheld}));
    client.run("first").await;

    // A session that runs already takes it in with its next run.
    let kept = client.ok("trust", json!({})).await;
    assert_eq!(kept, json!({"path": cwd, "decision": "yes"}));
    assert_eq!(trust_of(&mut client).await, json!({"decision": "yes", "folder": cwd, "withheld": []}));
    client.run("second").await;

    // And lets go of it.
    client.ok("trust", json!({"path": cwd.parent().unwrap(), "decision": "no"})).await;
    assert_eq!(trust_of(&mut client).await["decision"], "yes");
    assert_eq!(
        client.ok("untrust", json!({"path": cwd.join("../w/")})).await,
        json!({"path": cwd, "forgotten": "yes"})
    );
    let expected = json!({"decision": "no", "folder": cwd.parent(), "withheld": withheld});
    assert_eq!(trust_of(&mut client).await, expected);
    client.run("third").await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("first of another").await;

    let requests = server.requests();
    let given: Vec<bool> = requests.iter().map(has_instructions).collect();
    // What was sent once stands in the conversation; the sections that hold now come last.
    assert_eq!(given, [false, true, true, false]);
    let last = requests[2].messages().iter().rev().find(|message| message["role"] == "system").unwrap().to_string();
    assert!(!last.contains(CANARY), "{last}");
}

#[tokio::test]
async fn decisions_are_listed_with_who_made_them() {
    let (_server, mut daemon) = project(0);
    let cwd = daemon.home().cwd().canonicalize().unwrap();
    let mut client = connect(&daemon).await;
    assert_eq!(client.ok("list_trust", json!({})).await["folders"], json!([]));
    client.ok("trust", json!({"path": cwd, "decision": "no"})).await;
    client.ok("trust", json!({"path": cwd})).await;
    let listed = client.ok("list_trust", json!({})).await;
    assert_eq!(listed["file"], json!(daemon.home().state().join("agentd/trust.json")));
    let folder = &listed["folders"][0];
    assert_eq!((&folder["path"], &folder["decision"], &folder["client"]), (&json!(cwd), &json!("yes"), &json!("test")));
    assert!(folder["decidedAt"].as_i64().is_some_and(|at| at > 1_700_000_000_000), "{folder}");
    daemon.kill();
    daemon.restart();
    let mut client = connect(&daemon).await;
    assert_eq!(client.ok("list_trust", json!({})).await, listed);
    assert_eq!(client.ok("untrust", json!({"path": cwd})).await["forgotten"], "yes");
    assert_eq!(client.ok("untrust", json!({"path": cwd})).await, json!({"path": cwd}));
}

#[tokio::test]
async fn what_is_no_folder_is_refused() {
    let (_server, daemon) = project(0);
    let mut client = connect(&daemon).await;
    for method in ["trust", "untrust"] {
        assert_eq!(client.err(method, json!({})).await.kind(), "no_session");
        assert_eq!(client.err(method, json!({"sessionId": "none"})).await.kind(), "unknown_session");
        let error = client.err(method, json!({"path": "relative"})).await;
        assert_eq!((error.code, &error.data["param"]), (-32602, &json!("path")), "{error:?}");
        assert!(error.message.contains("not an absolute path"), "{error:?}");
    }
    for path in ["gone", "AGENTS.md"] {
        let error = client.err("trust", json!({"path": daemon.home().cwd().join(path)})).await;
        assert_eq!((error.code, &error.data["param"]), (-32602, &json!("path")), "{error:?}");
        assert!(error.message.contains("is not a folder"), "{error:?}");
    }
    let error = client.err("trust", json!({"path": daemon.home().cwd(), "decision": "maybe"})).await;
    assert_eq!((error.code, &error.data["param"]), (-32602, &json!("decision")), "{error:?}");
}

/// A person decides, and no process that a tool call of a session has started.
#[tokio::test]
async fn b214_a_tool_call_decides_nothing() {
    let script = "trust \"$PWD\"; agentctl untrust \"$PWD\"; agentctl rpc trust \"{\\\"path\\\":\\\"$PWD\\\"}\"";
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": format!("agentctl {script}; true")}}]});
    let server = ModelServer::replies(json!([call, {"text": "done"}]));
    let home = Home::with_models(&server);
    let agentctl = crate::harness::agentctl();
    let daemon = Daemon::start(home);
    let mut client = connect(&daemon).await;
    let mut env = daemon.home().env();
    env.insert("PATH".to_owned(), format!("{}:{}", agentctl.parent().unwrap().display(), env["PATH"]));
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("set_env", json!({"env": env})).await;
    client.run("go").await;
    let result = server.requests().pop().unwrap().text;
    assert_eq!(result.matches("comes from a person").count(), 3, "{result}");
    assert_eq!(client.ok("list_trust", json!({})).await["folders"], json!([]));
    assert!(!daemon.home().state().join("agentd/trust.json").exists());
}

#[tokio::test]
async fn b183_decisions_that_cannot_be_read_trust_nothing_and_are_left_alone() {
    let (server, daemon) = project(1);
    let file = daemon.home().state().join("agentd/trust.json");
    daemon.home().trust(&daemon.home().cwd());
    let mut client = connect(&daemon).await;
    let whole = fs::read_to_string(&file).unwrap();
    let broken = whole.replace("\"yes\"", "yes");
    fs::write(&file, &broken).unwrap();
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    assert!(!has_instructions(&server.requests()[0]));
    let trust = trust_of(&mut client).await;
    assert_eq!(trust["decision"], Value::Null);
    assert!(trust["problem"].as_str().unwrap().contains("trust.json cannot be used: no JSON at line 1"), "{trust}");
    for (method, params) in [("trust", json!({})), ("untrust", json!({})), ("list_trust", json!({}))] {
        let error = client.err(method, params).await;
        assert_eq!(error.kind(), "storage", "{error:?}");
        assert!(error.message.contains("mend or remove it"), "{error:?}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), broken);
}

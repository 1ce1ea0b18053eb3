//! Tools and key look-up follow the session's terminal, not the daemon's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::fixtures;
use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

/// Makes a folder with a program `which-one` that prints `name`.
fn tool_folder(home: &Home, name: &str) -> String {
    let folder = home.root().join(name);
    fs::create_dir(&folder).unwrap();
    let program = folder.join("which-one");
    fs::write(&program, format!("#!/bin/sh\necho {name}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    folder.to_str().unwrap().to_owned()
}

/// Makes a home whose provider takes its key from `$FAKE_KEY`.
fn home_with_key_variable(server: &ModelServer) -> Home {
    let home = Home::with_models(server);
    let mut models: Value = serde_json::from_str(&fixtures::models(server.port())).unwrap();
    models["providers"]["fake"]["apiKey"] = json!("$FAKE_KEY");
    fs::write(home.config().join("agentd/models.json"), models.to_string()).unwrap();
    home
}

fn bash(command: &str) -> Value {
    json!({"blocks": [{"tool": "bash", "args": {"command": command}}]})
}

/// Connects as a terminal with its own variables.
async fn terminal(daemon: &Daemon, cwd: &Path, variables: &[(&str, &str)]) -> Client {
    let mut env = daemon.home().env();
    env.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let mut client = Client::connect(&daemon.home().socket()).await;
    client.front(cwd, &env).await;
    client
}

/// Runs a prompt and returns the text of the first tool result.
async fn tool_output(client: &mut Client) -> String {
    let events = client.run("x").await;
    let end = events.iter().find(|event| event["event"]["type"] == "tool_execution_end").expect("a tool ran");
    end["event"]["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn path_key_and_variables_are_those_of_the_sessions_terminal() {
    let command = bash("which-one; echo \"venv=$VIRTUAL_ENV key=$FAKE_KEY daemon=$ONLY_DAEMON\"");
    let server = ModelServer::replies(json!([command, {"text": "ok"}, command, {"text": "ok"}]));
    let home = home_with_key_variable(&server);
    let (north, south) = (tool_folder(&home, "north"), tool_folder(&home, "south"));
    let daemon = Daemon::start_with(home, [("ONLY_DAEMON", "visible"), ("FAKE_KEY", "key-of-daemon")]);
    let path = std::env::var("PATH").unwrap();
    for (folder, venv, key, place) in [(&north, "v-north", "key-north", 0), (&south, "v-south", "key-south", 2)] {
        let variables =
            [("PATH", format!("{folder}:{path}")), ("VIRTUAL_ENV", venv.to_owned()), ("FAKE_KEY", key.to_owned())];
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut client = terminal(&daemon, &daemon.home().cwd(), &variables).await;
        client.ok("new_session", json!({"model": "fake/plain"})).await;
        let name = folder.rsplit('/').next().unwrap();
        assert_eq!(tool_output(&mut client).await, format!("{name}\nvenv={venv} key= daemon=\n"));
        assert_eq!(server.requests()[place].header("authorization"), Some(format!("Bearer {key}").as_str()));
    }
}

#[tokio::test]
async fn set_env_replaces_the_environment() {
    let command = bash("echo \"one=$ONE two=$TWO\"");
    let server = ModelServer::replies(json!([command, {"text": "ok"}, command, {"text": "ok"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = terminal(&daemon, &daemon.home().cwd(), &[("ONE", "1")]).await;
    client.ok("new_session", json!({"model": "fake/plain"})).await;
    assert_eq!(tool_output(&mut client).await, "one=1 two=\n");
    client.ok("set_env", json!({"env": {"PATH": std::env::var("PATH").unwrap(), "TWO": "2"}})).await;
    assert_eq!(tool_output(&mut client).await, "one= two=2\n");
}

#[tokio::test]
async fn a_key_that_only_another_terminal_has_does_not_help() {
    let server = ModelServer::replies(json!([]));
    let daemon = Daemon::start_with(home_with_key_variable(&server), [("FAKE_KEY", "key-of-daemon")]);
    let mut client = terminal(&daemon, &daemon.home().cwd(), &[]).await;
    let models = client.ok("get_available_models", json!({})).await;
    let fake = models["models"].as_array().unwrap().iter().filter(|model| model["provider"] == "fake").count();
    assert_eq!(fake, 0, "the daemon's own variable is not used");
}

#[tokio::test]
async fn b210_a_key_is_in_no_file_event_log_or_answer() {
    let canary = "sk-CANARY0123456789";
    let body = json!({"error": {"message": format!("wrong key {canary} given")}});
    let server = ModelServer::replies(json!([bash("env"), {"text": "ok"}, {"status": 401, "body": body}]));
    let daemon = Daemon::start_with(home_with_key_variable(&server), [("RUST_LOG", "trace"), ("AGENTD_LOG", "trace")]);
    let mut client = terminal(&daemon, &daemon.home().cwd(), &[("FAKE_KEY", canary)]).await;
    client.ok("new_session", json!({"model": "fake/plain"})).await;
    let mut seen = client.run("x").await;
    seen.extend(client.run("y").await);
    seen.push(client.ok("get_state", json!({})).await);
    seen.push(client.ok("get_available_models", json!({})).await);
    seen.push(client.ok("get_messages", json!({})).await);
    for message in seen {
        assert!(!message.to_string().contains("CANARY"), "{message}");
    }
    assert!(!daemon.log().contains("CANARY"), "the log holds the key");
    let mut folders = vec![daemon.home().state()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                assert!(!bytes.windows(6).any(|window| window == b"CANARY"), "{} holds the key", path.display());
            }
        }
    }
}

#[tokio::test]
async fn a_session_that_lost_its_key_in_a_restart_gets_it_back() {
    let server = ModelServer::replies(json!([{"text": "a"}, {"text": "b"}]));
    let mut daemon = Daemon::start(home_with_key_variable(&server));
    let mut client = terminal(&daemon, &daemon.home().cwd(), &[("FAKE_KEY", "key-one")]).await;
    let made = client.ok("new_session", json!({"model": "fake/plain"})).await;
    client.run("x").await;
    assert!(daemon.terminate().success());
    daemon.restart();
    let mut client = Client::connect(&daemon.home().socket()).await;
    let attached = client.ok("attach", json!({"sessionId": made["sessionId"]})).await;
    assert_eq!(attached["state"]["model"], Value::Null, "no other model is chosen silently");
    let refused = client.err("prompt", json!({"message": "y"})).await;
    assert_eq!(refused.kind(), "no_model");
    assert!(refused.message.contains("FAKE_KEY"), "{}", refused.message);
    let mut env = daemon.home().env();
    env.insert("FAKE_KEY".to_owned(), "key-two".to_owned());
    client.ok("set_env", json!({"env": env})).await;
    assert_eq!(client.ok("get_state", json!({})).await["model"]["id"], "plain");
    client.run("y").await;
    assert_eq!(server.requests()[1].header("authorization"), Some("Bearer key-two"));
}

#[tokio::test]
async fn after_a_restart_the_login_shell_stands_in_and_the_session_says_so() {
    let command = bash("echo \"daemon=$ONLY_DAEMON home=${HOME:+set} $(command -v env)\"");
    let server = ModelServer::replies(json!([{"text": "a"}, command, {"text": "b"}]));
    let mut daemon = Daemon::start_with(Home::with_models(&server), [("ONLY_DAEMON", "visible")]);
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.run("x").await;
    daemon.kill();
    daemon.restart();
    // A client that says nothing of its environment.
    let mut client = Client::connect(&daemon.home().socket()).await;
    let attached = client.ok("attach", json!({"sessionId": session})).await;
    assert_eq!(attached["state"]["envSource"], "loginShell");
    let notice = client.events_until("notice").await.pop().unwrap();
    assert_eq!(notice["event"]["kind"], "login_shell_env");
    let output = tool_output(&mut client).await;
    assert!(output.starts_with("daemon= home=set /") && output.ends_with("/env\n"), "{output}");
}

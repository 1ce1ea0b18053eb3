//! Keys: whatever prints, says or types one, no event, answer, file, log or request body holds it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use agentd_protocol::methods::REGISTRY;
use serde_json::{Value, json};

use crate::fixtures;
use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

/// What every key has in it. The variable is in the session's environment; the others stand in files.
const MARK: &[u8] = b"CANARY";
const BY_VARIABLE: &str = "sk-CANARY-variable-0001";

/// A home with keys in all the places where they may be.
fn home(server: &ModelServer) -> Home {
    let home = Home::with_models(server);
    let mut models: Value = serde_json::from_str(&fixtures::models(server.port())).unwrap();
    models["providers"]["fake"]["apiKey"] = json!("$FAKE_KEY");
    let model = json!([{"id": "other"}]);
    models["providers"]["literal"] = json!({"api": "openai-completions", "apiKey": "sk-CANARY-literal-0002",
        "baseUrl": "https://me:CANARY-password-0003@127.0.0.1:9/v1?key=sk-CANARY-query-0004", "models": model,
        "headers": {"x-api-key": "sk-CANARY-header-0005", "Authorization": "Bearer sk-CANARY-bearer-0006"}});
    models["providers"]["command"] = json!({"api": "openai-completions", "apiKey": "!printf sk-CAN%s ARY-command-0007",
        "baseUrl": format!("http://127.0.0.1:{}/v1", server.port()), "models": model});
    fs::write(home.config().join("agentd/models.json"), models.to_string()).unwrap();
    let auth = json!({"fake": {"type": "oauth", "access": "CANARY-access-0008", "refresh": "CANARY-refresh-0009"},
        "unknown": {"type": "api_key", "key": "sk-CANARY-file-0010"}});
    fs::write(home.pi_agent().join("auth.json"), auth.to_string()).unwrap();
    home
}

fn environment(home: &Home) -> BTreeMap<String, String> {
    let mut env = home.env();
    env.insert("FAKE_KEY".to_owned(), BY_VARIABLE.to_owned());
    env.insert("HTTPS_PROXY".to_owned(), "http://me:CANARY-proxy-0011@127.0.0.1:9".to_owned());
    env
}

fn tool(name: &str, args: Value) -> Value {
    json!({"blocks": [{"tool": name, "args": args}]})
}

/// Returns the files below a folder that hold a key.
fn holders(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            match path.symlink_metadata().unwrap() {
                kind if kind.is_dir() => folders.push(path),
                kind if kind.is_file() && has_key(&fs::read(&path).unwrap()) => {
                    found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn has_key(bytes: &[u8]) -> bool {
    bytes.windows(MARK.len()).any(|window| window == MARK)
}

/// Connects, with the keys in the environment.
async fn connect(daemon: &Daemon) -> Client {
    let mut client = Client::connect(&daemon.home().socket()).await;
    client.front(&daemon.home().cwd(), &environment(daemon.home())).await;
    client
}

#[tokio::test]
async fn b210_a_key_that_a_tool_prints_a_model_says_or_a_provider_repeats_goes_nowhere() {
    let files = "cat \"$PI_CODING_AGENT_DIR/auth.json\" \"$XDG_CONFIG_HOME/agentd/models.json\"";
    let slowly = "printf sk-CAN; sleep 0.2; echo ARY-literal-0002; env; false";
    let flood = format!("for i in $(seq 2000); do {files}; done");
    let said = format!("It is {BY_VARIABLE}, and {BY_VARIABLE}.");
    let refused = json!({"error": {"message": format!("wrong key {BY_VARIABLE} and sk-CANARY-file-0010")}});
    let server = ModelServer::replies(json!([
        tool("bash", json!({"command": files})),
        tool("bash", json!({"command": slowly})),
        tool("bash", json!({"command": flood})),
        tool("read", json!({"path": "../pi/auth.json"})),
        tool("grep", json!({"pattern": "CAN.RY", "path": "../config"})),
        {"blocks": [{"thinking": said}, {"text": said}, {"tool": "write", "args": {"path": "k", "content": said}}], "chunk": 5},
        {"text": said, "chunk": 3, "cut_after": 6},
        {"text": said, "error_after": 4, "chunk": 7, "error": {"message": format!("it was {BY_VARIABLE}")}},
        {"status": 401, "body": refused},
        {"status": 400, "body": format!("<html>{BY_VARIABLE}")},
    ]));
    let extra = [("AGENTD_LOG", "trace"), ("RUST_LOG", "trace"), ("AGENTD_RETRY_BASE_DELAY_MS", "1")];
    let daemon = Daemon::start_with(home(&server), extra);
    let mut client = connect(&daemon).await;
    let tools = json!(["bash", "read", "grep", "write", "edit"]);
    client.ok("new_session", json!({"model": "fake/thinker", "tools": tools, "name": BY_VARIABLE})).await;
    let mut seen = client.run(&format!("my key is {BY_VARIABLE}")).await;
    seen.extend(client.run("again").await);
    seen.extend(client.run("and again").await);
    seen.extend(client.run("once more").await);
    client.ok("set_session_name", json!({"name": "sk-CANARY-literal-0002"})).await;
    for model in ["literal/other", "command/other"] {
        seen.push(client.ok("set_model", json!({"model": model})).await);
        seen.push(client.ok("get_state", json!({})).await);
    }
    server.push(json!({"text": "sk-CANARY-command-0007"}));
    seen.extend(client.run("what does the command print?").await);
    for method in ["get_messages", "get_entries", "get_available_models", "get_session_stats", "list_sessions"] {
        assert!(REGISTRY.iter().any(|known| known.name == method));
        seen.push(client.ok(method, json!({})).await);
    }
    let mut late = connect(&daemon).await;
    let session = client.ok("get_state", json!({})).await["sessionId"].clone();
    seen.push(late.ok("attach", json!({"sessionId": session})).await);

    let faults: Vec<String> = seen.iter().map(Value::to_string).filter(|message| has_key(message.as_bytes())).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let told = |text: &str| seen.iter().any(|message| message.to_string().contains(text));
    for note in [
        "[redacted: FAKE_KEY]",
        "[redacted: key of literal]",
        "[redacted: key of unknown]",
        "[redacted: key of fake]",
        "[redacted: header x-api-key of literal]",
        "[redacted: output of a key command]",
        "key_redacted",
    ] {
        assert!(told(note), "{note} is nowhere");
    }
    for request in server.requests() {
        assert!(!has_key(request.text.as_bytes()), "request {}: {}", request.number, request.text);
    }
    assert!(!has_key(daemon.log().as_bytes()), "the log holds a key");
    // The flood of output was kept as a whole, without keys.
    assert!(holders(&daemon.home().state()).is_empty(), "{:?}", holders(&daemon.home().state()));
    assert!(daemon.home().state().join("agentd/outputs").read_dir().unwrap().next().is_some());
    assert_eq!(holders(daemon.home().root()), ["auth.json", "models.json"]);
    // What the model said of a key cannot be written in the place of one.
    assert!(!daemon.home().cwd().join("k").exists());
}

#[tokio::test]
async fn b210_a_hidden_key_is_not_written_over() {
    let line = |key: &str| format!("OTHER=1\nKEY={key}\n");
    let edit =
        |old: &str, new: &str| tool("edit", json!({"path": "keys", "edits": [{"oldText": old, "newText": new}]}));
    let hidden = line("[redacted: FAKE_KEY]");
    let server = ModelServer::replies(json!([
        tool("read", json!({"path": "keys"})),
        tool("write", json!({"path": "keys", "content": hidden})),
        edit("OTHER=1", "OTHER=2 # [redacted: FAKE_KEY]"),
        edit("OTHER=1", "OTHER=2"),
        {"text": "done"},
    ]));
    let daemon = Daemon::start(home(&server));
    daemon.home().write("keys", line(BY_VARIABLE));
    let mut client = connect(&daemon).await;
    client.ok("new_session", json!({"model": "fake/plain"})).await;
    let events = client.run("count up").await;
    let ends = events.iter().filter(|event| event["event"]["type"] == "tool_execution_end");
    let failed: Vec<bool> = ends.map(|event| event["event"]["isError"] == true).collect();
    assert_eq!(failed, [false, true, true, false]);
    assert!(server.requests()[1].text.contains("[redacted: FAKE_KEY]"));
    assert_eq!(daemon.home().read("keys"), line(BY_VARIABLE).replace("OTHER=1", "OTHER=2"));
}

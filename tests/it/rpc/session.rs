//! Making, listing, reading and changing sessions.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

#[tokio::test]
async fn new_session_answers_with_ids_cursor_and_state() {
    let server = ModelServer::replies(json!([]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let params = json!({"cwd": daemon.home().cwd(), "model": "fake/thinker:high", "name": "a name", "tools": ["read", "bash"], "maxTurns": 7});
    let made = client.ok("new_session", params).await;
    let state = &made["state"];
    assert_eq!(state["sessionId"], made["sessionId"]);
    assert_eq!(state["sessionFile"], made["sessionFile"]);
    assert_eq!((&state["model"]["id"], &state["thinkingLevel"]), (&json!("thinker"), &json!("high")));
    assert_eq!((&state["sessionName"], &state["maxTurns"]), (&json!("a name"), &json!(7)));
    assert_eq!(state["tools"], json!(["read", "bash"]));
    assert_eq!((&state["isStreaming"], &state["status"]), (&json!(false), &json!("idle")));
    assert_eq!((&state["envSource"], &state["confinement"]), (&json!("client"), &json!("none")));
    assert!(made["epoch"].is_string() && made["seq"].is_u64(), "{made}");
    assert_eq!(daemon.home().session_files(), Vec::<std::path::PathBuf>::new(), "no file before the first prompt");
}

#[tokio::test]
async fn new_session_takes_the_working_directory_of_the_front() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let made = client.ok("new_session", json!({"model": "demo"})).await;
    assert_eq!(made["state"]["cwd"], json!(daemon.home().cwd()));
}

#[tokio::test]
async fn new_session_refuses_what_cannot_work() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let gone = daemon.home().root().join("gone");
    let error = client.err("new_session", json!({"cwd": gone, "model": "demo"})).await;
    assert_eq!((error.code, error.kind()), (-32018, "working_directory"));
    assert!(error.message.contains("gone"), "{}", error.message);
    let error = client.err("new_session", json!({"cwd": daemon.home().cwd(), "model": "fake/nosuch"})).await;
    assert_eq!((error.code, error.kind()), (-32008, "unknown_model"));
    client.err("get_state", json!({})).await;
}

#[tokio::test]
async fn new_session_without_attach_sends_no_events() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "demo", "attach": false})).await;
    client.ok("set_session_name", json!({"name": "n"})).await;
    assert_eq!(client.ok("get_state", json!({})).await["sessionName"], "n", "it is the current session");
    client.ok("ping", json!({})).await;
    client.close_input().await;
    assert_eq!(client.rest().await, Vec::<Value>::new());
}

#[tokio::test]
async fn files_and_folders_are_closed_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let server = ModelServer::replies(json!([{"text": "a"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("x").await;
    // The crash journal of the run is removed after its last event, and before the next answer.
    client.ok("get_state", json!({})).await;
    let mut folders = vec![daemon.home().state().join("agentd")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", folder.display());
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
            seen += 1;
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    assert!(seen >= 2);
}

#[tokio::test]
async fn a_session_that_has_no_file_yet_stays_in_memory() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let params = json!({"cwd": daemon.home().cwd(), "model": "demo", "attach": false});
    let first = client.ok("new_session", params.clone()).await["sessionId"].clone();
    // More than the idle sessions that are kept.
    for _ in 0..300 {
        client.ok("new_session", params.clone()).await;
    }
    assert_eq!(client.ok("get_state", json!({"sessionId": first})).await["sessionId"], first);
    let prompt = json!({"sessionId": first, "message": "hello"});
    assert_eq!(client.ok("prompt", prompt).await["disposition"], "started");
}

#[tokio::test]
async fn list_sessions_shows_latest_use_first_in_pages() {
    let server =
        ModelServer::start(json!({"replies": [], "default": {"text": "ok", "usage": {"input": 1000, "output": 10}}}));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(client.new_session(daemon.home(), "fake/plain").await);
        client.run(&format!("question {number}\nsecond line")).await;
    }
    client.ok("set_session_name", json!({"sessionId": ids[0], "name": "Renamed"})).await;
    let all = client.ok("list_sessions", json!({})).await;
    let listed: Vec<_> =
        all["sessions"].as_array().unwrap().iter().map(|row| row["sessionId"].as_str().unwrap()).collect();
    assert_eq!(listed, [&ids[0], &ids[2], &ids[1]], "latest use first");
    assert_eq!((&all["total"], all.get("nextCursor")), (&json!(3), None));
    let row = &all["sessions"][1];
    assert_eq!(row["firstMessage"], "question 2 second line");
    assert_eq!(
        (&row["cwd"], &row["model"], &row["status"]),
        (&json!(daemon.home().cwd()), &json!("fake/plain"), &json!("idle"))
    );
    assert_eq!(row["messageCount"], 3, "system, user, assistant");
    assert!((row["cost"].as_f64().unwrap() - 0.00102).abs() < 1e-9, "{row}");
    assert!(row["created"].as_i64().unwrap() <= row["modified"].as_i64().unwrap());

    let page = client.ok("list_sessions", json!({"limit": 2})).await;
    assert_eq!(page["sessions"].as_array().map(Vec::len), Some(2));
    let rest = client.ok("list_sessions", json!({"limit": 2, "cursor": page["nextCursor"]})).await;
    assert_eq!((&rest["sessions"][0]["sessionId"], rest.get("nextCursor")), (&json!(ids[1]), None));
    let found = client.ok("list_sessions", json!({"text": "renAMED"})).await;
    assert_eq!((&found["total"], &found["sessions"][0]["name"]), (&json!(1), &json!("Renamed")));
    assert_eq!(client.ok("list_sessions", json!({"text": "QUESTION 1"})).await["total"], 1);
    assert_eq!(client.ok("list_sessions", json!({"cwd": "/nowhere"})).await["total"], 0);
    assert_eq!(client.ok("list_sessions", json!({"cwd": daemon.home().cwd()})).await["total"], 3);
}

#[tokio::test]
async fn detach_ends_the_events_and_not_the_run() {
    let server = ModelServer::replies(json!([{"text": "abc", "gates": {"1": "go"}}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    client.ok("detach", json!({})).await;
    server.release("go");
    client.ok("wait", json!({"sessionId": session})).await;
    client.ok("detach", json!({"sessionId": session})).await;
    client.close_input().await;
    let rest = client.rest().await;
    let late: Vec<_> = rest.iter().filter(|message| message["params"]["event"]["type"] == "agent_settled").collect();
    assert_eq!(late, Vec::<&Value>::new(), "no events after the detach");
    assert_eq!(daemon.home().only_session().len(), 6);
}

#[tokio::test]
async fn get_entries_pages_forwards_and_backwards() {
    let server = ModelServer::replies(json!([{"text": "one"}, {"text": "two"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    client.run("second").await;
    let lines = daemon.home().only_session();
    let all = client.ok("get_entries", json!({})).await;
    assert_eq!(
        all["entries"].as_array().unwrap()[..],
        lines[1..],
        "entries as they stand in the file, without the header"
    );
    assert_eq!(all["leafId"], lines.last().unwrap()["id"]);
    let id = |place: usize| lines[place]["id"].clone();
    let after = client.ok("get_entries", json!({"since": id(4)})).await;
    assert_eq!(after["entries"].as_array().unwrap()[..], lines[5..]);
    let before = client.ok("get_entries", json!({"before": id(4), "limit": 2})).await;
    assert_eq!(before["entries"].as_array().unwrap()[..], lines[2..4], "with `before`, the latest of them");
    let first = client.ok("get_entries", json!({"limit": 2})).await;
    assert_eq!(first["entries"].as_array().map(Vec::len), Some(2));
    let error = client.err("get_entries", json!({"since": "ffffffff"})).await;
    assert_eq!((error.code, error.kind()), (-32010, "unknown_entry"));
}

#[tokio::test]
async fn readers_work_in_an_empty_session() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "demo").await;
    assert_eq!(client.ok("get_messages", json!({})).await["messages"], json!([]));
    let text = client.ok("get_last_assistant_text", json!({})).await;
    assert_eq!(text.get("text"), None, "no text key, as pi");
    let stats = client.ok("get_session_stats", json!({})).await;
    assert_eq!(
        (&stats["sessionId"], &stats["totalMessages"], &stats["cost"]),
        (&json!(session), &json!(0), &json!(0.0))
    );
}

#[tokio::test]
async fn set_session_name_trims_and_tells_all() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "demo").await;
    client.ok("set_session_name", json!({"name": "  two words \n"})).await;
    let mut events = client.events_until("session_info_changed").await;
    assert_eq!(events.pop().unwrap()["event"]["name"], "two words");
    let told = &events.pop().unwrap()["event"];
    let entries = client.ok("get_entries", json!({"branch": true})).await;
    assert_eq!((&told["type"], &told["entry"]), (&json!("entry_appended"), &entries["entries"][2]));
    assert_eq!(client.ok("get_state", json!({})).await["sessionName"], "two words");
}

#[tokio::test]
async fn set_env_is_what_the_session_says_its_environment_comes_from() {
    let daemon = Daemon::start(Home::new());
    let mut front = daemon.connect().await;
    let session = front.new_session(daemon.home(), "demo").await;
    // Another client, which has said nothing of its environment, replaces the session's.
    let mut client = Client::connect(&daemon.home().socket()).await;
    let env = json!({"PATH": "/usr/bin:/bin"});
    assert!(client.ok("set_env", json!({"sessionId": session, "env": env})).await["seq"].is_u64());
    assert_eq!(client.ok("get_state", json!({"sessionId": session})).await["envSource"], "client");
}

//! The index is a cache: whatever happens to it, the sessions are listed and opened.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Daemon, Home, bounded};
use crate::model_server::ModelServer;

#[tokio::test]
async fn sessions_are_listed_after_a_restart() {
    let server = ModelServer::replies(json!([{"text": "one"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let params = json!({"cwd": daemon.home().cwd(), "model": "fake/plain", "name": "kept"});
    let session = client.ok("new_session", params).await["sessionId"].clone();
    client.run("first").await;
    let before = client.ok("list_sessions", json!({})).await["sessions"][0].clone();
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    let mut row = client.ok("list_sessions", json!({})).await["sessions"][0].clone();
    assert_eq!((&row["sessionId"], &row["name"], &row["status"]), (&session, &json!("kept"), &json!("unloaded")));
    row["status"] = before["status"].clone();
    assert_eq!(row, before);
}

#[tokio::test]
async fn b073_a_missing_or_broken_index_is_made_again() {
    let server = ModelServer::replies(json!([{"text": "one"}, {"text": "two"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    let state = daemon.home().state().join("agentd");
    for damage in ["deleted", "random bytes", "cut"] {
        assert!(daemon.terminate().success());
        let databases: Vec<_> = fs::read_dir(&state)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "db" || extension == "sqlite"))
            .collect();
        assert_eq!(databases.len(), 1, "the index lies in the state folder: {databases:?}");
        match damage {
            "deleted" => fs::remove_file(&databases[0]).unwrap(),
            "random bytes" => fs::write(&databases[0], [0xa5_u8; 5000]).unwrap(),
            _ => fs::write(&databases[0], &fs::read(&databases[0]).unwrap()[..100]).unwrap(),
        }
        daemon.restart();
        let mut client = daemon.connect().await;
        let ready = async { while client.ok("get_daemon_status", json!({})).await["index"] != "ready" {} };
        bounded("the index", ready).await;
        let listed = client.ok("list_sessions", json!({})).await;
        assert_eq!((&listed["total"], &listed["sessions"][0]["sessionId"]), (&json!(1), &json!(session)), "{damage}");
        assert_eq!(listed["sessions"][0]["firstMessage"], "first", "{damage}");
        client.ok("attach", json!({"sessionId": session})).await;
    }
}

#[tokio::test]
async fn b067_what_is_no_session_is_neither_listed_nor_touched() {
    let server = ModelServer::replies(json!([{"text": "one"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    assert!(daemon.terminate().success());
    let folder = daemon.home().session_files()[0].parent().unwrap().to_owned();
    let odd = [
        ("empty.jsonl", &b""[..]),
        ("text.jsonl", b"not json\n"),
        ("other.jsonl", b"{\"type\":\"message\"}\n"),
        ("x.png", b"\x89PNG"),
    ];
    for (name, content) in odd {
        fs::write(folder.join(name), content).unwrap();
    }
    fs::create_dir(folder.join("folder.jsonl")).unwrap();
    daemon.restart();
    let mut client = daemon.connect().await;
    assert_eq!(client.ok("list_sessions", json!({})).await["total"], 1);
    for (name, content) in odd {
        assert_eq!(fs::read(folder.join(name)).unwrap(), content, "{name}");
    }
}

/// The list may not know it yet; a name that ends in the id does.
#[tokio::test]
async fn a_session_whose_file_was_moved_is_opened_where_it_is() {
    let server = ModelServer::replies(json!([{"text": "one"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    assert_eq!(client.ok("list_sessions", json!({})).await["total"], 1);
    let file = daemon.home().session_files()[0].clone();
    let folder = daemon.home().sessions().join("--elsewhere--");
    fs::create_dir(&folder).unwrap();
    let moved = folder.join(file.file_name().unwrap());
    fs::rename(&file, &moved).unwrap();
    let attached = client.ok("attach", json!({"sessionId": session})).await;
    assert_eq!(attached["state"]["sessionFile"], json!(moved));
    let listed =
        async { while client.ok("list_sessions", json!({})).await["sessions"][0]["sessionFile"] != json!(moved) {} };
    bounded("the list", listed).await;
}

/// A copy under another name is a session of its own, with an id that the list tells; its name is no id.
#[tokio::test]
async fn a_copy_is_one_session_and_takes_nothing_from_the_original() {
    let server = ModelServer::replies(json!([{"text": "one"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    assert!(daemon.terminate().success());
    let file = daemon.home().session_files()[0].clone();
    let early = daemon.home().sessions().join("--a--");
    fs::create_dir(&early).unwrap();
    fs::copy(&file, early.join(file.file_name().unwrap())).unwrap();
    let renamed = file.with_file_name("2026-01-01T00-00-00-000Z_0192a3b4-0000-7000-8000-1234567890ab.jsonl");
    fs::copy(&file, renamed).unwrap();
    daemon.restart();
    let mut client = daemon.connect().await;
    let listed = async { while client.ok("list_sessions", json!({})).await["total"] != 3 {} };
    bounded("three sessions", listed).await;
    let rows = client.ok("list_sessions", json!({})).await["sessions"].as_array().unwrap().clone();
    for row in &rows {
        let is_original = row["sessionFile"] == json!(file);
        assert_eq!(row["sessionId"] == json!(session), is_original, "{row}");
        assert_eq!(row["duplicateOf"] == json!(session), !is_original, "{row}");
        let attached = client.ok("attach", json!({"sessionId": row["sessionId"]})).await;
        assert_eq!(attached["state"]["sessionFile"], row["sessionFile"]);
    }
    let error = client.err("attach", json!({"sessionId": "0192a3b4-0000-7000-8000-1234567890ab"})).await;
    assert_eq!(error.kind(), "unknown_session");
}

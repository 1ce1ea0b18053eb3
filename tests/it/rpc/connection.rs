//! Methods about the daemon and the connection.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

#[tokio::test]
async fn initialize_tells_who_the_server_is() {
    let daemon = Daemon::start(Home::new());
    let mut client = Client::connect(&daemon.home().socket()).await;
    for version in [json!(1), json!(2), json!("2024-11-05"), Value::Null] {
        let params =
            json!({"clientInfo": {"name": "t", "version": "0"}, "protocolVersion": version, "capabilities": {}});
        let result = client.ok("initialize", params).await;
        assert_eq!(result["serverInfo"]["name"], "agentd");
        assert_eq!(result["protocolVersion"], 1, "another version is answered with the server's");
        assert_eq!(result["capabilities"]["views"], json!(["full", "coalesced", "entries", "status"]));
        assert_eq!(result["capabilities"]["confinement"], "none", "tools run unconfined, and it says so");
    }
}

#[tokio::test]
async fn another_build_is_named_with_the_command_that_mends_it() {
    let daemon = Daemon::start(Home::new());
    let mut client = Client::connect(&daemon.home().socket()).await;
    let own = client.ok("initialize", json!({})).await["serverInfo"].clone();
    assert!(own["build"].is_string(), "{own}");
    let same = json!({"clientInfo": {"name": "agentctl", "version": own["version"], "build": own["build"]}});
    assert_eq!(client.ok("initialize", same).await.get("buildMismatch"), None);
    for (version, words) in [("0.0.1", "this client is older"), ("99.0.0", "agentctl daemon restart")] {
        let other = json!({"clientInfo": {"name": "agentctl", "version": version, "build": "another"}});
        let result = client.ok("initialize", other).await;
        let mismatch = result["buildMismatch"].as_str().expect("a text");
        assert!(mismatch.contains(words) && mismatch.contains("older"), "{version}: {mismatch}");
    }
}

#[tokio::test]
async fn ping_answers_with_the_time() {
    let daemon = Daemon::start(Home::new());
    let mut client = Client::connect(&daemon.home().socket()).await;
    let before = client.ok("ping", json!({})).await["time"].as_i64().unwrap();
    let after = client.ok("ping", json!({})).await["time"].as_i64().unwrap();
    assert!(after >= before && before > 1_700_000_000_000);
}

#[tokio::test]
async fn get_daemon_status_counts_sessions_and_clients() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let status = client.ok("get_daemon_status", json!({})).await;
    assert_eq!(status["pid"], daemon.pid());
    assert_eq!(status["socket"], json!(daemon.home().socket()));
    assert_eq!(status["sessionsDir"], json!(daemon.home().sessions()));
    assert_eq!((&status["loadedSessions"], &status["runningSessions"]), (&json!(0), &json!(0)));
    assert_eq!(status["confinement"], "none");
    let session = client.new_session(daemon.home(), "demo").await;
    let status = client.ok("get_daemon_status", json!({})).await;
    assert_eq!((&status["loadedSessions"], &status["runningSessions"]), (&json!(1), &json!(0)));
    assert_eq!(status["clients"][0]["name"], "test");
    assert_eq!(status["clients"][0]["attached"], json!([{"sessionId": session, "view": "full", "lag": 0}]));
}

#[tokio::test]
async fn get_available_models_lists_those_with_keys_and_demo_last() {
    let server = ModelServer::replies(json!([]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let result = client.ok("get_available_models", json!({})).await;
    let names: Vec<_> = result["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| format!("{}/{}", model["provider"].as_str().unwrap(), model["id"].as_str().unwrap()))
        .collect();
    assert_eq!(names[..4], ["fake/plain", "fake/thinker", "fake/small", "fake/bare"]);
    assert_eq!(names.last().unwrap(), "demo/demo");
    let bare = &result["models"][3];
    assert_eq!(
        (&bare["name"], &bare["contextWindow"], &bare["maxTokens"], &bare["reasoning"], &bare["input"]),
        (&json!("bare"), &json!(128_000), &json!(16_384), &json!(false), &json!(["text"])),
        "pi's defaults for a bare model"
    );
    assert_eq!(result["defaultModel"], "fake/plain", "the first with a key");
}

#[tokio::test]
async fn without_any_model_prompt_says_what_to_do() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let made = client.ok("new_session", json!({"cwd": daemon.home().cwd()})).await;
    assert_eq!(made["state"].get("model"), None);
    let error = client.err("prompt", json!({"message": "x"})).await;
    assert_eq!((error.code, error.kind()), (-32009, "no_model"));
    for word in ["_API_KEY", "models.json", "--model demo"] {
        assert!(error.message.contains(word), "{word} is not in: {}", error.message);
    }
    assert_eq!(daemon.home().session_files(), Vec::<std::path::PathBuf>::new(), "a refused prompt leaves nothing");
    client.ok("set_model", json!({"model": "demo"})).await;
    client.run("x").await;
}

#[tokio::test]
async fn shutdown_ends_the_daemon_in_order() {
    let mut daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.ok("shutdown", json!({"reason": "test"})).await;
    client.rest().await;
    assert!(daemon.wait().success());
    assert!(!daemon.home().socket().exists(), "the socket is removed");
}

#[tokio::test]
async fn a_waiting_request_can_be_cancelled() {
    let server = ModelServer::replies(json!([{"text": "abc", "chunk": 1, "gates": {"2": "go"}}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": "x"})).await;
    let wait = client.request("wait", json!({})).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": wait}})).await;
    let error = client.answer(wait).await.unwrap_err();
    assert_eq!((error.code, error.kind()), (-32013, "cancelled"));
    server.release("go");
    client.events_until("agent_settled").await;
}

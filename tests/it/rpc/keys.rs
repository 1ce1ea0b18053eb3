//! Keys of providers: kept, forgotten, told of, and never shown.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

const KEY: &str = "sk-CANARY123";

/// A home whose models need a key.
fn keyless(server: &ModelServer) -> Home {
    let home = Home::with_models(server);
    let path = home.config().join("agentd/models.json");
    let mut models: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    models["providers"]["fake"].as_object_mut().unwrap().remove("apiKey");
    fs::write(&path, models.to_string()).unwrap();
    home
}

/// The files below a folder that hold a text.
fn holding(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let kind = path.symlink_metadata().unwrap().file_type();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && fs::read(&path).unwrap().windows(text.len()).any(|part| part == text.as_bytes())
            {
                found.push(path);
            }
        }
    }
    found
}

#[tokio::test]
async fn b210_a_key_is_kept_in_its_file_and_nowhere_else() {
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": "env"}}]});
    let refused = json!({"status": 401, "body": {"error": {"message": format!("bad key {KEY}")}}});
    let server = ModelServer::replies(json!([call, {"text": "a"}, refused]));
    let daemon = Daemon::start_with(keyless(&server), [("AGENTD_LOG", "trace"), ("RUST_LOG", "trace")]);
    let mut client = daemon.connect().await;
    let missing = client.err("new_session", json!({"model": "fake/plain"})).await;
    assert_eq!(missing.kind(), "no_model");
    let kept = client.ok("set_key", json!({"provider": "fake", "key": KEY})).await;
    let file = daemon.home().config().join("agentd/auth.json");
    assert_eq!(kept["file"], json!(file));
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    client.ok("new_session", json!({"model": "fake/plain"})).await;
    let mut heard = client.run("x").await;
    heard.extend(client.run("y").await);
    assert_eq!(server.requests()[0].header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert!(!Value::from(heard).to_string().contains("CANARY"));
    // A key that was refused is replaced: the next run of the session uses the new one.
    let renewed = format!("{KEY}-new");
    client.ok("set_key", json!({"provider": "fake", "key": renewed})).await;
    server.push(json!({"text": "b"}));
    client.run("z").await;
    assert_eq!(server.requests().last().unwrap().header("authorization"), Some(&*format!("Bearer {renewed}")));
    let listed = client.ok("list_keys", json!({})).await;
    let row = json!({"provider": "fake", "source": "authFile", "place": file});
    assert!(listed["keys"].as_array().unwrap().contains(&row), "{listed}");
    assert!(!listed.to_string().contains("CANARY"));
    assert_eq!(holding(daemon.home().root(), "CANARY"), [file]);
    let forgotten = client.ok("remove_key", json!({"provider": "fake"})).await;
    assert_eq!(forgotten["removed"], true);
    assert_eq!(client.ok("remove_key", json!({"provider": "fake"})).await["removed"], false);
    assert_eq!(client.err("new_session", json!({"model": "fake/plain"})).await.kind(), "no_model");
    assert_eq!(holding(daemon.home().root(), "CANARY"), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn our_file_counts_more_than_pis_and_that_more_than_a_variable() {
    let server = ModelServer::replies(json!([]));
    let daemon = Daemon::start(keyless(&server));
    let mut client = Client::connect(&daemon.home().socket()).await;
    let mut env = daemon.home().env();
    env.insert("OPENAI_API_KEY".to_owned(), "k".to_owned());
    client.front(&daemon.home().cwd(), &env).await;
    let mut place = async |provider: &str| {
        let listed = client.ok("list_keys", json!({})).await;
        let rows = listed["keys"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["provider"] == provider).map(|row| row["place"].clone())
    };
    assert_eq!(place("openai").await, Some(json!("OPENAI_API_KEY")));
    let pi = daemon.home().pi_agent().join("auth.json");
    fs::write(&pi, r#"{"openai": {"type": "api_key", "key": "p"}}"#).unwrap();
    assert_eq!(place("openai").await, Some(json!(pi)));
    let own = daemon.home().config().join("agentd/auth.json");
    fs::write(&own, "\u{feff}{\"openai\": {\"type\": \"api_key\", \"key\": \"o\"}}").unwrap();
    assert_eq!(place("openai").await, Some(json!(own)));
    assert_eq!(place("anthropic").await, None);
}

#[tokio::test]
async fn an_unknown_provider_is_answered_with_the_one_that_is_meant() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let refused = client.err("set_key", json!({"provider": "opneai", "key": KEY})).await;
    assert!(refused.message.contains("did you mean openai?"), "{}", refused.message);
    let refused = client.err("set_key", json!({"provider": "openai", "key": "sk CANARY"})).await;
    assert!(!refused.message.contains("CANARY"), "{}", refused.message);
    assert!(!daemon.home().config().join("agentd/auth.json").exists());
}

//! `get_config`: what the settings are, and which place says so.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

/// One key of an answer.
async fn setting(client: &mut Client, key: &str, params: Value) -> Value {
    let mut params = params;
    params["key"] = json!(key);
    client.ok("get_config", params).await["settings"][0].take()
}

/// The value and the kinds of places that set a key, the one that counts first.
fn places(setting: &Value) -> (Value, Vec<&str>) {
    let overridden = setting["overridden"].as_array().into_iter().flatten().map(|other| &other["origin"]);
    let all = [&setting["origin"]].into_iter().chain(overridden);
    (setting["value"].clone(), all.map(|origin| origin["source"].as_str().unwrap()).collect())
}

/// Sets the variables of a client's environment.
async fn terminal(daemon: &Daemon, vars: &[(&str, &str)]) -> Client {
    let mut client = Client::connect(&daemon.home().socket()).await;
    let mut env = daemon.home().env();
    env.extend(vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    client.front(&daemon.home().cwd(), &env).await;
    client
}

#[tokio::test]
async fn each_place_counts_more_than_those_below() {
    let home = Home::new();
    home.configure("mode = \"full\"\n\nmax_turns = 40\n");
    std::fs::write(home.pi_agent().join("settings.json"), r#"{"retry": {"maxRetries": 9}}"#).unwrap();
    let daemon = Daemon::start_with(home, [("AGENTD_MAX_TURNS", "99"), ("AGENTD_DURABILITY", "entry")]);
    let mut plain = terminal(&daemon, &[]).await;
    let held = setting(&mut plain, "max_turns", json!({})).await;
    assert_eq!(places(&held), (json!(40), vec!["user", "default"]), "the daemon's environment is not a session's");
    assert_eq!(held["origin"]["line"], 3);
    assert_eq!(held["origin"]["file"], json!(daemon.home().config().join("agentd/config.toml")));
    let mut client = terminal(&daemon, &[("AGENTD_MAX_TURNS", "30"), ("AGENTD_DURABILITY", "flush")]).await;
    let held = setting(&mut client, "max_turns", json!({})).await;
    assert_eq!(places(&held), (json!(30), vec!["environment", "user", "default"]));
    assert_eq!(held["origin"]["variable"], "AGENTD_MAX_TURNS");
    let held = setting(&mut client, "max_turns", json!({"settings": {"max_turns": "20"}})).await;
    assert_eq!(places(&held), (json!(20), vec!["session", "environment", "user", "default"]));
    let held = setting(&mut client, "durability", json!({})).await;
    assert_eq!(places(&held), (json!("entry"), vec!["environment", "default"]), "a session has no say");
    let held = setting(&mut client, "retry.max_retries", json!({})).await;
    assert_eq!(places(&held), (json!(9), vec!["pi", "default"]));
    let made = client.ok("new_session", json!({"model": "demo", "settings": {"max_turns": 10}})).await;
    assert_eq!(made["state"]["maxTurns"], 10);
    let held = setting(&mut plain, "max_turns", json!({"sessionId": made["sessionId"]})).await;
    assert_eq!(places(&held), (json!(10), vec!["session", "environment", "user", "default"]));
}

#[tokio::test]
async fn empty_differs_from_unset() {
    let home = Home::with_models(&ModelServer::replies(json!([])));
    home.configure("model = \"fake/plain\"\n");
    let daemon = Daemon::start(home);
    let mut client = terminal(&daemon, &[("AGENTD_DEFAULT_MODEL", "")]).await;
    let held = setting(&mut client, "model", json!({})).await;
    assert_eq!(places(&held), (json!("fake/plain"), vec!["user", "default"]), "an empty variable says nothing");
    let held = setting(&mut client, "model", json!({"settings": {"model": ""}})).await;
    assert_eq!(places(&held), (json!(""), vec!["session", "user", "default"]));
    daemon.home().configure("model = \"\"\nmax_turns = \"\"\n");
    let held = setting(&mut client, "model", json!({})).await;
    assert_eq!(places(&held), (json!(""), vec!["user", "default"]));
    let config = client.ok("get_config", json!({"key": "max_turns"})).await;
    assert_eq!(places(&config["settings"][0]), (json!(50), vec!["default"]));
    assert_eq!(config["faults"][0]["message"], "max_turns must be a whole number from 1 to 1000000, not empty text");
    daemon.home().configure("");
    let held = setting(&mut client, "model", json!({})).await;
    assert_eq!(places(&held), (Value::Null, vec!["default"]));
}

#[tokio::test]
async fn b204_a_broken_file_is_told_and_the_rest_of_it_used() {
    let home = Home::new();
    home.configure("mode = \"full\"\nmax_turns = 7\nretry.max_retries = \"sk-CANARY\"\nbroken =\nmodell = \"x\"\ndurability = \"entry\"\n");
    let daemon = Daemon::start(home);
    let mut client = daemon.connect().await;
    let file = daemon.home().config().join("agentd/config.toml").display().to_string();
    let config = client.ok("get_config", json!({})).await;
    let told: Vec<String> = config["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| format!("{}: {}", fault["origin"]["line"], fault["message"].as_str().unwrap()))
        .collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[0], "3: retry.max_retries must be a whole number from 0 to 1000, not text");
    assert!(told[1].starts_with("4: is no TOML: "), "{told:?}");
    assert_eq!(told[2], "5: no key modell; did you mean model?");
    let status = client.ok("get_daemon_status", json!({})).await;
    assert_eq!(status["configFaults"], config["faults"]);
    for line in 3..=5 {
        assert!(daemon.log().contains(&format!("{file}:{line}: ")), "{}", daemon.log());
    }
    assert!(!daemon.log().contains("CANARY"));
    let held = setting(&mut client, "max_turns", json!({})).await;
    assert_eq!((&held["value"], &held["origin"]["line"]), (&json!(7), &json!(2)));
    assert_eq!(setting(&mut client, "durability", json!({})).await["value"], "entry");
    // Mended, it holds at once.
    daemon.home().configure("max_turns = 8\n");
    assert_eq!(client.ok("get_config", json!({"key": "max_turns"})).await["faults"], json!([]));
    assert_eq!(client.ok("get_daemon_status", json!({})).await["configFaults"], Value::Null);
}

#[tokio::test]
async fn what_is_given_is_right_or_refused() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    for (settings, param, why) in [
        (json!({"max_turn": 5}), "settings.max_turn", "no key max_turn; did you mean max_turns?"),
        (json!({"max_turns": "many"}), "settings.max_turns", "must be a whole number from 1 to 1000000"),
        (json!({"log.level": "debug"}), "settings.log.level", "log.level is a setting of the daemon"),
    ] {
        for method in ["new_session", "get_config"] {
            let refused = client.err(method, json!({"settings": settings})).await;
            assert_eq!((refused.kind(), &refused.data["param"]), ("invalid_params", &json!(param)), "{method}");
            assert!(refused.message.contains(why), "{}", refused.message);
        }
    }
    let refused = client.err("get_config", json!({"key": "modell"})).await;
    assert!(refused.message.contains("did you mean model?"), "{}", refused.message);
    let unknown = client.err("get_config", json!({"sessionId": "none"})).await;
    assert_eq!(unknown.kind(), "unknown_session");
    let relative = client.err("get_config", json!({"cwd": "relative"})).await;
    assert_eq!(relative.data["param"], "cwd");
}

/// A request that fails, and the answer that ends the retries.
fn failures(count: usize) -> Value {
    let failure = json!({"status": 503, "body": "busy"});
    json!(std::iter::repeat_n(failure, count).chain([json!({"text": "a"})]).collect::<Vec<_>>())
}

#[tokio::test]
async fn a_change_holds_from_the_next_run_on_and_what_is_given_survives_a_restart() {
    let server = ModelServer::replies(failures(1));
    let home = Home::with_models(&server);
    let settings = |retries: u32| format!("[retry]\nbase_delay_ms = 1\nmax_retries = {retries}\n");
    home.configure(&settings(0));
    let mut daemon = Daemon::start(home);
    let mut client = daemon.connect().await;
    let params = json!({"model": "fake/plain", "settings": {"max_turns": 3}});
    let session = client.ok("new_session", params).await["sessionId"].clone();
    let reason = |events: Vec<Value>| events.last().unwrap()["event"]["reason"].clone();
    assert_eq!(reason(client.run("x").await), "error", "no retry");
    daemon.home().configure(&settings(2));
    for reply in failures(2).as_array().unwrap() {
        server.push(reply.clone());
    }
    // The answer that was left over from the first run comes first.
    assert_eq!(reason(client.run("y").await), "done");
    assert_eq!(reason(client.run("z").await), "done", "two retries");
    assert!(daemon.terminate().success());
    daemon.restart();
    let mut client = daemon.connect().await;
    let state = client.ok("attach", json!({"sessionId": session})).await["state"].clone();
    assert_eq!(state["maxTurns"], 3);
}

#[tokio::test]
async fn the_model_of_new_sessions_is_set_and_never_replaced_silently() {
    let server = ModelServer::replies(json!([{"text": "a"}]));
    let home = Home::with_models(&server);
    home.configure("mode = \"full\"\nmodel = \"fake/plain\"\n");
    let daemon = Daemon::start(home);
    let mut client = daemon.connect().await;
    assert_eq!(client.ok("get_available_models", json!({})).await["defaultModel"], "fake/plain");
    let made = client.ok("new_session", json!({})).await;
    assert_eq!(made["state"]["model"]["id"], "plain");
    let mut other = terminal(&daemon, &[("AGENTD_DEFAULT_MODEL", "nosuch/model")]).await;
    assert_eq!(other.ok("new_session", json!({})).await["state"]["model"], Value::Null);
    let refused = other.err("prompt", json!({"message": "x"})).await;
    assert!(refused.message.contains("nosuch/model"), "{}", refused.message);
}

#[tokio::test]
async fn a_setting_is_changed_in_the_file_and_holds_at_once() {
    let home = Home::new();
    home.configure("# mine\nmode = \"full\" # for now\n");
    let daemon = Daemon::start(home);
    let mut client = daemon.connect().await;
    let file = daemon.home().config().join("agentd/config.toml");
    let done = client.ok("set_config", json!({"key": "max_turns", "value": 7})).await;
    assert_eq!((&done["file"], &done["setting"]["value"]), (&json!(file), &json!(7)));
    assert_eq!(done["setting"]["origin"]["line"], 3);
    let text = || std::fs::read_to_string(&file).unwrap();
    assert_eq!(text(), "# mine\nmode = \"full\" # for now\nmax_turns = 7\n");
    assert_eq!(client.ok("new_session", json!({"model": "demo"})).await["state"]["maxTurns"], 7);
    let mut other = terminal(&daemon, &[("AGENTD_MAX_TURNS", "9")]).await;
    let done = other.ok("set_config", json!({"key": "max_turns", "value": "8"})).await;
    assert_eq!(
        places(&done["setting"]),
        (json!(9), vec!["environment", "user", "default"]),
        "what counts more is told"
    );
    client.ok("set_config", json!({"key": "max_turns", "value": null})).await;
    assert_eq!(text(), "# mine\nmode = \"full\" # for now\n");
    let done = client.ok("set_config", json!({"key": "log.level", "value": "debug"})).await;
    assert_eq!(
        (&done["setting"]["value"], &done["setting"]["afterRestart"]["value"]),
        (&json!("info"), &json!("debug"))
    );
    daemon.home().configure("broken =\n");
    let refused = client.err("set_config", json!({"key": "max_turns", "value": 7})).await;
    assert_eq!(refused.kind(), "storage");
    assert!(refused.message.contains("config.toml:1: is no TOML"), "{}", refused.message);
    assert_eq!(text(), "broken =\n");
}

#[tokio::test]
async fn b206_a_project_sets_nothing_before_it_is_trusted_and_nothing_harmful_after() {
    let home = Home::new();
    let daemon = Daemon::start(home);
    let home = daemon.home();
    let evil = home.root().join("evil");
    let text = format!("max_turns = 3\nsessions_dir = \"{}\"\nmode = \"full\"\nmodel = \"demo\"\n", evil.display());
    home.write(".agentd/config.toml", text);
    home.write(".env", "AGENTD_MAX_TURNS=2\nAGENTD_SESSIONS_DIR=/evil\nOPENAI_BASE_URL=http://127.0.0.1:1\n");
    home.configure("mode = \"ask\"\n");
    let mut client = daemon.connect().await;
    let state = client.ok("new_session", json!({})).await["state"].clone();
    assert_eq!((&state["maxTurns"], &state["mode"], &state["model"]), (&json!(50), &json!("ask"), &Value::Null));
    home.trust(&home.cwd());
    let state = client.ok("new_session", json!({})).await["state"].clone();
    assert_eq!((&state["maxTurns"], &state["mode"], &state["model"]["id"]), (&json!(3), &json!("ask"), &json!("demo")));
    let told = client.ok("get_config", json!({})).await["faults"].clone();
    let told: Vec<_> = told.as_array().unwrap().iter().map(|fault| fault["message"].as_str().unwrap()).collect();
    assert_eq!(
        told,
        ["sessions_dir: a project may not set it", "mode: a project may only be stricter than the user's own settings",]
    );
    let file = std::path::PathBuf::from(state["sessionFile"].as_str().unwrap());
    assert!(file.starts_with(home.sessions()), "{}", file.display());
    let done = client.ok("set_config", json!({"key": "max_turns", "value": 2, "project": true})).await;
    assert_eq!((&done["setting"]["value"], &done["setting"]["origin"]["source"]), (&json!(2), &json!("project")));
}

/// A tool that changes the settings would change what it may do.
#[tokio::test]
async fn b214_settings_and_keys_are_not_taken_from_a_tool() {
    let settings = json!({"blocks": [{"tool": "bash", "args": {"command": "agentctl config set mode full; agentctl auth logout openai"}}]});
    let server = ModelServer::replies(json!([settings, {"text": "done"}]));
    let home = Home::with_models(&server);
    let text = std::fs::read_to_string(home.config().join("agentd/config.toml")).unwrap();
    let daemon = Daemon::start(home);
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_agentd")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut client = terminal(&daemon, &[("PATH", &path)]).await;
    client.ok("new_session", json!({"model": "fake/plain"})).await;
    let events = client.run("x").await;
    let end = events.iter().find(|event| event["event"]["type"] == "tool_execution_end").unwrap();
    let output = end["event"]["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(output.matches("comes from a person").count(), 2, "{output}");
    assert_eq!(std::fs::read_to_string(daemon.home().config().join("agentd/config.toml")).unwrap(), text);
}

//! What `agentd serve` is given on its command line.

use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home, wait_for_exit};

/// Runs `agentd serve` with something to set and returns its exit code and what it says.
fn serve(home: &Home, set: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentd"));
    command.args(["serve", "--set", set]).env_clear().envs(home.env()).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("start agentd serve");
    let status = wait_for_exit(&mut child, "agentd serve");
    let output = child.wait_with_output().expect("its output");
    (status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn what_cannot_be_set_stops_the_start() {
    let home = Home::new();
    for (set, why) in [
        ("max_turn=5", "no key max_turn; did you mean max_turns?"),
        ("max_turns=many", "max_turns must be a whole number from 1 to 1000000"),
        ("max_turns", "give KEY=VALUE, such as retry.max_retries=5"),
    ] {
        assert_eq!(serve(&home, set), (Some(2), format!("agentd serve: --set: {why}\n")));
    }
    assert!(!home.socket().exists());
}

#[tokio::test]
async fn what_is_set_counts_more_than_variables_and_files() {
    let home = Home::new();
    home.configure("max_turns = 40\ndurability = \"flush\"\n");
    let set = "export AGENTD_DURABILITY=turn; set -- --set max_turns=20 --set durability=entry";
    let daemon = Daemon::start_after(home, set);
    let mut env = daemon.home().env();
    env.insert("AGENTD_MAX_TURNS".to_owned(), "30".to_owned());
    let mut client = Client::connect(&daemon.home().socket()).await;
    client.front(&daemon.home().cwd(), &env).await;
    for (key, value, below) in
        [("max_turns", json!(20), "AGENTD_MAX_TURNS"), ("durability", json!("entry"), "AGENTD_DURABILITY")]
    {
        let held: Value = client.ok("get_config", json!({"key": key})).await["settings"][0].take();
        assert_eq!((&held["value"], &held["origin"]["source"]), (&value, &json!("commandLine")));
        assert_eq!(held["overridden"][0]["origin"]["variable"], below);
        assert_eq!(held["overridden"][1]["origin"]["source"], "user");
    }
    let params = json!({"key": "max_turns", "settings": {"max_turns": 10}});
    assert_eq!(
        client.ok("get_config", params).await["settings"][0]["value"],
        10,
        "what a session is given counts more"
    );
}

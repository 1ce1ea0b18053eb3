//! The system prompt: it holds the facts, and its bytes stay the same from turn to turn.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Daemon, Home};
use crate::model_server::{ModelServer, Recorded};

/// Returns a request's messages as they stand in its body, without the closing bracket.
fn messages_text(request: &Recorded) -> &str {
    let value = serde_json::from_str::<std::collections::HashMap<&str, &serde_json::value::RawValue>>(&request.text);
    let text = value.unwrap()["messages"].get();
    text.strip_suffix(']').unwrap()
}

fn tools_text(request: &Recorded) -> String {
    let value = serde_json::from_str::<std::collections::HashMap<&str, &serde_json::value::RawValue>>(&request.text);
    value.unwrap()["tools"].get().to_owned()
}

#[tokio::test]
async fn each_request_begins_with_the_bytes_of_the_one_before() {
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": "echo hi"}}]});
    let server =
        ModelServer::replies(json!([{"text": "one"}, call, {"text": "two"}, {"text": "three"}, {"text": "four"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    daemon.home().trust(&daemon.home().cwd());
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    client.run("second").await;
    client.ok("set_model", json!({"model": "fake/small"})).await;
    client.run("third").await;
    // A file that would change the prompt of a new session changes nothing that was sent.
    fs::write(daemon.home().cwd().join("AGENTS.md"), "late instructions").unwrap();
    client.run("fourth").await;
    let requests = server.requests();
    assert_eq!(requests.len(), 5);
    for pair in requests.windows(2) {
        let (before, after) = (messages_text(&pair[0]), messages_text(&pair[1]));
        assert!(after.starts_with(before), "request {} does not begin with request {}", pair[1].number, pair[0].number);
        assert_eq!(tools_text(&pair[0]), tools_text(&pair[1]));
    }
}

#[tokio::test]
async fn the_prefix_is_the_same_after_a_restart() {
    let server = ModelServer::replies(json!([{"text": "one"}, {"text": "two"}]));
    let mut daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    let session = client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    daemon.kill();
    daemon.restart();
    let mut client = daemon.connect().await;
    client.ok("attach", json!({"sessionId": session})).await;
    client.run("second").await;
    let requests = server.requests();
    assert!(messages_text(&requests[1]).starts_with(messages_text(&requests[0])));
    assert_eq!(tools_text(&requests[0]), tools_text(&requests[1]));
}

#[tokio::test]
async fn the_facts_are_in_it() {
    let server = ModelServer::replies(json!([{"text": "one"}]));
    let home = Home::with_models(&server);
    fs::write(home.root().join("AGENTS.md"), "CANARY-ABOVE").unwrap();
    home.write("AGENTS.md", "CANARY-AGENTS");
    home.write("CLAUDE.md", "CANARY-CLAUDE");
    home.write("sub/AGENTS.md", "CANARY-BELOW");
    fs::write(home.pi_agent().join("AGENTS.md"), "CANARY-GLOBAL").unwrap();
    home.trust(home.root());
    let daemon = Daemon::start(home);
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    let request = server.requests().remove(0);
    let prompt = request.messages()[0]["content"].as_str().unwrap().to_owned();
    let cwd = daemon.home().cwd();
    let output = std::process::Command::new("date").arg("+%Y").output().unwrap();
    let year = String::from_utf8(output.stdout).unwrap();
    let wanted =
        [cwd.to_str().unwrap(), "Linux", "bash", year.trim(), "read", "edit", "write", "CANARY-AGENTS", "CANARY-ABOVE"];
    for fact in wanted {
        assert!(prompt.to_lowercase().contains(&fact.to_lowercase()), "{fact} is not in the prompt:\n{prompt}");
    }
    assert!(!prompt.contains("CANARY-CLAUDE"), "of one folder only the first file counts");
    assert!(!prompt.contains("CANARY-BELOW"));
    let (above, agents) = (prompt.find("CANARY-ABOVE"), prompt.find("CANARY-AGENTS"));
    assert!(above < agents, "ancestors come first");
}

//! Limits of the system: what they stop is one request, never the daemon.

use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Daemon, Home};
use crate::model_server::ModelServer;

/// Lets the daemon write no file beyond this size.
fn limit_file_size(daemon: &Daemon, bytes: u64) {
    let limit = [format!("--fsize={bytes}"), "--pid".to_owned(), daemon.pid().to_string()];
    assert!(Command::new("prlimit").args(limit).status().expect("run prlimit").success());
}

/// Writing over the limit of file sizes is an error like that of a full disk. Its signal ends a process by default.
#[tokio::test]
async fn a_limit_of_file_sizes_refuses_a_prompt_and_ends_nothing() {
    let server = ModelServer::replies(json!([{"text": "one"}, {"text": "two"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    limit_file_size(&daemon, 1_000_000);
    let before = daemon.home().only_session();
    let error = client.err("prompt", json!({"message": "x".repeat(2_000_000)})).await;
    assert_eq!(error.kind(), "storage", "{error:?}");
    assert_eq!(daemon.home().only_session(), before, "nothing of it is in the file");
    client.run("second").await;
    assert_eq!(client.ok("get_daemon_status", json!({})).await["pid"], daemon.pid());
}

#[tokio::test]
async fn a_setting_that_cannot_be_written_is_not_obeyed() {
    let server = ModelServer::replies(json!([{"text": "one"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    let before = client.ok("get_state", json!({})).await;
    limit_file_size(&daemon, std::fs::metadata(&daemon.home().session_files()[0]).unwrap().len());
    for (method, params) in [
        ("set_mode", json!({"mode": "ask"})),
        ("set_auto_retry", json!({"enabled": false})),
        ("set_steering_mode", json!({"mode": "all"})),
        ("set_follow_up_mode", json!({"mode": "all"})),
    ] {
        assert_eq!(client.err(method, params).await.kind(), "storage", "{method}");
    }
    let after = client.ok("get_state", json!({})).await;
    for member in ["mode", "autoRetryEnabled", "steeringMode", "followUpMode"] {
        assert!(before[member].is_boolean() || before[member].is_string(), "{member} of {before}");
        assert_eq!(after[member], before[member], "{member}");
    }
}

//! Limits of the system: what they stop is one request, never the daemon.

use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Daemon, Home};
use crate::model_server::ModelServer;

/// Writing over the limit of file sizes is an error like that of a full disk. Its signal ends a process by default.
#[tokio::test]
async fn a_limit_of_file_sizes_refuses_a_prompt_and_ends_nothing() {
    let server = ModelServer::replies(json!([{"text": "one"}, {"text": "two"}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.run("first").await;
    let limit = ["--fsize=1000000", "--pid", &daemon.pid().to_string()];
    assert!(Command::new("prlimit").args(limit).status().expect("run prlimit").success());
    let before = daemon.home().only_session();
    let error = client.err("prompt", json!({"message": "x".repeat(2_000_000)})).await;
    assert_eq!(error.kind(), "storage", "{error:?}");
    assert_eq!(daemon.home().only_session(), before, "nothing of it is in the file");
    client.run("second").await;
    assert_eq!(client.ok("get_daemon_status", json!({})).await["pid"], daemon.pid());
}

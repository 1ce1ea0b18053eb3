//! Nothing outlives its test.

use serde_json::json;

use crate::harness::{Client, Daemon, Home, PATIENCE};
use crate::model_server::ModelServer;

#[tokio::test]
async fn no_process_is_left_behind() {
    let commands = ["setsid -f sleep 300; echo a", "sleep 300 & echo b", "echo c; sleep 300"];
    let calls: Vec<_> = commands.iter().map(|command| json!({"tool": "bash", "args": {"command": command}})).collect();
    let server = ModelServer::replies(json!([{"blocks": calls}]));
    let daemon = Daemon::start(Home::with_models(&server));
    let root = daemon.home().root().to_owned();
    let mut front = Client::stdio(daemon.home());
    front.new_session(daemon.home(), "fake/plain").await;
    front.ok("prompt", json!({"message": "x"})).await;
    front.events_until("tool_execution_update").await;
    drop(front);
    drop(daemon);
    // A process that was killed takes a moment to be gone.
    let gone = tokio::time::timeout(PATIENCE, async {
        while !crate::harness::processes_of(&root).is_empty() {
            tokio::task::yield_now().await;
        }
    });
    let in_time = gone.await.is_ok();
    assert!(in_time, "left behind: {:?}", crate::harness::processes_of(&root));
    assert!(!root.exists(), "the home is removed");
}

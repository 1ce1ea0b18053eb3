//! Tool calls of a scripted model, one after the other in one session.

use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};
use crate::model_server::ModelServer;

/// A daemon with a session whose model calls what the test says.
pub(super) struct Calls {
    server: ModelServer,
    daemon: Daemon,
    client: Client,
}

/// Makes a session with all tools.
async fn begin_session(daemon: &Daemon, client: &mut Client) {
    let tools = ["read", "bash", "edit", "write", "grep", "find", "ls"];
    client.ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "fake/plain", "tools": tools})).await;
}

impl Calls {
    /// Starts everything.
    pub(super) async fn start() -> Self {
        let server = ModelServer::replies(json!([]));
        let daemon = Daemon::start(Home::with_models(&server));
        let mut client = daemon.connect().await;
        begin_session(&daemon, &mut client).await;
        Self { server, daemon, client }
    }

    /// Goes on in a new session of the same daemon. Returns the one before.
    pub(super) async fn other_session(&mut self) -> Client {
        let mut client = self.daemon.connect().await;
        begin_session(&self.daemon, &mut client).await;
        std::mem::replace(&mut self.client, client)
    }

    /// Goes on in this session.
    pub(super) fn go_back(&mut self, client: Client) {
        self.client = client;
    }

    /// Returns the home with the working directory.
    pub(super) fn home(&self) -> &Home {
        self.daemon.home()
    }

    /// Returns the daemon.
    pub(super) fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// Makes one call and returns its text, `Err` for one that failed.
    pub(super) async fn call(&mut self, tool: &str, args: Value) -> Result<String, String> {
        self.server.push(json!({"blocks": [{"tool": tool, "args": args}]}));
        self.server.push(json!({"text": "done"}));
        let events = self.client.run("go on").await;
        assert_eq!(events.last().unwrap()["event"]["reason"], "done", "{tool} {args}");
        Self::result(&events)
    }

    fn result(events: &[Value]) -> Result<String, String> {
        let end = events.iter().map(|event| &event["event"]).find(|event| event["type"] == "tool_execution_end");
        let end = end.expect("the call has ended");
        let text = end["result"]["content"][0]["text"].as_str().expect("a text").to_owned();
        if end["isError"] == true { Err(text) } else { Ok(text) }
    }

    /// Makes a call and does not wait for it.
    pub(super) async fn begin(&mut self, tool: &str, args: Value) {
        self.server.push(json!({"blocks": [{"tool": tool, "args": args}]}));
        self.client.ok("prompt", json!({"message": "go on"})).await;
    }

    /// Aborts the call that was begun and returns what became of it.
    pub(super) async fn abort(&mut self) -> Result<String, String> {
        self.client.ok("abort", json!({})).await;
        let events = self.client.events_until("agent_settled").await;
        assert_eq!(events.last().unwrap()["event"]["aborted"], true);
        Self::result(&events)
    }

    /// Kills the daemon.
    pub(super) fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Starts the daemon again and goes on in a new session.
    pub(super) async fn restart(&mut self) {
        self.daemon.restart();
        self.client = self.daemon.connect().await;
        begin_session(&self.daemon, &mut self.client).await;
    }

    /// Reads a file.
    pub(super) async fn read(&mut self, path: &str) -> Result<String, String> {
        self.call("read", json!({"path": path})).await
    }

    /// Edits a file: pairs of old and new text.
    pub(super) async fn edit(&mut self, path: &str, edits: &[(&str, &str)]) -> Result<String, String> {
        let edits: Vec<_> = edits.iter().map(|(old, new)| json!({"oldText": old, "newText": new})).collect();
        self.call("edit", json!({"path": path, "edits": edits})).await
    }

    /// Edits a file of this content and compares what is in it afterwards; `None` for an edit that must fail and
    /// leave it alone.
    pub(super) async fn check_edit(&mut self, before: &str, edits: &[(&str, &str)], after: Option<&str>) {
        self.home().write("f", before);
        // What an earlier check left of the file is known to the session.
        self.read("f").await.unwrap();
        let result = self.edit("f", edits).await;
        assert_eq!(result.is_ok(), after.is_some(), "{before:?} {edits:?}: {result:?}");
        assert_eq!(self.home().read("f"), after.unwrap_or(before), "{before:?} {edits:?}");
    }
}

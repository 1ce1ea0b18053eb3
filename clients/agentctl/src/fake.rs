//! A daemon played by a test: it answers what the test says, in the order in which the test says it.

use agentd_protocol::client::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;

use crate::link::{Interrupts, Link};

/// The session that the fake daemon has.
pub(crate) const SESSION: &str = "0192a3b4-0000-7000-8000-1234567890ab";

/// The daemon's end of a connection.
pub(crate) struct FakeDaemon {
    stream: BufReader<DuplexStream>,
    seq: u64,
}

/// Returns a connection, its other end, and the user's Ctrl-C.
pub(crate) fn link() -> (Link, FakeDaemon, mpsc::Sender<()>) {
    let (ours, theirs) = tokio::io::duplex(1024 * 1024);
    let (client, events) = Client::spawn(ours);
    let (interrupt, interrupts) = mpsc::channel(4);
    let daemon = FakeDaemon { stream: BufReader::new(theirs), seq: 0 };
    (Link::new(client, events, Interrupts::Test(interrupts)), daemon, interrupt)
}

/// Returns `get_state`'s result with another status.
pub(crate) fn state(status: &str) -> Value {
    json!({
        "model": {"id": "m", "name": "m", "api": "a", "provider": "p", "baseUrl": "", "reasoning": false, "input": ["text"],
            "cost": {}, "contextWindow": 1000, "maxTokens": 100},
        "thinkingLevel": "off", "isStreaming": status == "running", "isCompacting": false, "steeringMode": "one-at-a-time",
        "followUpMode": "one-at-a-time", "sessionId": SESSION, "autoCompactionEnabled": true, "messageCount": 0,
        "pendingMessageCount": 0, "cwd": "/srv/code", "status": status, "tools": [], "maxTurns": 50,
        "envSource": "client", "confinement": "none", "interrupted": false, "clients": 1,
    })
}

impl FakeDaemon {
    /// Reads the next request, which must be of this method, and returns its parameters.
    pub(crate) async fn expect(&mut self, method: &str) -> (Value, Value) {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.expect("reads");
        let mut request: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?} for {method}"));
        assert_eq!(request["method"], method, "{request}");
        (request["id"].take(), request["params"].take())
    }

    /// Reads a request of this method, answers it, and returns its parameters.
    pub(crate) async fn answer(&mut self, method: &str, result: Value) -> Value {
        let (id, params) = self.expect(method).await;
        self.say(json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
        params
    }

    /// Reads a request of this method and answers it with an error.
    pub(crate) async fn refuse(&mut self, method: &str, code: i32, kind: &str, message: &str) {
        let (id, _) = self.expect(method).await;
        let error = json!({"code": code, "message": message, "data": {"kind": kind, "retryable": false}});
        self.say(json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
    }

    /// Sends the next event of the session.
    pub(crate) async fn event(&mut self, event: Value) {
        self.seq += 1;
        let params = json!({"sessionId": SESSION, "seq": self.seq, "event": event});
        self.say(json!({"jsonrpc": "2.0", "method": "event", "params": params})).await;
    }

    /// Sends the events of a run that says `text`, up to and without its end.
    pub(crate) async fn speak(&mut self, entry: &str, text: &str) {
        let message = |content: Value| json!({"role": "assistant", "content": content, "stopReason": "stop"});
        self.event(json!({"type": "agent_start"})).await;
        self.event(
            json!({"type": "message_start", "role": "assistant", "entryId": entry, "message": message(json!([]))}),
        )
        .await;
        for update in [
            json!({"type": "text_start", "contentIndex": 0}),
            json!({"type": "text_delta", "contentIndex": 0, "delta": text}),
            json!({"type": "text_end", "contentIndex": 0}),
        ] {
            self.event(json!({"type": "message_update", "assistantMessageEvent": update})).await;
        }
        let content = json!([{"type": "text", "text": text}]);
        self.event(json!({"type": "message_end", "entryId": entry, "message": message(content)})).await;
    }

    /// Sends the end of a run.
    pub(crate) async fn settle(&mut self, reason: &str) {
        self.event(json!({"type": "agent_settled", "aborted": reason == "aborted", "reason": reason})).await;
    }

    /// Sends one message.
    pub(crate) async fn say(&mut self, message: Value) {
        self.stream.write_all(format!("{message}\n").as_bytes()).await.expect("writes");
    }
}

//! Public faults of systems like this one that must not happen here, each test named after the fault's id: raw bytes of
//! a provider in, what clients, files and later requests see out. The model server refuses what real ones refuse.

mod abort;
mod arguments;
mod bash;
mod calls;
mod clients;
mod dialect;
mod disk;
mod edit;
mod gate;
mod images;
mod keys;
mod lease;
mod paths;
mod pictures;
mod queue;
mod read;
mod retries;
mod sockets;
mod sse;

use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};
use crate::model_server::{ModelServer, Recorded};

/// Starts a daemon that retries without long pauses, and a client with a session.
async fn begin(server: &ModelServer) -> (Daemon, Client) {
    let daemon = Daemon::start_with(Home::with_models(server), [("AGENTD_RETRY_BASE_DELAY_MS", "1")]);
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    (daemon, client)
}

/// One event of a chat stream.
fn chunk(delta: Value, finish: Option<&str>) -> String {
    raw(&json!({"id": "c", "model": "plain", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
}

fn raw(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// A whole response of these events.
fn reply(events: &str, finish: &str) -> Value {
    json!({"raw": [format!("{events}{}data: [DONE]\n\n", chunk(json!({}), Some(finish)))]})
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["event"]["type"].as_str()).collect()
}

/// Returns the end of a run.
fn settled(events: &[Value]) -> &Value {
    &events.last().expect("a run")["event"]
}

/// Returns how many descriptors the daemon has open.
fn descriptors(daemon: &Daemon) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count()
}

/// Returns the texts of a request's messages of one role.
fn texts(request: &Recorded, role: &str) -> Vec<String> {
    let messages = request.messages().iter().filter(|message| message["role"] == role);
    messages
        .map(|message| match &message["content"] {
            Value::String(text) => text.clone(),
            parts => parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect(),
        })
        .collect()
}

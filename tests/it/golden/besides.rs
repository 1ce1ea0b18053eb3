//! What happened beside a recorded command and is no command of the recording.

use serde_json::json;

use super::recording::Record;
use crate::harness::Daemon;

/// Something done after a command's answer.
#[derive(Clone, Copy)]
pub(super) enum Beside {
    /// A request, so that what comes later can be compared.
    Request {
        /// Its method.
        method: &'static str,
        /// Its parameters, as JSON.
        params: &'static str,
    },
    /// A prompt from another program that has the same session open.
    SecondWriter {
        /// The prompt.
        message: &'static str,
    },
}

/// Recording, id of the command, what was done.
const BESIDES: &[(&str, &str, Beside)] = &[
    // pi takes a word that is no thinking level for `off`; agentd refuses it.
    ("models-thinking", "r13", Beside::Request { method: "set_thinking_level", params: r#"{"level": "off"}"# }),
    ("two-writers", "r2", Beside::SecondWriter { message: "from the second process" }),
];

/// Returns what was done beside a command.
pub(super) fn of(recording: &str, record: &Record) -> Option<Beside> {
    BESIDES.iter().find(|(name, command, _)| *name == recording && record.is_command(command)).map(|row| row.2)
}

/// Prompts the session of one daemon from a second one, which must refuse it and name the writer.
pub(super) async fn write_from_a_second_daemon(daemon: &Daemon, message: &str) -> Result<(), String> {
    let (_second, mut other) = daemon.start_second().await;
    let header = &daemon.home().only_session()[0];
    match other.call("prompt", json!({"sessionId": header["id"], "message": message})).await {
        Err(refused) if refused.kind() == "session_locked" => Ok(()),
        Err(refused) => Err(format!("the second daemon refused otherwise: {refused:?}")),
        Ok(answer) => Err(format!("the second daemon wrote: {answer}")),
    }
}

//! `wait`: until sessions are idle.

use agentd_protocol::SessionId;
use agentd_protocol::methods::{RunEnd, SessionParams, Wait, WaitResult};
use anyhow::Result;
use serde::Serialize;

use crate::console::Console;
use crate::exit::Exit;
use crate::link::Link;
use crate::session_ref::{SessionRef, short_id};
use crate::show::clean::one_line;

/// Runs the verb. The exit code is that of the first session whose run did not end well.
///
/// # Errors
/// There is no such session, or the connection closes.
pub(crate) async fn run(link: &mut Link, console: &mut Console, sessions: &[SessionRef]) -> Result<Exit> {
    let mut calls = Vec::new();
    for session in sessions {
        let session_id = session.resolve(&link.client, &console.cwd).await?;
        let call = link.client.request::<Wait>(&SessionParams { session_id: Some(session_id.clone()) }).await?;
        calls.push((session_id, call));
    }
    let mut exit = Exit::Done;
    for (session_id, call) in calls {
        let answer = link.keeping_events(call.answer()).await?;
        print(console, &session_id, &answer)?;
        if exit == Exit::Done {
            exit = answer.reason.map_or(Exit::Done, Exit::of_run);
        }
    }
    Ok(exit)
}

fn print(console: &mut Console, session_id: &SessionId, answer: &WaitResult) -> Result<()> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Line<'a> {
        session_id: &'a SessionId,
        #[serde(flatten)]
        answer: &'a WaitResult,
    }
    if console.json {
        return Ok(console.json_line(&Line { session_id, answer })?);
    }
    let why = answer.error_message.as_deref().map(|text| format!(": {}", one_line(text))).unwrap_or_default();
    let id = one_line(short_id(session_id));
    console.line(&format!("{id}  {}{why}", answer.reason.map_or("idle", end_word)))?;
    Ok(console.out.flush()?)
}

fn end_word(end: RunEnd) -> &'static str {
    match end {
        RunEnd::Done => "done",
        RunEnd::Aborted => "aborted",
        RunEnd::Error => "error",
        RunEnd::MaxTurns => "stopped at the most turns",
        RunEnd::Length => "cut short by the output limit",
        RunEnd::Storage => "could not be written",
        RunEnd::Interrupted => "interrupted",
    }
}

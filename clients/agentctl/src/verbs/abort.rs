//! `abort`: ends runs.

use agentd_protocol::methods::{Abort, SessionParams};
use anyhow::Result;

use crate::console::Console;
use crate::exit::Exit;
use crate::link::Link;
use crate::session_ref::SessionRef;

/// Runs the verb: all sessions are told first, then their ends are awaited.
///
/// # Errors
/// There is no such session, or the connection closes.
pub(crate) async fn run(link: &mut Link, console: &mut Console, sessions: &[SessionRef]) -> Result<Exit> {
    let mut calls = Vec::new();
    for session in sessions {
        let session_id = Some(session.resolve(&link.client, &console.cwd).await?);
        calls.push(link.client.request::<Abort>(&SessionParams { session_id }).await?);
    }
    for call in calls {
        let answer = link.keeping_events(call.answer()).await?;
        if console.json {
            console.json_line(&answer)?;
        }
    }
    Ok(Exit::Done)
}

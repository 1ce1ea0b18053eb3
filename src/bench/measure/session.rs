//! Sessions for measurements.

use std::path::Path;

use agentd_protocol::SessionId;
use agentd_protocol::methods::{
    Attach, AttachParams, NewSession, NewSessionParams, Prompt, PromptParams, RunEnd, SessionParams, View, Wait,
};

use crate::bench::client::Client;
use crate::bench::error::BenchError;
use crate::bench::home::MODEL;

/// Makes a session without attaching to it.
pub(super) fn new_session(client: &mut Client, work_dir: &Path) -> Result<SessionId, BenchError> {
    let params = NewSessionParams {
        cwd: Some(work_dir.to_string_lossy().into_owned()),
        model: Some(MODEL.to_owned()),
        attach: Some(false),
        ..Default::default()
    };
    Ok(client.call::<NewSession>(&params)?.session_id)
}

/// Attaches a client to a session.
pub(super) fn attach(client: &mut Client, session: &SessionId, view: View) -> Result<(), BenchError> {
    let params = AttachParams {
        session_id: Some(session.clone()),
        view: Some(view),
        history: Some(false),
        ..Default::default()
    };
    client.call::<Attach>(&params).map(drop)
}

/// Returns the parameters of a prompt.
pub(super) fn prompt(session: &SessionId) -> PromptParams {
    PromptParams { session_id: Some(session.clone()), message: "Say yes.".to_owned(), ..Default::default() }
}

/// Prompts a session and waits until the run has ended.
pub(super) fn exchange(client: &mut Client, session: &SessionId) -> Result<(), BenchError> {
    client.call::<Prompt>(&prompt(session))?;
    let ended = client.call::<Wait>(&SessionParams { session_id: Some(session.clone()) })?;
    match ended.reason {
        Some(RunEnd::Done) => Ok(()),
        reason => Err(BenchError::Run { how: ended.error_message.unwrap_or_else(|| format!("{reason:?}")) }),
    }
}

//! Making and listing sessions.

use std::path::PathBuf;
use std::sync::Arc;

use agentd_protocol::Cursor;
use agentd_protocol::methods::{
    ConfigSource, Empty, ListSessions, ListSessionsParams, ListSessionsResult, NewSession, NewSessionParams,
    NewSessionResult, Origin, UnwatchSessions, WatchSessions, WatchSessionsParams, WatchSessionsResult,
};

use serde_json::{Map, Value};

use super::super::call::Call;
use super::super::error_map::Failure;
use super::super::methods::Registration;
use super::super::outbox::Effect;
use super::attach::subscribe;
use super::config::read_settings;
use super::settings::check_name;
use crate::agent::handle::SessionHandle;
use crate::config::settings::{self, Layer, keys};
use crate::constants::MAX_MAX_TURNS;
use crate::supervisor;

/// Most rows of a page of `list_sessions`.
const MAX_LIST_LIMIT: u32 = 500;

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.plain(NewSession, new_session);
    registration.plain(ListSessions, list_sessions);
    registration.plain(WatchSessions, watch_sessions);
    registration.plain(UnwatchSessions, async |call, _| {
        call.then(Effect::Watch(None));
        Ok(Empty {})
    });
}

async fn new_session(call: Arc<Call>, params: NewSessionParams) -> Result<NewSessionResult, Failure> {
    let given = given(params.settings.unwrap_or_default(), params.max_turns)?;
    check_name(params.name.as_deref().unwrap_or_default())?;
    let new = supervisor::NewSession {
        cwd: working_directory(&call, params.cwd)?,
        env: call.env().await,
        model: params.model,
        name: params.name,
        tools: params.tools,
        mode: params.mode,
        given,
        headless: params.headless,
        ask_timeout_ms: params.ask_timeout_ms,
        parent_session: params.parent_session,
    };
    let handle = call.core.sessions.new_session(new).await?;
    let result = if params.attach == Some(false) {
        unattached(&call, &handle).await?
    } else {
        // From before its first event on, whatever the session has published meanwhile.
        let start = Cursor { epoch: handle.ring().epoch().clone(), seq: 0, view: None };
        let attached = subscribe(&call, &handle, Some(start), params.view.unwrap_or_default(), false).await?;
        NewSessionResult {
            session_id: attached.session_id,
            session_file: attached.state.session_file.clone(),
            epoch: attached.epoch,
            seq: attached.seq,
            state: attached.state,
        }
    };
    call.conn().set_current(handle.id());
    Ok(result)
}

/// Reads the settings that a session is given. `maxTurns` is one of them by another name.
fn given(settings: Map<String, Value>, max_turns: Option<u32>) -> Result<Layer, Failure> {
    if let Some(max_turns) = max_turns.filter(|max_turns| !(1..=MAX_MAX_TURNS).contains(max_turns)) {
        return Err(Failure::param("maxTurns", format!("{max_turns} is not within 1 to {MAX_MAX_TURNS}")));
    }
    let mut given = read_settings(&settings)?;
    if let Some(max_turns) = max_turns {
        let origin = Origin { source: ConfigSource::Session, ..Origin::default() };
        given.put(&keys::MAX_TURNS, settings::Value::Number(max_turns.into()), origin);
    }
    Ok(given)
}

/// Returns the directory that a request names, or the connection's.
///
/// # Errors
/// There is none, or it is relative.
pub(super) fn working_directory(call: &Call, cwd: Option<String>) -> Result<PathBuf, Failure> {
    let Some(cwd) = cwd.map(PathBuf::from).or_else(|| call.conn().cwd()) else {
        return Err(Failure::param("cwd", "missing; this connection's front has not told a working directory either"));
    };
    if cwd.is_absolute() { Ok(cwd) } else { Err(Failure::param("cwd", format!("{} is not absolute", cwd.display()))) }
}

async fn unattached(call: &Call, handle: &SessionHandle) -> Result<NewSessionResult, Failure> {
    let answer = handle.state().await?.await?;
    call.reflects(handle.id(), answer.seq);
    Ok(NewSessionResult {
        session_id: handle.id().clone(),
        session_file: answer.value.session_file.clone(),
        epoch: handle.ring().epoch().clone(),
        seq: answer.seq,
        state: answer.value,
    })
}

async fn list_sessions(call: Arc<Call>, params: ListSessionsParams) -> Result<ListSessionsResult, Failure> {
    if let Some(limit) = params.limit.filter(|limit| !(1..=MAX_LIST_LIMIT).contains(limit)) {
        return Err(Failure::param("limit", format!("{limit} is not within 1 to {MAX_LIST_LIMIT}")));
    }
    call.hold_list();
    let list = call.core.sessions.list(params).await?;
    call.reflects_list(list.list_seq);
    Ok(list)
}

async fn watch_sessions(call: Arc<Call>, params: WatchSessionsParams) -> Result<WatchSessionsResult, Failure> {
    // What is written of a watch that this one replaces, past where this one begins, would come twice.
    call.hold_list();
    let (watch, replay) = call.core.sessions.list_log().watch(params.since, call.conn().wake.clone());
    let list_seq = watch.position();
    call.then(Effect::Watch(Some(watch)));
    Ok(WatchSessionsResult { list_seq, replay })
}

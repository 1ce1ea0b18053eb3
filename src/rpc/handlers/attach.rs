//! Subscribing to a session's events.

use std::sync::Arc;

use agentd_protocol::Cursor;
use agentd_protocol::methods::{Attach, AttachParams, AttachResult, Detach, Empty, SessionParams, View};

use super::super::call::Call;
use super::super::conn::{Held, Stream};
use super::super::error_map::Failure;
use super::super::methods::Registration;
use super::super::outbox::Effect;
use crate::agent::handle::{AttachRequest, SessionError, SessionHandle};

pub(in crate::rpc) fn register(registration: &mut Registration) {
    registration.plain(Attach, attach);
    registration.session(Detach, detach);
}

async fn attach(call: Arc<Call>, params: AttachParams) -> Result<AttachResult, Failure> {
    let mut handle = call.session(params.session_id.clone()).await?;
    let view = params.view.unwrap_or_default();
    let history = params.history.unwrap_or(shows_content(view));
    let result = match subscribe(&call, &handle, params.since.clone(), view, history).await {
        // It left memory just as the request came.
        Err(SessionError::Closed) => {
            handle = call.session(params.session_id).await?;
            subscribe(&call, &handle, params.since, view, history).await?
        }
        result => result?,
    };
    call.conn().set_current(handle.id());
    Ok(result)
}

/// Tells whether a view shows what entries hold.
pub(in crate::rpc) fn shows_content(view: View) -> bool {
    view != View::Status
}

/// Subscribes the connection; events follow the call's answer.
pub(super) async fn subscribe(
    call: &Call,
    handle: &SessionHandle,
    since: Option<Cursor>,
    view: View,
    history: bool,
) -> Result<AttachResult, SessionError> {
    let conn = call.conn();
    let hold = conn.hold(Stream::Session(handle.id().clone()), Held::Attach);
    conn.enter(handle);
    let request = AttachRequest { since, view, history, client: conn.client(), wake: conn.wake.clone() };
    let attached = handle.attach(Box::new(request)).await?.await?.value;
    call.then(Effect::Attach { handle: handle.clone(), subscription: attached.subscription, hold });
    Ok(attached.result)
}

async fn detach(call: Arc<Call>, params: SessionParams) -> Result<Empty, Failure> {
    let handle = call.session(params.session_id).await?;
    call.hold(handle.id());
    let answer = handle.detach(call.conn().client()).await?.await?;
    call.reflects(handle.id(), answer.seq);
    call.conn().leave(handle.id());
    call.then(Effect::Detach(handle.id().clone()));
    Ok(answer.value)
}

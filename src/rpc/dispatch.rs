//! From a request to its answer.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use agentd_protocol::error_code::ErrorKind;
use futures_util::FutureExt;
use jsonrpsee::types::{ErrorObjectOwned, Id, Params};
use jsonrpsee::{ConnectionId, Extensions, MethodCallback, MethodResponse};
use serde_json::value::RawValue;

use super::call::CallState;
use super::conn::Conn;
use super::envelope::{Item, Request};
use super::error_map::Failure;
use super::outbox::Outgoing;
use super::server::Shared;
use crate::constants::MAX_BATCH_ANSWER_BYTES;

/// What every answer of jsonrpsee to an id of null begins with.
const NULL_ID: &str = r#"{"jsonrpc":"2.0","id":null,"#;

/// Methods that are served while the daemon stops.
const SERVED_TO_THE_END: &[&str] = &["initialize", "ping", "get_daemon_status", "shutdown", "detach"];

/// A request being served.
pub(super) struct Running {
    future: Pin<Box<dyn Future<Output = Outgoing> + Send>>,
    state: Option<Arc<CallState>>,
    /// Whether its answer may come after those of later requests.
    pub(super) waits: bool,
    /// The id of a method that waits, as it was written.
    pub(super) id: Option<Box<RawValue>>,
}

impl Running {
    fn new(future: impl Future<Output = Outgoing> + Send + 'static) -> Self {
        Self { future: Box::pin(future), state: None, waits: false, id: None }
    }

    /// Waits for the answer, or until the request has reached its session. Cancel-safe.
    pub(super) async fn answered_or_applied(&mut self) -> Option<Outgoing> {
        std::future::poll_fn(|cx| {
            let poll = self.future.as_mut().poll(cx).map(Some);
            let is_applied = self.state.as_ref().is_some_and(|state| state.is_applied());
            if poll.is_pending() && is_applied { std::task::Poll::Ready(None) } else { poll }
        })
        .await
    }

    /// Waits for the answer.
    pub(super) async fn answered(self) -> Outgoing {
        self.future.await
    }
}

/// Begins to serve one item.
pub(super) fn single(shared: &Arc<Shared>, conn: &Arc<Conn>, item: &Item<'_>) -> Running {
    match item {
        Item::Call(request) => call(shared, conn, request, false),
        Item::Answer => Running::new(async { Outgoing::default() }),
        Item::Invalid(id, failure) => {
            let outgoing = failed(Some(id.map_or("null", |id| id.get())), failure.clone());
            Running::new(async move { outgoing })
        }
    }
}

/// Begins to serve the items of a batch, one after the other.
pub(super) fn batch(shared: &Arc<Shared>, conn: &Arc<Conn>, items: &[Item<'_>]) -> Running {
    // Made now, as the items are borrowed from the message; none does anything before it is first polled.
    let items: Vec<Running> = items
        .iter()
        .map(|item| match item {
            Item::Call(request) => call(shared, conn, request, true),
            other => single(shared, conn, other),
        })
        .collect();
    Running::new(async move {
        let mut all = Outgoing::default();
        let mut answers = Vec::new();
        let mut bytes = 0;
        for item in items {
            let id = item.id.clone();
            let Outgoing { body, reflects, reflects_list, effects, holds, lets_pass: _ } =
                if bytes > MAX_BATCH_ANSWER_BYTES {
                    let text = format!("the answers of this batch are over {MAX_BATCH_ANSWER_BYTES} bytes; ask singly");
                    failed(id.as_ref().map(|id| id.get()), Failure::new(ErrorKind::InvalidRequest, text))
                } else {
                    item.answered().await
                };
            bytes += body.as_ref().map_or(0, Vec::len);
            answers.extend(body);
            all.reflects.extend(reflects);
            all.reflects_list = all.reflects_list.max(reflects_list);
            all.effects.extend(effects);
            all.holds.extend(holds);
        }
        if !answers.is_empty() {
            let mut body = b"[".to_vec();
            body.extend(answers.join(&b','));
            body.push(b']');
            all.body = Some(body);
        }
        all
    })
}

fn call(shared: &Arc<Shared>, conn: &Arc<Conn>, request: &Request<'_>, in_batch: bool) -> Running {
    let id = request.id.map(ToOwned::to_owned);
    let (callback, info) = match find(shared, request, in_batch) {
        Ok(found) => found,
        Err(failure) => {
            let outgoing = failed(request.id.map(|id| id.get()), failure);
            return Running { id, ..Running::new(async move { outgoing }) };
        }
    };
    let state = Arc::new(CallState::new(conn.clone(), info.waits));
    let mut extensions = Extensions::new();
    extensions.insert(state.clone());
    let params = Params::new(request.params.map(|params| params.get())).into_owned();
    let answer = callback(Id::Null, params, ConnectionId(0), usize::MAX, extensions);
    let (raw_id, its_state, name) = (id.clone(), state.clone(), info.name);
    let future = async move {
        // A fault in one handler must not take the connection's other requests along.
        let answer = AssertUnwindSafe(answer).catch_unwind().await;
        let raw_id = raw_id.as_ref().map(|id| id.get());
        let Ok(answer) = answer else {
            tracing::error!(method = name, "a handler panicked");
            return failed(
                raw_id,
                Failure::new(ErrorKind::Internal, format!("{name} failed; the daemon's log says more")),
            );
        };
        let outcome = its_state.take_outcome();
        Outgoing {
            body: raw_id.map(|id| with_id(id, &answer)),
            reflects: outcome.reflects.into_iter().collect(),
            reflects_list: outcome.reflects_list,
            effects: outcome.effect.into_iter().collect(),
            holds: outcome.hold.into_iter().collect(),
            lets_pass: None,
        }
    };
    Running { future: Box::pin(future), state: Some(state), waits: info.waits, id }
}

type AsyncCallback = jsonrpsee::core::server::AsyncMethod<'static>;

fn find(
    shared: &Arc<Shared>,
    request: &Request<'_>,
    in_batch: bool,
) -> Result<(AsyncCallback, &'static agentd_protocol::methods::MethodInfo), Failure> {
    let name: &str = &request.method;
    let Some((MethodCallback::Async(callback), info)) = shared.methods.find(name) else {
        return Err(Failure::new(ErrorKind::MethodNotFound, format!("no method {name:?}")));
    };
    if shared.core.is_refusing() && !SERVED_TO_THE_END.contains(&name) {
        return Err(Failure::new(
            ErrorKind::ShuttingDown,
            "the daemon is stopping; connect again after it has restarted",
        ));
    }
    if in_batch && info.waits {
        return Err(Failure::new(ErrorKind::NotInBatch, format!("{name} waits, and cannot be part of a batch")));
    }
    Ok((callback.clone(), info))
}

/// Makes the error answer to an id as it was written; nothing for a notification.
pub(super) fn failed(id: Option<&str>, failure: Failure) -> Outgoing {
    let answer = MethodResponse::error(Id::Null, ErrorObjectOwned::from(failure));
    Outgoing { body: id.map(|id| with_id(id, &answer)), ..Outgoing::default() }
}

/// Answers a request that has nothing to tell but that it was done.
pub(super) fn done(id: &str) -> Outgoing {
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
    Outgoing { body: Some(body.into_bytes()), ..Outgoing::default() }
}

/// Puts an id, byte for byte, into an answer that was made for id null.
fn with_id(id: &str, answer: &MethodResponse) -> Vec<u8> {
    let answer = answer.as_ref();
    let rest = answer.strip_prefix(NULL_ID).expect("jsonrpsee writes the version, then the id, then the rest");
    let mut body = Vec::with_capacity(NULL_ID.len() + id.len() + rest.len());
    body.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    body.extend_from_slice(id.as_bytes());
    body.push(b',');
    body.extend_from_slice(rest.as_bytes());
    body
}

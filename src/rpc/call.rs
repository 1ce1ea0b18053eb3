//! What a handler knows of the call that it serves, and what it can say besides its result.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use agentd_protocol::error_code::ErrorKind;
use agentd_protocol::{Seq, SessionId};

use super::conn::{Conn, Held, Hold, Stream};
use super::error_map::Failure;
use super::outbox::Effect;
use super::server::Core;
use crate::agent::handle::{Pending, SessionError, SessionHandle};
use crate::config::env::SessionEnv;

/// One call in the hands of its handler.
pub(super) struct Call {
    /// The daemon.
    pub(super) core: Arc<Core>,
    pub(super) state: Arc<CallState>,
}

/// What a handler says besides its result.
pub(super) struct CallState {
    pub(super) conn: Arc<Conn>,
    waits: bool,
    applied: AtomicBool,
    outcome: Mutex<Outcome>,
}

/// See [`super::outbox::Outgoing`].
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) reflects: Option<(SessionId, Seq)>,
    pub(super) reflects_list: Option<u64>,
    pub(super) effect: Option<Effect>,
    pub(super) hold: Option<Hold>,
}

impl CallState {
    pub(super) fn new(conn: Arc<Conn>, waits: bool) -> Self {
        Self { conn, waits, applied: AtomicBool::new(false), outcome: Mutex::default() }
    }

    /// Tells whether the request has reached its session, so that later ones may be taken.
    pub(super) fn is_applied(&self) -> bool {
        self.applied.load(Ordering::Relaxed)
    }

    pub(super) fn take_outcome(&self) -> Outcome {
        std::mem::take(&mut *self.outcome.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Call {
    pub(super) fn conn(&self) -> &Arc<Conn> {
        &self.state.conn
    }

    /// Tells that the request is in its session's mailbox, and so holds no other one back.
    pub(super) fn applied(&self) {
        self.state.applied.store(true, Ordering::Relaxed);
    }

    /// Returns the session that `id` names, or the current one.
    ///
    /// # Errors
    /// There is none, or it cannot be opened.
    pub(super) async fn session(&self, id: Option<SessionId>) -> Result<SessionHandle, Failure> {
        let Some(id) = id.or_else(|| self.conn().current()) else {
            return Err(Failure::new(
                ErrorKind::NoSession,
                "no sessionId was given, and this connection has not opened a session yet",
            ));
        };
        Ok(self.core.sessions.open(&id).await?)
    }

    /// Asks a session and returns its answer; the call's answer then reflects what the session's does.
    ///
    /// # Errors
    /// There is no such session, or it refuses.
    pub(super) async fn ask<T>(
        &self,
        id: Option<SessionId>,
        ask: impl AsyncFnOnce(&SessionHandle) -> Result<Pending<T>, SessionError> + Clone,
    ) -> Result<T, Failure> {
        match self.ask_once(id.clone(), ask.clone()).await? {
            // It left memory just as the request came, and nothing of that was done.
            Err(SessionError::Closed) => Ok(self.ask_once(id, ask).await??),
            answer => Ok(answer?),
        }
    }

    async fn ask_once<T>(
        &self,
        id: Option<SessionId>,
        ask: impl AsyncFnOnce(&SessionHandle) -> Result<Pending<T>, SessionError>,
    ) -> Result<Result<T, SessionError>, Failure> {
        let handle = self.session(id).await?;
        // One that waits would hold the events back that it waits for.
        if !self.state.waits {
            self.hold(handle.id());
        }
        let pending = match ask(&handle).await {
            Ok(pending) => pending,
            Err(error) => return Ok(Err(error)),
        };
        self.applied();
        Ok(pending.await.map(|answer| {
            self.reflects(handle.id(), answer.seq);
            answer.value
        }))
    }

    /// Keeps events of a session that no answer needs behind the answer.
    pub(super) fn hold(&self, id: &SessionId) {
        let hold = self.conn().hold(Stream::Session(id.clone()), Held::Request);
        self.outcome().hold = Some(hold);
    }

    /// Keeps changes of the list that no answer needs behind the answer.
    pub(super) fn hold_list(&self) {
        let hold = self.conn().hold(Stream::List, Held::Request);
        self.outcome().hold = Some(hold);
    }

    /// Makes the changes of the list up to `list_seq` be written before the answer.
    pub(super) fn reflects_list(&self, list_seq: u64) {
        self.outcome().reflects_list = Some(list_seq);
    }

    /// Makes the events of a session up to `seq` be written before the answer.
    pub(super) fn reflects(&self, id: &SessionId, seq: Seq) {
        self.outcome().reflects = Some((id.clone(), seq));
    }

    /// Returns the cursor that the answer reflects.
    pub(super) fn reflected(&self) -> Seq {
        self.outcome().reflects.as_ref().map_or(0, |(_, seq)| *seq)
    }

    /// Makes something happen once the answer is written.
    pub(super) fn then(&self, effect: Effect) {
        self.outcome().effect = Some(effect);
    }

    fn outcome(&self) -> std::sync::MutexGuard<'_, Outcome> {
        self.state.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses what only a person may send (`what`) when it may come from a tool call of a session.
    ///
    /// # Errors
    /// It may.
    pub(super) async fn refuse_tools(&self, what: &str) -> Result<(), Failure> {
        match self.conn().process() {
            Some(process) if self.core.sessions.may_be_from_tool(process).await => {
                let why = "this process was started by a tool call of a session, or has ended, so that nobody can tell";
                Err(Failure::new(ErrorKind::Forbidden, format!("{why}; {what} comes from a person")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the client's environment, or that of the login shell.
    pub(super) async fn env(&self) -> SessionEnv {
        match self.conn().env() {
            Some(env) => env,
            None => self.core.sessions.login_env().await,
        }
    }
}

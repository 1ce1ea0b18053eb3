//! The directory of live sessions.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use agentd_protocol::SessionId;
use agentd_protocol::methods::{ListSessionsParams, ListSessionsResult, SessionRow};
use tokio::sync::OnceCell;

use super::error::SupervisorError;
use super::live::Live;
use super::login_env::LoginEnv;
use crate::agent::handle::SessionHandle;
use crate::agent::services::Services;
use crate::config::env::SessionEnv;
use crate::constants::{INDEX_SETTLE_LIMIT, MAX_IDLE_SESSIONS};
use crate::ring::{Doing, ListLog};
use crate::store::index::{IndexRow, ListQuery};

/// Finds, opens, makes and lists sessions. Cheap to clone.
#[derive(Clone)]
pub struct Supervisor(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) services: Arc<Services>,
    pub(super) login_env: LoginEnv,
    /// One cell for each session that is live or being loaded: whoever comes second waits for the first.
    sessions: Mutex<HashMap<SessionId, Arc<OnceCell<Live>>>>,
    is_closing: AtomicBool,
    /// Sessions that may ask and are not in memory; set once the crash journals have been looked through.
    pub(super) asking: OnceCell<Mutex<Vec<SessionId>>>,
}

impl Supervisor {
    /// Returns a supervisor without live sessions.
    pub fn new(services: Arc<Services>) -> Self {
        let login_env = LoginEnv::new(Arc::clone(&services));
        Self(Arc::new(Inner {
            services,
            login_env,
            sessions: Mutex::default(),
            is_closing: AtomicBool::new(false),
            asking: OnceCell::new(),
        }))
    }

    /// Returns a session by its id or a unique end of it, loading it if need be.
    ///
    /// # Errors
    /// There is none, there are several, or its file cannot be opened.
    pub async fn open(&self, id: &SessionId) -> Result<SessionHandle, SupervisorError> {
        if let Some(live) = self.live(id) {
            return Ok(live.handle.clone());
        }
        let (id, path) = self.locate(id).await?;
        if let Some(live) = self.live(&id) {
            return Ok(live.handle.clone());
        }
        let Some(path) = path else { return Err(SupervisorError::UnknownSession(id)) };
        self.refuse_when_closing()?;
        // A task of its own: if the one who asks goes away, what is being read goes on, and the next one who asks must
        // not begin beside it.
        let supervisor = self.clone();
        let loading = self.0.services.tasks.spawn("load session", async move { supervisor.load_once(id, path).await });
        loading.await.unwrap_or(Err(SupervisorError::Failed))
    }

    async fn load_once(&self, id: SessionId, path: PathBuf) -> Result<SessionHandle, SupervisorError> {
        let cell = self.cell(&id);
        let live = cell.get_or_try_init(|| self.load(id.clone(), path)).await;
        match live {
            Ok(live) => {
                let handle = live.handle.clone();
                self.unload_surplus(&id);
                Ok(handle)
            }
            Err(error) => {
                self.forget_failed(&id, &cell);
                Err(error)
            }
        }
    }

    fn cell(&self, id: &SessionId) -> Arc<OnceCell<Live>> {
        let mut sessions = self.sessions();
        let cell = sessions.entry(id.clone()).or_default();
        if cell.get().is_some_and(|live| live.handle.is_closed()) {
            *cell = Arc::default();
        }
        Arc::clone(cell)
    }

    /// A load that failed must not be found by the next one.
    fn forget_failed(&self, id: &SessionId, cell: &Arc<OnceCell<Live>>) {
        let mut sessions = self.sessions();
        if sessions.get(id).is_some_and(|current| Arc::ptr_eq(current, cell)) && cell.get().is_none() {
            sessions.remove(id);
            // It may have taken the place of one that ended and had not left yet, which finds itself replaced then.
            self.0.services.list_log.set_doing(id, Doing::UNLOADED, false);
        }
    }

    /// Enters a new session.
    pub(super) fn enter(&self, id: &SessionId, live: Live) {
        self.sessions().insert(id.clone(), Arc::new(OnceCell::new_with(Some(live))));
        self.unload_surplus(id);
    }

    /// Forgets a session whose actor has ended, unless another one has taken its place.
    pub(super) fn leave(&self, id: &SessionId) {
        let mut sessions = self.sessions();
        let is_over = |cell: &Arc<OnceCell<Live>>| cell.get().is_some_and(|live| live.handle.is_closed());
        if sessions.get(id).is_some_and(is_over) {
            let left = sessions.remove(id);
            if left.and_then(|cell| Some(!cell.get()?.facts.questions().is_empty())).unwrap_or_default() {
                self.note_asking(id);
            }
            // Before another one can take its place and say what that does.
            self.0.services.list_log.set_doing(id, Doing::UNLOADED, false);
        }
    }

    pub(super) fn live(&self, id: &SessionId) -> Option<Live> {
        let sessions = self.sessions();
        sessions.get(id)?.get().filter(|live| !live.handle.is_closed()).cloned()
    }

    /// Returns the live sessions whose id ends so.
    pub(super) fn live_with_tail(&self, tail: &str) -> Vec<SessionId> {
        self.sessions().keys().filter(|id| id.as_str().ends_with(tail)).cloned().collect()
    }

    pub(super) fn all_live(&self) -> Vec<(SessionId, Live)> {
        let sessions = self.sessions();
        let live = sessions.iter().filter_map(|(id, cell)| Some((id.clone(), cell.get()?.clone())));
        live.filter(|(_, live)| !live.handle.is_closed()).collect()
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Arc<OnceCell<Live>>>> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn refuse_when_closing(&self) -> Result<(), SupervisorError> {
        if self.0.is_closing.load(Ordering::Acquire) { Err(SupervisorError::ShuttingDown) } else { Ok(()) }
    }

    /// Closes the idle sessions that were used longest ago, until no more than [`MAX_IDLE_SESSIONS`] are loaded.
    fn unload_surplus(&self, keep: &SessionId) {
        let mut idle: Vec<(SessionId, Live)> = self.all_live();
        idle.retain(|(id, live)| id != keep && live.facts.can_unload());
        let Some(surplus) = idle.len().checked_sub(MAX_IDLE_SESSIONS).filter(|surplus| *surplus > 0) else { return };
        idle.sort_by_key(|(_, live)| live.facts.last_used());
        for (id, live) in idle.into_iter().take(surplus) {
            tracing::debug!(session = %id, "unloading an idle session");
            drop(self.0.services.tasks.spawn("unload session", async move { live.unload_if_idle().await }));
        }
    }

    /// Lists sessions, latest use first.
    ///
    /// # Errors
    /// The cursor is not one of ours, or the index cannot be read.
    pub async fn list(&self, params: ListSessionsParams) -> Result<ListSessionsResult, SupervisorError> {
        let query = ListQuery { cwd: params.cwd, text: params.text, limit: params.limit, cursor: params.cursor };
        // Right after the start the list may still be read from the files: a short wait beats an empty answer.
        let index = &self.0.services.index;
        drop(tokio::time::timeout(INDEX_SETTLE_LIMIT, index.settled()).await);
        let page = index.list(query).await?;
        let mut sessions: Vec<SessionRow> = page.rows.into_iter().map(IndexRow::into_listed).collect();
        let list_seq = self.0.services.list_log.as_of(page.revision, &mut sessions).await;
        Ok(ListSessionsResult { sessions, next_cursor: page.next_cursor, total: page.total, list_seq })
    }

    /// Returns the changes of that list.
    pub fn list_log(&self) -> &Arc<ListLog> {
        &self.0.services.list_log
    }

    /// Returns the login shell's environment, which stands in where no client has sent one.
    pub async fn login_env(&self) -> SessionEnv {
        self.0.login_env.get().await
    }

    /// Returns how many sessions are in memory.
    pub fn loaded_count(&self) -> usize {
        self.all_live().len()
    }

    /// Returns how many sessions have a run going on.
    pub fn running_count(&self) -> usize {
        self.all_live().iter().filter(|(_, live)| live.facts.is_running()).count()
    }

    /// Returns the bytes of encoded events held for replay.
    pub fn ring_bytes(&self) -> usize {
        self.0.services.ring_budget.used()
    }

    /// Returns how many tools did not stop when told and were left behind.
    pub fn abandoned_tools(&self) -> u64 {
        self.0.services.tools.abandoned()
    }

    /// Returns the shared parts of the daemon.
    pub fn services(&self) -> &Arc<Services> {
        &self.0.services
    }

    /// Refuses new sessions, stops every run and waits until all is on disk.
    pub async fn close_all(&self) {
        self.0.is_closing.store(true, Ordering::Release);
        let mut closing = Vec::new();
        for (_, live) in self.all_live() {
            if let Ok(pending) = live.handle.close().await {
                closing.push(pending);
            }
        }
        for pending in closing {
            // An actor that ended meanwhile has nothing left to write.
            drop(pending.await);
        }
    }
}

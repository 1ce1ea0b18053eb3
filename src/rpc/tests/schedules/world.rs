//! A daemon in memory: its real connections, dispatch, supervisor, session actors, files and rings; only the model,
//! the tool and the time that disks take are made up.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentd_protocol::methods::{EnvSource, GetEntriesParams, PeerInfo, RunEnd, View};
use agentd_protocol::session_view::ViewEntry;
use agentd_protocol::{Cursor, Epoch, SessionId};

use super::plan::Plan;
use super::script::{Echo, Model};
use crate::agent::event::Event;
use crate::agent::handle::SessionHandle;
use crate::agent::services::Services;
use crate::config::env::SessionEnv;
use crate::config::settings::Layer;
use crate::config::{self, Config};
use crate::exec::Spawner;
use crate::permissions::rule_files::RuleFiles;
use crate::provider::Catalog;
use crate::redact::KeyBook;
use crate::ring::{ListLog, Pull, Ring, RingBudget, Wake};
use crate::rpc::{DaemonInfo, Server};
use crate::store::index::Index;
use crate::store::session_file::Writer;
use crate::supervisor::{NewSession, Supervisor};
use crate::tasks::Tasks;
use crate::tools::{FileLocks, ToolRegistry};
use crate::trust::TrustStore;

/// Most bits with which the rings are filled until an event is forgotten.
const MOST_BITS: usize = 200;

/// One daemon.
pub(super) struct World {
    pub(super) server: Server,
    pub(super) tasks: Tasks,
    /// Ids of the sessions, in the plan's order.
    pub(super) sessions: Vec<SessionId>,
    handles: Vec<SessionHandle>,
    budget: Arc<RingBudget>,
    _dir: tempfile::TempDir,
}

/// What cases can share: threads, and nothing that one case could leave to the next.
struct Shared {
    spawner: Spawner,
    index: Index,
    list_log: Arc<ListLog>,
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let index = Index::default();
        // A list is of no interest here, and a closed one costs nothing. Closing needs a runtime of its own.
        let close = std::thread::spawn({
            let index = index.clone();
            move || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(index.close())
        });
        close.join().unwrap();
        Shared { spawner: crate::exec::test_support::spawner(), index, list_log: ListLog::new(0) }
    })
}

impl World {
    pub(super) async fn new(plan: &Plan) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tasks = Tasks::in_turn({
            let (lasts, turn) = (plan.disk_ms.clone(), AtomicUsize::new(0));
            move || Duration::from_millis(lasts[turn.fetch_add(1, Ordering::Relaxed) % lasts.len()].into())
        });
        let budget = RingBudget::new(plan.ring_bytes);
        let model = Arc::new(Model::default());
        let supervisor = Supervisor::new(Arc::new(services(config(&dir), &tasks, &budget, &model)));
        let server = Server::new(Arc::new(supervisor.clone()), info());
        let mut handles = Vec::new();
        for responses in &plan.sessions {
            let handle = supervisor.new_session(new_session(&dir)).await.unwrap();
            model.set(handle.id(), responses);
            handles.push(handle);
        }
        let sessions = handles.iter().map(|handle| handle.id().clone()).collect();
        Self { server, tasks, sessions, handles, budget, _dir: dir }
    }

    /// Fills the rings with events of a session that nobody reads.
    pub(super) fn squeeze(&self, bytes: usize) {
        self.ballast().push([ballast_of(bytes)]);
    }

    /// Fills the rings bit by bit, until nobody can read on from a cursor any more.
    pub(super) fn forget_after(&self, session: usize, cursor: &Cursor, view: View) {
        let ring = self.ballast();
        for _ in 0..MOST_BITS {
            if self.is_forgotten_after(session, cursor, view) {
                return;
            }
            ring.push([ballast_of(1)]);
        }
    }

    fn ballast(&self) -> Ring {
        Ring::new("ballast".into(), Epoch::new("b"), self.budget.clone())
    }

    /// Tells whether an event after a cursor was forgotten that a view shows, as who reads there finds out.
    pub(super) fn is_forgotten_after(&self, session: usize, cursor: &Cursor, view: View) -> bool {
        // What is merged is no matter here, and who reads it would change what is.
        let view = if view == View::Coalesced { View::Full } else { view };
        let ring = self.handles[session].ring();
        *ring.epoch() == cursor.epoch
            && ring.subscribe(view, cursor.seq, Wake::new()).pull(&mut Vec::new(), 1, None) == Pull::Lagged
    }

    /// Waits until no session does anything. Clients that do not read do not hold it up.
    pub(super) async fn settled(&self) {
        for handle in &self.handles {
            handle.wait().await.unwrap().await.unwrap();
        }
    }

    /// Returns the active branch.
    pub(super) async fn branch(&self, session: usize) -> Vec<ViewEntry> {
        self.entries(session, GetEntriesParams { branch: Some(true), ..GetEntriesParams::default() }).await
    }

    /// Returns entries.
    pub(super) async fn entries(&self, session: usize, params: GetEntriesParams) -> Vec<ViewEntry> {
        let answer = self.handles[session].entries(params).await.unwrap().await.unwrap();
        answer.value.entries.into_iter().map(ViewEntry::from_file).collect()
    }

    /// Ends all sessions and connections.
    pub(super) async fn end(self) {
        for handle in &self.handles {
            handle.close().await.unwrap().await.unwrap();
        }
        self.server.say_goodbye().await;
        assert_eq!(self.handles.iter().map(|handle| handle.ring().subscriber_count()).sum::<usize>(), 0);
        drop(self.handles);
        assert_eq!(self.budget.used(), 0, "all that rings held is given back");
    }
}

fn ballast_of(bytes: usize) -> Event {
    Event::AgentSettled { aborted: false, reason: RunEnd::Error, error_message: Some("x".repeat(bytes)) }
}

fn config(dir: &tempfile::TempDir) -> Config {
    let home = OsString::from(dir.path());
    let lookup = |name: &str| match name {
        "HOME" | "XDG_RUNTIME_DIR" => Some(home.clone()),
        "AGENTD_DURABILITY" => Some("flush".into()),
        _ => None,
    };
    config::load(&lookup, Layer::default()).unwrap()
}

fn services(config: Config, tasks: &Tasks, budget: &Arc<RingBudget>, model: &Arc<Model>) -> Services {
    let Shared { spawner, index, list_log } = shared();
    Services {
        tasks: tasks.clone(),
        provider: model.clone(),
        models: Arc::new(Catalog::load(&[], &[], &config.settings.local_models)),
        tools: Arc::new(ToolRegistry::only::<Echo>()),
        spawner: spawner.clone(),
        writer: Writer::new(config.paths.owners_dir(), "test", None),
        own_folders: Arc::default(),
        file_locks: FileLocks::default(),
        key_book: KeyBook::default(),
        trust: TrustStore::new(&config.paths.state_dir),
        rules: Arc::new(RuleFiles::new(&config.paths.config_dir)),
        index: index.clone(),
        list_log: list_log.clone(),
        ring_budget: budget.clone(),
        config,
    }
}

fn info() -> DaemonInfo {
    DaemonInfo {
        server_info: PeerInfo { name: "agentd".into(), version: "1".into(), build: None },
        socket: String::new(),
        sessions_dir: String::new(),
        confinement: String::new(),
        stop: Box::new(|_| {}),
    }
}

fn new_session(dir: &tempfile::TempDir) -> NewSession {
    NewSession {
        cwd: dir.path().to_owned(),
        env: SessionEnv::new(BTreeMap::new(), EnvSource::Client),
        model: Some("demo".into()),
        name: None,
        tools: Some(vec!["echo".into()]),
        mode: None,
        headless: None,
        ask_timeout_ms: None,
        given: Layer::of_session(&serde_json::from_str(r#"{"max_turns": 8}"#).unwrap()).unwrap(),
        parent_session: None,
    }
}

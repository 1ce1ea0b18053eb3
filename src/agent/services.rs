//! What every session actor uses of the daemon.

use std::path::PathBuf;
use std::sync::Arc;

use crate::clock;
use crate::config::Config;
use crate::config::env::SessionEnv;
use crate::constants::RING_BUDGET_BYTES;
use crate::exec::{Spawner, SpawnerOptions};
use crate::permissions::rule_files::RuleFiles;
use crate::provider::{AskModel, Catalog, ProviderClient};
use crate::redact::KeyBook;
use crate::ring::{ListLog, RingBudget};
use crate::store::index::Index;
use crate::store::session_file::Writer;
use crate::tasks::Tasks;
use crate::tools::places::canonical;
use crate::tools::{FileLocks, ToolRegistry};
use crate::trust::TrustStore;

/// The parts of the daemon that sessions share.
pub struct Services {
    /// Settings and places on disk.
    pub config: Config,
    /// Spawns tasks.
    pub tasks: Tasks,
    /// Speaks with providers.
    pub provider: Arc<dyn AskModel>,
    /// Knows the models.
    pub models: Arc<Catalog>,
    /// Knows the tools.
    pub tools: Arc<ToolRegistry>,
    /// Starts child processes.
    pub spawner: Spawner,
    /// Says who writes the session files.
    pub writer: Arc<Writer>,
    /// Folders of agentd's own settings and records, canonical.
    pub own_folders: Arc<[PathBuf]>,
    /// Lets one edit at a time change a file.
    pub file_locks: FileLocks,
    /// Knows the keys that nobody may see.
    pub key_book: KeyBook,
    /// Knows which folders are trusted.
    pub trust: TrustStore,
    /// Reads the rules for tool calls.
    pub rules: Arc<RuleFiles>,
    /// Lists sessions.
    pub index: Index,
    /// Numbers the changes of that list.
    pub list_log: Arc<ListLog>,
    /// Bounds the events held for replay.
    pub ring_budget: Arc<RingBudget>,
}

impl Services {
    /// Brings the parts together. `program` is what other writers of a session file are told about this one;
    /// `spawner` finds the helper that starts children. Faults in the user's files are logged, and the rest is used.
    ///
    /// # Errors
    /// When the system has no room for the thread that starts children.
    pub fn new(config: Config, tasks: Tasks, program: &str, spawner: SpawnerOptions) -> std::io::Result<Self> {
        let models = Catalog::load(&config.models_files, &config.auth_files, &config.settings.local_models);
        for notice in models.registry().notices() {
            tracing::warn!("{notice}");
        }
        // Numbers of microseconds: one that a client has from an earlier daemon is smaller than all of this one, and
        // every program reads them exactly.
        let list_log = ListLog::new(u64::try_from(clock::now_ms()).unwrap_or_default().saturating_mul(1000));
        let key_book = KeyBook::default();
        Ok(Self {
            tasks,
            provider: Arc::new(ProviderClient::with_book(key_book.clone())),
            key_book,
            models: Arc::new(models),
            tools: Arc::new(ToolRegistry::builtin()),
            spawner: Spawner::new(spawner)?,
            writer: Writer::new(config.paths.owners_dir(), program, Some(config.paths.socket.clone())),
            own_folders: [&config.paths.config_dir, &config.paths.state_dir, &config.paths.runtime_dir]
                .map(|folder| canonical(folder))
                .into(),
            file_locks: FileLocks::default(),
            trust: TrustStore::new(&config.paths.state_dir),
            rules: Arc::new(RuleFiles::new(&config.paths.config_dir)),
            index: Index::open(&config.paths.index_db, vec![config.paths.sessions_dir.clone()], list_log.clone()),
            list_log,
            ring_budget: RingBudget::new(RING_BUDGET_BYTES),
            config,
        })
    }

    /// Takes note of the keys in the user's files, as they were read last, and in a session's environment.
    pub fn learn_keys(&self, env: &SessionEnv) {
        self.key_book.learn(self.models.registry().known_keys(env));
    }
}

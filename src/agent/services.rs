//! What every session actor uses of the daemon.

use std::sync::Arc;

use crate::config::Config;
use crate::constants::RING_BUDGET_BYTES;
use crate::exec::{Spawner, SpawnerOptions};
use crate::provider::{Catalog, ProviderClient};
use crate::ring::RingBudget;
use crate::store::index::Index;
use crate::store::session_file::Writer;
use crate::tasks::Tasks;
use crate::tools::{FileLocks, ToolRegistry};

/// The parts of the daemon that sessions share.
pub struct Services {
    /// Settings and places on disk.
    pub config: Config,
    /// Spawns tasks.
    pub tasks: Tasks,
    /// Speaks with providers.
    pub provider: ProviderClient,
    /// Knows the models.
    pub models: Arc<Catalog>,
    /// Knows the tools.
    pub tools: Arc<ToolRegistry>,
    /// Starts child processes.
    pub spawner: Spawner,
    /// Says who writes the session files.
    pub writer: Arc<Writer>,
    /// Lets one edit at a time change a file.
    pub file_locks: FileLocks,
    /// Lists sessions.
    pub index: Index,
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
        let models = Catalog::load(&config.models_files, config.auth_file.clone(), &config.local_models);
        for notice in models.registry().notices() {
            tracing::warn!("{notice}");
        }
        Ok(Self {
            tasks,
            provider: ProviderClient::with_clocks(config.provider_clocks),
            models: Arc::new(models),
            tools: Arc::new(ToolRegistry::builtin()),
            spawner: Spawner::new(spawner)?,
            writer: Writer::new(config.paths.owners_dir(), program, Some(config.paths.socket.clone())),
            file_locks: FileLocks::default(),
            index: Index::open(&config.paths.index_db, vec![config.paths.sessions_dir.clone()]),
            ring_budget: RingBudget::new(RING_BUDGET_BYTES),
            config,
        })
    }
}

//! What every session actor uses of the daemon.

use std::sync::Arc;

use crate::config::Config;
use crate::exec::Spawner;
use crate::provider::{ModelRegistry, ProviderClient};
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
    pub models: Arc<ModelRegistry>,
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

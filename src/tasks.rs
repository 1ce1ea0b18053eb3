//! The one way to spawn a task: with a name, a tracker that shutdown waits for, and a cancel token.

use std::future::Future;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// Spawns tasks and lets shutdown wait for them. Cheap to clone; clones share the tracker.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    cancel: CancellationToken,
}

impl Tasks {
    /// Returns the token that is cancelled when the tasks should end.
    pub fn cancel_token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Spawns a task under `name`, which its log lines carry.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
    pub fn spawn<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tokio::spawn(self.tracker.track_future(future.instrument(tracing::debug_span!("task", name))))
    }

    /// Runs blocking work on the blocking pool.
    pub fn spawn_blocking<F, T>(&self, work: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.tracker.spawn_blocking(work)
    }

    /// Waits until every task has ended. New tasks may still be spawned meanwhile.
    pub async fn wait(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

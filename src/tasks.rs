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
    #[cfg(test)]
    in_turn: Option<InTurn>,
}

/// Says how long the next blocking work takes.
#[cfg(test)]
#[derive(Clone)]
struct InTurn(std::sync::Arc<dyn Fn() -> std::time::Duration + Send + Sync>);

#[cfg(test)]
impl std::fmt::Debug for InTurn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InTurn")
    }
}

impl Tasks {
    /// Runs blocking work in its turn on the runtime itself, after the time that `lasts` gives it, so that with paused
    /// time all happens in one order.
    #[cfg(test)]
    pub(crate) fn in_turn(lasts: impl Fn() -> std::time::Duration + Send + Sync + 'static) -> Self {
        Self { in_turn: Some(InTurn(std::sync::Arc::new(lasts))), ..Self::default() }
    }

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
        #[cfg(test)]
        if let Some(InTurn(lasts)) = &self.in_turn {
            let lasts = lasts();
            return self.spawn("blocking work", async move {
                tokio::time::sleep(lasts).await;
                work()
            });
        }
        self.tracker.spawn_blocking(work)
    }

    /// Waits until every task has ended. New tasks may still be spawned meanwhile.
    pub async fn wait(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

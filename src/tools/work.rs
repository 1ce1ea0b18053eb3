//! Runs file work on blocking threads with a time limit, and lets go of a worker that does not come back.
//!
//! A thread that hangs in the kernel (a dead network mount) cannot be ended. It is abandoned: the call gets its answer,
//! the loss is counted, and a [`Gate`] keeps the worker from changing anything should it wake up later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::context::ToolOutput;
use crate::constants::{FILE_TOOL_LIMIT, WORKER_STOP_GRACE};
use crate::tasks::Tasks;

const OPEN: u8 = 0;
const COMMITTED: u8 = 1;
const STOPPED: u8 = 2;

/// Decides the race between a worker that is about to change a file and a call that is given up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<AtomicU8>);

impl Gate {
    /// Whether the call was given up: work may end at once.
    pub(crate) fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire) == STOPPED
    }

    /// Claims the right to change something; from here on the caller waits for the worker. May be called again.
    pub(crate) fn commit(&self) -> bool {
        let before = self.0.compare_exchange(OPEN, COMMITTED, Ordering::AcqRel, Ordering::Acquire);
        before.is_ok() || before == Err(COMMITTED)
    }

    /// Gives the call up as an abort would.
    #[cfg(test)]
    pub(crate) fn stop_for_test(&self) -> bool {
        self.stop()
    }

    /// Gives the call up; false when the worker has already begun its change.
    fn stop(&self) -> bool {
        self.0.compare_exchange(OPEN, STOPPED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// How long a call may still take, and what ends it early.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    deadline: Instant,
    cancel: CancellationToken,
}

impl Budget {
    /// Starts the clock of a file tool.
    pub(crate) fn start(cancel: &CancellationToken) -> Self {
        Self { deadline: Instant::now() + FILE_TOOL_LIMIT, cancel: cancel.clone() }
    }

    /// Waits for something that may be dropped half-way.
    ///
    /// # Errors
    /// The result to give when time is up or the call was aborted.
    pub(crate) async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, ToolOutput> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(aborted()),
            done = timeout_at(self.deadline, future) => done.map_err(|_| out_of_time()),
        }
    }
}

/// Starts workers and counts those that were lost. Cheap to clone; clones share the count.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    /// A tracker of its own: a stuck worker must not hold up the shutdown of the daemon.
    tasks: Tasks,
    abandoned: Arc<AtomicU64>,
    /// The one image that is open at a time.
    image_turns: Arc<Semaphore>,
}

impl Default for Workers {
    fn default() -> Self {
        Self { tasks: Tasks::default(), abandoned: Arc::default(), image_turns: Arc::new(Semaphore::new(1)) }
    }
}

impl Workers {
    /// Returns how many workers were abandoned since the start.
    pub(crate) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Waits for the turn to open an image: its pixels take a hundred times what its file does. First come, first
    /// served; how long depends on the others, of whom each has the time of one call.
    ///
    /// Cancel safe: a dropped future only loses its place in the line.
    ///
    /// # Errors
    /// The result to give when the call was aborted.
    pub(crate) async fn image_turn(&self, cancel: &CancellationToken) -> Result<OwnedSemaphorePermit, ToolOutput> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(aborted()),
            // Nobody closes the semaphore.
            turn = Arc::clone(&self.image_turns).acquire_owned() => turn.map_err(|_| aborted()),
        }
    }

    /// Runs `work` on a blocking thread.
    ///
    /// # Errors
    /// The result to give when time is up, the call was aborted, or the work panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        budget: &Budget,
        work: impl FnOnce(&Gate) -> T + Send + 'static,
    ) -> Result<T, ToolOutput> {
        if budget.cancel.is_cancelled() {
            return Err(aborted());
        }
        let gate = Gate::default();
        let inner = gate.clone();
        let mut worker = self.tasks.spawn_blocking(move || work(&inner));
        let why = tokio::select! {
            done = &mut worker => return done.map_err(|error| panicked(&error)),
            () = budget.cancel.cancelled() => aborted(),
            () = tokio::time::sleep_until(budget.deadline) => out_of_time(),
        };
        if gate.stop() {
            self.part_from(&mut worker).await;
            return Err(why);
        }
        // The change has begun: only its outcome may be told.
        match timeout_at(budget.deadline + WORKER_STOP_GRACE, &mut worker).await {
            Ok(done) => done.map_err(|error| panicked(&error)),
            Err(_) => {
                self.abandoned.fetch_add(1, Ordering::Relaxed);
                Err(ToolOutput::error(
                    "Timed out while writing: the disk does not answer. The file may hold the old or the new content; \
                     look at it before going on.",
                ))
            }
        }
    }

    /// Gives a stopped worker a moment to end, so that a slow one is not taken for a stuck one.
    async fn part_from<T>(&self, worker: &mut JoinHandle<T>) {
        // One that still waits for a thread never begins.
        worker.abort();
        if timeout(WORKER_STOP_GRACE, worker).await.is_err() {
            self.abandoned.fetch_add(1, Ordering::Relaxed);
            tracing::warn!("a file worker does not come back and was abandoned");
        }
    }
}

/// The result of a call that was aborted.
pub(crate) fn aborted() -> ToolOutput {
    ToolOutput::error("Operation aborted")
}

fn out_of_time() -> ToolOutput {
    ToolOutput::error(format!(
        "Timed out after {} seconds: the file system does not answer, or the work is too much for one call.",
        FILE_TOOL_LIMIT.as_secs()
    ))
}

fn panicked(error: &tokio::task::JoinError) -> ToolOutput {
    tracing::error!(panicked = error.is_panic(), "a tool worker failed");
    ToolOutput::error("The tool failed because of a fault inside agentd; nothing is known about its effect.")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    use super::*;

    fn text(output: &ToolOutput) -> &str {
        output.result.content[0].as_text().unwrap()
    }

    #[tokio::test]
    async fn gives_what_the_work_gives() {
        let budget = Budget::start(&CancellationToken::new());
        assert_eq!(Workers::default().run(&budget, |_| 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_stuck_worker_is_abandoned_and_counted() {
        let workers = Workers::default();
        let cancel = CancellationToken::new();
        let budget = Budget::start(&cancel);
        let (release, hold) = sync_channel::<()>(0);
        let (done, result) = sync_channel(1);
        let run = workers.run(&budget, move |gate| {
            let _ = hold.recv();
            done.send(gate.commit()).unwrap();
        });
        let (outcome, ()) = tokio::join!(run, async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            cancel.cancel();
        });
        assert_eq!(text(&outcome.unwrap_err()), "Operation aborted");
        assert_eq!(workers.abandoned(), 1);
        drop(release);
        // It wakes up too late to change anything.
        assert!(!result.recv().unwrap());
    }

    #[tokio::test]
    async fn a_begun_change_is_waited_for() {
        let workers = Workers::default();
        let cancel = CancellationToken::new();
        let budget = Budget::start(&cancel);
        let begun = cancel.clone();
        let run = workers.run(&budget, move |gate| {
            assert!(gate.commit());
            begun.cancel();
            std::thread::sleep(Duration::from_millis(50));
            "written"
        });
        assert_eq!(run.await, Ok("written"));
        assert_eq!(workers.abandoned(), 0);
    }

    #[tokio::test]
    async fn a_panic_is_a_result() {
        let budget = Budget::start(&CancellationToken::new());
        let outcome = Workers::default().run(&budget, |_| panic!("boom")).await;
        let output: ToolOutput = outcome.map(drop::<()>).unwrap_err();
        assert!(text(&output).contains("fault inside agentd"));
    }

    #[tokio::test]
    async fn nothing_starts_after_an_abort() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let outcome = Workers::default().run(&Budget::start(&cancel), |_| unreachable!("must not run")).await;
        assert_eq!(outcome.map(drop::<()>), Err(aborted()));
    }
}

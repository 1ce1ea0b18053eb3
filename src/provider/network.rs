//! The thread on which responses are read.
//!
//! A response comes in many small pieces, and each passes through several tasks. On a runtime of many threads every
//! step can wake another thread, which costs more than the step; on one thread they follow each other for nothing.
//!
//! And a thread that sleeps is woken by each piece, which costs more than reading it. So while all that is read is slow,
//! and nobody wants it as it comes, the thread sleeps deeper: for a short time nothing wakes it but new work.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

/// How long nothing wakes the thread while all its work can wait: a part of the time for which deltas are gathered, and
/// less than anybody notices at the end of a response.
const NAP: Duration = Duration::from_millis(20);

/// The thread, started when it is first needed; it ends with the last clone. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    thread: Arc<OnceLock<Thread>>,
    load: Arc<Load>,
}

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    /// To be woken from a nap.
    sleeper: Option<std::thread::Thread>,
    /// Dropping it ends the thread.
    _stop: Option<oneshot::Sender<()>>,
}

/// What there is to do on the thread.
#[derive(Debug, Default)]
struct Load {
    /// Works in all.
    works: AtomicUsize,
    /// Those that can wait.
    patient: AtomicUsize,
}

impl Network {
    /// Does work on the thread. Dropping the future ends the work.
    ///
    /// # Errors
    /// The work was cut off: the process is ending. A panic of the work goes on in the caller.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Ended> {
        let thread = self.thread.get_or_init(|| {
            start(Arc::clone(&self.load)).unwrap_or_else(|error| {
                tracing::warn!(%error, "no thread for the network; the others do its work");
                Thread { runtime: Handle::current(), sleeper: None, _stop: None }
            })
        });
        let counted = Counted::new(Arc::clone(&self.load), |load| &load.works);
        let work = async move {
            let _counted = counted;
            work.await
        };
        // Its only owner is the caller, a task of the daemon.
        let work = AbortOnDropHandle::new(thread.runtime.spawn(work));
        self.wake();
        match work.await {
            Ok(value) => Ok(value),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Ended),
            },
        }
    }

    /// Ends a nap of the thread: there is something that cannot wait.
    pub(super) fn wake(&self) {
        if let Some(sleeper) = self.thread.get().and_then(|thread| thread.sleeper.as_ref()) {
            sleeper.unpark();
        }
    }

    #[cfg(test)]
    pub(super) fn patient(&self) -> usize {
        self.load.patient.load(Ordering::Relaxed)
    }

    /// Says, for one of the works on the thread and until the value is dropped, that it can wait.
    pub(super) fn patience(&self) -> Counted {
        Counted::new(Arc::clone(&self.load), |load| &load.patient)
    }
}

/// One more of something, until it is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    load: Arc<Load>,
    of: fn(&Load) -> &AtomicUsize,
}

impl Counted {
    fn new(load: Arc<Load>, of: fn(&Load) -> &AtomicUsize) -> Self {
        of(&load).fetch_add(1, Ordering::Relaxed);
        Self { load, of }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.of)(&self.load).fetch_sub(1, Ordering::Relaxed);
    }
}

impl Load {
    fn can_wait(&self) -> bool {
        let patient = self.patient.load(Ordering::Relaxed);
        patient > 0 && patient == self.works.load(Ordering::Relaxed)
    }
}

/// The thread has ended.
#[derive(Debug)]
pub(super) struct Ended;

fn start(load: Arc<Load>) -> io::Result<Thread> {
    let nap = move || {
        if load.can_wait() {
            std::thread::park_timeout(NAP);
        }
    };
    // The runtime calls it when nothing is left to do, before it waits for the network.
    let runtime = Builder::new_current_thread().enable_all().on_thread_park(nap).build()?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("network".to_owned()).spawn(move || {
        // An error means that the last clone is gone, which is what is waited for.
        let _ended = runtime.block_on(stopped);
    })?;
    Ok(Thread { runtime: handle, sleeper: Some(thread.thread().clone()), _stop: Some(stop) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_on_a_thread_of_its_own_that_ends_with_the_last_clone() {
        let network = Network::default();
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(network.clone().run(async move { name() }).await.unwrap().as_deref(), Some("network"));
        let (kept, ended) = oneshot::channel::<()>();
        let work = network.run(async move {
            let _kept = kept;
            std::future::pending::<()>().await;
        });
        assert!(tokio::time::timeout(std::time::Duration::from_millis(10), work).await.is_err());
        ended.await.unwrap_err(); // the work went with its caller
    }

    #[tokio::test]
    async fn the_thread_sleeps_only_while_all_work_can_wait() {
        let network = Network::default();
        let patient = network.clone();
        let (done, wait) = oneshot::channel::<()>();
        let (ready, is_ready) = oneshot::channel();
        let slow = network.run(async move {
            let _patience = patience_of(&patient, ready);
            wait.await
        });
        let others = async {
            is_ready.await.unwrap();
            assert!(network.load.can_wait());
            let load = Arc::clone(&network.load);
            assert!(!network.run(async move { load.can_wait() }).await.unwrap(), "new work is done, and cannot wait");
            done.send(()).unwrap();
            network.wake();
        };
        tokio::join!(slow, others).0.unwrap().unwrap();
        assert!(!network.load.can_wait());
    }

    fn patience_of(network: &Network, ready: oneshot::Sender<()>) -> Counted {
        let patience = network.patience();
        ready.send(()).unwrap();
        patience
    }

    #[tokio::test]
    #[should_panic(expected = "a fault")]
    async fn a_panic_reaches_the_caller() {
        let _never = Network::default().run(async { panic!("a fault") }).await;
    }
}

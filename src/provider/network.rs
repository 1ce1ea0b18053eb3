//! The thread on which responses are read.
//!
//! A response comes in many small pieces, and each passes through several tasks. On a runtime of many threads every
//! step can wake another thread, which costs more than the step; on one thread they follow each other for nothing.

use std::future::Future;
use std::io;
use std::sync::{Arc, OnceLock};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

/// The thread, started when it is first needed; it ends with the last clone. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Network(Arc<OnceLock<Thread>>);

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    /// Dropping it ends the thread.
    _stop: Option<oneshot::Sender<()>>,
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
        let thread = self.0.get_or_init(|| {
            start().unwrap_or_else(|error| {
                tracing::warn!(%error, "no thread for the network; the others do its work");
                Thread { runtime: Handle::current(), _stop: None }
            })
        });
        // Its only owner is the caller, a task of the daemon.
        let work = AbortOnDropHandle::new(thread.runtime.spawn(work));
        match work.await {
            Ok(value) => Ok(value),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Ended),
            },
        }
    }
}

/// The thread has ended.
#[derive(Debug)]
pub(super) struct Ended;

fn start() -> io::Result<Thread> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel();
    std::thread::Builder::new().name("network".to_owned()).spawn(move || {
        // An error means that the last clone is gone, which is what is waited for.
        let _ended = runtime.block_on(stopped);
    })?;
    Ok(Thread { runtime: handle, _stop: Some(stop) })
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
    #[should_panic(expected = "a fault")]
    async fn a_panic_reaches_the_caller() {
        let _never = Network::default().run(async { panic!("a fault") }).await;
    }
}

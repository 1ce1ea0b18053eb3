//! What the daemon's life needs of the parts that do its work.

use std::future::Future;

use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

/// Who is at the other end of a connection. Always a process of the same user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// Its process id when it connected, where the system tells.
    pub(super) pid: Option<i32>,
}

/// The parts of the daemon that do its work, as its life-cycle sees them.
pub(super) trait Service: Clone + Send + Sync + 'static {
    /// Speaks with one client until it leaves or [`Service::say_goodbye`] ends it.
    fn serve(&self, stream: UnixStream, peer: Peer) -> impl Future<Output = ()> + Send;
    /// Makes every new request be answered with an error that says that the daemon stops.
    fn refuse_requests(&self);
    /// Ends all runs, and the processes of their tools, and records what they had done.
    fn abort_runs(&self) -> impl Future<Output = ()> + Send;
    /// Ends every process that is left: of runs that could not be ended, and what commands put into the background.
    fn end_processes(&self) -> impl Future<Output = ()> + Send;
    /// Brings everything that is still in memory to the disk.
    fn flush(&self) -> impl Future<Output = ()> + Send;
    /// Writes out the answers that are left and closes the connections.
    fn say_goodbye(&self) -> impl Future<Output = ()> + Send;
}

/// Asks the daemon to stop in order. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct StopHandle(CancellationToken);

impl StopHandle {
    /// Asks for the stop. Asking again changes nothing.
    pub(super) fn stop(&self, reason: &str) {
        if !self.0.is_cancelled() {
            tracing::info!(reason, "stopping");
            self.0.cancel();
        }
    }

    /// Waits until somebody asks. Cancel-safe.
    pub(super) async fn asked(&self) {
        self.0.cancelled().await;
    }
}

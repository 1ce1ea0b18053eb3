//! What all connections share, and how the daemon makes them begin and end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentd_protocol::error_code::ErrorKind;
use agentd_protocol::methods::PeerInfo;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::conn::ClientRegistry;
use super::connection;
use super::dispatch::failed;
use super::error_map::Failure;
use super::methods::MethodTable;
use super::sessions::Sessions;
use super::transport::Transport;
use crate::constants::{GOODBYE_WRITE_LIMIT, MAX_CONNECTIONS};
use crate::exec::MetProcess;

/// What `get_daemon_status` and `initialize` tell of the daemon itself.
pub struct DaemonInfo {
    /// Name, version and build.
    pub server_info: PeerInfo,
    /// Path of the socket.
    pub socket: String,
    /// Where sessions are written.
    pub sessions_dir: String,
    /// How tools are confined.
    pub confinement: String,
    /// Asks the daemon to stop, with the reason.
    pub stop: Box<dyn Fn(&str) + Send + Sync>,
}

/// Speaks with clients. Cheap to clone.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

/// What connections share.
pub(super) struct Shared {
    pub(super) core: Arc<Core>,
    pub(super) methods: MethodTable,
}

/// What handlers share.
pub(super) struct Core {
    pub(super) sessions: Arc<dyn Sessions>,
    pub(super) info: DaemonInfo,
    pub(super) started: Instant,
    pub(super) clients: Arc<ClientRegistry>,
    refusing: AtomicBool,
    /// Connections write what they have and end.
    pub(super) goodbye: CancellationToken,
    /// Connections end at once.
    abandon: CancellationToken,
    open: TaskTracker,
}

impl Core {
    /// Tells whether the daemon is stopping.
    pub(super) fn is_refusing(&self) -> bool {
        self.refusing.load(Ordering::Relaxed)
    }
}

impl Server {
    /// Makes a server without connections.
    pub fn new(sessions: Arc<dyn Sessions>, info: DaemonInfo) -> Self {
        let core = Arc::new(Core {
            sessions,
            info,
            started: Instant::now(),
            clients: Arc::default(),
            refusing: AtomicBool::new(false),
            goodbye: CancellationToken::new(),
            abandon: CancellationToken::new(),
            open: TaskTracker::new(),
        });
        let methods = MethodTable::new(core.clone());
        Self(Arc::new(Shared { core, methods }))
    }

    /// Speaks with one client until it leaves or the daemon says goodbye. `pid` is the peer's process, where known.
    pub async fn serve(&self, stream: impl Transport, pid: Option<i32>) {
        let core = &self.0.core;
        let (read, write) = stream.halves();
        let Some(entered) = core.clients.enter(pid.map(MetProcess::new), MAX_CONNECTIONS) else {
            turn_away(write).await;
            return;
        };
        let tracked = core.open.track_future(connection::run(&self.0, &entered.conn, read, write));
        // Dropping it is what being abandoned means.
        tokio::select! {
            () = tracked => {}
            () = core.abandon.cancelled() => {}
        }
        connection::leave(&entered.conn).await;
    }

    /// Makes every new request be answered with `shutting_down`.
    pub fn refuse_requests(&self) {
        self.0.core.refusing.store(true, Ordering::Relaxed);
    }

    /// Writes out the answers that are left and ends all connections. A client that does not read is left behind
    /// after [`GOODBYE_WRITE_LIMIT`].
    pub async fn say_goodbye(&self) {
        let core = &self.0.core;
        core.goodbye.cancel();
        core.open.close();
        if tokio::time::timeout(GOODBYE_WRITE_LIMIT, core.open.wait()).await.is_err() {
            core.abandon.cancel();
            core.open.wait().await;
        }
    }
}

/// Tells one client too many why it cannot be served.
async fn turn_away(mut stream: impl AsyncWrite + Unpin) {
    let text = format!("{MAX_CONNECTIONS} connections are open, which is the most that the daemon takes");
    tracing::warn!(MAX_CONNECTIONS, "a client was turned away: too many connections");
    let mut answer = failed(Some("null"), Failure::new(ErrorKind::Overloaded, text)).body.unwrap_or_default();
    answer.push(b'\n');
    // It may have left already, or may not read: neither is worth waiting for.
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(&answer)).await;
}

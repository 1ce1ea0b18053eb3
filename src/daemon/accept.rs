//! The accept loop.

use std::io;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use super::service::{Peer, Service};
use crate::constants::{ACCEPT_PAUSE_MAX, ACCEPT_PAUSE_MIN};
use crate::tasks::Tasks;

/// Accepts connections and gives each to a task of its own, until `stop` is cancelled.
///
/// Dropping the future at any time loses no connection: those not yet accepted stay in the system's queue.
pub(super) async fn accept_until<S: Service>(
    listener: UnixListener,
    service: S,
    tasks: Tasks,
    stop: CancellationToken,
) {
    let own_uid = nix::unistd::geteuid().as_raw();
    let mut pause = ACCEPT_PAUSE_MIN;
    loop {
        // Both branches are cancel-safe.
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                pause = ACCEPT_PAUSE_MIN;
                if let Some(peer) = checked_peer(&stream, own_uid) {
                    let service = service.clone();
                    drop(tasks.spawn("connection", async move { service.serve(stream, peer).await }));
                }
            }
            Err(error) if concerns_one_client(&error) => {
                tracing::debug!(%error, "a client left before it was accepted");
            }
            Err(error) => {
                report(&error, pause);
                // The waiting client keeps the listener readable: without a pause this loop would spin.
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            }
        }
    }
}

/// Returns who connected, unless it is another user: the directory keeps those out, this is the second barrier.
fn checked_peer(stream: &UnixStream, own_uid: u32) -> Option<Peer> {
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == own_uid => Some(Peer {
            // 0 stands for a process of a pid namespace that cannot be seen from here.
            pid: peer.pid().filter(|pid| *pid > 0),
        }),
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), pid = peer.pid(), "a process of another user was turned away");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "a client was turned away: the system does not tell whose it is");
            None
        }
    }
}

fn concerns_one_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

fn report(error: &io::Error, pause: Duration) {
    let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    match error.raw_os_error().map(nix::errno::Errno::from_raw) {
        Some(nix::errno::Errno::EMFILE | nix::errno::Errno::ENFILE) => {
            tracing::error!(%error, pause_ms, "too many open files: clients wait; raise the hard limit (ulimit -Hn)");
        }
        _ => tracing::error!(%error, pause_ms, "cannot accept a client"),
    }
}

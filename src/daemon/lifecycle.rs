//! From the moment that the socket listens to the end of the drain.

use std::future::Future;
use std::io;
use std::time::Duration;

use super::accept::accept_until;
use super::listen::Listening;
use super::service::{Service, StopHandle};
use super::systemd;
use crate::constants::{
    SHUTDOWN_ABORT_LIMIT, SHUTDOWN_ACCEPT_LIMIT, SHUTDOWN_FLUSH_LIMIT, SHUTDOWN_GOODBYE_LIMIT,
    SHUTDOWN_PROCESSES_LIMIT, SHUTDOWN_TASKS_LIMIT,
};
use crate::tasks::Tasks;

/// Serves clients until `stop` is asked, then drains. Returns when the socket is gone.
///
/// # Errors
/// When the socket cannot be used by the runtime.
pub(super) async fn run<S: Service>(
    listening: Listening,
    service: S,
    tasks: Tasks,
    stop: StopHandle,
) -> io::Result<()> {
    let Listening { listener, file } = listening;
    // A second descriptor of the same socket; see `SocketFile::refuse`.
    let kept = listener.try_clone()?;
    let accepting = Tasks::default();
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let token = accepting.cancel_token().clone();
    drop(accepting.spawn("accept", accept_until(listener, service.clone(), tasks.clone(), token)));

    systemd::notify_ready();
    tracing::info!(socket = %file.path().display(), pid = std::process::id(), "listening");
    stop.asked().await;
    systemd::notify_stopping();

    accepting.cancel_token().cancel();
    step("stop accepting", SHUTDOWN_ACCEPT_LIMIT, accepting.wait()).await;
    // Not before the accept loop has ended: a shut socket counts as readable for ever, and the loop would spin.
    file.refuse(&kept);
    service.refuse_requests();
    step("abort runs", SHUTDOWN_ABORT_LIMIT, service.abort_runs()).await;
    step("end processes", SHUTDOWN_PROCESSES_LIMIT, service.end_processes()).await;
    step("flush the store", SHUTDOWN_FLUSH_LIMIT, service.flush()).await;
    step("say goodbye", SHUTDOWN_GOODBYE_LIMIT, service.say_goodbye()).await;
    tasks.cancel_token().cancel();
    step("end the tasks", SHUTDOWN_TASKS_LIMIT, tasks.wait()).await;
    file.remove();
    tracing::info!("stopped");
    Ok(())
}

/// Runs one step of the drain. One that takes too long is left behind: the next ones matter as well.
async fn step(name: &'static str, limit: Duration, work: impl Future<Output = ()>) {
    let started = tokio::time::Instant::now();
    match tokio::time::timeout(limit, work).await {
        Ok(()) => tracing::debug!(step = name, took = ?started.elapsed(), "drain"),
        Err(_) => tracing::warn!(step = name, ?limit, "a step of the drain took too long and was left behind"),
    }
}

#[cfg(test)]
mod tests;

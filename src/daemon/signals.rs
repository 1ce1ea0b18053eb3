//! Signals: the first SIGTERM or SIGINT asks for an ordered stop, a second one ends the process at once.
//!
//! SIGHUP is ignored, so that closing the terminal of a daemon in the foreground does not end the sessions in it.
//! SIGPIPE is ignored by Rust's runtime: a client that went away is an error of one write. So is a file that would
//! grow over a limit, once SIGXFSZ has a handler. (Handled signals are back to their default in programs that tools
//! start, ignored ones would not be.)

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::service::StopHandle;

/// Exit code of a process that a signal ends, less the signal's number, as shells have it.
const SIGNAL_EXIT_BASE: i32 = 128;

/// Listens for signals on a thread of its own, so that a stop works even if every other thread is stuck.
///
/// # Errors
/// When the system refuses the thread or the handlers.
pub(super) fn watch(stop: StopHandle) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            file_size: signal(SignalKind::from_raw(nix::libc::SIGXFSZ))?,
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            let (name, _) = signals.next().await;
            stop.stop(name);
            let (name, number) = signals.next().await;
            tracing::warn!(signal = name, "a second signal: ending at once");
            std::process::exit(SIGNAL_EXIT_BASE + number);
        })
    })?;
    Ok(())
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    file_size: Signal,
}

impl Signals {
    /// Returns the next signal that asks for an end. All branches are cancel-safe.
    async fn next(&mut self) -> (&'static str, i32) {
        loop {
            tokio::select! {
                Some(()) = self.terminate.recv() => return ("SIGTERM", nix::libc::SIGTERM),
                Some(()) = self.interrupt.recv() => return ("SIGINT", nix::libc::SIGINT),
                Some(()) = self.hangup.recv() => tracing::info!("SIGHUP ignored"),
                Some(()) = self.file_size.recv() => tracing::warn!("a file has reached the limit of file sizes (ulimit -f)"),
            }
        }
    }
}

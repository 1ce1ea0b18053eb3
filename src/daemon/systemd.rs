//! What systemd gives and wants to hear. All of it does nothing outside systemd.

use std::os::unix::net::UnixListener;

use sd_notify::NotifyState;

/// Returns the socket that systemd listens on for us.
///
/// # Errors
/// When what it passed is no Unix stream socket.
pub(super) fn passed_listener() -> std::io::Result<Option<UnixListener>> {
    let mut passed = listenfd::ListenFd::from_env();
    if passed.len() == 0 {
        return Ok(None);
    }
    passed.take_unix_listener(0)
}

/// Tells that clients are answered from now on.
pub(super) fn notify_ready() {
    notify(&[NotifyState::Ready]);
}

/// Tells that the drain begins.
pub(super) fn notify_stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd was not told");
    }
}

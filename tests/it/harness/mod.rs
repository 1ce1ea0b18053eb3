//! Starts the real programs in a home of their own and talks to them as any client would.
//!
//! [`Home`] is a temporary home with everything a daemon reads and writes; [`Daemon`] is a running `agentd serve` in
//! it; [`Client`] speaks JSON-RPC over the Unix socket or through `agentd stdio`. Nothing outlives its test: dropping
//! a [`Home`] kills every process that was started in it and fails if one is still there.

mod client;
mod daemon;
mod home;
mod process;

use std::future::Future;
use std::time::Duration;

pub(crate) use client::Client;
pub(crate) use daemon::{Daemon, wait_for_exit};
pub(crate) use home::Home;
pub(crate) use process::{Usage, agentctl, usage_of, with_marker as processes_of};

/// The one bound of every wait: far longer than anything takes, so that only a hang runs into it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for something, and fails the test with its name when it does not come.
#[track_caller]
pub(crate) fn bounded<T>(what: &str, future: impl Future<Output = T>) -> impl Future<Output = T> {
    let place = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(PATIENCE, future).await {
            Ok(value) => value,
            Err(_) => panic!("waited {PATIENCE:?} in vain for {what} ({place})"),
        }
    }
}

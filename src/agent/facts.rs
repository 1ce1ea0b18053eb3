//! The few facts of a live session that others read at any time, without its mailbox.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};

use agentd_protocol::methods::SessionStatus;

/// Written by the actor after each step, read by the supervisor.
#[derive(Debug, Default)]
pub struct LiveFacts {
    status: AtomicU8,
    can_unload: AtomicBool,
    last_used: AtomicI64,
    /// 0 outside of retry wait.
    retry_at: AtomicI64,
}

impl LiveFacts {
    /// Says what the session is doing, whether it may be unloaded, when something last happened, and when a failed
    /// request is tried again.
    pub(crate) fn set(&self, status: SessionStatus, can_unload: bool, now_ms: i64, retry_at: Option<i64>) {
        self.retry_at.store(retry_at.unwrap_or(0), Ordering::Relaxed);
        self.status.store(status_number(status), Ordering::Relaxed);
        self.can_unload.store(can_unload, Ordering::Relaxed);
        self.last_used.store(now_ms, Ordering::Relaxed);
    }

    /// Returns what the session is doing.
    pub fn status(&self) -> SessionStatus {
        match self.status.load(Ordering::Relaxed) {
            1 => SessionStatus::Running,
            2 => SessionStatus::RetryWait,
            3 => SessionStatus::Stopping,
            _ => SessionStatus::Idle,
        }
    }

    /// Tells whether a run is going on.
    pub fn is_running(&self) -> bool {
        self.status() != SessionStatus::Idle
    }

    /// Tells whether the session is idle, unattached and has nothing queued.
    pub fn can_unload(&self) -> bool {
        self.can_unload.load(Ordering::Relaxed)
    }

    /// Returns when a failed request is tried again, in milliseconds since the epoch.
    pub fn retry_at(&self) -> Option<i64> {
        Some(self.retry_at.load(Ordering::Relaxed)).filter(|at| *at != 0)
    }

    /// Returns when something last happened, in milliseconds since the epoch.
    pub fn last_used(&self) -> i64 {
        self.last_used.load(Ordering::Relaxed)
    }
}

fn status_number(status: SessionStatus) -> u8 {
    match status {
        SessionStatus::Unloaded | SessionStatus::Idle => 0,
        SessionStatus::Running => 1,
        SessionStatus::RetryWait => 2,
        SessionStatus::Stopping => 3,
    }
}

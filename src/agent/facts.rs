//! The few facts of a live session that others read at any time, without its mailbox.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use agentd_protocol::SessionId;
use agentd_protocol::methods::{Question, SessionStatus};

use crate::ring::{Doing, ListLog};

/// Not said yet.
const UNSAID: u8 = u8::MAX;

/// Written by the actor after each step, read by the supervisor; those who watch the list of sessions hear of changes.
#[derive(Debug)]
pub struct LiveFacts {
    id: SessionId,
    list_log: Arc<ListLog>,
    status: AtomicU8,
    can_unload: AtomicBool,
    last_used: AtomicI64,
    /// 0 outside of retry wait.
    retry_at: AtomicI64,
    /// Rarely changed, and copied by the few who look.
    questions: Mutex<Vec<Question>>,
}

impl LiveFacts {
    /// Makes the facts of a session of which nothing is known yet.
    pub(crate) fn new(id: SessionId, list_log: Arc<ListLog>) -> Self {
        Self {
            id,
            list_log,
            status: AtomicU8::new(UNSAID),
            can_unload: AtomicBool::new(false),
            last_used: AtomicI64::new(0),
            retry_at: AtomicI64::new(0),
            questions: Mutex::default(),
        }
    }

    /// Says what the session is doing, whether it has a file and may be unloaded, and when something last happened.
    pub(crate) fn set(&self, doing: Doing, has_file: bool, can_unload: bool, now_ms: i64) {
        let retry_at = self.retry_at.swap(doing.retry_at.unwrap_or(0), Ordering::Relaxed);
        let status = self.status.swap(status_number(doing.status), Ordering::Relaxed);
        self.can_unload.store(can_unload, Ordering::Relaxed);
        self.last_used.store(now_ms, Ordering::Relaxed);
        if (status, retry_at) != (status_number(doing.status), doing.retry_at.unwrap_or(0)) {
            self.list_log.set_doing(&self.id, doing, has_file);
        }
    }

    /// Says which questions wait for an answer.
    pub(crate) fn set_questions(&self, questions: Vec<Question>) {
        *self.questions.lock().unwrap_or_else(PoisonError::into_inner) = questions;
    }

    /// Returns the questions that wait for an answer, oldest first.
    pub fn questions(&self) -> Vec<Question> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns what the session is doing.
    pub fn status(&self) -> SessionStatus {
        match self.status.load(Ordering::Relaxed) {
            1 => SessionStatus::Running,
            2 => SessionStatus::RetryWait,
            3 => SessionStatus::Stopping,
            4 => SessionStatus::Asking,
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

    /// Returns when something last happened, in milliseconds since the epoch.
    pub fn last_used(&self) -> i64 {
        self.last_used.load(Ordering::Relaxed)
    }
}

fn status_number(status: SessionStatus) -> u8 {
    match status {
        SessionStatus::Unloaded | SessionStatus::Idle | SessionStatus::Unknown => 0,
        SessionStatus::Running => 1,
        SessionStatus::RetryWait => 2,
        SessionStatus::Stopping => 3,
        SessionStatus::Asking => 4,
    }
}

//! How a ring tells a connection which of its subscriptions have something to pull.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Names a subscription among those that share a [`Wake`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(u64);

/// Wakes one connection and tells it which of its subscriptions are ready.
#[derive(Debug, Default)]
pub struct Wake {
    ready: Mutex<Vec<Token>>,
    notify: Notify,
    next: AtomicU64,
}

impl Wake {
    /// Makes the wake of one connection.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Waits until a subscription is ready and returns all that are.
    ///
    /// A subscription becomes ready at most once after each pull that returned [`super::Pull::Empty`]. A new one never
    /// becomes ready before its first pull: whoever made it pulls unasked.
    ///
    /// Cancel-safe: what was not returned stays ready.
    pub async fn ready(&self) -> Vec<Token> {
        loop {
            let ready = self.take();
            if !ready.is_empty() {
                return ready;
            }
            self.notify.notified().await;
        }
    }

    /// Returns the subscriptions that are ready now.
    pub fn take(&self) -> Vec<Token> {
        std::mem::take(&mut *self.ready.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn token(&self) -> Token {
        Token(self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn mark(&self, token: Token) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push(token);
        self.notify.notify_one();
    }
}

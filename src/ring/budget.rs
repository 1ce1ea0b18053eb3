//! The bytes that all rings of the daemon may hold together.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::shared::Shared;

/// Part of the limit that is freed beyond what is needed, so that rings are searched seldom.
const SLACK: usize = 16;

/// Counts the bytes that rings hold and makes them forget their oldest events when there are too many.
#[derive(Debug)]
pub struct RingBudget {
    limit: usize,
    used: AtomicUsize,
    tick: AtomicU64,
    rings: Mutex<Vec<Weak<Shared>>>,
}

impl RingBudget {
    /// Makes a budget of `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0), tick: AtomicU64::new(0), rings: Mutex::default() })
    }

    /// Returns the bytes held now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn register(&self, ring: &Arc<Shared>) {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.retain(|ring| ring.strong_count() > 0);
        rings.push(Arc::downgrade(ring));
    }

    /// Returns a number that grows with time over all rings, to tell which events are oldest.
    pub(super) fn next_tick(&self) -> u64 {
        self.tick.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn adjust(&self, before: usize, after: usize) {
        if after >= before {
            self.used.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.used.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Frees the oldest events of all rings if there are too many. No ring may be locked by the caller.
    pub(super) fn enforce(&self) {
        if self.used() <= self.limit {
            return;
        }
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let rings: Vec<Arc<Shared>> = rings.iter().filter_map(Weak::upgrade).collect();
        let target = self.limit - self.limit / SLACK;
        while self.used() > target {
            // The ring with the oldest event gives up what is no younger than the oldest event of the next ring.
            let mut oldest: Option<(u64, &Arc<Shared>)> = None;
            let mut next = u64::MAX;
            for ring in &rings {
                let tick = ring.oldest_tick();
                match oldest {
                    Some((least, _)) if tick >= least => next = next.min(tick),
                    _ => {
                        next = oldest.map_or(next, |(least, _)| least);
                        oldest = Some((tick, ring));
                    }
                }
            }
            match oldest {
                Some((tick, ring)) if tick < u64::MAX => ring.evict(next, self.used().saturating_sub(target)),
                _ => return,
            }
        }
    }
}

//! The answers of one connection on their way from the reading half to the writing half.
//!
//! Answers are the only thing a connection queues. When too many bytes of them are unsent, the reading half stops
//! taking requests, so a client that does not read its answers cannot make the daemon hold many.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agentd_protocol::{Seq, SessionId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::conn::Hold;
use crate::agent::handle::SessionHandle;
use crate::constants::MAX_UNSENT_ANSWER_BYTES;
use crate::ring::{ListWatch, Subscription};

/// One answer (or the answer of a batch) and what goes with it.
#[derive(Default)]
pub(super) struct Outgoing {
    /// The answer as JSON; `None` for notifications.
    pub(super) body: Option<Vec<u8>>,
    /// Events of these sessions are written up to these numbers first.
    pub(super) reflects: Vec<(SessionId, Seq)>,
    /// Changes of the list of sessions are written up to this number first.
    pub(super) reflects_list: Option<u64>,
    /// Done once the answer is written.
    pub(super) effects: Vec<Effect>,
    /// Later events of these stand behind the answer.
    pub(super) holds: Vec<Hold>,
    /// It is of a method that waits, and lets the answers pass that are due for holds up to this one.
    pub(super) lets_pass: Option<u64>,
}

impl Outgoing {
    /// Returns the bytes of the answer.
    pub(super) fn len(&self) -> usize {
        self.body.as_ref().map_or(0, Vec::len)
    }
}

/// What an answer changes about the events that follow it.
pub(super) enum Effect {
    /// Events of a session follow.
    Attach {
        /// The session.
        handle: SessionHandle,
        /// Where its events are read.
        subscription: Subscription,
        /// Keeps the subscription that this one replaces from going on meanwhile.
        hold: Hold,
    },
    /// No more events of a session follow.
    Detach(SessionId),
    /// Changes of the list of sessions follow, read here; or none any more.
    Watch(Option<ListWatch>),
}

impl Effect {
    /// Returns the cursor from which this attaches to a session, if it does.
    pub(super) fn attaches(&self, session: &SessionId) -> Option<Seq> {
        match self {
            Self::Attach { handle, subscription, .. } if handle.id() == session => Some(subscription.position()),
            Self::Attach { .. } | Self::Detach(_) | Self::Watch(_) => None,
        }
    }
}

/// The queue.
#[derive(Default)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    to_writer: Notify,
    to_reader: Notify,
    /// Answers are dropped: nobody takes them.
    discarding: CancellationToken,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Outgoing>,
    unsent: usize,
    finished: bool,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an answer. Never waits: who asks for room first keeps the queue short.
    pub(super) fn push(&self, outgoing: Outgoing) {
        self.count(&outgoing);
        self.push_counted(outgoing);
    }

    /// Counts an answer that is there but waits for its turn.
    pub(super) fn count(&self, outgoing: &Outgoing) {
        if !self.discarding.is_cancelled() {
            self.lock().unsent += outgoing.len();
        }
    }

    /// Adds an answer that was counted before.
    pub(super) fn push_counted(&self, outgoing: Outgoing) {
        if self.discarding.is_cancelled() {
            return;
        }
        self.lock().items.push_back(outgoing);
        self.to_writer.notify_one();
    }

    /// Drops all answers from now on.
    pub(super) fn discard(&self) {
        self.discarding.cancel();
        let dropped = {
            let mut queue = self.lock();
            queue.unsent = 0;
            std::mem::take(&mut queue.items)
        };
        drop(dropped);
    }

    /// Waits until answers are dropped. Cancel-safe.
    pub(super) async fn discarding(&self) {
        self.discarding.cancelled().await;
    }

    /// Tells that no more answers will come.
    pub(super) fn finish(&self) {
        self.lock().finished = true;
        self.to_writer.notify_one();
    }

    /// Returns the bytes of the answers that are not written yet.
    pub(super) fn unsent(&self) -> usize {
        self.lock().unsent
    }

    /// Tells whether requests may be taken.
    pub(super) fn has_room(&self) -> bool {
        self.unsent() < MAX_UNSENT_ANSWER_BYTES
    }

    /// Waits until requests may be taken. Cancel-safe.
    pub(super) async fn room(&self) {
        while !self.has_room() {
            self.to_reader.notified().await;
        }
    }

    /// Moves what is queued to the end of `taken`; returns whether more may come.
    pub(super) fn take(&self, taken: &mut VecDeque<Outgoing>) -> bool {
        let mut queue = self.lock();
        taken.append(&mut queue.items);
        !queue.finished
    }

    /// Waits until [`Outbox::take`] may find something, or something else has changed for the writing half.
    /// Cancel-safe.
    pub(super) async fn changed(&self) {
        self.to_writer.notified().await;
    }

    /// Lets the writing half look again.
    pub(super) fn nudge(&self) {
        self.to_writer.notify_one();
    }

    /// Tells that this many bytes of answers have been written.
    pub(super) fn written(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut queue = self.lock();
        queue.unsent -= bytes;
        drop(queue);
        self.to_reader.notify_one();
    }
}

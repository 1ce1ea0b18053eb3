//! The ring as its session writes it and its subscribers read it.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentd_protocol::methods::View;
use agentd_protocol::{Cursor, Epoch, Seq, SessionId};
use bytes::Bytes;
use tokio::time::Instant;

use super::budget::RingBudget;
use super::buffer::Buffer;
use super::encode::frame_head;
use super::shown::{PerView, richest};
use super::wake::{Token, Wake};
use crate::agent::event::Event;
use crate::constants::RING_DELTA_KEEP;

/// A session's event stream. Cheap to clone; clones are the same ring.
#[derive(Clone)]
pub struct Ring(Arc<Shared>);

/// What ring, subscriptions and budget share.
pub(super) struct Shared {
    session_id: SessionId,
    epoch: Epoch,
    budget: Arc<RingBudget>,
    inner: Mutex<Inner>,
    /// Age of the oldest event, readable without the lock.
    oldest: AtomicU64,
    /// How many subscribers read each delta, readable without the lock.
    full_readers: AtomicUsize,
}

struct Inner {
    buffer: Buffer,
    /// Indexed by `Subscription::slot`.
    subscribers: Vec<Option<Subscriber>>,
    /// How many subscribers read in each view.
    readers: PerView<usize>,
    closed: bool,
}

/// What the ring knows of a subscription.
struct Subscriber {
    view: View,
    token: Token,
    wake: Arc<Wake>,
    /// Set once a pull has found nothing: the next event that the view shows wakes the connection.
    waiting: bool,
}

/// Who is to be woken when the lock is released.
type Wakes = Vec<(Arc<Wake>, Token)>;

impl Shared {
    /// Locks the ring. A panic while it was locked can only have cut a push short, which leaves it whole.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the ring in a way that may need room.
    fn grow<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let result = self.change(change);
        self.budget.enforce();
        result
    }

    /// Changes the ring, keeps the budget's count, and wakes whom the change concerns after unlocking.
    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let (result, wakes) = {
            let mut inner = self.lock();
            let before = inner.buffer.bytes();
            let (shown, closed) = (inner.last_shown(), inner.closed);
            let result = change(&mut inner);
            self.budget.adjust(before, inner.buffer.bytes());
            self.oldest.store(inner.buffer.oldest_tick(), Ordering::Relaxed);
            (result, inner.wakes_since(shown, closed))
        };
        for (wake, token) in wakes {
            wake.mark(token);
        }
        result
    }

    pub(super) fn oldest_tick(&self) -> u64 {
        self.oldest.load(Ordering::Relaxed)
    }

    pub(super) fn evict(&self, tick: u64, needed: usize) {
        self.change(|inner| inner.buffer.evict(tick, needed));
    }
}

impl Inner {
    fn last_shown(&self) -> PerView<Seq> {
        PerView::of(|view| self.buffer.last_in(view))
    }

    fn wakes_since(&mut self, shown: PerView<Seq>, closed: bool) -> Wakes {
        let mut wakes = Wakes::new();
        let all = self.closed && !closed;
        let now = self.last_shown();
        if !all && now == shown {
            return wakes;
        }
        for subscriber in self.subscribers.iter_mut().flatten() {
            let has_more = all || now.get(subscriber.view) > shown.get(subscriber.view);
            if has_more && std::mem::take(&mut subscriber.waiting) {
                wakes.push((subscriber.wake.clone(), subscriber.token));
            }
        }
        wakes
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.budget.adjust(inner.buffer.bytes(), 0);
    }
}

impl Ring {
    /// Makes the ring of one load of a session.
    pub fn new(session_id: SessionId, epoch: Epoch, budget: Arc<RingBudget>) -> Self {
        let buffer = Buffer::new(frame_head(&session_id));
        let inner = Inner { buffer, subscribers: Vec::new(), readers: PerView::default(), closed: false };
        let shared = Arc::new(Shared {
            session_id,
            epoch,
            budget: budget.clone(),
            inner: Mutex::new(inner),
            oldest: AtomicU64::new(u64::MAX),
            full_readers: AtomicUsize::new(0),
        });
        budget.register(&shared);
        Self(shared)
    }

    /// Numbers events and makes them readable; returns the number of the last one ever pushed.
    ///
    /// Takes the lock once, and wakes each subscriber at most once, however many events there are.
    pub fn push(&self, events: impl IntoIterator<Item = Event>) -> Seq {
        let tick = self.0.budget.next_tick();
        self.0.grow(|inner| {
            let merging = *inner.readers.get(View::Coalesced) > 0;
            let shortening = *inner.readers.get(View::Status) > 0;
            for event in events {
                inner.buffer.push(event, tick, merging, shortening);
            }
            inner.buffer.last()
        })
    }

    /// Returns the number of the newest event, 0 before the first.
    pub fn last_seq(&self) -> Seq {
        self.0.lock().buffer.last()
    }

    /// Returns how many events a reader in a view is behind that has come to `position`.
    pub fn lag(&self, view: View, position: Seq) -> u64 {
        self.0.lock().buffer.last_in(view).saturating_sub(position)
    }

    /// Returns which load of the session the numbers belong to.
    pub fn epoch(&self) -> &Epoch {
        &self.0.epoch
    }

    /// Returns the session.
    pub fn session_id(&self) -> &SessionId {
        &self.0.session_id
    }

    /// Tells whether somebody reads each delta as it comes.
    pub fn wants_each_delta(&self) -> bool {
        self.0.full_readers.load(Ordering::Relaxed) > 0
    }

    /// Ends the open merge, so that the `coalesced` view shows all events.
    pub fn flush_merge(&self) {
        self.0.grow(|inner| inner.buffer.close_merge());
    }

    /// Tells whether deltas wait to be merged with later ones; the session then arms its timer.
    pub fn has_open_merge(&self) -> bool {
        self.0.lock().buffer.has_open_merge()
    }

    /// Tells whether every event after `since` that `view` shows is here, so that it can be replayed exactly.
    ///
    /// A cursor may have been read in another view. One from a poorer view can be continued in a richer one unless
    /// something was growing there, of which its reader has not seen the beginning.
    pub fn can_replay(&self, since: &Cursor, view: View) -> bool {
        let inner = self.0.lock();
        let buffer = &inner.buffer;
        if since.epoch != self.0.epoch || since.seq > buffer.last() || since.seq < buffer.forgotten_in(view) {
            return false;
        }
        let read_in = since.view.unwrap_or(view);
        let is_poorer = richest(read_in) < richest(view);
        !(is_poorer && buffer.is_lacking_after(since.seq, read_in))
    }

    /// Makes a subscription that goes on after `after`. Ends the open merge first; what is there already is read
    /// event by event and whole; only later events are merged or shortened.
    ///
    /// Whoever subscribes pulls once unasked; from then on `wake` tells when there is more.
    pub fn subscribe(&self, view: View, after: Seq, wake: Arc<Wake>) -> Subscription {
        let token = wake.token();
        self.0.full_readers.fetch_add(usize::from(view == View::Full), Ordering::Relaxed);
        let (slot, last) = self.0.grow(|inner| {
            inner.buffer.close_merge();
            *inner.readers.get_mut(view) += 1;
            let subscriber = Some(Subscriber { view, token, wake, waiting: false });
            let slot = match inner.subscribers.iter().position(Option::is_none) {
                Some(free) => {
                    inner.subscribers[free] = subscriber;
                    free
                }
                None => {
                    inner.subscribers.push(subscriber);
                    inner.subscribers.len() - 1
                }
            };
            (slot, inner.buffer.last())
        });
        let position = after.min(last);
        Subscription { ring: self.0.clone(), slot, token, view, position, unmerged_until: last }
    }

    /// Notes that the session is idle: its deltas may leave [`RING_DELTA_KEEP`] later.
    pub fn settle(&self) {
        self.0.change(|inner| inner.buffer.settle(Instant::now()));
    }

    /// Forgets the deltas that have stayed long enough since the session settled. A cursor among them, or before
    /// them, can no longer be replayed.
    pub fn drop_deltas(&self) {
        let Some(until) = Instant::now().checked_sub(RING_DELTA_KEEP) else { return };
        self.0.change(|inner| inner.buffer.drop_deltas(until));
    }

    /// Returns when [`Ring::drop_deltas`] will next have something to forget.
    pub fn next_drop(&self) -> Option<Instant> {
        self.0.lock().buffer.oldest_settled().map(|settled| settled + RING_DELTA_KEEP)
    }

    /// Tells subscribers, once they have read what is here, that no more will come: the session has ended.
    pub fn close(&self) {
        self.0.grow(|inner| {
            inner.buffer.close_merge();
            inner.closed = true;
        });
    }

    /// Returns how many subscriptions there are.
    pub fn subscriber_count(&self) -> usize {
        self.0.lock().subscribers.iter().flatten().count()
    }
}

/// What a pull came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// All there is has been given; the wake tells when there is more.
    Empty,
    /// There may be more at once: the size or the number asked for was reached.
    More,
    /// The next event is no longer here. Only a snapshot can help; the subscription is of no further use.
    Lagged,
    /// All has been given and the session has ended. The subscription is of no further use.
    Closed,
}

/// A subscriber's position in a ring. Dropping it ends the subscription.
pub struct Subscription {
    ring: Arc<Shared>,
    slot: usize,
    token: Token,
    view: View,
    position: Seq,
    /// Events up to here are replayed one by one and whole in every view that shows them.
    unmerged_until: Seq,
}

impl Subscription {
    /// Appends frames to `out` until they make up `max_bytes` or `until` is covered. A frame is a whole notification
    /// without its line end.
    ///
    /// At least one frame is given if there is one. With `until`, the open merge is ended if it holds that event.
    pub fn pull(&mut self, out: &mut Vec<Bytes>, max_bytes: usize, until: Option<Seq>) -> Pull {
        self.ring.clone().grow(|inner| {
            if until.is_some_and(|until| inner.buffer.coalesced_last() < until) && self.view == View::Coalesced {
                inner.buffer.close_merge();
            }
            let mut taken = 0;
            loop {
                if until.is_some_and(|until| self.position >= until) || taken >= max_bytes {
                    return Pull::More;
                }
                if self.position < inner.buffer.forgotten_in(self.view) {
                    return Pull::Lagged;
                }
                let Some((frame, seq)) = self.next_frame(&mut inner.buffer, until) else {
                    if until.is_some_and(|until| self.position >= until) {
                        return Pull::More;
                    }
                    if inner.closed {
                        return Pull::Closed;
                    }
                    if let Some(subscriber) = &mut inner.subscribers[self.slot] {
                        subscriber.waiting = true;
                    }
                    return Pull::Empty;
                };
                taken += frame.len();
                out.push(frame);
                self.position = seq;
            }
        })
    }

    /// Returns the next frame and the number up to which it brings the subscriber. Passes over what the view does not
    /// show.
    fn next_frame(&mut self, buffer: &mut Buffer, until: Option<Seq>) -> Option<(Bytes, Seq)> {
        let next = self.position + 1;
        match self.view {
            View::Coalesced if next > self.unmerged_until => buffer.coalesced_frame(next),
            View::Coalesced | View::Full => (next <= buffer.last()).then(|| (buffer.frame(next), next)),
            View::Entries | View::Status => {
                let limit = until.unwrap_or(Seq::MAX).min(buffer.last());
                let Some(seq) = buffer.next_in(self.view, next).filter(|seq| *seq <= limit) else {
                    self.position = self.position.max(limit);
                    return None;
                };
                let is_short = self.view == View::Status && seq > self.unmerged_until;
                let frame = if is_short { buffer.short_frame(seq) } else { buffer.frame(seq) };
                Some((frame, seq))
            }
        }
    }

    /// Returns the number of the last event that was pulled or passed over.
    pub fn position(&self) -> Seq {
        self.position
    }

    /// Returns the view.
    pub fn view(&self) -> View {
        self.view
    }

    /// Returns the session.
    pub fn session_id(&self) -> &SessionId {
        &self.ring.session_id
    }

    /// Returns the name under which the wake reports this subscription.
    pub fn token(&self) -> Token {
        self.token
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.ring.full_readers.fetch_sub(usize::from(self.view == View::Full), Ordering::Relaxed);
        self.ring.change(|inner| {
            inner.subscribers[self.slot] = None;
            *inner.readers.get_mut(self.view) -= 1;
            if *inner.readers.get(View::Coalesced) == 0 {
                inner.buffer.drop_merges();
            }
            if *inner.readers.get(View::Status) == 0 {
                inner.buffer.drop_shorts();
            }
        });
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("session_id", &self.session_id)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ring").field(&self.0).finish()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ring, view, position, .. } = self;
        f.debug_struct("Subscription")
            .field("session", &ring.session_id)
            .field("view", view)
            .field("position", position)
            .finish_non_exhaustive()
    }
}

//! The changes of the list of sessions: numbered, kept in one small log of the whole daemon, and read by any number of
//! watchers at their own pace.
//!
//! Two kinds of facts make up a list: rows, which the index writes, and what each session is doing, which only its
//! actor knows. Both are numbered here, so that a page of the index can be told to be the list as it was after one
//! number ([`ListLog::as_of`]), and whoever watches from that number on misses nothing and hears nothing twice.
//!
//! Numbers begin at one that grows over restarts. One from before the log, or from another life of the daemon, is
//! known as such, and its owner is told to list again.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::mem::size_of;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentd_protocol::SessionId;
use agentd_protocol::event::{LIST_EVENT_METHOD, ListEvent, ListEventParams};
use agentd_protocol::methods::{ListReplay, SessionRow, SessionStatus};
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::Notify;

use super::shared::Pull;
use super::wake::{Token, Wake};
use crate::constants::{LIST_LOG_BYTES, LIST_NUMBER_LIMIT};

#[cfg(test)]
mod tests;

/// What a session is doing, as lists show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doing {
    /// In a word.
    pub status: SessionStatus,
    /// Until when its provider is not asked again, in milliseconds since the epoch.
    pub retry_at: Option<i64>,
}

impl Doing {
    /// Nothing: it is not in memory.
    pub const UNLOADED: Self = Self { status: SessionStatus::Unloaded, retry_at: None };
}

/// A change of the rows.
#[derive(Clone, Debug)]
pub enum RowChange {
    /// A row is new, or says something else. What its session is doing is filled in here.
    Put {
        /// The row.
        row: Box<SessionRow>,
        /// Whether no row had its id before.
        is_new: bool,
    },
    /// There is no row of this id any more.
    Gone(SessionId),
}

/// The log.
pub struct ListLog {
    inner: Mutex<Inner>,
    /// Told when rows were numbered.
    numbered: Notify,
}

struct Inner {
    /// Number of the first change in `slots`, or of the next one when there is none.
    first: u64,
    slots: VecDeque<Slot>,
    bytes: usize,
    /// The index's own count of changes after those that were numbered last; `None` before it is open.
    revision: Option<u64>,
    /// The same after the last of those that are not kept any more.
    forgotten: u64,
    /// Sessions in memory.
    live: HashMap<SessionId, Live>,
    /// Indexed by [`ListWatch::slot`].
    watchers: Vec<Option<Watcher>>,
}

struct Live {
    doing: Doing,
    /// Whether it has a row. What one without is doing concerns no list.
    is_listed: bool,
}

struct Slot {
    stored: Stored,
    kind: Kind,
}

enum Stored {
    /// Nobody has read it yet.
    Event(ListEvent),
    /// Encoded.
    Frame(Bytes),
}

/// What has to be known of a change to tell which list it belongs to.
enum Kind {
    /// A change of rows that the index counts up to this.
    Rows(u64),
    /// A session did this before.
    Status(SessionId, Doing),
}

struct Watcher {
    token: Token,
    wake: Arc<Wake>,
    /// Set once a pull has found nothing.
    waiting: bool,
}

impl ListLog {
    /// Makes an empty log whose first change has the number after `last`.
    pub fn new(last: u64) -> Arc<Self> {
        let inner = Inner {
            first: last + 1,
            slots: VecDeque::new(),
            bytes: 0,
            revision: None,
            forgotten: 0,
            live: HashMap::new(),
            watchers: Vec::new(),
        };
        Arc::new(Self { inner: Mutex::new(inner), numbered: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the log and wakes who waited for that.
    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let wakes = {
            let mut inner = self.lock();
            let before = inner.last();
            change(&mut inner);
            inner.evict();
            if inner.last() > before { inner.take_waiting() } else { Vec::new() }
        };
        for (wake, token) in wakes {
            wake.mark(token);
        }
    }

    /// Says that the index is open (again) and has counted this many changes. What was told of another one is forgotten.
    pub fn begin(&self, revision: u64) {
        self.change(|inner| {
            inner.forget(revision);
            inner.revision = Some(revision);
        });
        self.numbered.notify_waiters();
    }

    /// Numbers changes that the index has written. It counted `before` changes until then, and counts `after` now. If it
    /// had counted others meanwhile, another process has written them: what they are is not known here.
    pub fn rows_changed(&self, before: u64, after: u64, changes: Vec<RowChange>) {
        self.change(|inner| {
            if inner.revision != Some(before) {
                inner.forget(before);
            }
            for change in changes {
                inner.row_changed(change, after);
            }
            inner.revision = Some(after);
        });
        self.numbered.notify_waiters();
    }

    /// Says what a session is doing. `is_listed` tells whether it has a file, and so a row.
    pub fn set_doing(&self, id: &SessionId, doing: Doing, is_listed: bool) {
        self.change(|inner| inner.set_doing(id, doing, is_listed));
    }

    /// Fills in what sessions were doing when the index had counted `revision` changes, and returns the number of the
    /// last change that the rows then reflect: all later ones, and only those, are told to who watches from it on.
    pub async fn as_of(&self, revision: u64, rows: &mut [SessionRow]) -> u64 {
        if !self.has_numbered(revision) {
            let numbering = async {
                loop {
                    let numbered = self.numbered.notified();
                    if self.has_numbered(revision) {
                        return;
                    }
                    numbered.await;
                }
            };
            if tokio::time::timeout(LIST_NUMBER_LIMIT, numbering).await.is_err() {
                self.begin(revision);
            }
        }
        self.lock().as_of(revision, rows)
    }

    /// Zero stands for no index, which has no rows.
    fn has_numbered(&self, revision: u64) -> bool {
        revision == 0 || self.lock().revision.is_some_and(|numbered| numbered >= revision)
    }

    /// Begins to watch after `since`, or from now on. Whoever watches pulls once unasked; from then on `wake` tells when
    /// there is more.
    pub fn watch(self: &Arc<Self>, since: Option<u64>, wake: Arc<Wake>) -> (ListWatch, ListReplay) {
        let mut inner = self.lock();
        let token = wake.token();
        let known = since.filter(|since| (inner.first - 1..=inner.last()).contains(since));
        let position = known.unwrap_or(inner.last());
        let replay = if known.is_some() { ListReplay::Exact } else { ListReplay::List };
        let watcher = Some(Watcher { token, wake, waiting: false });
        let slot = match inner.watchers.iter().position(Option::is_none) {
            Some(free) => {
                inner.watchers[free] = watcher;
                free
            }
            None => {
                inner.watchers.push(watcher);
                inner.watchers.len() - 1
            }
        };
        (ListWatch { log: Arc::clone(self), slot, token, position }, replay)
    }
}

impl Inner {
    fn last(&self) -> u64 {
        self.first + self.slots.len() as u64 - 1
    }

    fn doing(&self, id: &SessionId) -> Doing {
        self.live.get(id).map_or(Doing::UNLOADED, |live| live.doing)
    }

    /// Forgets all changes, in a way that every number given out so far is known to be of before.
    fn forget(&mut self, revision: u64) {
        self.first = self.last() + 2;
        self.forgotten = revision;
        self.slots.clear();
        self.bytes = 0;
    }

    fn push(&mut self, event: ListEvent, kind: Kind) {
        self.bytes += size_of::<Slot>() + bytes_of(&event);
        self.slots.push_back(Slot { stored: Stored::Event(event), kind });
    }

    fn evict(&mut self) {
        while self.bytes > LIST_LOG_BYTES
            && let Some(slot) = self.slots.pop_front()
        {
            self.bytes -= slot.bytes();
            self.first += 1;
            if let Kind::Rows(revision) = slot.kind {
                self.forgotten = revision;
            }
        }
    }

    fn row_changed(&mut self, change: RowChange, revision: u64) {
        let event = match change {
            RowChange::Put { row: mut session, is_new } => {
                Doing { status: session.status, retry_at: session.retry_at } = self.doing(&session.session_id);
                if let Some(live) = self.live.get_mut(&session.session_id) {
                    live.is_listed = true;
                }
                if is_new { ListEvent::SessionCreated { session } } else { ListEvent::SessionChanged { session } }
            }
            RowChange::Gone(session_id) => ListEvent::SessionGone { session_id },
        };
        self.push(event, Kind::Rows(revision));
    }

    fn set_doing(&mut self, id: &SessionId, doing: Doing, is_listed: bool) {
        let before = self.doing(id);
        let is_listed = is_listed || self.live.get(id).is_some_and(|live| live.is_listed);
        if doing == Doing::UNLOADED {
            self.live.remove(id);
        } else {
            self.live.insert(id.clone(), Live { doing, is_listed });
        }
        if is_listed && doing != before {
            let Doing { status, retry_at } = doing;
            let event = ListEvent::SessionStatus { session_id: id.clone(), status, retry_at };
            self.push(event, Kind::Status(id.clone(), before));
        }
    }

    fn as_of(&self, revision: u64, rows: &mut [SessionRow]) -> u64 {
        let is_later = |slot: &Slot| matches!(slot.kind, Kind::Rows(counted) if counted > revision);
        let later = self.slots.iter().position(is_later).filter(|_| revision > 0);
        let covered = later.unwrap_or(self.slots.len());
        let mut then: HashMap<&SessionId, Doing> = HashMap::new();
        // Of several changes since, the first knows what was before all of them.
        for slot in self.slots.range(covered..).rev() {
            if let Kind::Status(id, before) = &slot.kind {
                then.insert(id, *before);
            }
        }
        for row in rows {
            let doing = then.get(&row.session_id).copied().unwrap_or_else(|| self.doing(&row.session_id));
            Doing { status: row.status, retry_at: row.retry_at } = doing;
        }
        // One that is too old to be watched from stands for changes that are not kept any more.
        let is_too_old = revision > 0 && revision < self.forgotten;
        if is_too_old { self.first.saturating_sub(2) } else { self.first + covered as u64 - 1 }
    }

    fn take_waiting(&mut self) -> Vec<(Arc<Wake>, Token)> {
        let wake = |watcher: &mut Watcher| {
            std::mem::take(&mut watcher.waiting).then(|| (Arc::clone(&watcher.wake), watcher.token))
        };
        self.watchers.iter_mut().flatten().filter_map(wake).collect()
    }

    /// Returns the frame of a change that is kept.
    fn frame(&mut self, seq: u64) -> Bytes {
        let slot = &mut self.slots[(seq - self.first) as usize];
        let event = match &slot.stored {
            Stored::Frame(frame) => return frame.clone(),
            Stored::Event(event) => event.clone(),
        };
        self.bytes -= slot.bytes();
        let frame = encode(seq, event);
        slot.stored = Stored::Frame(frame.clone());
        self.bytes += slot.bytes();
        frame
    }
}

impl Slot {
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match &self.stored {
                Stored::Event(event) => bytes_of(event),
                Stored::Frame(frame) => frame.len(),
            }
    }
}

/// Returns about what an event holds.
fn bytes_of(event: &ListEvent) -> usize {
    let (ListEvent::SessionCreated { session } | ListEvent::SessionChanged { session }) = event else { return 0 };
    let texts = [&session.session_file, &session.name, &session.first_message, &session.model];
    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
    size_of::<SessionRow>() + session.session_id.as_str().len() + session.cwd.len() + texts
}

fn encode(list_seq: u64, event: ListEvent) -> Bytes {
    #[derive(Serialize)]
    struct Notification {
        jsonrpc: &'static str,
        method: &'static str,
        params: ListEventParams,
    }
    let params = ListEventParams { list_seq, event };
    let notification = Notification { jsonrpc: "2.0", method: LIST_EVENT_METHOD, params };
    serde_json::to_vec(&notification).expect("wire types have text as keys, and a vector takes all bytes").into()
}

/// A watcher's position in the log. Dropping it ends watching.
pub struct ListWatch {
    log: Arc<ListLog>,
    slot: usize,
    token: Token,
    position: u64,
}

impl ListWatch {
    /// Appends frames to `out` until they make up `max_bytes` or `until` is covered. A watcher that has fallen out of the
    /// log is told so, and goes on from there.
    pub fn pull(&mut self, out: &mut Vec<Bytes>, max_bytes: usize, until: Option<u64>) -> Pull {
        let mut taken = 0;
        let mut inner = self.log.lock();
        loop {
            if until.is_some_and(|until| self.position >= until) || taken >= max_bytes {
                return Pull::More;
            }
            let (oldest, last) = (inner.first - 1, inner.last());
            let frame = if self.position < oldest {
                self.position = until.map_or(last, |until| until.clamp(oldest, last));
                encode(self.position, ListEvent::Lagged {})
            } else if self.position < last {
                self.position += 1;
                inner.frame(self.position)
            } else {
                if let Some(watcher) = &mut inner.watchers[self.slot] {
                    watcher.waiting = true;
                }
                return Pull::Empty;
            };
            taken += frame.len();
            out.push(frame);
        }
    }

    /// Returns the number of the last change that was pulled or passed over.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the name under which the wake reports this watcher.
    pub fn token(&self) -> Token {
        self.token
    }
}

impl Drop for ListWatch {
    fn drop(&mut self) {
        self.log.lock().watchers[self.slot] = None;
    }
}

impl fmt::Debug for ListLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("ListLog").field("first", &inner.first).field("last", &inner.last()).finish_non_exhaustive()
    }
}

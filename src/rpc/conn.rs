//! What the halves of a connection, its handlers and the daemon's status share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use agentd_protocol::SessionId;
use agentd_protocol::framing::Framing;
use agentd_protocol::methods::{Attachment, ClientRef, ClientStatus, EnvSource, FrontParams, View};

use super::outbox::Outbox;
use crate::agent::handle::{Client, ClientId, SessionHandle};
use crate::clock;
use crate::config::env::{self, SessionEnv};
use crate::constants::MAX_CLIENT_NAME_CHARS;
use crate::exec::MetProcess;
use crate::ring::Wake;

/// One connection.
pub(super) struct Conn {
    id: ClientId,
    /// The process at the other end, where the system tells it.
    process: Option<MetProcess>,
    /// When it connected, in milliseconds since the epoch.
    connected: i64,
    about: Mutex<About>,
    sessions: Mutex<HashMap<SessionId, Attached>>,
    holds: Mutex<Holds>,
    framing: AtomicU8,
    bytes_out: AtomicU64,
    /// Bytes of events that are ready to be written.
    events_unsent: AtomicUsize,
    watches_list: AtomicBool,
    /// Its answers.
    pub(super) outbox: Outbox,
    /// Tells which of its subscriptions have events.
    pub(super) wake: Arc<Wake>,
}

/// What the client has said about itself.
#[derive(Default)]
struct About {
    who: Arc<ClientRef>,
    version: String,
    /// It lets nobody answer questions.
    never_answers: bool,
    cwd: Option<PathBuf>,
    env: Option<SessionEnv>,
    current: Option<SessionId>,
}

/// What is held back, and for what.
#[derive(Default)]
struct Holds {
    /// Number of the latest hold.
    last: u64,
    open: Vec<(u64, Stream, Held)>,
}

/// A session that knows of this connection.
struct Attached {
    handle: SessionHandle,
    /// `None` until the answer of `attach` is written.
    reading: Option<Reading>,
}

/// How a session's events are read, and how far.
#[derive(Clone)]
pub(super) struct Reading {
    pub(super) view: View,
    /// The last event that was read.
    pub(super) position: Arc<AtomicU64>,
}

impl Conn {
    pub(super) fn new(id: ClientId, process: Option<MetProcess>) -> Self {
        let pid = process.map(|process| process.pid());
        let about = About { who: Arc::new(ClientRef { name: String::new(), pid }), ..About::default() };
        Self {
            id,
            process,
            connected: clock::now_ms(),
            about: Mutex::new(about),
            sessions: Mutex::default(),
            holds: Mutex::default(),
            framing: AtomicU8::new(0),
            bytes_out: AtomicU64::new(0),
            events_unsent: AtomicUsize::new(0),
            watches_list: AtomicBool::new(false),
            outbox: Outbox::default(),
            wake: Wake::new(),
        }
    }

    fn about(&self) -> MutexGuard<'_, About> {
        self.about.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Attached>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how sessions know this connection.
    pub(super) fn client(&self) -> Client {
        let about = self.about();
        Client { id: self.id, who: Arc::clone(&about.who), answers: !about.never_answers }
    }

    /// Returns the process at the other end, where the system tells it.
    pub(super) fn process(&self) -> Option<MetProcess> {
        self.process
    }

    /// Takes a client's own name and version, from `initialize` or its front; the beginning of very long ones.
    pub(super) fn introduce(&self, name: &str, version: &str) {
        let short = |text: &str| text.chars().take(MAX_CLIENT_NAME_CHARS).collect::<String>();
        let mut about = self.about();
        if !name.is_empty() {
            about.who = Arc::new(ClientRef { name: short(name), pid: about.who.pid });
            about.version = short(version);
        }
    }

    /// Takes whether it lets somebody answer questions; counts from the next attachment on.
    pub(super) fn set_answers(&self, answers: bool) {
        self.about().never_answers = !answers;
    }

    /// Takes what a front says about the program behind it.
    pub(super) fn set_front(&self, front: FrontParams) {
        self.introduce(front.name.as_deref().unwrap_or_default(), front.version.as_deref().unwrap_or_default());
        let mut about = self.about();
        about.cwd = front.cwd.map(PathBuf::from);
        about.env = front.env.map(|mut vars| {
            env::keep_usable(&mut vars);
            SessionEnv::new(vars, EnvSource::Client)
        });
    }

    /// Returns the working directory of the program behind the front.
    pub(super) fn cwd(&self) -> Option<PathBuf> {
        self.about().cwd.clone()
    }

    /// Returns its environment.
    pub(super) fn env(&self) -> Option<SessionEnv> {
        self.about().env.clone()
    }

    /// Returns the session that requests without `sessionId` mean.
    pub(super) fn current(&self) -> Option<SessionId> {
        self.about().current.clone()
    }

    pub(super) fn set_current(&self, id: &SessionId) {
        self.about().current = Some(id.clone());
    }

    /// Notes that a session is about to know of this connection, so that it is told when the connection ends.
    pub(super) fn enter(&self, handle: &SessionHandle) {
        let mut sessions = self.sessions();
        match sessions.get_mut(handle.id()) {
            Some(attached) => attached.handle = handle.clone(),
            None => drop(sessions.insert(handle.id().clone(), Attached { handle: handle.clone(), reading: None })),
        }
    }

    /// Tells whether a session knows of this connection, or is about to.
    pub(super) fn has_entered(&self, id: &SessionId) -> bool {
        self.sessions().contains_key(id)
    }

    pub(super) fn set_reading(&self, id: &SessionId, reading: Reading) {
        if let Some(attached) = self.sessions().get_mut(id) {
            attached.reading = Some(reading);
        }
    }

    pub(super) fn set_watches_list(&self, watches: bool) {
        self.watches_list.store(watches, Ordering::Relaxed);
    }

    /// Says how many bytes of events are ready to be written.
    pub(super) fn set_events_unsent(&self, bytes: usize) {
        self.events_unsent.store(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that are ready for the client and that it has not taken yet.
    pub(super) fn bytes_unsent(&self) -> usize {
        self.events_unsent.load(Ordering::Relaxed) + self.outbox.unsent()
    }

    pub(super) fn leave(&self, id: &SessionId) {
        self.sessions().remove(id);
    }

    /// Returns the sessions that are to be told that the connection has ended.
    pub(super) fn take_sessions(&self) -> Vec<SessionHandle> {
        self.sessions().drain().map(|(_, attached)| attached.handle).collect()
    }

    /// Holds back events of a stream until the hold ends.
    pub(super) fn hold(self: &Arc<Self>, stream: Stream, why: Held) -> Hold {
        let mut holds = self.holds();
        holds.last += 1;
        let number = holds.last;
        holds.open.push((number, stream, why));
        Hold { conn: Arc::downgrade(self), number }
    }

    fn is_any_held(&self, is_meant: impl Fn(&(u64, Stream, Held)) -> bool) -> bool {
        self.holds().open.iter().any(is_meant)
    }

    /// Tells whether events of a session that no answer needs are held back.
    pub(super) fn is_held(&self, id: &SessionId) -> bool {
        self.is_any_held(|(_, held, _)| held.is_of(id))
    }

    /// Tells whether changes of the list that no answer needs are held back.
    pub(super) fn is_list_held(&self) -> bool {
        self.is_any_held(|(_, held, _)| *held == Stream::List)
    }

    /// Tells whether all events of a session are held back.
    pub(super) fn is_attaching(&self, id: &SessionId) -> bool {
        self.is_any_held(|(_, held, why)| held.is_of(id) && *why == Held::Attach)
    }

    /// Returns the number of the latest hold.
    pub(super) fn last_hold(&self) -> u64 {
        self.holds().last
    }

    /// Tells whether an answer about a session is still due that was asked for up to a hold.
    pub(super) fn is_answer_due(&self, id: &SessionId, up_to: u64) -> bool {
        self.is_any_held(|(number, held, why)| *number <= up_to && held.is_of(id) && *why == Held::Request)
    }

    /// Returns the framing that the client was last heard to speak.
    pub(super) fn framing(&self) -> Framing {
        if self.framing.load(Ordering::Relaxed) == 1 { Framing::Lsp } else { Framing::Lines }
    }

    pub(super) fn set_framing(&self, framing: Option<Framing>) {
        self.framing.store(u8::from(framing == Some(Framing::Lsp)), Ordering::Relaxed);
    }

    pub(super) fn count_bytes(&self, written: usize) {
        self.bytes_out.fetch_add(written as u64, Ordering::Relaxed);
    }

    /// Describes the connection for the daemon's status.
    pub(super) fn status(&self) -> ClientStatus {
        let mut attached: Vec<Attachment> = self.sessions().values().filter_map(Attached::status).collect();
        attached.sort_by(|a, b| a.session_id.cmp(&b.session_id));
        let (who, version) = {
            let about = self.about();
            (Arc::clone(&about.who), about.version.clone())
        };
        ClientStatus {
            name: who.name.clone(),
            version,
            pid: who.pid,
            connected: self.connected,
            attached,
            watches_list: self.watches_list.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            bytes_unsent: self.bytes_unsent() as u64,
        }
    }
}

impl Attached {
    fn status(&self) -> Option<Attachment> {
        let Reading { view, position } = self.reading.clone()?;
        let lag = self.handle.ring().lag(view, position.load(Ordering::Relaxed));
        Some(Attachment { session_id: self.handle.id().clone(), view, lag })
    }
}

/// What a connection can be sent besides answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Events of a session.
    Session(SessionId),
    /// Changes of the list of sessions.
    List,
}

impl Stream {
    fn is_of(&self, session: &SessionId) -> bool {
        matches!(self, Self::Session(id) if id == session)
    }
}

/// Why events are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// A request about it is being served: its answer is to stand in the stream where its number is.
    Request,
    /// The attachment is about to be replaced: what is written of the old one past the new one's cursor would come
    /// twice.
    Attach,
}

/// Ends holding back events when dropped.
pub(super) struct Hold {
    conn: Weak<Conn>,
    number: u64,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Some(conn) = self.conn.upgrade() else { return };
        conn.holds().open.retain(|(number, ..)| *number != self.number);
        conn.outbox.nudge();
    }
}

/// The open connections.
#[derive(Default)]
pub(super) struct ClientRegistry {
    open: Mutex<HashMap<ClientId, Arc<Conn>>>,
    last: AtomicU64,
}

impl ClientRegistry {
    fn open(&self) -> MutexGuard<'_, HashMap<ClientId, Arc<Conn>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a new connection, unless there are `max` already. It leaves when the guard is dropped.
    pub(super) fn enter(self: &Arc<Self>, process: Option<MetProcess>, max: usize) -> Option<Entered> {
        let mut open = self.open();
        if open.len() >= max {
            return None;
        }
        let id = ClientId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let conn = Arc::new(Conn::new(id, process));
        open.insert(id, conn.clone());
        Some(Entered { registry: self.clone(), conn })
    }

    /// Describes all connections, oldest first.
    pub(super) fn status(&self) -> Vec<ClientStatus> {
        let mut open: Vec<Arc<Conn>> = self.open().values().cloned().collect();
        open.sort_by_key(|conn| conn.id);
        open.iter().map(|conn| conn.status()).collect()
    }
}

/// A connection's place in the registry.
pub(super) struct Entered {
    registry: Arc<ClientRegistry>,
    pub(super) conn: Arc<Conn>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.registry.open().remove(&self.conn.id);
    }
}

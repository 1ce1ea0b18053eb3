//! The writing half of a connection: answers in the order in which they came, each after the events that it reflects and
//! before those that it does not, and in between the events of all subscriptions by turns.
//!
//! Nothing is encoded or queued ahead: events are pulled when the socket has taken what was written before.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentd_protocol::methods::View;
use agentd_protocol::{Seq, SessionId};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::conn::{Conn, Reading};
use super::error_map::Failure;
use super::handlers::attach::shows_content;
use super::outbox::{Effect, Outgoing};
use super::server::Core;
use crate::agent::handle::{AttachRequest, Attached, SessionHandle};
use crate::constants::{STUCK_CLIENT_BYTES, STUCK_CLIENT_LIMIT, WRITE_BATCH_BYTES, WRITE_BUFFER_KEEP_BYTES};
use crate::ring::{ListWatch, Pull, Subscription, Token, detached_frame, lagged_frame};

/// See the module.
pub(super) struct Writer<W> {
    core: Arc<Core>,
    conn: Arc<Conn>,
    stream: W,
    answers: VecDeque<Outgoing>,
    readers: Vec<Reader>,
    /// What the connection reads of the list of sessions.
    list: Option<ListReader>,
    /// Which reader has its turn.
    turn: usize,
    recovering: FuturesUnordered<BoxFuture<'static, Recovered>>,
    generation: u64,
    /// Made anew while another attachment was on its way, which may do without them.
    parked: Vec<Recovered>,
    out: Vec<u8>,
    frames: Vec<Bytes>,
    /// Bytes of the answers in `out`.
    answer_bytes: usize,
}

/// What the connection reads of one session.
struct Reader {
    handle: SessionHandle,
    source: Source,
    is_ready: bool,
    /// The last event that was read; shown in the daemon's status.
    position: Arc<AtomicU64>,
}

/// What the connection reads of the list of sessions.
struct ListReader {
    watch: ListWatch,
    is_ready: bool,
}

enum Source {
    Subscription(Subscription),
    /// It fell behind or its session ended: a snapshot is being made. The number tells it from later ones.
    Recovering(u64),
}

/// A subscription made anew.
struct Recovered {
    session: SessionId,
    generation: u64,
    /// Last event that was written of the old one.
    position: Seq,
    result: Result<(SessionHandle, Attached), Failure>,
}

/// Whether an answer may be written.
#[derive(PartialEq, Eq)]
enum Due {
    Now,
    /// After more events, some of which are in the buffer now.
    AfterMore,
    /// When something else has happened that wakes the writer.
    Later,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(super) fn new(core: Arc<Core>, conn: Arc<Conn>, stream: W) -> Self {
        Self {
            core,
            conn,
            stream,
            answers: VecDeque::new(),
            readers: Vec::new(),
            list: None,
            turn: 0,
            recovering: FuturesUnordered::new(),
            generation: 0,
            parked: Vec::new(),
            out: Vec::new(),
            frames: Vec::new(),
            answer_bytes: 0,
        }
    }

    /// Writes until no more answers will come, or the client does not take them any more.
    pub(super) async fn run(mut self) {
        if let Err(error) = self.write_all().await {
            tracing::debug!(%error, "a client left while it was written to");
        }
        // The client sees the end of the stream after the last answer; it may have gone already.
        let _ = self.stream.shutdown().await;
    }

    async fn write_all(&mut self) -> io::Result<()> {
        loop {
            let goes_on = self.conn.outbox.take(&mut self.answers);
            let ready = self.conn.wake.take();
            self.mark(&ready);
            // Polled here too: a busy connection never comes to wait for them below.
            while let Some(Some(recovered)) = self.recovering.next().now_or_never() {
                self.recovered(recovered);
            }
            for recovered in std::mem::take(&mut self.parked) {
                self.recovered(recovered);
            }
            self.collect_answers();
            self.collect_events();
            if !self.out.is_empty() {
                self.flush().await?;
                continue;
            }
            if self.answers.is_empty() && !goes_on {
                return Ok(());
            }
            // All branches are cancel-safe.
            tokio::select! {
                () = self.conn.outbox.changed() => {}
                ready = self.conn.wake.ready() => self.mark(&ready),
                Some(recovered) = self.recovering.next() => self.recovered(recovered),
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        while written < self.out.len() {
            self.conn.set_events_unsent((self.out.len() - written).saturating_sub(self.answer_bytes));
            // Cancel-safe: a write that did not end has written nothing.
            match tokio::time::timeout(STUCK_CLIENT_LIMIT, self.stream.write(&self.out[written..])).await {
                Ok(count) => {
                    let count = nonzero(count?)?;
                    written += count;
                    // Which bytes were an answer's is not known; that they are fewer now is.
                    let answered = count.min(self.answer_bytes);
                    self.answer_bytes -= answered;
                    self.conn.outbox.written(answered);
                }
                Err(_) => self.check_stuck()?,
            }
        }
        self.stream.flush().await?;
        self.conn.count_bytes(self.out.len());
        self.conn.set_events_unsent(0);
        self.out.clear();
        if self.out.capacity() > WRITE_BUFFER_KEEP_BYTES {
            // A connection that has nothing to write holds next to nothing.
            self.out = Vec::new();
            self.frames = Vec::new();
        }
        Ok(())
    }

    /// Gives a client up that has taken nothing for long and for which much is held. One for which next to nothing is held,
    /// a stopped terminal for one, may come back whenever it likes.
    fn check_stuck(&self) -> io::Result<()> {
        let unsent = self.conn.bytes_unsent();
        if unsent <= STUCK_CLIENT_BYTES {
            return Ok(());
        }
        let who = self.conn.client().who;
        let seconds = STUCK_CLIENT_LIMIT.as_secs();
        tracing::warn!(
            client = who.name,
            pid = who.pid,
            unsent,
            seconds,
            "a connection is closed: its client does not read"
        );
        Err(io::ErrorKind::TimedOut.into())
    }

    fn mark(&mut self, ready: &[Token]) {
        for reader in &mut self.readers {
            if let Source::Subscription(subscription) = &reader.source {
                reader.is_ready |= ready.contains(&subscription.token());
            }
        }
        if let Some(list) = &mut self.list {
            list.is_ready |= ready.contains(&list.watch.token());
        }
    }

    fn collect_answers(&mut self) {
        while self.out.len() < WRITE_BATCH_BYTES {
            let Some(at) = self.answers.iter().position(|answer| !self.is_passed(answer)) else { return };
            let Some(answer) = self.answers.remove(at) else { return };
            if self.due(&answer) != Due::Now {
                self.answers.insert(at, answer);
                return;
            }
            if let Some(body) = &answer.body {
                self.conn.framing().encode(body, &mut self.out);
                self.answer_bytes += body.len();
            }
            for effect in answer.effects {
                self.apply(effect);
            }
        }
    }

    /// Tells whether an answer is still to be passed by others.
    fn is_passed(&self, answer: &Outgoing) -> bool {
        let Some(up_to) = answer.lets_pass else { return false };
        answer.reflects.iter().any(|(session, _)| self.conn.is_answer_due(session, up_to))
    }

    /// Puts the events that an answer reflects into the buffer, as far as there is room.
    fn due(&mut self, answer: &Outgoing) -> Due {
        for (session, seq) in &answer.reflects {
            let is_attaching = self.conn.is_attaching(session);
            let until = if is_attaching {
                // The attachment that comes with this answer, or after it, begins at its own cursor: what is read of
                // the one that it replaces ends there, or it would come twice.
                let answers = std::iter::once(answer).chain(&self.answers);
                match answers.flat_map(|answer| &answer.effects).find_map(|effect| effect.attaches(session)) {
                    Some(cursor) => cursor.min(*seq),
                    None => return Due::Later,
                }
            } else {
                *seq
            };
            let Some(at) = self.readers.iter().position(|reader| reader.handle.id() == session) else { continue };
            match self.pull(at, Some(until)) {
                // The attachment that comes stands for the events that were lost.
                None if is_attaching => {}
                None => return Due::Later,
                Some(Pull::More) if self.position(at) < until => return Due::AfterMore,
                Some(_) => {}
            }
        }
        match answer.reflects_list {
            Some(until) => self.list_due(until),
            None => Due::Now,
        }
    }

    fn list_due(&mut self, until: u64) -> Due {
        self.pull_list(Some(until));
        match &self.list {
            Some(list) if list.watch.position() < until => Due::AfterMore,
            _ => Due::Now,
        }
    }

    fn position(&self, at: usize) -> Seq {
        match &self.readers[at].source {
            Source::Subscription(subscription) => subscription.position(),
            Source::Recovering(_) => 0,
        }
    }

    /// Gives each ready subscription, and the list of sessions, its turn, until there is enough for one write.
    fn collect_events(&mut self) {
        // The list comes after the last of the others.
        let count = self.readers.len() + usize::from(self.list.is_some());
        for _ in 0..count {
            if self.out.len() >= WRITE_BATCH_BYTES {
                return;
            }
            self.turn = (self.turn + 1) % count;
            let at = self.turn;
            if at == self.readers.len() {
                if self.list.as_ref().is_some_and(|list| list.is_ready) && !self.conn.is_list_held() {
                    self.pull_list(None);
                }
            } else if self.readers[at].is_ready && !self.conn.is_held(self.readers[at].handle.id()) {
                self.pull(at, None);
            }
        }
    }

    /// Puts events of one reader into the buffer. `None` while it has no subscription.
    fn pull(&mut self, at: usize, until: Option<Seq>) -> Option<Pull> {
        let Source::Subscription(subscription) = &mut self.readers[at].source else { return None };
        let pull = subscription.pull(&mut self.frames, WRITE_BATCH_BYTES, until);
        let position = subscription.position();
        self.readers[at].position.store(position, Ordering::Relaxed);
        self.encode_frames();
        match pull {
            Pull::More => self.readers[at].is_ready = true,
            Pull::Empty => self.readers[at].is_ready = false,
            Pull::Lagged | Pull::Closed => {
                self.recover(at);
                return None;
            }
        }
        Some(pull)
    }

    /// Puts changes of the list into the buffer, if the client watches it.
    fn pull_list(&mut self, until: Option<u64>) {
        let Some(list) = &mut self.list else { return };
        list.is_ready = list.watch.pull(&mut self.frames, WRITE_BATCH_BYTES, until) == Pull::More;
        self.encode_frames();
    }

    fn encode_frames(&mut self) {
        let framing = self.conn.framing();
        for frame in self.frames.drain(..) {
            framing.encode(&frame, &mut self.out);
        }
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Attach { handle, subscription, hold } => {
                // Its session knows of this connection, whatever has been left meanwhile.
                self.conn.enter(&handle);
                let reader = self.reader(handle, subscription);
                match self.readers.iter_mut().find(|old| old.handle.id() == reader.handle.id()) {
                    Some(old) => *old = reader,
                    None => self.readers.push(reader),
                }
                drop(hold);
            }
            Effect::Detach(session) => {
                self.readers.retain(|reader| *reader.handle.id() != session);
            }
            Effect::Watch(watch) => {
                self.conn.set_watches_list(watch.is_some());
                self.list = watch.map(|watch| ListReader { watch, is_ready: true });
            }
        }
    }

    /// Makes the reader of a subscription, and shows it in the connection's status.
    fn reader(&self, handle: SessionHandle, subscription: Subscription) -> Reader {
        let position = Arc::new(AtomicU64::new(subscription.position()));
        let reading = Reading { view: subscription.view(), position: Arc::clone(&position) };
        self.conn.set_reading(handle.id(), reading);
        Reader { handle, source: Source::Subscription(subscription), is_ready: true, position }
    }

    /// Begins to make a subscription anew, from a snapshot.
    fn recover(&mut self, at: usize) {
        self.generation += 1;
        let generation = self.generation;
        let reader = &mut self.readers[at];
        reader.is_ready = false;
        let Source::Subscription(old) = std::mem::replace(&mut reader.source, Source::Recovering(generation)) else {
            return;
        };
        let (session, view, position) = (reader.handle.id().clone(), old.view(), old.position());
        let (core, conn) = (self.core.clone(), self.conn.clone());
        self.recovering.push(Box::pin(async move {
            let result = attach_again(&core, &conn, &session, view).await;
            drop(old);
            Recovered { session, generation, position, result }
        }));
    }

    /// Goes on with a subscription that was made anew, unless the client has attached or detached meanwhile. While it
    /// attaches, the snapshot may be past the cursor that it will be told: that comes first.
    fn recovered(&mut self, recovered: Recovered) {
        if self.conn.is_attaching(&recovered.session) {
            return self.parked.push(recovered);
        }
        let Recovered { session, generation, position, result } = recovered;
        let is_awaited = |reader: &Reader| {
            *reader.handle.id() == session && matches!(reader.source, Source::Recovering(at) if at == generation)
        };
        let Some(at) = self.readers.iter().position(is_awaited) else { return };
        let frame = match result {
            Ok((handle, attached)) => {
                self.readers[at] = self.reader(handle, attached.subscription);
                lagged_frame(&attached.result)
            }
            Err(failure) => {
                self.readers.remove(at);
                if !self.conn.is_attaching(&session) {
                    self.conn.leave(&session);
                }
                detached_frame(&session, position, failure.message())
            }
        };
        self.conn.framing().encode(&frame, &mut self.out);
    }
}

/// Attaches a connection to a session that it reads, from a snapshot. When the client leaves the session meanwhile, the
/// answers on their way still need what they reflect, but the session must not think that the client is there.
async fn attach_again(
    core: &Core,
    conn: &Conn,
    session: &SessionId,
    view: View,
) -> Result<(SessionHandle, Attached), Failure> {
    let handle = core.sessions.open(session).await?;
    if conn.has_entered(session) {
        conn.enter(&handle);
    }
    let (client, wake) = (conn.client(), conn.wake.clone());
    let request = AttachRequest { since: None, view, history: shows_content(view), client, wake };
    let attached = handle.attach(Box::new(request)).await?.await?.value;
    if !conn.has_entered(session) {
        drop(handle.detach(conn.client()).await);
    }
    Ok((handle, attached))
}

/// A stream that takes no byte although there is something to write has ended.
fn nonzero(count: usize) -> io::Result<usize> {
    if count == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(count) }
}

//! One connection: the reading half takes requests in order, the writing half sends answers and events. Both are
//! futures of one task.
//!
//! **Order**: requests are applied in order, and answered in order. The next one is taken once the one before is done
//! or in its session's mailbox, so that what a session does for one, such as waiting for the disk, holds no other
//! session back; what concerns the whole daemon, and what opens a session or a subscription, is waited for. Methods that
//! wait for something to happen answer when they are done, whatever came after them.

use std::pin::pin;
use std::sync::Arc;

use agentd_protocol::error_code::ErrorKind;
use agentd_protocol::framing::{Decoder, Frame, FrameReader, ReadError};
use agentd_protocol::methods::FrontParams;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, FuturesUnordered};
use serde_json::value::RawValue;
use tokio::io::AsyncWrite;
use tokio_util::sync::CancellationToken;

use super::conn::Conn;
use super::dispatch::{self, Running, done, failed};
use super::envelope::{Item, Message, Request, parse};
use super::error_map::{Failure, parse_params};
use super::outbox::{Outbox, Outgoing};
use super::server::Shared;
use super::transport::Incoming;
use super::writer::Writer;
use crate::constants::{
    MAX_BATCH, MAX_MESSAGE_BYTES, MAX_UNANSWERED_REQUESTS, MAX_UNSENT_ANSWER_BYTES, MAX_WAITING_REQUESTS,
};

/// Requests that may be in mailboxes before any answer has told how large answers are.
const FIRST_WINDOW: usize = 8;

/// Serves a connection until the client leaves, it breaks, or the daemon says goodbye.
pub(super) async fn run<R, W>(shared: &Arc<Shared>, conn: &Arc<Conn>, read: R, write: W)
where
    R: Incoming,
    W: AsyncWrite + Unpin,
{
    let mut reading = pin!(Reader::new(shared, conn, read).run());
    let mut writing = pin!(Writer::new(shared.core.clone(), conn.clone(), write).run());
    tokio::select! {
        // An answer that has come is queued before the writing half looks for more events.
        biased;
        // Nothing more is asked, but what was asked is still answered.
        () = &mut reading => {
            conn.outbox.finish();
            writing.await;
        }
        // Nobody hears the answers any more. What was asked before that is carried out all the same: a script may write
        // its requests and be gone.
        () = &mut writing => {
            conn.outbox.discard();
            reading.await;
        }
    }
}

/// Tells the sessions of an ended connection that it no longer reads.
pub(super) async fn leave(conn: &Conn) {
    for handle in conn.take_sessions() {
        // The answer is of no interest, and a session that has ended needs not be told.
        drop(handle.detach(conn.client()).await);
    }
}

struct Reader<'a, R> {
    shared: &'a Arc<Shared>,
    conn: &'a Arc<Conn>,
    frames: FrameReader<R>,
    /// The request that is being served.
    current: Option<Running>,
    /// Answers of requests that are in their sessions' mailboxes, and of what came after them.
    unanswered: FuturesOrdered<BoxFuture<'static, Outgoing>>,
    /// How many requests may be in their sessions' mailboxes: fewer where answers are large.
    window: usize,
    /// Methods that wait, and how each is cancelled.
    waiting: FuturesUnordered<BoxFuture<'static, (u64, Outgoing)>>,
    cancels: Vec<Cancel>,
    next_key: u64,
    is_first: bool,
}

/// How a waiting request is cancelled.
struct Cancel {
    key: u64,
    id: Option<Box<RawValue>>,
    token: CancellationToken,
}

impl<'a, R: Incoming> Reader<'a, R> {
    fn new(shared: &'a Arc<Shared>, conn: &'a Arc<Conn>, read: R) -> Self {
        Self {
            shared,
            conn,
            frames: FrameReader::new(read, Decoder::new(MAX_MESSAGE_BYTES)),
            current: None,
            unanswered: FuturesOrdered::new(),
            window: FIRST_WINDOW,
            waiting: FuturesUnordered::new(),
            cancels: Vec::new(),
            next_key: 0,
            is_first: true,
        }
    }

    async fn run(mut self) {
        let goodbye = self.shared.core.goodbye.clone();
        let mut has_ended = false;
        let mut is_goodbye = false;
        let mut gone: Option<BoxFuture<'static, ()>> = None;
        // Nobody hears the answers.
        let mut is_unheard = false;
        while !has_ended || self.current.is_some() || !self.unanswered.is_empty() || !self.waiting.is_empty() {
            let can_read = !has_ended && self.current.is_none() && self.unanswered.len() < self.window;
            let has_room = self.conn.outbox.has_room();
            if has_ended && gone.is_none() {
                gone = Some(self.frames.stream().gone());
            }
            // All branches are cancel-safe: what they have begun stays in `self`.
            tokio::select! {
                biased;
                () = goodbye.cancelled(), if !is_goodbye => {
                    (has_ended, is_goodbye) = (true, true);
                    self.end_waiting();
                }
                () = unheard(&self.conn.outbox, &mut gone), if !is_unheard => {
                    is_unheard = true;
                    self.drop_waiting();
                }
                Some((key, outgoing)) = self.waiting.next() => self.waited(key, outgoing),
                Some(outgoing) = self.unanswered.next() => {
                    self.window = window(outgoing.len());
                    self.conn.outbox.push_counted(outgoing);
                }
                step = step(&mut self.current) => match step {
                    Some(outgoing) => {
                        self.current = None;
                        self.answer(outgoing);
                    }
                    None => {
                        self.set_aside();
                        if is_goodbye {
                            self.end_waiting();
                        } else if is_unheard {
                            self.drop_waiting();
                        }
                    }
                },
                frame = self.frames.next(), if can_read && has_room => has_ended = !self.take(frame),
                () = self.conn.outbox.room(), if can_read && !has_room => {}
                // All that had been sent is done. One that only closed its reading end sends no more either.
                () = std::future::ready(()), if can_read && is_unheard => return,
            }
        }
    }

    /// Takes what was read; returns whether there is more to read.
    fn take(&mut self, frame: Result<Option<Frame>, ReadError>) -> bool {
        self.conn.set_framing(self.frames.decoder().framing());
        match frame {
            Ok(Some(Frame::Message(text))) => self.message(&text),
            Ok(Some(Frame::TooLong)) => {
                let text = format!("the message is over {MAX_MESSAGE_BYTES} bytes and was skipped");
                self.refuse(Failure::new(ErrorKind::InvalidRequest, text));
            }
            Ok(Some(Frame::NotUtf8)) => {
                self.refuse(Failure::new(ErrorKind::ParseError, "the message is not UTF-8"));
            }
            Ok(Some(Frame::Truncated)) => {
                self.refuse(Failure::new(ErrorKind::ParseError, "the stream ended inside a message"));
            }
            Ok(None) => return false,
            Err(ReadError::Framing(error)) => {
                self.refuse(Failure::new(ErrorKind::ParseError, format!("{error}; closing the connection")));
                return false;
            }
            Err(ReadError::Io(error)) => {
                tracing::debug!(%error, "a connection broke");
                self.drop_waiting();
                return false;
            }
        }
        true
    }

    fn refuse(&mut self, failure: Failure) {
        self.is_first = false;
        self.answer(failed(Some("null"), failure));
    }

    /// Queues an answer behind those of earlier requests.
    fn answer(&mut self, outgoing: Outgoing) {
        self.conn.outbox.count(&outgoing);
        if self.unanswered.is_empty() {
            self.conn.outbox.push_counted(outgoing);
        } else {
            self.unanswered.push_back(Box::pin(std::future::ready(outgoing)));
        }
    }

    fn message(&mut self, text: &[u8]) {
        let is_first = std::mem::take(&mut self.is_first);
        match parse(text, MAX_BATCH) {
            Err(failure) => self.refuse(failure),
            Ok(Message::Single(Item::Call(request))) if is_first && request.method == "front" => self.front(&request),
            Ok(Message::Single(Item::Call(request))) if request.id.is_none() && self.notified(&request) => {}
            Ok(Message::Single(item)) => self.current = Some(dispatch::single(self.shared, self.conn, &item)),
            Ok(Message::Batch(items)) => {
                let (notes, others): (Vec<_>, Vec<_>) = items.into_iter().partition(is_cancel);
                for note in &notes {
                    if let Item::Call(request) = note {
                        self.cancel(request);
                    }
                }
                self.current = Some(dispatch::batch(self.shared, self.conn, &others));
            }
        }
    }

    /// Takes a notification that concerns the connection itself; returns whether it was one.
    fn notified(&self, request: &Request<'_>) -> bool {
        let is_cancel = request.method == "$/cancelRequest";
        if is_cancel {
            self.cancel(request);
        }
        is_cancel
    }

    /// The front's own line is followed by whatever its client speaks. One with an id is answered, so that a front
    /// knows that the daemon is there before it passes on what its client says.
    fn front(&mut self, request: &Request<'_>) {
        match parse_params::<FrontParams>(request.params.map_or("", |params| params.get())) {
            Ok(front) => self.conn.set_front(front),
            Err(failure) => tracing::warn!(error = failure.message(), "a front's introduction cannot be read"),
        }
        if let Some(id) = request.id {
            self.conn.outbox.push(done(id.get()));
        }
        self.frames.decoder().detect_again();
    }

    fn cancel(&self, request: &Request<'_>) {
        #[derive(serde::Deserialize)]
        struct Params<'a> {
            #[serde(borrow)]
            id: &'a RawValue,
        }
        let Some(params) = request.params.and_then(|params| serde_json::from_str::<Params<'_>>(params.get()).ok())
        else {
            return;
        };
        for cancel in &self.cancels {
            if cancel.id.as_ref().is_some_and(|id| id.get() == params.id.get()) {
                cancel.token.cancel();
            }
        }
    }

    /// Lets a request that has reached its session wait beside the next ones.
    fn set_aside(&mut self) {
        let Some(running) = self.current.take() else { return };
        if !running.waits {
            let conn = Arc::clone(self.conn);
            return self.unanswered.push_back(Box::pin(async move {
                let outgoing = running.answered().await;
                // Counted now: it may have to wait for the answer of a slower request before it.
                conn.outbox.count(&outgoing);
                outgoing
            }));
        }
        if self.waiting.len() >= MAX_WAITING_REQUESTS {
            let text = format!("{MAX_WAITING_REQUESTS} requests of this connection wait already; cancel some of them");
            let id = running.id.as_ref().map(|id| id.get());
            return self.answer(failed(id, Failure::new(ErrorKind::Overloaded, text)));
        }
        let (key, id, token) = (self.next_key, running.id.clone(), CancellationToken::new());
        self.next_key += 1;
        self.cancels.push(Cancel { key, id: id.clone(), token: token.clone() });
        self.waiting.push(Box::pin(async move {
            let cancelled = Failure::new(ErrorKind::Cancelled, "the request was cancelled; what it asked for goes on");
            tokio::select! {
                outgoing = running.answered() => (key, outgoing),
                () = token.cancelled() => (key, failed(id.as_ref().map(|id| id.get()), cancelled)),
            }
        }));
    }

    /// What has been asked for until now may have been answered before, by its session, and is yet to come: the events
    /// that this answer brings must not pass it. What is asked for later is answered later.
    fn waited(&mut self, key: u64, outgoing: Outgoing) {
        self.cancels.retain(|cancel| cancel.key != key);
        self.conn.outbox.push(Outgoing { lets_pass: Some(self.conn.last_hold()), ..outgoing });
    }

    /// Drops what waits: nobody is there to hear the answer. What was asked for goes on, and a request that is still on
    /// its way to its session gets there.
    fn drop_waiting(&mut self) {
        self.waiting.clear();
        self.cancels.clear();
    }

    /// Answers what still waits when the daemon ends.
    fn end_waiting(&mut self) {
        self.waiting.clear();
        for id in self.cancels.drain(..).filter_map(|cancel| cancel.id) {
            let failure = Failure::new(ErrorKind::ShuttingDown, "the daemon stopped before this was done");
            self.conn.outbox.push(failed(Some(id.get()), failure));
        }
    }
}

/// Returns how many requests may wait in mailboxes when an answer had `bytes`: their answers, if they are alike, stay
/// within what may be unsent.
fn window(bytes: usize) -> usize {
    (MAX_UNSENT_ANSWER_BYTES / bytes.max(1)).clamp(1, MAX_UNANSWERED_REQUESTS)
}

fn is_cancel(item: &Item<'_>) -> bool {
    matches!(item, Item::Call(request) if request.id.is_none() && request.method == "$/cancelRequest")
}

/// Waits until nobody hears the answers any more: they cannot be written, or the client is gone altogether, which is
/// watched for once it has ended its direction.
async fn unheard(outbox: &Outbox, gone: &mut Option<BoxFuture<'static, ()>>) {
    let over = async {
        match gone {
            Some(gone) => gone.await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = over => {}
        () = outbox.discarding() => {}
    }
}

/// Goes on with the current request; without one, waits for ever.
async fn step(current: &mut Option<Running>) -> Option<Outgoing> {
    match current {
        Some(running) => running.answered_or_applied().await,
        None => std::future::pending().await,
    }
}

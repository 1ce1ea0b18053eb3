//! A small typed client over any byte stream.
//!
//! [`Client`] sends requests and awaits their answers; [`Events`] gives the notifications. Between them and the
//! stream stands a [`Driver`], one future that is spawned once or polled beside the program's own work; nothing else
//! is spawned, so a current-thread runtime is enough.
//!
//! **Back-pressure**: notifications are held up to [`EVENT_BUFFER`]; then the driver stops reading until some are
//! taken, and answers wait behind them. A program that reads events must therefore go on reading them while it waits
//! for an answer: [`Events::until_answer`] does both. A program that does not want events drops [`Events`].

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};

use crate::error_code::{ERROR_CODES, ErrorKind};
use crate::event::{EVENT_METHOD, EventParams, LIST_EVENT_METHOD, ListEventParams};
use crate::ids::Seq;
use crate::methods::{FrontParams, Method};

mod driver;
#[cfg(test)]
mod tests;

pub use driver::Driver;

/// Notifications held for the program; when they are not taken, the driver stops reading.
pub const EVENT_BUFFER: usize = 1024;
/// Messages held for the stream; when it does not take them, senders wait.
const OUTGOING_BUFFER: usize = 64;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The daemon answered with an error.
    #[error("{0}")]
    Rpc(RpcError),
    /// The connection closed before the answer; what was asked may or may not have happened.
    #[error("the connection to the daemon closed{}", .0.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default())]
    Closed(Option<Arc<io::Error>>),
    /// The parameters could not be written as JSON.
    #[error("the parameters of {method} are not JSON")]
    Encode {
        /// The method.
        method: String,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The answer has another shape than this client knows.
    #[error(
        "the answer to {method} is not what this build expects ({source}); daemon and client may be of different builds"
    )]
    Decode {
        /// The method.
        method: String,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
}

impl ClientError {
    /// Returns what the daemon says went wrong, if it answered at all and in a word that this build knows.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Rpc(error) => error.kind(),
            Self::Closed(_) | Self::Encode { .. } | Self::Decode { .. } => None,
        }
    }
}

/// An error answer.
#[derive(Clone, Debug, PartialEq, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// JSON-RPC error code.
    pub code: i64,
    /// What happened and what can be done.
    pub message: String,
    /// `{kind, retryable, …}` as it came.
    #[serde(default)]
    pub data: Option<Value>,
}

impl RpcError {
    /// Returns the word of `data.kind`, or the one that belongs to the code.
    pub fn kind(&self) -> Option<ErrorKind> {
        let named = self.data.as_ref().and_then(|data| ErrorKind::deserialize(data.get("kind")?).ok());
        named.or_else(|| ERROR_CODES.iter().find(|row| i64::from(row.code) == self.code).map(|row| row.kind))
    }
}

/// A notification as it came.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Its method; `event` for events of sessions.
    pub method: String,
    /// Its parameters; `null` when it had none.
    pub params: Box<RawValue>,
}

impl Notification {
    /// Decodes the parameters of an `event`; `None` for other notifications.
    pub fn event(&self) -> Option<EventParams> {
        (self.method == EVENT_METHOD).then(|| serde_json::from_str(self.params.get()).ok()).flatten()
    }

    /// Decodes the parameters of a `session_list_event`; `None` for other notifications.
    pub fn list_event(&self) -> Option<ListEventParams> {
        (self.method == LIST_EVENT_METHOD).then(|| serde_json::from_str(self.params.get()).ok()).flatten()
    }
}

/// What the driver hands to [`Events`].
enum Item {
    Notification(Notification),
    /// The answer of an ordered call has arrived here in the stream.
    Answered(u64),
}

/// What senders hand to the driver.
enum Outgoing {
    Frame(Bytes),
    Close,
}

/// An answer, before its result is decoded.
type RawAnswer = Result<Box<RawValue>, RpcError>;

/// A request that waits for its answer.
struct Waiting {
    answer: oneshot::Sender<RawAnswer>,
    ordered: bool,
}

/// The requests that wait, and why no more can be made.
#[derive(Default)]
struct Requests {
    last_id: u64,
    waiting: HashMap<u64, Waiting>,
    closed: bool,
    cause: Option<Arc<io::Error>>,
}

type SharedRequests = Arc<Mutex<Requests>>;

/// Locks the table. It is never held across an await, and no code that holds it can panic half-way.
fn lock(requests: &Mutex<Requests>) -> MutexGuard<'_, Requests> {
    requests.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends requests. Cheap to clone; when the last clone and the last [`Call`] are dropped, the connection closes.
#[derive(Clone)]
pub struct Client {
    outgoing: mpsc::Sender<Outgoing>,
    requests: SharedRequests,
}

impl Client {
    /// Wraps the two halves of a stream. Nothing moves until the driver runs.
    pub fn new<R, W>(reader: R, writer: W) -> (Self, Events, Driver<R, W>)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let (outgoing, outgoing_rx) = mpsc::channel(OUTGOING_BUFFER);
        let (items_tx, items) = mpsc::channel(EVENT_BUFFER);
        let requests = SharedRequests::default();
        let driver = Driver::new(reader, writer, outgoing_rx, items_tx, Arc::clone(&requests));
        (Self { outgoing, requests }, Events { items }, driver)
    }

    /// Wraps a stream and spawns the driver on the current runtime.
    #[expect(
        clippy::disallowed_methods,
        reason = "a client program has no task tracker; the task ends with its stream"
    )]
    pub fn spawn<S>(stream: S) -> (Self, Events)
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (reader, writer) = tokio::io::split(stream);
        let (client, events, driver) = Self::new(reader, writer);
        drop(tokio::spawn(driver.run()));
        (client, events)
    }

    /// Sends a request and waits for its answer. A caller that reads events uses [`Events::until_answer`] instead.
    ///
    /// Dropping the future forgets the answer; the daemon still carries the request out.
    ///
    /// # Errors
    /// The daemon's error answer, or the end of the connection.
    pub async fn call<M: Method>(&self, params: &M::Params) -> Result<M::Result, ClientError> {
        self.request::<M>(params).await?.answer().await
    }

    /// Sends a request whose method and parameters are not typed.
    ///
    /// # Errors
    /// The daemon's error answer, or the end of the connection.
    pub async fn call_raw(&self, method: &str, params: Option<&RawValue>) -> Result<Box<RawValue>, ClientError> {
        self.send::<Value, _>(method, params, false).await?.raw_answer().await
    }

    /// Sends a request; its answer is awaited later through the returned [`Call`]. Requests reach the daemon in the
    /// order in which these futures complete.
    ///
    /// # Errors
    /// The connection has closed, or the parameters are not JSON.
    pub async fn request<M: Method>(&self, params: &M::Params) -> Result<Call<M::Result>, ClientError> {
        self.send(M::NAME, Some(params), false).await
    }

    /// Like [`Client::request`], for [`Events::until_answer`].
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn request_ordered<M: Method>(&self, params: &M::Params) -> Result<Call<M::Result>, ClientError> {
        self.send(M::NAME, Some(params), true).await
    }

    async fn send<T, P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: Option<&P>,
        ordered: bool,
    ) -> Result<Call<T>, ClientError> {
        let (answer, answer_rx) = oneshot::channel();
        let id = {
            let mut requests = lock(&self.requests);
            if requests.closed {
                return Err(ClientError::Closed(requests.cause.clone()));
            }
            requests.last_id += 1;
            let id = requests.last_id;
            requests.waiting.insert(id, Waiting { answer, ordered });
            id
        };
        // From here on the call's drop removes the row again, whatever happens.
        let call = Call {
            id,
            method: method.to_owned(),
            answer: answer_rx,
            outgoing: self.outgoing.clone(),
            requests: Arc::clone(&self.requests),
            result: PhantomData,
        };
        let frame = encode(Some(id), method, params)?;
        self.outgoing.send(Outgoing::Frame(frame)).await.map_err(|_| self.closed())?;
        Ok(call)
    }

    /// Sends a notification, which has no answer.
    ///
    /// # Errors
    /// The connection has closed, or the parameters are not JSON.
    pub async fn notify<P: Serialize>(&self, method: &str, params: &P) -> Result<(), ClientError> {
        let frame = encode(None, method, Some(params))?;
        self.outgoing.send(Outgoing::Frame(frame)).await.map_err(|_| self.closed())
    }

    /// Tells the daemon the working directory and environment behind this connection. Sent before anything else.
    ///
    /// # Errors
    /// As [`Client::notify`].
    pub async fn front(&self, params: &FrontParams) -> Result<(), ClientError> {
        self.notify("front", params).await
    }

    /// Closes the connection once everything sent so far has been written. Sessions and runs go on.
    pub async fn close(&self) {
        // An error means that it is closed already.
        let _ = self.outgoing.send(Outgoing::Close).await;
    }

    fn closed(&self) -> ClientError {
        ClientError::Closed(lock(&self.requests).cause.clone())
    }
}

/// A request on its way. Dropping it forgets the answer.
#[must_use = "the answer says whether it worked"]
pub struct Call<T> {
    id: u64,
    method: String,
    answer: oneshot::Receiver<RawAnswer>,
    outgoing: mpsc::Sender<Outgoing>,
    requests: SharedRequests,
    result: PhantomData<fn() -> T>,
}

impl<T> Call<T> {
    /// Asks the daemon to give up on a waiting request; it then answers with kind `cancelled` (or with its result,
    /// if that was faster).
    ///
    /// # Errors
    /// The connection has closed.
    pub async fn cancel(&self) -> Result<(), ClientError> {
        #[derive(Serialize)]
        struct CancelParams {
            id: u64,
        }
        let frame = encode(None, "$/cancelRequest", Some(&CancelParams { id: self.id }))?;
        self.outgoing.send(Outgoing::Frame(frame)).await.map_err(|_| self.closed())
    }

    /// Waits for the answer as it came.
    ///
    /// # Errors
    /// The daemon's error answer, or the end of the connection.
    pub async fn raw_answer(mut self) -> Result<Box<RawValue>, ClientError> {
        match (&mut self.answer).await {
            Ok(answer) => answer.map_err(ClientError::Rpc),
            Err(_) => Err(self.closed()),
        }
    }

    fn closed(&self) -> ClientError {
        ClientError::Closed(lock(&self.requests).cause.clone())
    }
}

impl<T: DeserializeOwned> Call<T> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The daemon's error answer, the end of the connection, or an answer of another shape.
    pub async fn answer(self) -> Result<T, ClientError> {
        let method = self.method.clone();
        let raw = self.raw_answer().await?;
        decode(method, &raw)
    }

    /// Waits for the answer of a session method and the cursor that it reflects.
    ///
    /// # Errors
    /// As [`Call::answer`]; an answer without `seq` has the wrong shape.
    pub async fn answer_with_seq(self) -> Result<(T, Seq), ClientError> {
        let method = self.method.clone();
        let raw = self.raw_answer().await?;
        let answer: crate::methods::WithSeq<T> = decode(method, &raw)?;
        Ok((answer.result, answer.seq))
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        lock(&self.requests).waiting.remove(&self.id);
    }
}

/// The notifications of a connection, in the order in which they came.
pub struct Events {
    items: mpsc::Receiver<Item>,
}

impl Events {
    /// Waits for the next event; `None` once the connection has closed and all have been taken. Cancel safe.
    pub async fn recv(&mut self) -> Option<EventParams> {
        loop {
            if let Some(event) = self.recv_raw().await?.event() {
                return Some(event);
            }
        }
    }

    /// Waits for the next notification as it came. Cancel safe.
    pub async fn recv_raw(&mut self) -> Option<Notification> {
        loop {
            if let Item::Notification(notification) = self.items.recv().await? {
                return Some(notification);
            }
        }
    }

    /// Takes the next event if one has already come.
    pub fn try_recv(&mut self) -> Option<EventParams> {
        loop {
            if let Some(event) = self.try_recv_raw()?.event() {
                return Some(event);
            }
        }
    }

    /// Takes the next notification if one has already come.
    pub fn try_recv_raw(&mut self) -> Option<Notification> {
        loop {
            if let Item::Notification(notification) = self.items.try_recv().ok()? {
                return Some(notification);
            }
        }
    }

    /// Sends a request and waits for its answer, handing every event that the daemon wrote before the answer, and
    /// none that it wrote after it, to `on_event`.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn until_answer<M: Method>(
        &mut self,
        client: &Client,
        params: &M::Params,
        mut on_event: impl FnMut(EventParams),
    ) -> Result<M::Result, ClientError> {
        let call = {
            let mut sending = std::pin::pin!(client.request_ordered::<M>(params));
            loop {
                tokio::select! {
                    call = &mut sending => break call?,
                    Some(event) = self.recv() => on_event(event),
                }
            }
        };
        loop {
            match self.items.recv().await {
                Some(Item::Answered(id)) if id == call.id => return call.answer().await,
                Some(Item::Answered(_)) => {}
                Some(Item::Notification(notification)) => {
                    if let Some(event) = notification.event() {
                        on_event(event);
                    }
                }
                None => return call.answer().await,
            }
        }
    }

    /// Waits for `work` (a call, say) while handing the events that come meanwhile to `on_event`.
    pub async fn during<F: Future>(&mut self, work: F, mut on_event: impl FnMut(EventParams)) -> F::Output {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                output = &mut work => return output,
                // Closed: only `work` is left to wait for, and it ends by itself.
                Some(event) = self.recv() => on_event(event),
            }
        }
    }
}

/// Writes one request (or, without an id, one notification) with its line end.
fn encode<P: Serialize + ?Sized>(id: Option<u64>, method: &str, params: Option<&P>) -> Result<Bytes, ClientError> {
    #[derive(Serialize)]
    struct Message<'a, P: ?Sized> {
        jsonrpc: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        method: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        params: Option<&'a P>,
    }
    let mut line = serde_json::to_vec(&Message { jsonrpc: "2.0", id, method, params })
        .map_err(|source| ClientError::Encode { method: method.to_owned(), source })?;
    line.push(b'\n');
    Ok(line.into())
}

fn decode<T: DeserializeOwned>(method: String, raw: &RawValue) -> Result<T, ClientError> {
    serde_json::from_str(raw.get()).map_err(|source| ClientError::Decode { method, source })
}

//! Asks a model: the one entrance to all dialects.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::SessionId;
use agentd_protocol::message::{Message, ThinkingLevel};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::chat::ChatCompletions;
use super::demo_stream;
use super::error::{ErrorClass, ProviderError};
use super::exchange::{self, Dialect};
use super::http::Connections;
use super::keys::KeyRing;
use super::messages::Messages;
use super::network::{Ended, Network};
use super::pace::{Pace, pass_on};
use super::spec::{API_ANTHROPIC_MESSAGES, API_DEMO, API_OPENAI_COMPLETIONS, ModelSpec};
use super::stream::StreamEvent;
use crate::config::ProviderClocks;
use crate::config::env::SessionEnv;
use crate::constants::STREAM_BATCHES;
use crate::redact::KeyBook;

/// One request to a model.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The model.
    pub spec: Arc<ModelSpec>,
    /// The projected context, system message first. Failed and aborted responses may be in it; they are not sent.
    pub messages: Vec<Arc<Message>>,
    /// How much the model is asked to think; clamped to what it supports.
    pub thinking: ThinkingLevel,
    /// Where keys and proxies are looked up.
    pub env: SessionEnv,
    /// The session's working directory.
    pub cwd: PathBuf,
    /// The session.
    pub session_id: SessionId,
    /// Time limits.
    pub clocks: ProviderClocks,
    /// Pause of the demo model between deltas.
    pub demo_delay: Duration,
    /// How soon deltas are wanted.
    pub pace: Pace,
}

/// Asks models, as sessions see it. Tests put a made-up one in the place of [`ProviderClient`].
pub trait AskModel: Send + Sync {
    /// Sends a request and passes on what comes back; see [`ProviderClient::stream`].
    fn ask(
        &self,
        request: ModelRequest,
        events: mpsc::Sender<Vec<StreamEvent>>,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>>;
}

/// Asks models. Cheap to clone; clones share connections and cached keys.
#[derive(Clone, Debug, Default)]
pub struct ProviderClient {
    connections: Connections,
    keys: KeyRing,
    network: Network,
}

impl ProviderClient {
    /// Returns a client without any connection yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a client whose `book` learns the keys that commands print.
    pub fn with_book(book: KeyBook) -> Self {
        let mut client = Self::default();
        client.keys.book = book;
        client
    }

    /// Sends a request and passes on what comes back, at the request's pace. Returns when the response has ended. Waits
    /// while `events` is full; that holds back the provider and nobody else.
    ///
    /// Cancel safe: dropping the future closes the connection, as cancelling `cancel` does.
    ///
    /// # Errors
    /// Why there is no complete response. What was passed on before stands.
    pub async fn stream(
        &self,
        request: ModelRequest,
        events: mpsc::Sender<Vec<StreamEvent>>,
        cancel: CancellationToken,
    ) -> Result<(), ProviderError> {
        if request.spec.is_demo() {
            return self.paced(request, events, cancel).await;
        }
        let (client, cancelled) = (self.clone(), cancel.clone());
        let work = self.network.run(async move { client.paced(request, events, cancel).await });
        let wake = async {
            cancelled.cancelled().await;
            self.network.wake();
            std::future::pending().await
        };
        tokio::select! {
            biased;
            done = work => done.unwrap_or_else(|Ended| Err(ProviderError::cancelled())),
            done = wake => done,
        }
    }

    /// The pieces come one `Vec` for each read from the network, and go on as the pace allows.
    async fn paced(
        &self,
        request: ModelRequest,
        events: mpsc::Sender<Vec<StreamEvent>>,
        cancel: CancellationToken,
    ) -> Result<(), ProviderError> {
        let (pieces, from) = mpsc::channel(STREAM_BATCHES);
        let (pace, network, stopped) = (request.pace.clone(), self.network.clone(), cancel.clone());
        let ask = async move { self.dialect(&request, &pieces, &cancel).await };
        let pass_on = async move {
            // Whoever receives may be busy; what is left of a cancelled response is of no use.
            tokio::select! {
                () = stopped.cancelled() => {}
                () = pass_on(from, events, &pace, &network) => {}
            }
        };
        tokio::join!(ask, pass_on).0
    }

    async fn dialect(
        &self,
        request: &ModelRequest,
        events: &mpsc::Sender<Vec<StreamEvent>>,
        cancel: &CancellationToken,
    ) -> Result<(), ProviderError> {
        match request.spec.model.api.as_str() {
            API_DEMO => demo_stream::stream(request, events, cancel).await,
            API_OPENAI_COMPLETIONS => self.exchange::<ChatCompletions>(request, events, cancel).await,
            API_ANTHROPIC_MESSAGES => self.exchange::<Messages>(request, events, cancel).await,
            other => Err(ProviderError::new(ErrorClass::BadRequest, format!("no provider speaks {other}"))),
        }
    }

    async fn exchange<D: Dialect>(
        &self,
        request: &ModelRequest,
        events: &mpsc::Sender<Vec<StreamEvent>>,
        cancel: &CancellationToken,
    ) -> Result<(), ProviderError> {
        exchange::stream::<D>(&self.connections, &self.keys, request, events, cancel).await
    }
}

impl AskModel for ProviderClient {
    fn ask(
        &self,
        request: ModelRequest,
        events: mpsc::Sender<Vec<StreamEvent>>,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        let client = self.clone();
        Box::pin(async move { client.stream(request, events, cancel).await })
    }
}

/// Passes events on.
///
/// # Errors
/// [`ProviderError::cancelled`] when `cancel` fires while the receiver is busy, or when nobody receives any more.
pub(super) async fn send(
    events: &mpsc::Sender<Vec<StreamEvent>>,
    batch: Vec<StreamEvent>,
    cancel: &CancellationToken,
) -> Result<(), ProviderError> {
    if batch.is_empty() {
        return Ok(());
    }
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ProviderError::cancelled()),
        // Losing the batch in a cancelled branch is fine: the response is over then.
        sent = events.send(batch) => sent.map_err(|_| ProviderError::cancelled()),
    }
}

//! The model request: starting it, reading its stream, cancelling it.

use agentd_protocol::EntryId;
use agentd_protocol::methods::OpenMessage;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;

use super::SessionActor;
use super::hide_keys::ResponseRedactor;
use super::images;
use crate::agent::assembler::{Assembler, End, Update};
use crate::agent::event::{self, Event};
use crate::agent::machine::{Cut, Failure, Input, ModelFacts, RequestId};
use crate::clock;
use crate::constants::{INTERRUPTED_MESSAGE, STREAM_BATCHES};
use crate::provider::error::{ErrorClass, ProviderError};
use crate::provider::stream::StreamEvent;
use crate::provider::{ModelRequest, ModelSpec, Pace};
use crate::session::context::build_context;

/// `errorMessage` of a response that a person stopped (pi's words).
const ABORTED: &str = "Request was aborted";
/// `errorMessage` of a response that a steering message cut short.
const STEERED: &str = "Cut short by a steering message";

/// A request whose response is being read.
pub(super) struct ActiveRequest {
    pub(super) id: RequestId,
    pub(super) entry_id: EntryId,
    pub(super) assembler: Assembler,
    redactor: ResponseRedactor,
    /// Whether `message_start` was sent.
    pub(super) is_started: bool,
    events: mpsc::Receiver<Vec<StreamEvent>>,
    task: JoinHandle<Result<(), ProviderError>>,
    /// Ends the task, also when the actor fails.
    _cancel: DropGuard,
}

impl ActiveRequest {
    /// Returns the message as far as it was published.
    pub(super) fn so_far(&self) -> OpenMessage {
        OpenMessage { entry_id: self.entry_id.clone(), message: self.assembler.so_far() }
    }
}

/// What the provider's task says.
pub(super) enum StreamStep {
    /// Events that came in one read.
    Events(Vec<StreamEvent>),
    /// Nothing more comes.
    End(Result<(), ProviderError>),
}

/// Waits for the next step of the response, for ever when none is being read.
pub(super) async fn next(request: &mut Option<ActiveRequest>) -> StreamStep {
    let Some(request) = request else { return std::future::pending().await };
    if let Some(events) = request.events.recv().await {
        return StreamStep::Events(events);
    }
    let result = (&mut request.task).await.unwrap_or_else(|panic| {
        tracing::error!(panicked = panic.is_panic(), "the provider's task failed");
        Err(ProviderError {
            class: ErrorClass::Malformed,
            message: "the provider's code failed on this response; the daemon's log says more".to_owned(),
            status: None,
            retry_after: None,
        })
    });
    StreamStep::End(result)
}

impl SessionActor {
    pub(super) fn start_request(&mut self, id: RequestId, entry_id: EntryId) {
        if !self.machine.wants_request(id) {
            return self.finish_unstarted(id, entry_id);
        }
        let Some(spec) = self.settings.model.clone() else {
            // `prepare` has found a model for this run; nothing takes it away.
            return self.finish_unstarted(id, entry_id);
        };
        let context = build_context(&self.tree);
        let request = ModelRequest {
            spec: images::allowed(&spec, &self.settings.config.images),
            messages: context.messages.into_iter().map(|entry| entry.message).collect(),
            thinking: self.settings.thinking,
            env: self.settings.env.clone(),
            cwd: self.settings.cwd.clone(),
            session_id: self.id.clone(),
            clocks: self.settings.config.provider_clocks,
            demo_delay: self.settings.config.demo_delay,
            pace: Pace::new({
                let ring = self.ring.clone();
                move || ring.wants_each_delta()
            }),
        };
        let (sender, events) = mpsc::channel(STREAM_BATCHES);
        let cancel = self.services.tasks.cancel_token().child_token();
        let response = self.services.provider.ask(request, sender, cancel.clone());
        let task = self.services.tasks.spawn("model request", response);
        let assembler = Assembler::new(facts(&spec, self.settings.thinking), clock::now_ms());
        self.request = Some(ActiveRequest {
            id,
            entry_id,
            assembler,
            redactor: ResponseRedactor::default(),
            is_started: false,
            events,
            task,
            _cancel: cancel.drop_guard(),
        });
    }

    /// The run was stopped, or the request overtaken by a steering message, while it waited for its turn.
    fn finish_unstarted(&mut self, id: RequestId, entry_id: EntryId) {
        let facts = self.settings.model.as_ref().map(|spec| facts(spec, self.settings.thinking)).unwrap_or_default();
        tracing::debug!(session = %self.id, entry = %entry_id, "request not started");
        let end = self.abort_end(self.machine.why_unwanted());
        let message = Assembler::new(facts, clock::now_ms()).finish(&end, clock::now_ms());
        self.feed(Input::StreamFinished { request: id, message: Box::new(message), failure: None });
    }

    fn abort_end(&self, why: Cut) -> End {
        let text = match why {
            _ if self.closing => INTERRUPTED_MESSAGE,
            Cut::Stopped => ABORTED,
            Cut::Steered => STEERED,
        };
        End::Aborted(text.to_owned())
    }

    pub(super) fn on_stream(&mut self, step: StreamStep) {
        match step {
            StreamStep::Events(events) => self.on_stream_events(events),
            StreamStep::End(result) => self.on_stream_end(result),
        }
    }

    fn on_stream_events(&mut self, events: Vec<StreamEvent>) {
        let keys = self.services.key_book.keys();
        let mut updates = Vec::with_capacity(events.len());
        let mut hidden = Vec::with_capacity(events.len());
        if let Some(request) = &mut self.request {
            events.into_iter().for_each(|event| request.redactor.push(&keys, event, &mut hidden));
        }
        for stream_event in hidden {
            if matches!(stream_event, StreamEvent::Started) {
                self.publish_updates(std::mem::take(&mut updates));
                self.on_stream_started();
                continue;
            }
            let Some(request) = &mut self.request else { return };
            self.journal.note_stream(&stream_event);
            updates.extend(request.assembler.push(stream_event));
        }
        self.publish_updates(updates);
        if !self.ring.wants_each_delta() {
            // These were gathered on their way, so that nobody has to wait once more.
            self.end_merge();
        }
    }

    fn on_stream_started(&mut self) {
        let Some(request) = &mut self.request else { return };
        request.is_started = true;
        let skeleton = request.assembler.skeleton();
        let (id, entry_id) = (request.id, request.entry_id.clone());
        let parent = self.tree.leaf().cloned();
        self.journal.note_message_start(&entry_id, parent, &skeleton);
        self.feed(Input::StreamStarted { request: id, message: event::shared(skeleton) });
        // Only an announcement: it has no write before it, because nothing streams while jobs wait.
        self.advance();
    }

    fn publish_updates(&mut self, updates: Vec<Update>) {
        if !updates.is_empty() {
            let events = updates.into_iter().map(|Update { usage, update }| Event::MessageUpdate { usage, update });
            self.publish_all(events);
        }
    }

    fn on_stream_end(&mut self, result: Result<(), ProviderError>) {
        match result {
            Ok(()) => self.finish_request(&End::Complete, true, None),
            Err(error) if error.class == ErrorClass::Cancelled => {
                let end = self.abort_end(Cut::Stopped);
                self.finish_request(&end, true, None);
            }
            Err(mut error) => {
                self.services.key_book.keys().redact_in(&mut error.message);
                let failure = Failure { class: error.class, retry_after: error.retry_after };
                let closes_blocks = !error.is_cut();
                self.finish_request(&End::Failed(error.message), closes_blocks, Some(failure));
            }
        }
    }

    pub(super) fn cancel_request(&mut self, id: RequestId, why: Cut) {
        if self.request.as_ref().is_some_and(|request| request.id == id) {
            let end = self.abort_end(why);
            self.finish_request(&end, true, None);
        }
    }

    /// Ends the request, whatever its task still does: the task is cancelled and its channel dropped.
    fn finish_request(&mut self, end: &End, closes_blocks: bool, failure: Option<Failure>) {
        let Some(mut request) = self.request.take() else { return };
        for held in request.redactor.finish_all(&self.services.key_book.keys()) {
            self.journal.note_stream(&held);
            self.publish_updates(request.assembler.push(held).into_iter().collect());
        }
        if closes_blocks {
            self.publish_updates(request.assembler.close_blocks());
        }
        // It is open for the clients until its end is published, which the disk and what waits before it can delay.
        self.published.closing = request.is_started.then(|| request.so_far());
        let message = Box::new(request.assembler.finish(end, clock::now_ms()));
        self.feed(Input::StreamFinished { request: request.id, message, failure });
    }

    /// Tells the machine which model its messages name.
    pub(super) fn tell_machine_model(&mut self) {
        if let Some(spec) = &self.settings.model {
            self.machine.set_model(facts(spec, self.settings.thinking));
        }
    }
}

fn facts(spec: &ModelSpec, thinking_level: agentd_protocol::message::ThinkingLevel) -> ModelFacts {
    ModelFacts {
        api: spec.model.api.clone(),
        provider: spec.model.provider.clone(),
        model: spec.model.id.clone(),
        thinking_level,
        max_tokens: spec.model.max_tokens,
    }
}

//! Streaming: from a request to the end of its response.

use std::sync::Arc;

use agentd_protocol::message::{AssistantMessage, ContentBlock, Message, StopReason, ToolCall};
use agentd_protocol::methods::RunEnd;

use super::core::{Machine, Moment, Next, Phase, Streaming};
use super::effect::{Effect, NewEntry};
use super::input::{Failure, RequestId};
use crate::agent::event::{Event, MessageEntry};
use crate::session::entry::EntryBody;

impl Machine {
    /// Asks the model with the context of the leaf, unless the run is being stopped.
    pub(super) fn request(&mut self, moment: Moment<'_>) {
        if self.is_stopping() {
            return self.end_stopped(moment);
        }
        self.run_mut().turns += 1;
        let request = RequestId(self.next_number());
        let entry_id = self.new_entry_id(moment);
        self.effects.push(Effect::StartRequest { request, entry_id: entry_id.clone() });
        self.phase = Phase::Streaming(Streaming { request, entry_id, started: false, is_cut: false });
    }

    pub(super) fn on_stream_started(&mut self, request: RequestId, message: Arc<Message>) {
        let Phase::Streaming(streaming) = &mut self.phase else { return };
        if streaming.request != request || streaming.started {
            return;
        }
        streaming.started = true;
        let entry = MessageEntry { id: streaming.entry_id.clone(), message, client: None };
        self.emit(Event::MessageStart(entry));
    }

    pub(super) fn on_stream_finished(
        &mut self,
        moment: Moment<'_>,
        request: RequestId,
        message: AssistantMessage,
        failure: Option<Failure>,
    ) {
        let is_current = |phase: &Phase| matches!(phase, Phase::Streaming(current) if current.request == request);
        let Some(Phase::Streaming(streaming)) = self.take_phase(is_current) else { return };
        let stop_reason = message.stop_reason;
        let is_steered = streaming.is_cut && stop_reason == StopReason::Aborted && !self.is_stopping();
        let error = message.error_message.clone();
        let calls = tool_calls(&message);
        let entry =
            MessageEntry { id: streaming.entry_id, message: Arc::new(Message::Assistant(message)), client: None };
        self.effects.push(Effect::Append {
            entries: vec![NewEntry { id: entry.id.clone(), body: EntryBody::Message(Arc::clone(&entry.message)) }],
            // A turn that goes on with tools is synced at its end.
            sync: calls.is_empty(),
        });
        if !streaming.started {
            self.emit(Event::MessageStart(entry.clone()));
        }
        self.emit(Event::MessageEnd(entry.clone()));
        self.run_mut().messages.push(entry.clone());
        match stop_reason {
            // What comes next counts on: it is the same request, with one message more.
            StopReason::Aborted if is_steered => {}
            StopReason::Aborted => self.cancel_retries(),
            _ if failure.is_none() => self.end_retries(),
            _ => {}
        }
        match (failure, stop_reason) {
            (None, StopReason::Length) if !calls.is_empty() => self.refuse_cut_calls(moment, entry, &calls),
            (None, StopReason::Stop | StopReason::ToolUse | StopReason::Pending | StopReason::Length) => {
                if calls.is_empty() {
                    let next = if stop_reason == StopReason::Length {
                        self.at_limit(&entry)
                    } else {
                        Next::Stop(RunEnd::Done)
                    };
                    self.end_turn(entry, Vec::new(), next);
                } else {
                    self.start_tools(moment, entry, calls);
                }
            }
            (Some(failure), _) => {
                let error = error.unwrap_or_default();
                self.run_mut().error = Some(error.clone());
                self.end_turn(entry, Vec::new(), Next::Failed(failure, error));
            }
            (None, StopReason::Aborted) if is_steered => {
                self.end_turn(entry, Vec::new(), Next::Stop(RunEnd::Aborted));
            }
            (None, StopReason::Aborted | StopReason::Error) => {
                self.run_mut().error = error;
                self.end_turn(entry, Vec::new(), Next::Stop(RunEnd::Error));
            }
        }
    }
}

impl Machine {
    /// Decides what follows an answer that a limit cut short. Fewer tokens than the model may make mean that the
    /// context window was the limit (as pi decides).
    fn at_limit(&mut self, answer: &MessageEntry) -> Next {
        let Message::Assistant(message) = &*answer.message else { return Next::Stop(RunEnd::Length) };
        let (made, most) = (message.usage.output, self.model.max_tokens);
        let is_cut = made < most;
        self.run_mut().error = is_cut.then(|| {
            format!(
                "the answer was cut short after {made} tokens, of at most {most}: the context window is full; the \
                 answer is kept in the session and left out of further requests"
            )
        });
        if is_cut { Next::Cut(answer.id.clone()) } else { Next::Stop(RunEnd::Length) }
    }
}

fn tool_calls(message: &AssistantMessage) -> Vec<ToolCall> {
    let calls = message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolCall(call) => Some(call.clone()),
        _ => None,
    });
    match message.stop_reason {
        StopReason::Stop | StopReason::ToolUse | StopReason::Length | StopReason::Pending => calls.collect(),
        // A call of a response that was cut short is never run.
        StopReason::Error | StopReason::Aborted => Vec::new(),
    }
}

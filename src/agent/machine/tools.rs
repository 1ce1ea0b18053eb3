//! Tools: each call of a response is a small machine of its own; the batch ends when all have ended.

use std::sync::Arc;

use agentd_protocol::EntryId;
use agentd_protocol::message::{ContentBlock, Message, ToolCall, ToolResult, ToolResultMessage};
use serde_json::json;

use super::consent::end_event;
use super::core::{Machine, Moment, Next, Phase};
use super::effect::{Effect, NewEntry};
use super::input::{Stop, ToolEnd};
use crate::agent::event::{Event, MessageEntry, ToolStart};
use crate::permissions::policy::{Ask, CheckedCall, Reason, Verdict, decide};
use crate::session::entry::EntryBody;

/// What a call that never ran is answered with when the run is stopped.
pub(super) const ABORTED: &str = "Operation aborted";

/// The calls of one response. A call is known by the entry of its result: a model may give two calls the same id.
#[derive(Debug)]
pub(super) struct ToolBatch {
    pub(super) assistant: MessageEntry,
    pub(super) calls: Vec<Call>,
    /// A daemon before this one began it.
    pub(super) is_from_before: bool,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) start: Arc<ToolStart>,
    pub(super) state: CallState,
}

/// Where a call stands.
#[derive(Debug)]
pub(super) enum CallState {
    Validating,
    /// A person is to decide, and it is found out what there is to show.
    Describing(Ask),
    /// A person decides; the question holds its entry.
    Asking,
    Running,
    Done(ToolEnd),
}

impl ToolBatch {
    /// Returns the calls that have been started and not ended.
    pub(super) fn running(&self) -> Vec<EntryId> {
        let running = self.calls.iter().filter(|call| matches!(call.state, CallState::Running));
        running.map(|call| call.start.entry_id.clone()).collect()
    }

    pub(super) fn open(&mut self, id: &EntryId) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.start.entry_id == *id && !matches!(call.state, CallState::Done(_)))
    }

    /// Tells whether a call waits for an answer.
    pub(super) fn is_asking(&self) -> bool {
        self.calls.iter().any(|call| matches!(call.state, CallState::Asking))
    }

    /// Tells whether nothing but answers is waited for.
    pub(super) fn only_asks(&self) -> bool {
        self.is_asking() && self.calls.iter().all(|call| matches!(call.state, CallState::Asking | CallState::Done(_)))
    }

    fn is_done(&self) -> bool {
        self.calls.iter().all(|call| matches!(call.state, CallState::Done(_)))
    }
}

impl Machine {
    /// Tells whether the call with this result entry is still wanted; one whose run was stopped before it began is
    /// not.
    pub fn wants_tool(&self, id: &EntryId) -> bool {
        let Phase::Tools(batch) = &self.phase else { return false };
        !self.is_stopping()
            && batch.calls.iter().any(|call| call.start.entry_id == *id && matches!(call.state, CallState::Running))
    }

    pub(super) fn start_tools(&mut self, moment: Moment<'_>, assistant: MessageEntry, calls: Vec<ToolCall>) {
        let batch = self.batch(moment, assistant, &calls);
        let starts: Vec<Arc<ToolStart>> = batch.calls.iter().map(|call| Arc::clone(&call.start)).collect();
        self.phase = Phase::Tools(batch);
        for start in &starts {
            self.emit(Event::ToolExecutionStart(Arc::clone(start)));
        }
        for start in starts {
            self.effects.push(Effect::ValidateTool(start));
        }
    }

    fn batch(&mut self, moment: Moment<'_>, assistant: MessageEntry, calls: &[ToolCall]) -> ToolBatch {
        let calls = calls
            .iter()
            .map(|call| Call {
                start: Arc::new(ToolStart {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    args: call.arguments.clone(),
                    arguments_error: call.arguments_error.clone(),
                    entry_id: self.new_entry_id(moment),
                }),
                state: CallState::Validating,
            })
            .collect();
        ToolBatch { assistant, calls, is_from_before: false }
    }

    /// Answers every call of a response that was cut by the output limit without running any.
    pub(super) fn refuse_cut_calls(&mut self, moment: Moment<'_>, assistant: MessageEntry, calls: &[ToolCall]) {
        let batch = self.batch(moment, assistant, calls);
        let starts: Vec<Arc<ToolStart>> = batch.calls.iter().map(|call| Arc::clone(&call.start)).collect();
        self.phase = Phase::Tools(batch);
        for start in &starts {
            self.emit(Event::ToolExecutionStart(Arc::clone(start)));
        }
        for start in starts {
            self.finish_call(moment, &start.entry_id, never_ran(&cut(&start.name)));
        }
    }

    pub(super) fn on_tool_validated(
        &mut self,
        moment: Moment<'_>,
        id: &EntryId,
        verdict: Result<CheckedCall, ToolEnd>,
    ) {
        let stopping = self.is_stopping();
        let Phase::Tools(batch) = &mut self.phase else { return };
        let Some(call) = batch.open(id).filter(|call| matches!(call.state, CallState::Validating)) else { return };
        match verdict {
            Err(end) => self.finish_call(moment, id, end),
            Ok(_) if stopping => self.finish_call(moment, id, never_ran(ABORTED)),
            Ok(checked) => {
                let start = Arc::clone(&call.start);
                match decide(&self.policy(), &checked.view(&start.name)) {
                    Verdict::Allow => self.start_call(id, None),
                    Verdict::Deny(Reason(why)) => self.finish_call(moment, id, never_ran(&denied(&why))),
                    Verdict::Ask(ask) => self.seek_consent(id, ask),
                }
            }
        }
    }

    /// Lets a call run; one that was consented to only if it is still what `approved` is the digest of.
    pub(super) fn start_call(&mut self, id: &EntryId, approved: Option<String>) {
        let Phase::Tools(batch) = &mut self.phase else { return };
        let Some(call) = batch.open(id) else { return };
        call.state = CallState::Running;
        self.effects.push(Effect::StartTool { call: Arc::clone(&call.start), approved });
    }

    pub(super) fn on_tool_finished(&mut self, moment: Moment<'_>, id: &EntryId, end: ToolEnd) {
        let Phase::Tools(batch) = &mut self.phase else { return };
        if batch.open(id).is_some_and(|call| matches!(call.state, CallState::Running)) {
            self.finish_call(moment, id, end);
        }
    }

    /// Stops the calls that run and answers those that have not begun.
    pub(super) fn cancel_tools(&mut self, moment: Moment<'_>) {
        self.cancel_running();
        self.cancel_questions(moment);
        self.finish_unbegun(moment, |state| !matches!(state, CallState::Running | CallState::Done(_)));
    }

    pub(super) fn cancel_running(&mut self) {
        let Phase::Tools(batch) = &self.phase else { return };
        for call in batch.running() {
            self.effects.push(Effect::CancelTool(call));
        }
    }

    pub(super) fn finish_call(&mut self, moment: Moment<'_>, id: &EntryId, end: ToolEnd) {
        let Phase::Tools(batch) = &mut self.phase else { return };
        let Some(call) = batch.open(id) else { return };
        let event = end_event(&call.start, &end);
        call.state = CallState::Done(end);
        let done = batch.is_done();
        self.emit(event);
        if done {
            self.end_batch(moment);
        } else if self.run.as_ref().is_some_and(|run| run.stop == Some(Stop::Shutdown)) {
            self.leave_if_only_asking();
        }
    }

    /// Writes all results in call order and ends the turn.
    fn end_batch(&mut self, moment: Moment<'_>) {
        let is_tools = |phase: &Phase| matches!(phase, Phase::Tools(_));
        let Some(Phase::Tools(batch)) = self.take_phase(is_tools) else { return };
        let results: Vec<MessageEntry> = batch
            .calls
            .into_iter()
            .filter_map(|call| {
                let CallState::Done(end) = call.state else { return None };
                let message = result_message(&call.start, &end, moment.now);
                Some(MessageEntry {
                    id: call.start.entry_id.clone(),
                    message: Arc::new(Message::ToolResult(message)),
                    client: None,
                })
            })
            .collect();
        let entries = results
            .iter()
            .map(|entry| NewEntry { id: entry.id.clone(), body: EntryBody::Message(Arc::clone(&entry.message)) })
            .collect();
        self.effects.push(Effect::Append { entries, sync: true });
        for entry in &results {
            self.announce(entry.clone());
        }
        let next = if batch.is_from_before { Next::AnswerAgain } else { Next::Answer };
        self.end_turn(batch.assistant, results, next);
    }
}

/// Makes the message that answers a call.
pub fn result_message(call: &ToolStart, end: &ToolEnd, now: i64) -> ToolResultMessage {
    ToolResultMessage {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        content: end.result.content.clone(),
        details: end.result.details.clone(),
        is_error: end.is_error,
        duration_ms: end.duration_ms,
        timestamp: now,
    }
}

/// What a call is answered with when the output limit cut the response that holds it (pi's words).
fn cut(tool: &str) -> String {
    format!(
        "Tool call \"{tool}\" was not executed: the response hit the output token limit, so its arguments may be \
         truncated. Re-issue the tool call with complete arguments."
    )
}

/// What a call is answered with that may not run.
fn denied(why: &str) -> String {
    format!("Permission denied: {why}. The call was not run; do not try to get the same effect another way.")
}

/// Makes the end of a call that was not run.
pub(super) fn never_ran(text: &str) -> ToolEnd {
    ToolEnd {
        result: Arc::new(ToolResult {
            content: vec![ContentBlock::text(text)],
            details: Some(json!({})),
            structured_content: None,
        }),
        is_error: true,
        duration_ms: None,
    }
}

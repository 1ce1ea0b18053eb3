//! Between turns: what follows once a turn's writes are done.

use std::sync::Arc;

use agentd_protocol::EntryId;
use agentd_protocol::message::{AssistantMessage, Message, StopReason, Usage};
use agentd_protocol::methods::{Decision, RunEnd};

use super::core::{Machine, Moment, Next, Phase};
use super::effect::{Effect, NewEntry};
use super::input::Stop;
use super::queue::Line;
use crate::agent::event::{Event, MessageEntry};
use crate::constants::INTERRUPTED_MESSAGE;
use crate::session::entry::EntryBody;

/// `errorMessage` of the empty response of a stopped run (pi's words, which old files hold too).
const ABORTED: &str = "This operation was aborted";

impl Machine {
    /// Tells of the end of a turn. What comes next is decided as late as possible, so that a message steered
    /// meanwhile still belongs to this run.
    pub(super) fn end_turn(&mut self, message: MessageEntry, tool_results: Vec<MessageEntry>, next: Next) {
        self.emit(Event::TurnEnd { message, tool_results });
        self.effects.push(Effect::Step);
        self.phase = Phase::Between(next);
    }

    pub(super) fn on_step(&mut self, moment: Moment<'_>) {
        // Only the machine asks for steps; one that finds another phase belongs to a run that a failed write ended.
        let is_between = |phase: &Phase| matches!(phase, Phase::Between(_));
        let Some(Phase::Between(next)) = self.take_phase(is_between) else { return };
        self.run_mut().is_announced = true;
        self.questions.close();
        if let Next::Answered { decision, .. } = next {
            self.obey(decision);
        }
        if self.is_stopping() {
            return match next {
                Next::Answer
                | Next::AnswerAgain
                | Next::Answered { decision: Decision::Once | Decision::Session | Decision::Always, .. } => {
                    self.emit(Event::TurnStart);
                    self.end_stopped(moment);
                }
                Next::Answered { decision: Decision::Deny, .. } => self.end_run(RunEnd::MaxTurns),
                Next::Stop(_) | Next::Cut(_) | Next::Failed(..) => self.end_run(RunEnd::Aborted),
                Next::Settle(end) => self.settle(end),
            };
        }
        match next {
            Next::Answer => self.next_turn(moment),
            // What a run is prepared with may have changed since.
            Next::AnswerAgain => self.prepare_again(),
            Next::Answered { decision, is_from_before } => self.after_decision(moment, decision, is_from_before),
            Next::Stop(end) => self.after_answer(moment, end),
            Next::Cut(answer) => self.after_cut(moment, answer),
            Next::Settle(end) => self.settle(end),
            Next::Failed(failure, error) => self.after_failure(moment, failure, error),
        }
    }

    /// The model waits for tool results: steering goes with them.
    pub(super) fn next_turn(&mut self, moment: Moment<'_>) {
        if self.run_mut().turns >= self.settings.max_turns {
            return self.at_turn_limit(moment);
        }
        self.emit(Event::TurnStart);
        self.inject(Line::Steering);
        self.request(moment);
    }

    /// The model had said all: steering comes first, then a follow-up, else the run ends.
    fn after_answer(&mut self, moment: Moment<'_>, end: RunEnd) {
        if self.queues.is_empty() {
            return self.end_run(end);
        }
        self.emit(Event::TurnStart);
        if !self.inject(Line::Steering) {
            self.inject(Line::FollowUp);
        }
        self.request(moment);
    }

    /// The answer was cut short for want of room in the context window. It must not take up more of that room in
    /// later requests, as in pi; the file keeps it.
    fn after_cut(&mut self, moment: Moment<'_>, answer: EntryId) {
        if !self.queues.is_empty() {
            return self.after_answer(moment, RunEnd::Length);
        }
        let messages = std::mem::take(&mut self.run_mut().messages);
        self.emit(Event::AgentEnd { messages, will_retry: false });
        self.hide(moment, answer);
        // As in `end_stopped`: if the write fails, the clients must still see the run end.
        self.effects.push(Effect::Step);
        self.phase = Phase::Between(Next::Settle(RunEnd::Length));
    }

    /// Leaves a message out of the context of later requests.
    pub(super) fn hide(&mut self, moment: Moment<'_>, target: EntryId) {
        let edit = self.new_entry(moment, EntryBody::ContextEdit { target, replacement: None });
        let id = edit.id.clone();
        self.effects.push(Effect::Append { entries: vec![edit], sync: false });
        self.effects.push(Effect::EmitEntry(id));
    }

    /// A run stopped before its next request: an empty response marks the place, as in pi.
    pub(super) fn end_stopped(&mut self, moment: Moment<'_>) {
        let message = Arc::new(Message::Assistant(self.aborted_message(moment)));
        let entry = MessageEntry { id: self.new_entry_id(moment), message, client: None };
        let body = EntryBody::Message(Arc::clone(&entry.message));
        self.effects.push(Effect::Append { entries: vec![NewEntry { id: entry.id.clone(), body }], sync: true });
        self.announce(entry.clone());
        // The run settles in the next step, not here: if the write fails, its clients must still see it end.
        self.end_turn(entry, Vec::new(), Next::Stop(RunEnd::Aborted));
    }

    fn aborted_message(&self, moment: Moment<'_>) -> AssistantMessage {
        let is_shutdown = self.run.as_ref().is_some_and(|run| run.stop == Some(Stop::Shutdown));
        let why = if is_shutdown { INTERRUPTED_MESSAGE } else { ABORTED };
        AssistantMessage {
            content: Vec::new(),
            api: self.model.api.clone(),
            provider: self.model.provider.clone(),
            model: self.model.model.clone(),
            usage: Usage::default(),
            stop_reason: StopReason::Aborted,
            timestamp: moment.now,
            response_id: None,
            raw_stop_reason: None,
            response_model: None,
            error_message: Some(why.to_owned()),
            duration_ms: Some(0),
            thinking_level: Some(self.model.thinking_level),
        }
    }

    /// Ends the run for good.
    pub(super) fn end_run(&mut self, reason: RunEnd) {
        let messages = std::mem::take(&mut self.run_mut().messages);
        self.emit(Event::AgentEnd { messages, will_retry: false });
        self.settle(reason);
    }
}

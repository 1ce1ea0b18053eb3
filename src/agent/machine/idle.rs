//! Idle and starting: from a prompt to the first request.

use std::sync::Arc;

use agentd_protocol::message::{Message, StopReason, UserMessage};
use agentd_protocol::methods::{Disposition, IfBusy, PromptResult, RunEnd};

use super::core::{Machine, Moment, Phase, Run, Starting};
use super::effect::{Effect, NewEntry, Outcome};
use super::input::{Prepared, Refusal, ReplyId};
use super::queue::{Line, QueuedMessage};
use crate::agent::event::{Event, MessageEntry};
use crate::session::context::build_context;
use crate::session::entry::EntryBody;

impl Machine {
    pub(super) fn on_prompt(&mut self, moment: Moment<'_>, user: UserMessage, if_busy: IfBusy, reply: ReplyId) {
        if let Some(answer) = self.answer_repeat(moment, &user) {
            return self.reply(reply, Outcome::Prompt(answer));
        }
        if !self.is_idle() {
            return match if_busy {
                IfBusy::Reject => self.refuse(reply, Refusal::Busy),
                IfBusy::Steer => self.enqueue(moment, user, reply, Line::Steering),
                IfBusy::FollowUp => self.enqueue(moment, user, reply, Line::FollowUp),
            };
        }
        let user = QueuedMessage { entry_id: self.new_entry_id(moment), message: user };
        self.accepted = Some(user.entry_id.clone());
        self.prepare(Some(user), reply);
    }

    pub(super) fn on_continue(&mut self, moment: Moment<'_>, reply: ReplyId) {
        if !self.is_idle() {
            return self.refuse(reply, Refusal::Busy);
        }
        if !can_continue(moment) && self.queues.is_empty() {
            return self.refuse(
                reply,
                Refusal::WrongState("there is nothing to continue: the last run ended by itself; send a prompt"),
            );
        }
        self.prepare(None, reply);
    }

    fn prepare(&mut self, user: Option<QueuedMessage>, reply: ReplyId) {
        self.phase = Phase::Starting(Starting { user, reply: Some(reply) });
        self.run = Some(Run::default());
        self.effects.push(Effect::Prepare);
    }

    /// Prepares the run that goes on after an answer to a question from before.
    pub(super) fn prepare_again(&mut self) {
        self.phase = Phase::Starting(Starting { user: None, reply: None });
        self.effects.push(Effect::Prepare);
    }

    pub(super) fn on_prepared(&mut self, moment: Moment<'_>, prepared: Result<Prepared, Refusal>) {
        let is_starting = |phase: &Phase| matches!(phase, Phase::Starting(_));
        let Some(Phase::Starting(starting)) = self.take_phase(is_starting) else { return };
        match prepared {
            Ok(prepared) => self.begin_run(moment, starting, prepared),
            Err(refusal) => self.abandon_start(starting.reply, refusal),
        }
    }

    /// The run cannot begin: nothing was written or announced, so nothing but answers is due. One that cannot go on is
    /// known to the clients, and so is told to have failed.
    fn abandon_start(&mut self, reply: Option<ReplyId>, refusal: Refusal) {
        if self.run_mut().is_announced {
            self.run_mut().error = Some(refusal.to_string());
            return self.end_run(RunEnd::Error);
        }
        if let Some(reply) = reply {
            self.refuse(reply, refusal);
        }
        self.settle_unannounced();
    }

    /// Writes the prompt with everything that must stand before it, then answers, then tells, then asks the model.
    fn begin_run(&mut self, moment: Moment<'_>, starting: Starting, prepared: Prepared) {
        let mut entries = Vec::new();
        let mut messages = Vec::new();
        for body in prepared.entries {
            let entry = self.new_entry(moment, body);
            if let EntryBody::Message(message) = &entry.body {
                messages.push(MessageEntry { id: entry.id.clone(), message: Arc::clone(message), client: None });
            }
            entries.push(entry);
        }
        let mut prompt_id = None;
        let is_continue = starting.user.is_none();
        if let Some(QueuedMessage { entry_id, message }) = starting.user {
            let message = Arc::new(Message::User(message));
            messages.push(MessageEntry { id: entry_id.clone(), message: Arc::clone(&message), client: None });
            entries.push(NewEntry { id: entry_id.clone(), body: EntryBody::Message(message) });
            prompt_id = Some(entry_id);
        }
        if !entries.is_empty() {
            self.effects.push(Effect::Append { entries, sync: true });
        }
        if let Some(reply) = starting.reply {
            let answer = PromptResult { disposition: Disposition::Started, entry_id: prompt_id };
            self.reply(reply, Outcome::Prompt(answer));
        }
        self.emit(Event::AgentStart);
        self.emit(Event::TurnStart);
        for message in messages {
            self.announce(message);
        }
        // `continue` after a run that ended by itself is allowed when messages wait: they are what it goes on with.
        if !self.inject(Line::Steering) && is_continue && !can_continue(moment) {
            self.inject(Line::FollowUp);
        }
        self.request(moment);
    }
}

/// Tells whether the branch ends in something that a model has yet to answer.
fn can_continue(moment: Moment<'_>) -> bool {
    let context = build_context(moment.tree);
    match context.messages.last().map(|last| &*last.message) {
        None | Some(Message::System(_)) => false,
        Some(Message::Assistant(last)) => {
            matches!(last.stop_reason, StopReason::Aborted | StopReason::Error | StopReason::Length)
        }
        Some(_) => true,
    }
}

//! Messages waiting to be sent: steering after the current turn, follow-ups when the run would end.

use std::collections::VecDeque;
use std::sync::Arc;

use agentd_protocol::EntryId;
use agentd_protocol::message::{ContentBlock, Message, UserMessage};
use agentd_protocol::methods::{Disposition, PromptResult, Queue, QueueMode, SteerWhen};
use serde::{Deserialize, Serialize};

use super::core::{Machine, Moment, Phase};
use super::effect::{Cut, Effect, NewEntry, Outcome};
use super::input::{Refusal, ReplyId};
use crate::agent::event::{Event, MessageEntry};
use crate::constants::{MAX_QUEUED_BYTES, MAX_QUEUED_MESSAGES, MAX_QUEUED_TEXT_BYTES};
use crate::session::entry::EntryBody;

/// Why a message cannot wait.
const QUEUES_FULL: &str =
    "the queues are full; send it again when the run has taken some of what waits, or clear_queue first";

/// A message in a queue. It has the id of its entry already, so that a message found both in the crash journal and
/// in the file is known to be one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedMessage {
    /// Id that its entry will have.
    pub entry_id: EntryId,
    /// The message.
    pub message: UserMessage,
}

/// Both queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Queues {
    /// To be injected after the current turn.
    pub steering: VecDeque<QueuedMessage>,
    /// To be sent when the run would end.
    pub follow_up: VecDeque<QueuedMessage>,
}

impl Queues {
    /// Tells whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.steering.is_empty() && self.follow_up.is_empty()
    }

    /// Returns how many messages wait.
    pub fn len(&self) -> usize {
        self.steering.len() + self.follow_up.len()
    }

    /// Returns all that wait.
    pub fn iter(&self) -> impl Iterator<Item = &QueuedMessage> {
        self.steering.iter().chain(&self.follow_up)
    }

    /// Returns about how many bytes wait, images included.
    pub fn bytes(&self) -> usize {
        self.iter().map(|queued| message_bytes(&queued.message)).sum()
    }

    /// Tells whether one more message can wait. One alone always can: that it was taken from the wire bounds it.
    fn has_room_for(&self, message: &UserMessage) -> bool {
        let messages = self.iter().map(|queued| &queued.message).chain([message]);
        let text: usize = messages.map(|message| text_of(message).len()).sum();
        self.is_empty()
            || (self.len() < MAX_QUEUED_MESSAGES
                && text <= MAX_QUEUED_TEXT_BYTES
                && self.bytes() + message_bytes(message) <= MAX_QUEUED_BYTES)
    }

    fn line(&mut self, line: Line) -> &mut VecDeque<QueuedMessage> {
        match line {
            Line::Steering | Line::Urgent => &mut self.steering,
            Line::FollowUp => &mut self.follow_up,
        }
    }

    /// Returns the texts, as clients see them.
    pub fn texts(&self) -> Queue {
        let texts = |queue: &VecDeque<QueuedMessage>| queue.iter().map(|queued| text_of(&queued.message)).collect();
        Queue { steering: texts(&self.steering), follow_up: texts(&self.follow_up) }
    }

    /// Returns the event that tells of the queues.
    pub(super) fn event(&self) -> Event {
        let texts = |queue: &VecDeque<QueuedMessage>| {
            queue.iter().map(|queued| Arc::from(text_of(&queued.message))).collect::<Vec<Arc<str>>>()
        };
        Event::QueueUpdate { steering: texts(&self.steering), follow_up: texts(&self.follow_up) }
    }

    /// Returns whether a message with this client id waits.
    pub(super) fn holds(&self, client_message_id: &str) -> bool {
        self.iter().any(|queued| queued.message.client_message_id.as_deref() == Some(client_message_id))
    }
}

/// Takes from the front of a queue what its mode allows, and at least the `urgent` first.
fn take(queue: &mut VecDeque<QueuedMessage>, mode: QueueMode, urgent: usize) -> Vec<QueuedMessage> {
    let count = match mode {
        QueueMode::OneAtATime => urgent.max(1).min(queue.len()),
        QueueMode::All => queue.len(),
    };
    queue.drain(..count).collect()
}

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Steering,
    /// The steering queue, behind the messages that go at once.
    Urgent,
    FollowUp,
}

impl Machine {
    /// Puts a message into a queue, or answers a repeat like the first.
    pub(super) fn enqueue(&mut self, moment: Moment<'_>, user: UserMessage, reply: ReplyId, line: Line) {
        if let Some(answer) = self.answer_repeat(moment, &user) {
            return self.reply(reply, Outcome::Prompt(answer));
        }
        if !self.queues.has_room_for(&user) {
            return self.refuse(reply, Refusal::WrongState(QUEUES_FULL));
        }
        let queued = QueuedMessage { entry_id: self.new_entry_id(moment), message: user };
        self.accepted = Some(queued.entry_id.clone());
        match line {
            Line::Urgent => {
                self.queues.steering.insert(self.urgent, queued);
                self.urgent += 1;
            }
            Line::Steering | Line::FollowUp => self.queues.line(line).push_back(queued),
        }
        self.effects.push(Effect::SaveQueue(self.queues.clone()));
        let event = self.queues.event();
        self.emit(event);
        self.reply(reply, Outcome::Prompt(PromptResult { disposition: Disposition::Queued, entry_id: None }));
        if line == Line::Urgent {
            self.cut_answer();
        }
    }

    /// Queues a steering message. One that is to go at once overtakes those that wait for the end of the turn.
    pub(super) fn on_steer(&mut self, moment: Moment<'_>, user: UserMessage, when: SteerWhen, reply: ReplyId) {
        let is_urgent = when == SteerWhen::Now && !self.is_idle();
        self.enqueue(moment, user, reply, if is_urgent { Line::Urgent } else { Line::Steering });
    }

    /// Ends the response that is being read, so that steering can go to the model.
    fn cut_answer(&mut self) {
        let is_stopping = self.is_stopping();
        let Phase::Streaming(streaming) = &mut self.phase else { return };
        if !is_stopping && !streaming.is_cut {
            streaming.is_cut = true;
            self.effects.push(Effect::CancelRequest(streaming.request, Cut::Steered));
        }
    }

    /// Returns the first answer to a message that has come before.
    pub(super) fn answer_repeat(&self, moment: Moment<'_>, user: &UserMessage) -> Option<PromptResult> {
        let id = user.client_message_id.as_deref()?;
        if self.queues.holds(id) {
            return Some(PromptResult { disposition: Disposition::Queued, entry_id: None });
        }
        let started = |entry_id| PromptResult { disposition: Disposition::Started, entry_id: Some(entry_id) };
        if let Some(entry_id) = moment.tree.find_client_message(id) {
            return Some(started(entry_id.clone()));
        }
        // A message of this run may be on its way to the disk: its answer waits for the same write.
        let run = self.run.as_ref()?;
        let on_its_way = run.messages.iter().find(|entry| match &*entry.message {
            Message::User(user) => user.client_message_id.as_deref() == Some(id),
            _ => false,
        })?;
        Some(started(on_its_way.id.clone()))
    }

    pub(super) fn on_clear_queue(&mut self, reply: ReplyId) {
        let cleared = std::mem::take(&mut self.queues);
        self.urgent = 0;
        if !cleared.is_empty() {
            self.effects.push(Effect::SaveQueue(Queues::default()));
        }
        let event = self.queues.event();
        self.emit(event);
        self.reply(reply, Outcome::Queue(cleared.texts()));
    }

    /// Takes from a queue what its mode allows, writes it and tells of it message by message. Returns whether there
    /// was anything.
    pub(super) fn inject(&mut self, line: Line) -> bool {
        let mode = match line {
            Line::Steering | Line::Urgent => self.settings.steering_mode,
            Line::FollowUp => self.settings.follow_up_mode,
        };
        let urgent = if line == Line::FollowUp { 0 } else { std::mem::take(&mut self.urgent) };
        let taken = take(self.queues.line(line), mode, urgent);
        if taken.is_empty() {
            return false;
        }
        let mut told = self.queues.clone();
        taken.iter().rev().for_each(|queued| told.line(line).push_front(queued.clone()));
        let entries: Vec<MessageEntry> = taken
            .into_iter()
            .map(|queued| MessageEntry {
                id: queued.entry_id,
                message: Arc::new(Message::User(queued.message)),
                client: None,
            })
            .collect();
        let bodies = entries
            .iter()
            .map(|entry| NewEntry { id: entry.id.clone(), body: EntryBody::Message(Arc::clone(&entry.message)) })
            .collect();
        self.effects.push(Effect::Append { entries: bodies, sync: true });
        // Only after the entries: a crash between the two leaves a message in both, and its id tells that it is one.
        self.effects.push(Effect::SaveQueue(self.queues.clone()));
        for entry in entries {
            told.line(line).pop_front();
            self.emit(told.event());
            self.announce(entry);
        }
        true
    }
}

fn message_bytes(message: &UserMessage) -> usize {
    let bytes = |block: &ContentBlock| match block {
        ContentBlock::Image { data, .. } => data.len(),
        block => block.as_text().map_or(0, str::len),
    };
    message.content.iter().map(bytes).sum()
}

/// Returns the text of a message, its text blocks joined.
fn text_of(message: &UserMessage) -> String {
    let texts: Vec<&str> = message.content.iter().filter_map(ContentBlock::as_text).collect();
    texts.join("\n")
}

//! Messages waiting to be sent: steering after the current turn, follow-ups when the run would end.

use std::collections::VecDeque;
use std::sync::Arc;

use agentd_protocol::EntryId;
use agentd_protocol::message::{ContentBlock, UserMessage};
use agentd_protocol::methods::{Queue, QueueMode};
use serde::{Deserialize, Serialize};

use crate::agent::event::Event;

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
        self.steering
            .iter()
            .chain(&self.follow_up)
            .any(|queued| queued.message.client_message_id.as_deref() == Some(client_message_id))
    }
}

/// Takes from the front of a queue what its mode allows.
pub(super) fn take(queue: &mut VecDeque<QueuedMessage>, mode: QueueMode) -> Vec<QueuedMessage> {
    match mode {
        QueueMode::OneAtATime => queue.pop_front().into_iter().collect(),
        QueueMode::All => queue.drain(..).collect(),
    }
}

/// Returns the text of a message, its text blocks joined.
fn text_of(message: &UserMessage) -> String {
    let texts: Vec<&str> = message.content.iter().filter_map(ContentBlock::as_text).collect();
    texts.join("\n")
}

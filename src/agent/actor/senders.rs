//! Who sent which user message. Held in memory only: a session file says what was said, and pi reads it as its own.

use std::collections::HashMap;
use std::sync::Arc;

use agentd_protocol::EntryId;
use agentd_protocol::message::Message;
use agentd_protocol::methods::ClientRef;

use crate::agent::event::Event;

/// More senders than entries before those of messages that never became an entry are looked for.
const SLACK: usize = 64;

/// The senders of a session's user messages, by entry.
#[derive(Debug, Default)]
pub(super) struct Senders(HashMap<EntryId, Arc<ClientRef>>);

impl Senders {
    /// Notes who sent a message that was taken.
    pub(super) fn add(&mut self, entry: EntryId, client: Arc<ClientRef>) {
        self.0.insert(entry, client);
    }

    /// Forgets messages that were taken and dropped again (a queue that was cleared, a prompt that was refused), once there
    /// are many more than the session has messages.
    pub(super) fn prune(&mut self, messages: usize, is_there: impl Fn(&EntryId) -> bool) {
        if self.0.len() > messages + SLACK {
            self.0.retain(|id, _| is_there(id));
        }
    }

    /// Returns who sent the message of an entry.
    pub(super) fn of(&self, entry: &EntryId) -> Option<&Arc<ClientRef>> {
        self.0.get(entry)
    }

    /// Puts the sender into an event that tells of a user message.
    pub(super) fn sign(&self, event: &mut Event) {
        if let Event::MessageStart(entry) | Event::MessageEnd(entry) = event
            && let Message::User(_) = &*entry.message
        {
            entry.client = self.0.get(&entry.id).cloned();
        }
    }
}

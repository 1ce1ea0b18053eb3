//! The entries of one session as a tree. Flat in memory and walked iteratively: a branch of 100,000 entries must
//! not need a deep stack.

use std::collections::HashMap;

use agentd_protocol::EntryId;
use agentd_protocol::message::{ContentBlock, Message, Usage};
use agentd_protocol::methods::TokenTotals;

use super::entry::{Entry, EntryBody, Header};

#[cfg(test)]
mod tests;

/// A session's entries in file order, with the leaf from which the next one hangs.
///
/// **Invariant**: the parent of an entry always stands before it in the vector, so no walk can run in a circle,
/// whatever a foreign file says.
#[derive(Clone, Debug)]
pub struct SessionTree {
    /// The first line of the file.
    pub header: Header,
    entries: Vec<Entry>,
    /// Place of each entry's parent.
    parents: Vec<Option<usize>>,
    by_id: HashMap<EntryId, usize>,
    by_client_message: HashMap<String, usize>,
}

/// Counts over all entries of a file, those of other branches, compacted and hidden ones included (as pi counts).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TreeStats {
    /// User messages.
    pub user_messages: u64,
    /// Assistant messages.
    pub assistant_messages: u64,
    /// Tool calls in them.
    pub tool_calls: u64,
    /// Tool results.
    pub tool_results: u64,
    /// All messages, of whatever role.
    pub total_messages: u64,
    /// Tokens of all responses and summaries.
    pub tokens: TokenTotals,
    /// Their cost, in dollars.
    pub cost: f64,
}

impl SessionTree {
    /// Returns a session without entries.
    pub fn new(header: Header) -> Self {
        Self::from_entries(header, Vec::new())
    }

    /// Returns a session with the entries of a file, in file order.
    pub fn from_entries(header: Header, entries: Vec<Entry>) -> Self {
        let mut tree = Self {
            header,
            entries: Vec::new(),
            parents: Vec::with_capacity(entries.len()),
            by_id: HashMap::with_capacity(entries.len()),
            by_client_message: HashMap::new(),
        };
        for (place, entry) in entries.iter().enumerate() {
            tree.register(place, entry);
        }
        tree.entries = entries;
        tree
    }

    /// Returns all entries in file order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns an entry by its id; where a foreign file has two, the first.
    pub fn get(&self, id: &EntryId) -> Option<&Entry> {
        self.by_id.get(id).map(|&place| &self.entries[place])
    }

    /// Returns the place of an entry in [`SessionTree::entries`].
    pub fn position(&self, id: &EntryId) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    /// Returns the entry from which the next one hangs: the last line of the file (pi's rule).
    pub fn leaf(&self) -> Option<&EntryId> {
        self.entries.last().map(|entry| &entry.id)
    }

    /// Adds an entry at the end, which makes it the leaf.
    ///
    /// A parent that is not in the file (its line is damaged, or was never written) counts as the entry before:
    /// one lost line must not cut the whole history before it off the branch.
    pub fn push(&mut self, entry: Entry) {
        self.register(self.entries.len(), &entry);
        self.entries.push(entry);
    }

    fn register(&mut self, place: usize, entry: &Entry) {
        let parent = entry.parent_id.as_ref().and_then(|id| self.by_id.get(id).copied().or(place.checked_sub(1)));
        self.parents.push(parent);
        self.by_id.entry(entry.id.clone()).or_insert(place);
        if let EntryBody::Message(message) = &entry.body
            && let Message::User(user) = &**message
            && let Some(id) = &user.client_message_id
        {
            self.by_client_message.entry(id.clone()).or_insert(place);
        }
    }

    /// Returns the parent of the entry at `place`, as the branch goes.
    pub fn parent_position(&self, place: usize) -> Option<usize> {
        self.parents.get(place).copied().flatten()
    }

    /// Returns the active branch, root first.
    pub fn branch(&self) -> Vec<&Entry> {
        self.path(self.entries.len().checked_sub(1)).into_iter().map(|place| &self.entries[place]).collect()
    }

    /// Returns the path from the root to an entry, both included; `None` for an unknown entry.
    pub fn branch_to(&self, id: &EntryId) -> Option<Vec<&Entry>> {
        let place = self.position(id)?;
        Some(self.path(Some(place)).into_iter().map(|place| &self.entries[place]).collect())
    }

    fn path(&self, leaf: Option<usize>) -> Vec<usize> {
        let mut path: Vec<usize> = std::iter::successors(leaf, |&place| self.parents[place]).collect();
        path.reverse();
        path
    }

    /// Returns an id that no entry has: eight hex digits, as pi's. `random` is asked until it gives a free one.
    pub fn new_entry_id(&self, mut random: impl FnMut() -> u32) -> EntryId {
        loop {
            let id = EntryId::new(format!("{:08x}", random()));
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }

    /// Returns the user message that a client gave this id to.
    pub fn find_client_message(&self, client_message_id: &str) -> Option<&EntryId> {
        self.by_client_message.get(client_message_id).map(|&place| &self.entries[place].id)
    }

    /// Returns the session's name: the last one given, on whatever branch.
    pub fn name(&self) -> Option<&str> {
        self.entries
            .iter()
            .rev()
            .find_map(|entry| match &entry.body {
                EntryBody::SessionInfo { name } => Some(name.as_str()),
                _ => None,
            })
            .filter(|name| !name.is_empty())
    }

    /// Counts messages, tokens and cost over all entries.
    pub fn stats(&self) -> TreeStats {
        let mut stats = TreeStats::default();
        for entry in &self.entries {
            stats.add(&entry.body);
        }
        stats
    }
}

impl TreeStats {
    /// Adds one entry.
    pub fn add(&mut self, body: &EntryBody) {
        match body {
            EntryBody::Message(message) => self.add_message(message),
            EntryBody::Compaction(compaction) => self.add_usage(compaction.usage.as_ref()),
            EntryBody::BranchSummary { usage, .. } => self.add_usage(usage.as_deref()),
            EntryBody::Usage(usage) => self.add_usage(Some(usage)),
            EntryBody::ModelChange { .. }
            | EntryBody::ThinkingLevelChange(_)
            | EntryBody::SessionInfo { .. }
            | EntryBody::ContextEdit { .. }
            | EntryBody::CustomMessage(_)
            | EntryBody::Label { .. }
            | EntryBody::Custom { .. }
            | EntryBody::Unknown { .. } => {}
        }
    }

    fn add_message(&mut self, message: &Message) {
        self.total_messages += 1;
        match message {
            Message::User(_) => self.user_messages += 1,
            Message::Assistant(assistant) => {
                self.assistant_messages += 1;
                let calls = assistant.content.iter().filter(|block| matches!(block, ContentBlock::ToolCall(_)));
                self.tool_calls += calls.count() as u64;
                self.add_usage(Some(&assistant.usage));
            }
            Message::ToolResult(_) => self.tool_results += 1,
            _ => {}
        }
    }

    fn add_usage(&mut self, usage: Option<&Usage>) {
        let Some(usage) = usage else { return };
        let tokens = &mut self.tokens;
        // Saturating: the numbers come from a file that anyone may have written.
        let parts = [usage.input, usage.output, usage.cache_read, usage.cache_write];
        tokens.input = tokens.input.saturating_add(usage.input);
        tokens.output = tokens.output.saturating_add(usage.output);
        tokens.cache_read = tokens.cache_read.saturating_add(usage.cache_read);
        tokens.cache_write = tokens.cache_write.saturating_add(usage.cache_write);
        tokens.total = parts.iter().fold(tokens.total, |sum, part| sum.saturating_add(*part));
        self.cost += usage.cost.total;
    }
}

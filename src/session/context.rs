//! What the model sees of a session: the active branch with its compaction and its context edits applied (as pi
//! 1.6.0's `get_messages` shows it).
//!
//! Failed and aborted responses are still in it unless an edit hides them; leaving them out of a request is the
//! provider's part.

use std::collections::HashMap;
use std::sync::Arc;

use agentd_protocol::EntryId;
use agentd_protocol::message::{
    BranchSummaryMessage, CompactionSummaryMessage, Message, SystemMessage, ThinkingLevel, ToolDefinition,
};
use serde_json::Value;

use super::entry::{Compaction, Entry, EntryBody};
use super::tree::SessionTree;

#[cfg(test)]
mod tests;

/// A message of the model context.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextMessage {
    /// The entry it comes from. A compaction's system message and summary both come from the compaction.
    pub entry_id: Option<EntryId>,
    /// The message.
    pub message: Arc<Message>,
}

/// The model context and the settings of the active branch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelContext {
    /// The messages, oldest first.
    pub messages: Vec<ContextMessage>,
    /// Provider and model id: the last ones chosen on the branch, else those of its last response.
    pub model: Option<(String, String)>,
    /// The last thinking level chosen on the branch.
    pub thinking_level: Option<ThinkingLevel>,
    /// The session's name.
    pub name: Option<String>,
}

/// Projects the active branch.
pub fn build_context(tree: &SessionTree) -> ModelContext {
    let branch = tree.branch();
    ModelContext {
        messages: project(&branch),
        model: model_of(&branch),
        thinking_level: branch.iter().rev().find_map(|entry| match entry.body {
            EntryBody::ThinkingLevelChange(level) => Some(level),
            _ => None,
        }),
        name: tree.name().map(str::to_owned),
    }
}

/// Returns the messages that a model sees of a branch (root first).
pub fn project(branch: &[&Entry]) -> Vec<ContextMessage> {
    let edits = Edits::of(branch);
    let mut messages = Vec::new();
    let last_compaction = branch.iter().enumerate().rev().find_map(|(place, entry)| match &entry.body {
        EntryBody::Compaction(compaction) => Some((place, *entry, &**compaction)),
        _ => None,
    });
    let rest = match last_compaction {
        None => branch,
        Some((place, entry, compaction)) => {
            let (before, after) = (&branch[..place], &branch[place + 1..]);
            push_compacted(before, entry, compaction, &edits, &mut messages);
            after
        }
    };
    messages.extend(rest.iter().filter_map(|entry| edits.message_of(entry)));
    messages
}

/// Pushes what stands for the part of the branch before a compaction, and the tail that it keeps.
fn push_compacted(
    before: &[&Entry],
    entry: &Entry,
    compaction: &Compaction,
    edits: &Edits<'_>,
    messages: &mut Vec<ContextMessage>,
) {
    let mut push = |message| messages.push(ContextMessage { entry_id: Some(entry.id.clone()), message });
    if let Some(system) = compaction.system_message.clone().or_else(|| checkpoint(before).map(Arc::new)) {
        push(system);
    }
    push(Arc::new(Message::CompactionSummary(CompactionSummaryMessage {
        summary: compaction.summary.clone(),
        tokens_before: compaction.tokens_before,
        timestamp: entry.timestamp,
    })));
    // An id that is not on the branch keeps nothing.
    let kept = before.iter().position(|entry| entry.id == compaction.first_kept).unwrap_or(before.len());
    // System messages of the kept tail are part of the checkpoint.
    let tail = before[kept..].iter().filter(|entry| !is_system(entry));
    messages.extend(tail.filter_map(|entry| edits.message_of(entry)));
}

fn is_system(entry: &Entry) -> bool {
    entry.message().is_some_and(|message| matches!(**message, Message::System(_)))
}

fn checkpoint(before: &[&Entry]) -> Option<Message> {
    let systems = before.iter().filter_map(|entry| match &**entry.message()? {
        Message::System(system) => Some(system),
        _ => None,
    });
    merge_system_messages(systems).map(Message::System)
}

/// Returns the one system message that says what a row of them says together: later sections replace earlier ones of
/// the same name (`null` takes one away), tools are added and removed.
pub fn merge_system_messages<'a>(messages: impl IntoIterator<Item = &'a SystemMessage>) -> Option<SystemMessage> {
    let mut messages = messages.into_iter();
    let mut merged = messages.next()?.clone();
    merged.tools_removed.clear();
    for message in messages {
        for (name, text) in &message.sections {
            if text.is_null() {
                merged.sections.shift_remove(name);
            } else {
                merged.sections.insert(name.clone(), text.clone());
            }
        }
        if !message.content.is_empty() {
            merged.content.clone_from(&message.content);
        }
        merge_tools(&mut merged.tools_added, &message.tools_added, &message.tools_removed);
        merged.timestamp = message.timestamp;
    }
    Some(merged)
}

fn merge_tools(tools: &mut Vec<Arc<ToolDefinition>>, added: &[Arc<ToolDefinition>], removed: &[String]) {
    tools.retain(|tool| !removed.contains(&tool.name));
    for tool in added {
        match tools.iter_mut().find(|known| known.name == tool.name) {
            Some(known) => known.clone_from(tool),
            None => tools.push(tool.clone()),
        }
    }
}

/// The context edits of a branch: what the last edit of each entry says.
struct Edits<'a>(HashMap<&'a EntryId, Option<&'a Value>>);

impl<'a> Edits<'a> {
    fn of(branch: &[&'a Entry]) -> Self {
        Self(
            branch
                .iter()
                .filter_map(|entry| match &entry.body {
                    EntryBody::ContextEdit { target, replacement } => Some((target, replacement.as_ref())),
                    _ => None,
                })
                .collect(),
        )
    }

    /// Returns the entry's message as the model sees it, if it does.
    fn message_of(&self, entry: &Entry) -> Option<ContextMessage> {
        let message = entry_message(entry)?;
        let message = match self.0.get(&entry.id) {
            None => message,
            Some(None) => return None,
            Some(Some(replacement)) => replaced(&message, replacement).map_or(message, Arc::new),
        };
        Some(ContextMessage { entry_id: Some(entry.id.clone()), message })
    }
}

fn entry_message(entry: &Entry) -> Option<Arc<Message>> {
    match &entry.body {
        EntryBody::Message(message) | EntryBody::CustomMessage(message) => Some(Arc::clone(message)),
        EntryBody::BranchSummary { from, summary, .. } => {
            Some(Arc::new(Message::BranchSummary(BranchSummaryMessage {
                summary: summary.clone(),
                from_id: from.clone(),
                timestamp: entry.timestamp,
            })))
        }
        EntryBody::ModelChange { .. }
        | EntryBody::ThinkingLevelChange(_)
        | EntryBody::SessionInfo { .. }
        | EntryBody::ContextEdit { .. }
        | EntryBody::Compaction(_)
        | EntryBody::Label { .. }
        | EntryBody::Usage(_)
        | EntryBody::Custom { .. }
        | EntryBody::Unknown { .. } => None,
    }
}

/// Returns the message with the replacement's fields. A whole message replaces all of it; one that makes no message
/// changes nothing.
fn replaced(message: &Message, replacement: &Value) -> Option<Message> {
    let Value::Object(fields) = replacement else { return None };
    let whole = if fields.contains_key("role") {
        replacement.clone()
    } else {
        let mut whole = serde_json::to_value(message).ok()?;
        whole.as_object_mut()?.extend(fields.clone());
        whole
    };
    let known = !matches!(message, Message::Other(_));
    serde_json::from_value(whole).ok().filter(|new| !(known && matches!(new, Message::Other(_))))
}

fn model_of(branch: &[&Entry]) -> Option<(String, String)> {
    let chosen = branch.iter().rev().find_map(|entry| match &entry.body {
        EntryBody::ModelChange { provider, model_id } => Some((provider.clone(), model_id.clone())),
        _ => None,
    });
    // Files of version 1 have no such entries.
    chosen.or_else(|| {
        branch.iter().rev().find_map(|entry| match &**entry.message()? {
            Message::Assistant(answer) => Some((answer.provider.clone(), answer.model.clone())),
            _ => None,
        })
    })
}

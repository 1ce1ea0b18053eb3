//! From what a crash left behind to the entries that the session file lacks. Pure.
//!
//! Nothing is run again: a tool that was running gets an error result that says so, and an interrupted run goes on
//! only when someone asks for it.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use agentd_protocol::message::{AssistantMessage, ContentBlock, Message, StopReason, ToolCall, ToolResultMessage};
use agentd_protocol::methods::Question;
use agentd_protocol::{EntryId, ToolCallId};
use serde_json::{Map, Value};

use super::crash_journal::{JournalBlock, JournalQueues, JournalRecord, JournalUpdate};
use crate::agent::event::{MessageEntry, ToolStart};
use crate::agent::machine::{LeftBatch, QueuedMessage};
use crate::constants::INTERRUPTED_MESSAGE;
use crate::permissions::questions;
use crate::session::entry::LEAF_MOVE_TYPE;
use crate::session::{EntryBody, SessionTree};

#[cfg(test)]
mod tests;

/// Result of a tool call that the end of the daemon cut short.
pub const INTERRUPTED_TOOL: &str =
    "The daemon ended while this tool was running. It was not run again; what it had done until then may remain done.";
/// Result of a tool call that had not begun.
pub const UNSTARTED_TOOL: &str = "This tool was not run: the daemon ended before it could start.";

/// What has to be done for a session after a crash.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovery {
    /// Entries to append, in this order. The first hangs from an entry of the file.
    pub append: Vec<RecoveredEntry>,
    /// Messages that wait to be injected.
    pub steering: Vec<QueuedMessage>,
    /// Messages that wait for the end of the run.
    pub follow_up: Vec<QueuedMessage>,
    /// Questions for whose answers the run waits; then it is not interrupted.
    pub questions: Vec<Question>,
    /// The calls that the questions are about, if they are about calls.
    pub batch: Option<LeftBatch>,
    /// Whether a run was cut short.
    pub interrupted: bool,
}

/// An entry that the file lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveredEntry {
    /// Its id, assigned before the crash where the journal has it.
    pub id: EntryId,
    /// What it hangs from.
    pub parent: Option<EntryId>,
    /// What it holds.
    pub body: EntryBody,
}

/// Returns the session file whose journal this is: a copy of the session under the same id must not get its rest.
pub fn journal_of(records: &[JournalRecord]) -> Option<&Path> {
    records.iter().rev().find_map(|record| match record {
        JournalRecord::Run { session_file, .. } => Some(session_file.as_path()),
        _ => None,
    })
}

/// Compares a journal with its session file. `now_ms` is the time of made-up results, `random` makes their ids.
pub fn recover(tree: &SessionTree, records: &[JournalRecord], now_ms: i64, random: impl FnMut() -> u32) -> Recovery {
    let state = JournalState::read(records);
    let waits = |queued: &&QueuedMessage| {
        let by_client = queued.message.client_message_id.as_deref().and_then(|id| tree.find_client_message(id));
        tree.get(&queued.entry_id).is_none() && by_client.is_none()
    };
    let mut recovery = Recovery {
        steering: state.queues.steering.iter().copied().filter(waits).cloned().collect(),
        follow_up: state.queues.follow_up.iter().copied().filter(waits).cloned().collect(),
        interrupted: state.interrupted,
        questions: Vec::new(),
        batch: None,
        append: Vec::new(),
    };
    if state.interrupted {
        let mut builder = Builder { tree, now_ms, random, append: Vec::new(), leaf: tree.leaf().cloned() };
        let open = builder.open_questions(&state);
        recovery.batch = builder.left_batch(&state, &open);
        if recovery.batch.is_some() {
            recovery.questions = open;
            recovery.interrupted = false;
            return recovery;
        }
        builder.add_tool_results(&state);
        if let Some(open) = state.open.filter(|open| tree.get(&open.entry_id).is_none()) {
            builder.add_partial(open);
        }
        // Those about calls are void: the calls are answered.
        recovery.questions = open.into_iter().filter(|question| question.tool.is_none()).collect();
        recovery.append = builder.append;
        recovery.interrupted = recovery.questions.is_empty();
    }
    recovery
}

/// What the journal says in the end.
#[derive(Default)]
struct JournalState<'a> {
    interrupted: bool,
    queues: JournalQueues<'a>,
    open: Option<Partial>,
    questions: Option<(Option<&'a EntryId>, &'a [Question])>,
    started: Vec<(&'a ToolCallId, &'a EntryId)>,
    finished: Vec<(&'a EntryId, &'a ToolResultMessage)>,
}

impl<'a> JournalState<'a> {
    fn read(records: &'a [JournalRecord]) -> Self {
        let mut state = Self::default();
        for record in records {
            state.take(record);
        }
        state
    }

    fn take(&mut self, record: &'a JournalRecord) {
        match record {
            JournalRecord::Run { .. } => {
                // All of the run before is in the session file.
                *self = Self { interrupted: true, queues: std::mem::take(&mut self.queues), ..Self::default() };
            }
            JournalRecord::Queue { .. } | JournalRecord::Queued { .. } | JournalRecord::Unqueued { .. } => {
                self.queues.take(record);
            }
            JournalRecord::Questions { leaf_id, questions } => self.questions = Some((leaf_id.as_ref(), questions)),
            JournalRecord::MessageStart { entry_id, parent_id, message } => {
                self.interrupted = true;
                self.open = Some(Partial::new(entry_id, parent_id.as_ref(), message));
            }
            JournalRecord::Update(update) => {
                if let Some(open) = &mut self.open {
                    open.update(update);
                }
            }
            JournalRecord::Usage(usage) => {
                if let Some(open) = &mut self.open {
                    open.message.usage = *usage;
                }
            }
            JournalRecord::MessageWritten { entry_id } => {
                if self.open.as_ref().is_some_and(|open| open.entry_id == *entry_id) {
                    self.open = None;
                }
            }
            JournalRecord::ToolStarted { tool_call_id, entry_id, .. } => {
                self.interrupted = true;
                self.started.push((tool_call_id, entry_id));
            }
            JournalRecord::ToolFinished { entry_id, message } => self.finished.push((entry_id, message)),
        }
    }
}

/// A response whose end is missing.
struct Partial {
    entry_id: EntryId,
    parent_id: Option<EntryId>,
    message: AssistantMessage,
    blocks: Vec<Option<PartialBlock>>,
}

struct PartialBlock {
    kind: JournalBlock,
    text: String,
    signature: Option<String>,
    redacted: bool,
}

/// Most blocks of one response: a damaged number must not make room for billions.
const MAX_BLOCKS: usize = 10_000;

impl Partial {
    fn new(entry_id: &EntryId, parent_id: Option<&EntryId>, message: &AssistantMessage) -> Self {
        let (entry_id, parent_id) = (entry_id.clone(), parent_id.cloned());
        Self { entry_id, parent_id, message: message.clone(), blocks: Vec::new() }
    }

    fn update(&mut self, update: &JournalUpdate) {
        match update {
            JournalUpdate::Start(index, kind) if *index < MAX_BLOCKS => {
                if self.blocks.len() <= *index {
                    self.blocks.resize_with(index + 1, || None);
                }
                let text = String::new();
                self.blocks[*index] = Some(PartialBlock { kind: kind.clone(), text, signature: None, redacted: false });
            }
            JournalUpdate::Start(..) | JournalUpdate::End(_) => {}
            JournalUpdate::Delta(index, delta) => self.with_block(*index, |block| block.text.push_str(delta)),
            JournalUpdate::Signature(index, signature) => {
                self.with_block(*index, |block| block.signature = Some(signature.clone()));
            }
            JournalUpdate::Redacted(index) => self.with_block(*index, |block| block.redacted = true),
            JournalUpdate::Name(index, id, name) => {
                self.with_block(*index, |block| block.kind = JournalBlock::ToolCall(id.clone(), name.clone()));
            }
        }
    }

    fn with_block(&mut self, index: usize, change: impl FnOnce(&mut PartialBlock)) {
        if let Some(Some(block)) = self.blocks.get_mut(index) {
            change(block);
        }
    }

    fn into_message(self) -> AssistantMessage {
        let content = self.blocks.into_iter().flatten().filter_map(PartialBlock::into_content).collect();
        AssistantMessage {
            content,
            stop_reason: StopReason::Aborted,
            error_message: Some(INTERRUPTED_MESSAGE.to_owned()),
            ..self.message
        }
    }
}

impl PartialBlock {
    fn into_content(self) -> Option<ContentBlock> {
        match self.kind {
            JournalBlock::Text | JournalBlock::Thinking if self.text.is_empty() && self.signature.is_none() => None,
            JournalBlock::Text => Some(ContentBlock::Text { text: self.text, text_signature: self.signature }),
            JournalBlock::Thinking => {
                let (thinking, thinking_signature) = (self.text, self.signature);
                Some(ContentBlock::Thinking { thinking, thinking_signature, redacted: self.redacted })
            }
            JournalBlock::ToolCall(id, name) => Some(ContentBlock::ToolCall(partial_call(id, name, &self.text))),
        }
    }
}

/// The call of an unfinished response is never run; its arguments are kept for people, as pi keeps them.
fn partial_call(id: ToolCallId, name: String, text: &str) -> ToolCall {
    let parsed = serde_json::from_str::<Map<String, Value>>(text).ok();
    let arguments_error = (parsed.is_none() && !text.trim().is_empty())
        .then(|| format!("{INTERRUPTED_MESSAGE}\n\nReceived arguments:\n{text}"));
    ToolCall {
        id,
        name,
        arguments: Value::Object(parsed.unwrap_or_default()),
        arguments_error,
        thought_signature: None,
        arguments_text: None,
    }
}

struct Builder<'a, R> {
    tree: &'a SessionTree,
    now_ms: i64,
    random: R,
    append: Vec<RecoveredEntry>,
    leaf: Option<EntryId>,
}

impl<R: FnMut() -> u32> Builder<'_, R> {
    /// Gives each call of the last response its result, in the order of the calls.
    fn add_tool_results(&mut self, state: &JournalState<'_>) {
        for call in self.unanswered_calls() {
            let outcome = self.outcome(state, &call, &HashSet::new());
            let (id, result) = outcome.unwrap_or_else(|| (self.new_id(), self.made_up(&call, UNSTARTED_TOOL)));
            self.push(id, EntryBody::Message(Arc::new(Message::ToolResult(result))));
        }
    }

    /// Returns the questions that still wait: nothing was said since they were asked, and they have no answer.
    fn open_questions(&self, state: &JournalState<'_>) -> Vec<Question> {
        let Some((leaf, questions)) = state.questions else { return Vec::new() };
        if leaf.is_none_or(|leaf| self.tree.get(leaf).is_none()) || self.went_on_without(leaf) {
            return Vec::new();
        }
        let is_open = |question: &&Question| questions::ended(self.tree, &question.approval_id).is_none();
        questions.iter().filter(is_open).cloned().collect()
    }

    /// Returns the calls of the last response, if one of them waits for consent: that one is asked about again, and the
    /// results of the others are kept until it has ended.
    fn left_batch(&mut self, state: &JournalState<'_>, open: &[Question]) -> Option<LeftBatch> {
        let mut asked: Vec<_> = open.iter().filter_map(|question| question.tool.as_deref()).collect();
        let calls = self.unanswered_calls();
        if asked.is_empty() || asked.iter().any(|asked| calls.iter().all(|call| call.id != asked.tool_call_id)) {
            return None;
        }
        let assistant = self.last_response()?;
        let mut taken = HashSet::new();
        let calls = calls.iter().map(|call| {
            let (entry_id, end) = match self.outcome(state, call, &taken) {
                Some((entry_id, result)) => (entry_id, Some(result.into())),
                None => match asked.iter().position(|asked| asked.tool_call_id == call.id) {
                    Some(place) => (asked.remove(place).entry_id.clone(), None),
                    None => (self.new_id(), Some(self.made_up(call, UNSTARTED_TOOL).into())),
                },
            };
            taken.insert(entry_id.clone());
            let start = ToolStart {
                id: call.id.clone(),
                name: call.name.clone(),
                args: call.arguments.clone(),
                arguments_error: call.arguments_error.clone(),
                entry_id,
            };
            (Arc::new(start), end)
        });
        let calls = calls.collect();
        asked.is_empty().then_some(LeftBatch { assistant, calls })
    }

    fn last_response(&self) -> Option<MessageEntry> {
        self.tree.branch().into_iter().rev().find_map(|entry| {
            let message = entry.message().filter(|message| matches!(***message, Message::Assistant(_)))?;
            Some(MessageEntry { id: entry.id.clone(), message: Arc::clone(message), client: None })
        })
    }

    /// Returns the result of a call that had begun, and the entry that it will be.
    fn outcome(
        &self,
        state: &JournalState<'_>,
        call: &ToolCall,
        taken: &HashSet<EntryId>,
    ) -> Option<(EntryId, ToolResultMessage)> {
        let is_free = |entry: &EntryId| self.is_free(entry) && !taken.contains(entry);
        let started = state.started.iter().rev().find(|(id, entry)| **id == call.id && is_free(entry));
        let finished =
            state.finished.iter().rev().find(|(entry, result)| result.tool_call_id == call.id && is_free(entry));
        match (finished, started) {
            (Some((entry, result)), _) => Some(((*entry).clone(), (*result).clone())),
            (None, Some((_, entry))) => Some(((*entry).clone(), self.made_up(call, INTERRUPTED_TOOL))),
            (None, None) => None,
        }
    }

    fn is_free(&self, id: &EntryId) -> bool {
        self.tree.get(id).is_none() && self.append.iter().all(|entry| entry.id != *id)
    }

    fn new_id(&mut self) -> EntryId {
        loop {
            let id = self.tree.new_entry_id(&mut self.random);
            if self.is_free(&id) {
                return id;
            }
        }
    }

    /// Returns the calls of the branch's last response that have no result. A failed response's calls are never run.
    fn unanswered_calls(&self) -> Vec<ToolCall> {
        let mut answered = HashSet::new();
        for entry in self.tree.branch().iter().rev() {
            match entry.message().map(|message| &**message) {
                Some(Message::ToolResult(result)) => {
                    answered.insert(&result.tool_call_id);
                }
                Some(Message::Assistant(answer)) => {
                    if matches!(answer.stop_reason, StopReason::Error | StopReason::Aborted) {
                        return Vec::new();
                    }
                    let calls = answer.content.iter().filter_map(|block| match block {
                        ContentBlock::ToolCall(call) => Some(call),
                        _ => None,
                    });
                    return calls.filter(|call| !answered.contains(&call.id)).cloned().collect();
                }
                // Someone went on without the results: it is too late for them.
                Some(Message::User(_)) => return Vec::new(),
                _ => {}
            }
        }
        Vec::new()
    }

    fn made_up(&self, call: &ToolCall, text: &str) -> ToolResultMessage {
        ToolResultMessage {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            content: vec![ContentBlock::text(text)],
            details: Some(Value::Object(Map::new())),
            is_error: true,
            duration_ms: None,
            timestamp: self.now_ms,
        }
    }

    fn push(&mut self, id: EntryId, body: EntryBody) {
        self.append.push(RecoveredEntry { id: id.clone(), parent: self.leaf.clone(), body });
        self.leaf = Some(id);
    }

    /// Adds what came of the open response. If another program went on with the session meanwhile, it becomes a
    /// branch and the leaf stays where it is.
    fn add_partial(&mut self, open: Partial) {
        let id = open.entry_id.clone();
        let parent = open.parent_id.clone();
        let body = EntryBody::Message(Arc::new(Message::Assistant(open.into_message())));
        if !self.append.is_empty() || !self.went_on_without(parent.as_ref()) {
            return self.push(id, body);
        }
        self.append.push(RecoveredEntry { id, parent, body });
        let id = self.new_id();
        let body = EntryBody::Custom { custom_type: LEAF_MOVE_TYPE.to_owned(), data: Value::Object(Map::new()) };
        self.push(id, body);
    }

    /// Tells whether the conversation goes on behind `parent`, or beside it. A change of the model or the name that
    /// was made while the response streamed is no conversation.
    fn went_on_without(&self, parent: Option<&EntryId>) -> bool {
        let Some(parent) = parent.filter(|parent| self.tree.get(parent).is_some()) else { return false };
        let branch = self.tree.branch();
        let behind = branch.iter().rev().take_while(|entry| entry.id != *parent);
        behind.filter(|entry| entry.message().is_some()).count() > 0 || branch.iter().all(|entry| entry.id != *parent)
    }
}

//! Records of the crash journal and their lines. Pure.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use agentd_protocol::message::{AssistantMessage, ToolResultMessage, Usage};
use agentd_protocol::methods::Question;
use agentd_protocol::{EntryId, ToolCallId};
use serde::{Deserialize, Serialize};

use crate::agent::event::BlockKind;
use crate::agent::machine::QueuedMessage;

/// One record. Deltas make up nearly all of a journal; their lines are as short as JSON allows: `{"d":[0,"text"]}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum JournalRecord {
    /// A run begins.
    Run {
        /// The session's file: a copy of the session under the same id must not get this one's rest.
        session_file: PathBuf,
        /// Milliseconds since the epoch.
        started: i64,
    },
    /// The queues as they are now.
    Queue {
        /// Messages to be injected after the turn.
        steering: Vec<QueuedMessage>,
        /// Messages to be sent when the run would end.
        follow_up: Vec<QueuedMessage>,
    },
    /// Messages came to the ends of the queues.
    Queued {
        /// Messages to be injected after the turn.
        steering: Vec<QueuedMessage>,
        /// Messages to be sent when the run would end.
        follow_up: Vec<QueuedMessage>,
    },
    /// Messages left the queues.
    Unqueued {
        /// The entries that they are or would have been.
        entry_ids: Vec<EntryId>,
    },
    /// A response begins.
    MessageStart {
        /// The entry that it will be.
        entry_id: EntryId,
        /// What that entry will hang from.
        parent_id: Option<EntryId>,
        /// What is known of it beforehand; its content is empty.
        message: Box<AssistantMessage>,
    },
    /// Tokens of the open response so far.
    Usage(Usage),
    /// A message is in the session file.
    MessageWritten {
        /// Its entry.
        entry_id: EntryId,
    },
    /// A tool begins to run.
    ToolStarted {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// The entry that its result will be.
        entry_id: EntryId,
    },
    /// A tool has ended; its result is written in its turn, in the order of the calls.
    ToolFinished {
        /// The entry that the result will be.
        entry_id: EntryId,
        /// The result.
        message: Box<ToolResultMessage>,
    },
    /// The questions that are open now, below an entry: once the conversation has gone on behind it, they are void.
    Questions {
        /// The entry; `None` in an empty session.
        leaf_id: Option<EntryId>,
        /// The questions.
        questions: Vec<Question>,
    },
    /// The open response grew.
    #[serde(untagged)]
    Update(JournalUpdate),
}

/// What was added to the open response. The number is the block's place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JournalUpdate {
    /// A block begins.
    #[serde(rename = "b")]
    Start(usize, JournalBlock),
    /// Text of a block, or of a tool call's arguments.
    #[serde(rename = "d")]
    Delta(usize, Arc<str>),
    /// A thinking block's signature; replaces an earlier one.
    #[serde(rename = "s")]
    Signature(usize, String),
    /// A thinking block's text was withheld.
    #[serde(rename = "r")]
    Redacted(usize),
    /// A tool call's id and name, late or corrected.
    #[serde(rename = "n")]
    Name(usize, ToolCallId, String),
    /// A block is complete.
    #[serde(rename = "e")]
    End(usize),
}

/// A block as it begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum JournalBlock {
    /// Plain text.
    Text,
    /// Reasoning.
    Thinking,
    /// A tool call: its id and the tool's name.
    ToolCall(ToolCallId, String),
}

impl From<&BlockKind> for JournalBlock {
    fn from(kind: &BlockKind) -> Self {
        match kind {
            BlockKind::Text => Self::Text,
            BlockKind::Thinking => Self::Thinking,
            BlockKind::ToolCall { id, name } => Self::ToolCall(id.clone(), name.clone()),
        }
    }
}

/// The queues that records come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalQueues<'a> {
    /// Messages to be injected after the turn.
    pub steering: Vec<&'a QueuedMessage>,
    /// Messages to be sent when the run would end.
    pub follow_up: Vec<&'a QueuedMessage>,
}

impl<'a> JournalQueues<'a> {
    /// Takes the next record; tells whether it is about the queues.
    pub fn take(&mut self, record: &'a JournalRecord) -> bool {
        match record {
            JournalRecord::Queue { steering, follow_up } => {
                *self = Self { steering: steering.iter().collect(), follow_up: follow_up.iter().collect() };
            }
            JournalRecord::Queued { steering, follow_up } => {
                self.steering.extend(steering);
                self.follow_up.extend(follow_up);
            }
            JournalRecord::Unqueued { entry_ids } => {
                let stays = |queued: &&QueuedMessage| !entry_ids.contains(&queued.entry_id);
                self.steering.retain(stays);
                self.follow_up.retain(stays);
            }
            _ => return false,
        }
        true
    }

    fn to_record(&self) -> JournalRecord {
        let owned = |queue: &[&QueuedMessage]| queue.iter().map(|queued| (*queued).clone()).collect();
        JournalRecord::Queue { steering: owned(&self.steering), follow_up: owned(&self.follow_up) }
    }
}

/// Appends the records' lines. Deltas of one block that follow each other become one.
pub(super) fn encode_into(records: &[JournalRecord], out: &mut Vec<u8>) -> io::Result<()> {
    let mut rest = records;
    while let Some(record) = rest.first() {
        let run = rest.iter().take_while(|next| continues(record, next)).count();
        if run > 1 {
            serde_json::to_writer(&mut *out, &joined(&rest[..run]))?;
        } else {
            serde_json::to_writer(&mut *out, record)?;
        }
        out.push(b'\n');
        rest = &rest[run.max(1)..];
    }
    Ok(())
}

fn continues(first: &JournalRecord, next: &JournalRecord) -> bool {
    use JournalRecord::Update;
    use JournalUpdate::Delta;
    matches!((first, next), (Update(Delta(a, _)), Update(Delta(b, _))) if a == b)
}

fn joined(deltas: &[JournalRecord]) -> JournalRecord {
    let (mut place, mut text) = (0, String::new());
    for record in deltas {
        if let JournalRecord::Update(JournalUpdate::Delta(index, delta)) = record {
            place = *index;
            text.push_str(delta);
        }
    }
    JournalRecord::Update(JournalUpdate::Delta(place, text.into()))
}

/// Returns the records up to the first that cannot be read, and where that one begins. What follows a damaged record
/// may build on it, so it is left out.
pub(super) fn decode_all(bytes: &[u8]) -> (Vec<JournalRecord>, u64) {
    let (mut records, mut whole) = (Vec::new(), 0);
    for end in memchr::memchr_iter(b'\n', bytes) {
        let Ok(record) = serde_json::from_slice(&bytes[whole..end]) else { break };
        records.push(record);
        whole = end + 1;
    }
    (records, whole as u64)
}

/// Returns the records without those that a recovery would pass over: older queues, runs that have ended, and what
/// is in the session file already.
pub fn live_records(records: &[JournalRecord]) -> Vec<JournalRecord> {
    use JournalRecord::{
        MessageStart, MessageWritten, Questions, Queue, Queued, Run, ToolFinished, ToolStarted, Unqueued, Update, Usage,
    };
    let mut queues = JournalQueues::default();
    let mut last_queue = None;
    for (place, record) in records.iter().enumerate() {
        if queues.take(record) {
            last_queue = Some(place);
        }
    }
    let last_questions = records.iter().rposition(|record| matches!(record, Questions { .. }));
    let last_run = records.iter().rposition(|record| matches!(record, Run { .. }));
    let run = last_run.unwrap_or(0);
    let written: HashSet<&EntryId> = records
        .iter()
        .filter_map(|record| match record {
            MessageWritten { entry_id } => Some(entry_id),
            _ => None,
        })
        .collect();
    let mut open_is_written = false;
    let mut live = Vec::new();
    for (place, record) in records.iter().enumerate() {
        let keep = match record {
            Queue { .. } | Queued { .. } | Unqueued { .. } => {
                if Some(place) == last_queue {
                    live.push(queues.to_record());
                }
                false
            }
            _ if place < run => false,
            Run { .. } => true,
            MessageStart { entry_id, .. } => {
                open_is_written = written.contains(entry_id);
                !open_is_written
            }
            Update(_) | Usage(_) => !open_is_written,
            ToolStarted { entry_id, .. } | ToolFinished { entry_id, .. } => !written.contains(entry_id),
            Questions { .. } => Some(place) == last_questions,
            MessageWritten { .. } => false,
        };
        if keep {
            live.push(record.clone());
        }
    }
    live
}

//! Entry kinds of pi's session format v3 (facts: pi 1.6.0's files).

use std::sync::Arc;

use agentd_protocol::message::{Message, ThinkingLevel, Usage};
use agentd_protocol::{EntryId, SessionId};
use serde_json::Value;
use serde_json::value::RawValue;

/// First line of a session file.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Version of the format: 1, 2 or 3.
    pub version: u32,
    /// The session.
    pub id: SessionId,
    /// Milliseconds since the epoch.
    pub timestamp: i64,
    /// Working directory.
    pub cwd: String,
    /// Path of the session it comes from.
    pub parent_session: Option<String>,
}

/// One entry: what is known of it, and its line as it stands in the file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its id, unique in the file.
    pub id: EntryId,
    /// The entry it hangs from; `None` for a root.
    pub parent_id: Option<EntryId>,
    /// Milliseconds since the epoch.
    pub timestamp: i64,
    /// What it holds.
    pub body: EntryBody,
    /// Its line, without the line end.
    pub raw: Arc<RawValue>,
}

/// What an entry holds. Kinds and fields that this build does not know stay in [`Entry::raw`] only.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryBody {
    /// A message of the conversation.
    Message(Arc<Message>),
    /// Another model from here on.
    ModelChange {
        /// Provider id.
        provider: String,
        /// Model id at the provider.
        model_id: String,
    },
    /// Another thinking level from here on.
    ThinkingLevelChange(ThinkingLevel),
    /// The session's name; an empty one takes it away.
    SessionInfo {
        /// The name.
        name: String,
    },
    /// Changes what the model sees of an earlier entry.
    ContextEdit {
        /// The entry.
        target: EntryId,
        /// What stands for it; `None` hides it.
        replacement: Option<Value>,
    },
    /// A summary that stands for older entries of the branch.
    Compaction(Box<Compaction>),
    /// A summary of another branch, at the place where that one was left.
    BranchSummary {
        /// The leaf of the branch that was left.
        from: String,
        /// The summary.
        summary: String,
        /// Tokens that the summary took.
        usage: Option<Box<Usage>>,
    },
    /// A message that an extension put into the context (always [`Message::Custom`]).
    CustomMessage(Arc<Message>),
    /// Puts a label on an entry, or takes it away.
    Label {
        /// The entry.
        target: EntryId,
        /// The label.
        label: Option<String>,
    },
    /// Tokens that were spent outside of model responses.
    Usage(Box<Usage>),
    /// Anything that only its writer understands; agentd's own begin with `agentd.`.
    Custom {
        /// Whose and what.
        custom_type: String,
        /// Its content.
        data: Value,
    },
    /// A kind that this build does not know.
    Unknown {
        /// Its `type`.
        kind: String,
    },
}

/// A compaction entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Compaction {
    /// The summary.
    pub summary: String,
    /// First entry of the branch that stays in the context as it is.
    pub first_kept: EntryId,
    /// Tokens in the context before.
    pub tokens_before: u64,
    /// Files read and modified so far (`readFiles`, `modifiedFiles`).
    pub details: Option<Value>,
    /// Tokens that the summary took.
    pub usage: Option<Usage>,
    /// System message to be replayed first.
    pub system_message: Option<Arc<Message>>,
}

impl Entry {
    /// Returns the message of a message entry.
    pub fn message(&self) -> Option<&Arc<Message>> {
        match &self.body {
            EntryBody::Message(message) => Some(message),
            _ => None,
        }
    }
}

/// Type of the `custom` entry by which agentd moves the leaf: its parent is the entry moved to, so that the rule of
/// the last line gives the same leaf in pi.
pub const LEAF_MOVE_TYPE: &str = "agentd.leaf";

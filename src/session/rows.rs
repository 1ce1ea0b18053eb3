//! What a list of sessions shows of one.

use std::path::{Path, PathBuf};

use agentd_protocol::SessionId;
use agentd_protocol::message::{ContentBlock, Message};

use super::entry::{Entry, EntryBody, Header};
use super::tree::{SessionTree, TreeStats};

#[cfg(test)]
mod tests;

/// Longest beginning of the first message that a list shows, in characters.
pub const FIRST_MESSAGE_CHARS: usize = 200;

/// Facts about one session file, for lists. They can be kept up entry by entry.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionFacts {
    /// The session file.
    pub file: PathBuf,
    /// How much of it these facts cover, in bytes (a whole number of lines).
    pub len: u64,
    /// Id in its header.
    pub id: SessionId,
    /// Working directory.
    pub cwd: String,
    /// The session that it comes from.
    pub parent_session: Option<String>,
    /// Name, if it has one.
    pub name: Option<String>,
    /// Beginning of the first user message, on one line.
    pub first_message: Option<String>,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// Milliseconds since the epoch of the latest entry.
    pub modified: i64,
    /// Messages in the file.
    pub message_count: u64,
    /// Last model chosen, as `provider/id`; that of the last response in files without a choice.
    pub model: Option<String>,
    /// Whether `model` was chosen.
    pub model_chosen: bool,
    /// Cost of all responses and summaries, in dollars.
    pub cost: f64,
}

impl SessionFacts {
    /// Returns the facts of a session without entries.
    pub fn new(file: &Path, header: &Header) -> Self {
        Self {
            file: file.to_owned(),
            len: 0,
            id: header.id.clone(),
            cwd: header.cwd.clone(),
            parent_session: header.parent_session.clone(),
            name: None,
            first_message: None,
            created: header.timestamp,
            modified: header.timestamp,
            message_count: 0,
            model: None,
            model_chosen: false,
            cost: 0.0,
        }
    }

    /// Adds the next entry of the file. The caller keeps up [`SessionFacts::len`].
    pub fn add(&mut self, entry: &Entry) {
        self.modified = self.modified.max(entry.timestamp);
        let mut stats = TreeStats::default();
        stats.add(&entry.body);
        self.message_count += stats.total_messages;
        self.cost += stats.cost;
        match &entry.body {
            EntryBody::SessionInfo { name } => self.name = Some(name.clone()).filter(|name| !name.is_empty()),
            EntryBody::ModelChange { provider, model_id } => {
                self.model = Some(format!("{provider}/{model_id}"));
                self.model_chosen = true;
            }
            EntryBody::Message(message) => self.add_message(message),
            _ => {}
        }
    }

    fn add_message(&mut self, message: &Message) {
        match message {
            Message::User(user) if self.first_message.is_none() => self.first_message = one_line(&user.content),
            Message::Assistant(answer) if !self.model_chosen => {
                self.model = Some(format!("{}/{}", answer.provider, answer.model));
            }
            _ => {}
        }
    }
}

/// Returns the facts of a whole session.
pub fn summarize(tree: &SessionTree, file: &Path, len: u64) -> SessionFacts {
    let mut facts = SessionFacts::new(file, &tree.header);
    for entry in tree.entries() {
        facts.add(entry);
    }
    facts.len = len;
    facts
}

/// Returns the beginning of the text, blanks and line ends as single spaces; `None` when there is none.
fn one_line(content: &[ContentBlock]) -> Option<String> {
    let mut line = String::new();
    let words = content.iter().filter_map(ContentBlock::as_text).flat_map(|text| text.split(is_blank));
    for word in words.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        // More than can be shown even if every character is one byte; keeps a huge word from being copied whole.
        line.extend(word.chars().take(FIRST_MESSAGE_CHARS + 1));
        if line.chars().count() > FIRST_MESSAGE_CHARS {
            break;
        }
    }
    if let Some((cut, _)) = line.char_indices().nth(FIRST_MESSAGE_CHARS) {
        line.truncate(cut);
    }
    (!line.is_empty()).then_some(line)
}

/// Control characters would reach the terminal of whoever lists the sessions.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

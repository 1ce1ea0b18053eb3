//! The state of one session as a client sees it: an attach answer folded together with the events after it.
//!
//! Pure. It takes events of all views. Of `full` and `coalesced` it insists that none is missing, and comes to the same
//! state by either; by `entries` it comes to the same entries: that is what makes it useful to tests. What a client shows, it reads from here.

use serde::Deserialize;

use crate::event::{AssistantMessageEvent, Event, EventParams};
use crate::ids::{ApprovalId, Cursor, EntryId, Epoch, Seq, SessionId, ToolCallId};
use crate::message::{ContentBlock, Message, ToolCall, ToolResult, ToolResultMessage};
use crate::methods::{
    AttachResult, EndedTool, Entry, OpenMessage, Question, Queue, Replay, RetryState, RunEnd, RunningTool,
    SessionState, SessionStatus, View,
};

#[cfg(test)]
mod tests;

/// Output of a running tool that is kept, in bytes; a tool can print without end. Twice this is held before it is cut.
pub const TOOL_OUTPUT_KEPT_BYTES: usize = 64 * 1024;

/// A session as a client sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionView {
    /// The session.
    pub session_id: SessionId,
    /// Its load.
    pub epoch: Epoch,
    /// The last event seen.
    pub seq: Seq,
    /// How the events are read.
    pub view: View,
    /// The state at the attachment. Kept current: `status`, `isStreaming`, `sessionName`, `thinkingLevel`,
    /// `pendingMessageCount`, `leafId`, `interrupted`, `clients`, `retry` (its time is known from the attachment only:
    /// events name the length of a pause); `model` is dropped when another one is chosen.
    pub state: SessionState,
    /// The model as `provider/id`, kept current.
    pub model: Option<String>,
    /// Entries known so far, oldest first.
    pub entries: Vec<ViewEntry>,
    /// Cursor for the entries before them; absent when they begin at the root.
    pub before: Option<EntryId>,
    /// The assistant message that is streaming.
    pub open: Option<OpenMessage>,
    /// Tool calls that run or wait for their siblings.
    pub tools: Vec<RunningTool>,
    /// Messages waiting to be sent.
    pub queue: Queue,
    /// Questions waiting for an answer.
    pub questions: Vec<Question>,
    /// How the last run ended, if that was seen.
    pub ended: Option<Ended>,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewEntry {
    /// Its id.
    pub id: EntryId,
    /// What it holds.
    pub content: EntryContent,
}

/// What an entry holds.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryContent {
    /// A message. Tool results that came as events have no timestamp.
    Message(Box<Message>),
    /// Anything else, as it stands in the file.
    Other(Entry),
    /// The result of a call whose end was not seen; `get_entries` has it.
    UnseenResult(ToolCallId),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub reason: RunEnd,
    /// What went wrong.
    pub error_message: Option<String>,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It changed the view.
    Event,
    /// It had been seen before and changed nothing.
    Seen,
    /// A snapshot replaced the view: this client had fallen behind.
    Snapshot,
    /// The attachment has ended: the session can no longer be read. No event follows.
    Detached,
}

/// Why an event does not fit. A client attaches again with [`SessionView::cursor`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The event is one of another session.
    #[error("an event of session {0}")]
    OtherSession(SessionId),
    /// Events are missing.
    #[error("event {from} follows event {seen}")]
    Gap {
        /// The last event seen.
        seen: Seq,
        /// The first one that this event covers.
        from: Seq,
    },
    /// A merged event covers some events that were seen and some that were not.
    #[error("a merged event {from} to {seq} overlaps event {seen}")]
    Overlap {
        /// The last event seen.
        seen: Seq,
        /// The first event covered.
        from: Seq,
        /// The last event covered.
        seq: Seq,
    },
    /// The answer continues another stream than the one seen.
    #[error("the answer continues at event {seq} of epoch {epoch}, not where this client was")]
    OtherCursor {
        /// The answer's epoch.
        epoch: Epoch,
        /// The answer's cursor.
        seq: Seq,
    },
    /// An update without an open message, or of a block that is not there.
    #[error("an update of block {0} that has not begun")]
    NoBlock(usize),
    /// A tool's output or end without its start.
    #[error("tool call {0} has not begun")]
    NoTool(ToolCallId),
}

impl SessionView {
    /// Begins with the answer of `attach`. An answer without a snapshot begins without entries.
    pub fn new(answer: AttachResult, view: View) -> Self {
        let AttachResult { session_id, epoch, seq, replay: _, state, snapshot } = answer;
        let snapshot = snapshot.unwrap_or_default();
        Self {
            session_id,
            epoch,
            seq,
            view,
            model: state.model.as_ref().map(|model| format!("{}/{}", model.provider, model.id)),
            state,
            entries: snapshot.entries.into_iter().map(ViewEntry::from_file).collect(),
            before: snapshot.before,
            open: snapshot.message,
            tools: snapshot.tools,
            queue: snapshot.queue,
            questions: snapshot.questions,
            ended: None,
        }
    }

    /// Goes on with the answer of a later `attach` with [`SessionView::cursor`].
    ///
    /// # Errors
    /// The answer promises the events after another cursor.
    pub fn resume(&mut self, answer: AttachResult) -> Result<Applied, ViewError> {
        if answer.replay == Replay::Snapshot {
            *self = Self::new(answer, self.view);
            return Ok(Applied::Snapshot);
        }
        if answer.epoch != self.epoch || answer.seq != self.seq {
            return Err(ViewError::OtherCursor { epoch: answer.epoch, seq: answer.seq });
        }
        Ok(Applied::Seen)
    }

    /// Returns the position after the last event seen.
    pub fn cursor(&self) -> Cursor {
        Cursor { epoch: self.epoch.clone(), seq: self.seq, view: Some(self.view) }
    }

    /// Returns the text of the message with this entry id, streaming or finished.
    pub fn text_of(&self, id: &EntryId) -> Option<String> {
        match &self.open {
            Some(open) if open.entry_id == *id => return Some(text_of(&open.message.content)),
            _ => {}
        }
        self.entries.iter().rev().find(|entry| entry.id == *id)?.text()
    }

    /// Takes one event.
    ///
    /// # Errors
    /// The event does not follow the last one seen, or refers to something that never began. The view is then
    /// unchanged but for its cursor.
    pub fn apply(&mut self, params: &EventParams) -> Result<Applied, ViewError> {
        if params.session_id != self.session_id {
            return Err(ViewError::OtherSession(params.session_id.clone()));
        }
        if let Event::Lagged(answer) = &params.event {
            *self = Self::new((**answer).clone(), self.view);
            return Ok(Applied::Snapshot);
        }
        if matches!(params.event, Event::Detached { .. }) {
            return Ok(Applied::Detached);
        }
        let (seen, from, seq) = (self.seq, params.from.unwrap_or(params.seq), params.seq);
        if seq <= seen {
            return Ok(Applied::Seen);
        }
        let has_gaps = matches!(self.view, View::Entries | View::Status);
        if from > seen + 1 && !has_gaps {
            return Err(ViewError::Gap { seen, from });
        }
        if from <= seen {
            return Err(ViewError::Overlap { seen, from, seq });
        }
        self.seq = seq;
        self.fold(&params.event)?;
        Ok(Applied::Event)
    }

    fn fold(&mut self, event: &Event) -> Result<(), ViewError> {
        match event {
            Event::AgentStart {} => self.started(),
            Event::MessageStart { entry_id, message: Some(Message::Assistant(message)), .. } => {
                self.open = Some(OpenMessage { entry_id: entry_id.clone(), message: message.clone() });
            }
            Event::MessageUpdate { usage, assistant_message_event } => {
                if let (Some(usage), Some(open)) = (usage, &mut self.open) {
                    open.message.usage = *usage;
                }
                return self.update(assistant_message_event);
            }
            Event::MessageEnd { message, entry_id, tool_call_id, .. } => {
                self.message_ended(message.as_ref(), entry_id, tool_call_id.as_ref());
            }
            Event::AgentSettled { reason, error_message, .. } => {
                self.settled(Ended { reason: *reason, error_message: error_message.clone() });
            }
            Event::ToolExecutionStart { tool_call_id, tool_name, args } => self.tools.push(RunningTool {
                tool_call_id: tool_call_id.clone(),
                tool_name: tool_name.clone(),
                args: args.clone(),
                output: String::new(),
                ended: None,
            }),
            Event::ToolExecutionUpdate { tool_call_id, delta } => {
                append_tail(&mut self.tool(tool_call_id)?.output, delta);
            }
            Event::ToolExecutionEnd { tool_call_id, result, is_error, duration_ms, .. } => {
                let ended = EndedTool { result: result.clone(), is_error: *is_error, duration_ms: *duration_ms };
                self.tool(tool_call_id)?.ended = Some(ended);
            }
            Event::QueueUpdate { steering, follow_up } => {
                self.queue = Queue { steering: steering.clone(), follow_up: follow_up.clone() };
                self.state.pending_message_count = (steering.len() + follow_up.len()) as u64;
            }
            Event::AutoRetryStart { attempt, max_attempts, delay_ms, error_message } => {
                self.state.status = SessionStatus::RetryWait;
                self.state.retry = Some(RetryState {
                    attempt: *attempt,
                    max_attempts: *max_attempts,
                    delay_ms: *delay_ms,
                    error_message: error_message.clone(),
                });
            }
            Event::AutoRetryEnd { .. } => self.state.retry = None,
            Event::ApprovalRequested(question) => {
                self.state.status = SessionStatus::Asking;
                self.questions.push(question.clone());
            }
            Event::ApprovalResolved { approval_id, .. } => self.resolved(approval_id),
            Event::EntryAppended { entry } => self.push(ViewEntry::from_file(entry.clone())),
            Event::SessionInfoChanged { name } => self.state.session_name.clone_from(name),
            Event::ModelChanged { model } => self.model_changed(model),
            Event::ThinkingLevelChanged { level } => self.state.thinking_level = *level,
            Event::ClientAttached { clients, .. } | Event::ClientDetached { clients, .. } => {
                self.state.clients = *clients;
            }
            Event::MessageStart { .. }
            | Event::TurnStart {}
            | Event::TurnEnd { .. }
            | Event::AgentEnd { .. }
            | Event::Notice { .. }
            | Event::Lagged(_)
            | Event::Detached { .. }
            | Event::Unknown(_) => {}
        }
        Ok(())
    }

    fn started(&mut self) {
        self.state.status = SessionStatus::Running;
        self.state.is_streaming = true;
        self.state.interrupted = false;
        (self.state.retry_at, self.state.retry) = (None, None);
        self.ended = None;
    }

    fn resolved(&mut self, id: &ApprovalId) {
        self.questions.retain(|question| question.approval_id != *id);
        if self.questions.is_empty() && self.state.status == SessionStatus::Asking {
            self.state.status = SessionStatus::Running;
        }
    }

    fn settled(&mut self, ended: Ended) {
        self.state.status = SessionStatus::Idle;
        self.state.is_streaming = false;
        (self.state.retry_at, self.state.retry) = (None, None);
        self.open = None;
        self.tools.clear();
        self.ended = Some(ended);
    }

    fn model_changed(&mut self, model: &str) {
        if self.model.as_deref() != Some(model) {
            self.state.model = None;
            self.model = Some(model.to_owned());
        }
    }

    fn push(&mut self, entry: ViewEntry) {
        self.state.leaf_id = Some(entry.id.clone());
        self.entries.push(entry);
    }

    fn message_ended(&mut self, message: Option<&Message>, id: &EntryId, call: Option<&ToolCallId>) {
        if self.open.as_ref().is_some_and(|open| open.entry_id == *id) {
            self.open = None;
        }
        let content = match (message, call) {
            (Some(message), _) => EntryContent::Message(Box::new(message.clone())),
            (None, Some(call)) => self.take_result(call),
            // The view `status` tells no more of it.
            (None, None) => return self.state.leaf_id = Some(id.clone()),
        };
        if let Some(call) = call {
            self.tools.retain(|tool| tool.tool_call_id != *call);
        }
        self.push(ViewEntry { id: id.clone(), content });
    }

    fn take_result(&self, call: &ToolCallId) -> EntryContent {
        let ended = self.tools.iter().find(|tool| tool.tool_call_id == *call);
        let Some((tool, ended)) = ended.and_then(|tool| Some((tool, tool.ended.as_ref()?))) else {
            return EntryContent::UnseenResult(call.clone());
        };
        let ToolResult { content, details, .. } = ended.result.clone();
        EntryContent::Message(Box::new(Message::ToolResult(ToolResultMessage {
            tool_call_id: call.clone(),
            tool_name: tool.tool_name.clone(),
            content,
            details,
            is_error: ended.is_error,
            duration_ms: ended.duration_ms,
            timestamp: 0,
        })))
    }

    fn tool(&mut self, call: &ToolCallId) -> Result<&mut RunningTool, ViewError> {
        // Ids are unique within a message only: the latest call of this id is meant.
        let tool = self.tools.iter_mut().rev().find(|tool| tool.tool_call_id == *call);
        tool.ok_or_else(|| ViewError::NoTool(call.clone()))
    }

    fn update(&mut self, update: &AssistantMessageEvent) -> Result<(), ViewError> {
        match update {
            AssistantMessageEvent::TextStart { content_index } => {
                self.begin(*content_index, ContentBlock::text(""))?;
            }
            AssistantMessageEvent::ThinkingStart { content_index } => {
                let block =
                    ContentBlock::Thinking { thinking: String::new(), thinking_signature: None, redacted: false };
                self.begin(*content_index, block)?;
            }
            AssistantMessageEvent::ToolcallStart { content_index, id, tool_name } => {
                self.begin(*content_index, begun_call(id, tool_name))?;
            }
            AssistantMessageEvent::TextDelta { content_index, delta }
            | AssistantMessageEvent::ThinkingDelta { content_index, delta }
            | AssistantMessageEvent::ToolcallDelta { content_index, delta } => {
                self.grow(*content_index, update, delta)?;
            }
            AssistantMessageEvent::TextEnd { .. }
            | AssistantMessageEvent::ThinkingEnd { .. }
            | AssistantMessageEvent::ToolcallEnd { .. }
            | AssistantMessageEvent::Unknown(_) => {}
        }
        Ok(())
    }

    fn begin(&mut self, index: usize, block: ContentBlock) -> Result<(), ViewError> {
        let open = self.open.as_mut().ok_or(ViewError::NoBlock(index))?;
        if open.message.content.len() != index {
            return Err(ViewError::NoBlock(index));
        }
        open.message.content.push(block);
        Ok(())
    }

    fn grow(&mut self, index: usize, update: &AssistantMessageEvent, delta: &str) -> Result<(), ViewError> {
        let block = self.open.as_mut().and_then(|open| open.message.content.get_mut(index));
        match (block, update) {
            (Some(ContentBlock::Text { text, .. }), AssistantMessageEvent::TextDelta { .. }) => text.push_str(delta),
            (Some(ContentBlock::Thinking { thinking, .. }), AssistantMessageEvent::ThinkingDelta { .. }) => {
                thinking.push_str(delta);
            }
            (Some(ContentBlock::ToolCall(call)), AssistantMessageEvent::ToolcallDelta { .. }) => {
                call.arguments_text.get_or_insert_default().push_str(delta);
            }
            _ => return Err(ViewError::NoBlock(index)),
        }
        Ok(())
    }
}

impl ViewEntry {
    /// Reads an entry as it stands in the file.
    pub fn from_file(entry: Entry) -> Self {
        #[derive(Deserialize)]
        struct Line {
            #[serde(rename = "type", default)]
            kind: String,
            #[serde(default)]
            id: Option<EntryId>,
            #[serde(default)]
            message: Option<Box<Message>>,
        }
        let line = serde_json::from_str(entry.0.get()).unwrap_or(Line { kind: String::new(), id: None, message: None });
        let content = match line.message {
            Some(message) if line.kind == "message" => EntryContent::Message(message),
            _ => EntryContent::Other(entry),
        };
        Self { id: line.id.unwrap_or_else(|| EntryId::new("")), content }
    }

    /// Returns the message that it holds.
    pub fn message(&self) -> Option<&Message> {
        match &self.content {
            EntryContent::Message(message) => Some(message),
            EntryContent::Other(_) | EntryContent::UnseenResult(_) => None,
        }
    }

    /// Returns the text of a user or assistant message or of a tool result.
    pub fn text(&self) -> Option<String> {
        match self.message()? {
            Message::User(message) => Some(text_of(&message.content)),
            Message::Assistant(message) => Some(text_of(&message.content)),
            Message::ToolResult(message) => Some(text_of(&message.content)),
            _ => None,
        }
    }
}

/// Joins the text blocks of a message.
pub fn text_of(content: &[ContentBlock]) -> String {
    content.iter().filter_map(ContentBlock::as_text).collect()
}

fn begun_call(id: &ToolCallId, name: &str) -> ContentBlock {
    ContentBlock::ToolCall(ToolCall {
        id: id.clone(),
        name: name.to_owned(),
        arguments: serde_json::Value::Null,
        arguments_error: None,
        thought_signature: None,
        arguments_text: Some(String::new()),
    })
}

/// Appends to an output of which only the tail is kept.
fn append_tail(output: &mut String, delta: &str) {
    output.push_str(delta);
    if output.len() > 2 * TOOL_OUTPUT_KEPT_BYTES {
        let cut = output.ceil_char_boundary(output.len() - TOOL_OUTPUT_KEPT_BYTES);
        output.drain(..cut);
    }
}

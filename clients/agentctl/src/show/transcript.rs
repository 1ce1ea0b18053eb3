//! Events made into pieces of text, whatever they are shown on.
//!
//! Pure. Every text that others wrote leaves it cleaned. Text of the assistant is given exactly once, also when this
//! client fell behind and a snapshot stands for what it missed.

use agentd_protocol::event::{AssistantMessageEvent, Event};
use agentd_protocol::message::{AssistantMessage, ContentBlock, Message};
use agentd_protocol::methods::{ClientRef, Question, Queue, RunEnd};
use agentd_protocol::session_view::{EntryContent, SessionView, ViewEntry, text_of};
use agentd_protocol::{ApprovalId, EntryId, ToolCallId};

use super::clean::{Cleaner, clean, one_line};
use super::question;
use super::style::{cut, duration};
use super::tool_text::{call_line, end_line};

#[cfg(test)]
mod tests;

/// Lines of a running tool's output that are shown.
const OUTPUT_LINES: usize = 10;
/// Longest line of output shown, in columns.
const OUTPUT_COLUMNS: usize = 160;

/// A piece of what is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// More of the assistant's text.
    Text(String),
    /// The end of a block of text.
    TextEnd,
    /// More of its thinking.
    Thinking(String),
    /// The end of a block of thinking.
    ThinkingEnd,
    /// A line about something that happened.
    Line(Tone, String),
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Something a person said.
    User,
    /// A tool begins.
    Tool,
    /// What a tool printed, or how it ended.
    Output,
    /// Something failed.
    Failure,
    /// Something to wait for.
    Waiting,
    /// Anything else.
    Note,
}

/// What is shown besides the assistant's text and its tools.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Messages of users and clients that come and go.
    pub(crate) people: bool,
    /// What running tools print.
    pub(crate) outputs: bool,
}

/// How far a message has been shown.
#[derive(Debug, PartialEq, Eq)]
struct Progress {
    entry: EntryId,
    block: usize,
    bytes: usize,
}

struct Running {
    call: ToolCallId,
    label: String,
    line: String,
    lines: usize,
    cleaner: Cleaner,
}

/// Turns the events of one session into pieces.
pub(crate) struct Transcript {
    options: Options,
    cleaner: Cleaner,
    /// The streaming message.
    progress: Option<Progress>,
    /// The last entry that has been shown.
    last_shown: Option<EntryId>,
    running: Vec<Running>,
    queue: Queue,
    /// Texts that this client sent itself, which stand on the screen already.
    own: Vec<String>,
    /// The name under which this client is about to be announced to everybody.
    joining: Option<&'static str>,
    /// Questions that were shown.
    questions: Vec<ApprovalId>,
}

impl Transcript {
    /// Begins to show a session after the entry `last_shown`.
    pub(crate) fn new(options: Options, last_shown: Option<EntryId>) -> Self {
        Self {
            options,
            cleaner: Cleaner::default(),
            progress: None,
            last_shown,
            running: Vec::new(),
            queue: Queue::default(),
            own: Vec::new(),
            joining: None,
            questions: Vec::new(),
        }
    }

    /// Expects to be told that this client itself has attached, which is no news to its user.
    pub(crate) fn joins(&mut self, name: &'static str) {
        self.joining = Some(name);
    }

    /// Notes a text that the user has typed here, so that it is not shown again.
    pub(crate) fn sent(&mut self, text: &str) {
        self.own.push(text.to_owned());
    }

    /// Shows one event. Events `lagged` are for [`Transcript::snapshot`].
    pub(crate) fn event(&mut self, event: &Event) -> Vec<Piece> {
        match event {
            Event::MessageStart { entry_id, message: Some(Message::Assistant(_)), .. } => {
                self.progress = Some(Progress { entry: entry_id.clone(), block: 0, bytes: 0 });
                Vec::new()
            }
            Event::MessageUpdate { assistant_message_event, .. } => self.update(assistant_message_event),
            Event::MessageEnd { message: Some(message), entry_id, client, .. } => {
                let mut pieces = self.message_ended(entry_id, message);
                name_sender(&mut pieces, client.as_ref());
                pieces
            }
            Event::MessageEnd { entry_id, .. } => {
                self.last_shown = Some(entry_id.clone());
                Vec::new()
            }
            Event::ToolExecutionStart { tool_call_id, tool_name, args } => {
                let label = call_line(tool_name, args);
                self.running.push(Running::new(tool_call_id.clone(), label.clone()));
                vec![Piece::Line(Tone::Tool, label)]
            }
            Event::ToolExecutionUpdate { tool_call_id, delta } if self.options.outputs => {
                let running = self.running.iter_mut().rev().find(|running| running.call == *tool_call_id);
                running.map(|running| running.output(delta)).unwrap_or_default()
            }
            Event::ToolExecutionEnd { tool_call_id, result, is_error, duration_ms, .. } => {
                self.tool_ended(tool_call_id, &end_line(&result.content, *is_error, *duration_ms), *is_error)
            }
            Event::QueueUpdate { steering, follow_up } => {
                self.queue_changed(Queue { steering: steering.clone(), follow_up: follow_up.clone() })
            }
            Event::ApprovalRequested(question) => self.asked(question).into_iter().collect(),
            Event::ClientAttached { name, .. } if self.joining.is_some_and(|own| own == name) => {
                self.joining = None;
                Vec::new()
            }
            other => self.other(other).into_iter().collect(),
        }
    }

    /// Shows a question unless it was shown before.
    fn asked(&mut self, question: &Question) -> Option<Piece> {
        let is_new = !self.questions.contains(&question.approval_id);
        is_new.then(|| {
            self.questions.push(question.approval_id.clone());
            question::asked(question)
        })
    }

    fn other(&self, event: &Event) -> Option<Piece> {
        let note = |text: String| Some(Piece::Line(Tone::Note, text));
        match event {
            Event::AutoRetryStart { attempt, max_attempts, delay_ms, error_message } => Some(Piece::Line(
                Tone::Waiting,
                format!("retry {attempt} of {max_attempts} in {}: {}", duration(*delay_ms), one_line(error_message)),
            )),
            Event::AgentSettled { reason, error_message, .. } => settled_line(*reason, error_message.as_deref()),
            Event::ApprovalResolved { decision, by, message, .. } => {
                Some(question::resolved(*decision, by.as_deref(), message.as_deref()))
            }
            Event::ModelChanged { model } => note(format!("model {}", one_line(model))),
            Event::ThinkingLevelChanged { level } => note(format!("thinking {}", level.as_str())),
            Event::SessionInfoChanged { name } => note(match name {
                Some(name) => format!("named {:?}", one_line(name)),
                None => "name removed".to_owned(),
            }),
            Event::Notice { message, .. } => note(one_line(message)),
            Event::ClientAttached { name, clients, .. } if self.options.people => {
                note(format!("{} joined, {clients} attached", client_name(name)))
            }
            Event::ClientDetached { name, clients, .. } if self.options.people => {
                note(format!("{} left, {clients} attached", client_name(name)))
            }
            _ => None,
        }
    }

    fn update(&mut self, update: &AssistantMessageEvent) -> Vec<Piece> {
        match update {
            AssistantMessageEvent::TextStart { content_index } => {
                self.cleaner = Cleaner::default();
                if let Some(progress) = &mut self.progress {
                    (progress.block, progress.bytes) = (*content_index, 0);
                }
                Vec::new()
            }
            AssistantMessageEvent::TextDelta { delta, .. } => {
                if let Some(progress) = &mut self.progress {
                    progress.bytes += delta.len();
                }
                vec![Piece::Text(self.cleaner.clean(delta))]
            }
            AssistantMessageEvent::TextEnd { content_index } => {
                if let Some(progress) = &mut self.progress {
                    (progress.block, progress.bytes) = (content_index + 1, 0);
                }
                vec![Piece::TextEnd]
            }
            AssistantMessageEvent::ThinkingStart { .. } => {
                self.cleaner = Cleaner::default();
                Vec::new()
            }
            AssistantMessageEvent::ThinkingDelta { delta, .. } => vec![Piece::Thinking(self.cleaner.clean(delta))],
            AssistantMessageEvent::ThinkingEnd { .. } => vec![Piece::ThinkingEnd],
            AssistantMessageEvent::ToolcallStart { .. }
            | AssistantMessageEvent::ToolcallDelta { .. }
            | AssistantMessageEvent::ToolcallEnd { .. }
            | AssistantMessageEvent::Unknown(_) => Vec::new(),
        }
    }

    fn message_ended(&mut self, id: &EntryId, message: &Message) -> Vec<Piece> {
        self.last_shown = Some(id.clone());
        match message {
            Message::Assistant(message) => {
                let pieces = self.rest(id, message, true);
                self.progress = None;
                pieces
            }
            Message::User(message) if self.options.people => self.user(&text_of(&message.content), &message.content),
            _ => Vec::new(),
        }
    }

    fn user(&mut self, text: &str, content: &[ContentBlock]) -> Vec<Piece> {
        if let Some(own) = self.own.iter().position(|own| own == text) {
            self.own.remove(own);
            return Vec::new();
        }
        user_lines(text, content)
    }

    /// Returns what has not been shown of a message, and moves the progress to its end.
    fn rest(&mut self, id: &EntryId, message: &AssistantMessage, is_complete: bool) -> Vec<Piece> {
        let (first, skip) = match &self.progress {
            Some(progress) if progress.entry == *id => (progress.block, progress.bytes),
            _ => (0, 0),
        };
        let mut pieces = Vec::new();
        let mut at = Progress { entry: id.clone(), block: first, bytes: skip };
        for (index, block) in message.content.iter().enumerate().skip(first) {
            let Some(text) = block.as_text() else { continue };
            let shown = if index == first { skip } else { 0 };
            // A streamed part that is no beginning of the text could only come from a fault; show the text then.
            let rest = text.get(shown..).unwrap_or(text);
            if shown == 0 {
                self.cleaner = Cleaner::default();
            }
            if !rest.is_empty() {
                pieces.push(Piece::Text(self.cleaner.clean(rest)));
            }
            at = Progress { block: index, bytes: text.len(), ..at };
            if (is_complete || index + 1 < message.content.len()) && !(text.is_empty() && shown == 0) {
                pieces.push(Piece::TextEnd);
            }
        }
        self.progress = Some(at);
        pieces
    }

    fn tool_ended(&mut self, call: &ToolCallId, line: &str, is_error: bool) -> Vec<Piece> {
        let several = self.running.len() > 1;
        let index = self.running.iter().rposition(|running| running.call == *call);
        let running = index.map(|index| self.running.remove(index));
        let line = match running {
            Some(running) if several => format!("  {}: {line}", cut(&running.label, 60)),
            _ => format!("  {line}"),
        };
        vec![Piece::Line(if is_error { Tone::Failure } else { Tone::Output }, line)]
    }

    fn queue_changed(&mut self, queue: Queue) -> Vec<Piece> {
        let added = |old: &[String], new: &[String]| if new.len() > old.len() { new.last().cloned() } else { None };
        let line =
            |what: &str, text: String| Piece::Line(Tone::Note, format!("{what}: {}", cut(&one_line(&text), 100)));
        let steering = added(&self.queue.steering, &queue.steering).map(|text| line("queued to steer", text));
        let follow_up = added(&self.queue.follow_up, &queue.follow_up).map(|text| line("queued to follow", text));
        self.queue = queue;
        steering.into_iter().chain(follow_up).collect()
    }

    /// Shows what a snapshot holds and events have not shown: the entries after the last one shown, then the open
    /// message as far as it goes.
    pub(crate) fn snapshot(&mut self, view: &SessionView) -> Vec<Piece> {
        let shown = self.last_shown.as_ref().and_then(|id| view.entries.iter().rposition(|entry| entry.id == *id));
        let mut pieces = Vec::new();
        for entry in &view.entries[shown.map_or(0, |index| index + 1)..] {
            pieces.extend(self.past(entry));
        }
        pieces.extend(self.open(view));
        pieces
    }

    /// Shows the last `count` messages of a view that was just attached, then the open message as far as it goes.
    pub(crate) fn history(&mut self, view: &SessionView, count: usize) -> Vec<Piece> {
        let messages = view.entries.iter().filter(|entry| is_shown(entry)).count();
        let mut pieces = Vec::new();
        for entry in view.entries.iter().filter(|entry| is_shown(entry)).skip(messages.saturating_sub(count)) {
            pieces.extend(self.past(entry));
        }
        self.last_shown = view.entries.last().map(|entry| entry.id.clone());
        pieces.extend(self.open(view));
        pieces
    }

    fn open(&mut self, view: &SessionView) -> Vec<Piece> {
        let mut pieces = match &view.open {
            Some(open) => self.rest(&open.entry_id, &open.message, false),
            None => {
                self.progress = None;
                Vec::new()
            }
        };
        for tool in view.tools.iter().filter(|tool| tool.ended.is_none()) {
            if self.running.iter().all(|running| running.call != tool.tool_call_id) {
                let label = call_line(&tool.tool_name, &tool.args);
                self.running.push(Running::new(tool.tool_call_id.clone(), label.clone()));
                pieces.push(Piece::Line(Tone::Tool, label));
            }
        }
        self.running.retain(|running| view.tools.iter().any(|tool| tool.tool_call_id == running.call));
        self.queue = view.queue.clone();
        pieces.extend(view.questions.iter().filter_map(|question| self.asked(question)));
        pieces
    }

    /// Shows an entry that was not seen as events.
    fn past(&mut self, entry: &ViewEntry) -> Vec<Piece> {
        self.last_shown = Some(entry.id.clone());
        match entry.message() {
            Some(Message::User(message)) if self.options.people => {
                self.user(&text_of(&message.content), &message.content)
            }
            Some(Message::Assistant(message)) => {
                let mut pieces = self.rest(&entry.id, message, true);
                self.progress = None;
                self.running.clear();
                for block in &message.content {
                    if let ContentBlock::ToolCall(call) = block {
                        let label = call_line(&call.name, &call.arguments);
                        self.running.push(Running::new(call.id.clone(), label.clone()));
                        pieces.push(Piece::Line(Tone::Tool, label));
                    }
                }
                pieces.extend(message.error_message.as_deref().map(|text| Piece::Line(Tone::Failure, one_line(text))));
                pieces
            }
            Some(Message::ToolResult(message)) => {
                let line = end_line(&message.content, message.is_error, message.duration_ms);
                self.tool_ended(&message.tool_call_id, &line, message.is_error)
            }
            Some(Message::BashExecution(message)) => {
                vec![Piece::Line(Tone::User, format!("! {}", one_line(&message.command)))]
            }
            _ => Vec::new(),
        }
    }
}

impl Running {
    fn new(call: ToolCallId, label: String) -> Self {
        Self { call, label, line: String::new(), lines: 0, cleaner: Cleaner::default() }
    }

    /// Returns the lines that `delta` completes, as long as there are not too many.
    fn output(&mut self, delta: &str) -> Vec<Piece> {
        if self.lines > OUTPUT_LINES {
            return Vec::new();
        }
        self.line.push_str(&self.cleaner.clean(delta));
        let mut pieces = Vec::new();
        while let Some(end) = self.line.find('\n') {
            let line: String = self.line.drain(..=end).collect();
            self.lines += 1;
            if self.lines > OUTPUT_LINES {
                self.line.clear();
                pieces.push(Piece::Line(Tone::Output, "  | …".to_owned()));
                break;
            }
            let line = line.trim_end().replace('\t', "    ");
            pieces.push(Piece::Line(Tone::Output, format!("  | {}", cut(&line, OUTPUT_COLUMNS))));
        }
        pieces
    }
}

/// Tells how a run ended, unless it ended well.
pub(crate) fn settled_line(reason: RunEnd, error: Option<&str>) -> Option<Piece> {
    let why = || error.map_or_else(|| "the reason was not told".to_owned(), one_line);
    let (tone, text) = match reason {
        RunEnd::Done => return None,
        RunEnd::Aborted => (Tone::Note, "aborted".to_owned()),
        RunEnd::Error => (Tone::Failure, why()),
        RunEnd::Storage => (Tone::Failure, format!("the session could not be written: {}", why())),
        RunEnd::MaxTurns => (Tone::Failure, "stopped: the most turns of one run were taken".to_owned()),
        RunEnd::Length => (Tone::Failure, "the answer is cut short: the model's output limit was reached".to_owned()),
        RunEnd::Interrupted => {
            (Tone::Failure, "interrupted: the daemon was stopped; attach and type /continue to go on".to_owned())
        }
    };
    Some(Piece::Line(tone, text))
}

fn user_lines(text: &str, content: &[ContentBlock]) -> Vec<Piece> {
    let images = content.iter().filter(|block| matches!(block, ContentBlock::Image { .. })).count();
    let image_line = (images > 0).then(|| format!("({images} image(s))"));
    let text = clean(text);
    let lines = text.lines().map(str::to_owned).chain(image_line);
    lines.map(|line| Piece::Line(Tone::User, format!("> {line}"))).collect()
}

/// Puts the name of another client before the message that it sent.
fn name_sender(pieces: &mut [Piece], client: Option<&ClientRef>) {
    if let (Some(Piece::Line(Tone::User, line)), Some(client)) = (pieces.first_mut(), client)
        && !client.name.is_empty()
    {
        line.insert_str(0, &format!("{} ", one_line(&client.name)));
    }
}

fn client_name(name: &str) -> String {
    if name.is_empty() { "a client".to_owned() } else { one_line(name) }
}

fn is_shown(entry: &ViewEntry) -> bool {
    matches!(&entry.content, EntryContent::Message(message)
        if !matches!(**message, Message::System(_) | Message::Other(_)))
}

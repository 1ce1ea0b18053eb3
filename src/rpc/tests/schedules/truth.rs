//! What is known of the sessions: whatever two clients have seen of the same moment must be the same.

use std::collections::HashMap;
use std::fmt::Write as _;

use agentd_protocol::event::{Event, EventParams};
use agentd_protocol::message::{ContentBlock, Message};
use agentd_protocol::methods::{SessionStatus, View};
use agentd_protocol::session_view::{EntryContent, SessionView, ViewEntry};
use agentd_protocol::{EntryId, Epoch, Seq};
use pretty_assertions::assert_eq;
use serde_json::Value;

/// All that was seen.
#[derive(Default)]
pub(super) struct Truth {
    loads: HashMap<(usize, Epoch), Load>,
    /// Content of each entry.
    entries: HashMap<EntryId, String>,
    /// Which entry follows which.
    next: HashMap<EntryId, EntryId>,
}

/// One load of a session.
#[derive(Default)]
struct Load {
    /// The text of each event that came whole and alone.
    events: HashMap<Seq, (String, Option<View>)>,
    /// What clients held after an event.
    growing: HashMap<Seq, String>,
    states: HashMap<Seq, String>,
    leaves: HashMap<Seq, Option<EntryId>>,
    /// Events that a view passed over.
    passed_over: Vec<(View, Seq, Seq)>,
}

/// Keeps a fact, or compares it with what is known.
#[track_caller]
fn agree<V: PartialEq + std::fmt::Debug>(known: &mut HashMap<Seq, V>, seq: Seq, value: V, what: &str) {
    match known.get(&seq) {
        Some(known) => assert_eq!(*known, value, "{what} after event {seq}"),
        None => drop(known.insert(seq, value)),
    }
}

impl Truth {
    fn load(&mut self, session: usize, epoch: &Epoch) -> &mut Load {
        self.loads.entry((session, epoch.clone())).or_default()
    }

    /// Takes in an event as it came over the wire.
    pub(super) fn event(&mut self, session: usize, epoch: &Epoch, params: &EventParams, text: &str, view: View) {
        if params.from.is_some() || (view == View::Status && is_shortened(&params.event)) {
            return;
        }
        let least = least_view(&params.event);
        agree(&mut self.load(session, epoch).events, params.seq, (text.to_owned(), least), "the event");
    }

    /// Notes that a view showed nothing between two events.
    pub(super) fn passed_over(&mut self, session: usize, epoch: &Epoch, view: View, (after, before): (Seq, Seq)) {
        if after + 1 < before {
            self.load(session, epoch).passed_over.push((view, after, before));
        }
    }

    /// Compares what a client holds after an event or a snapshot with what others held there.
    pub(super) fn held(&mut self, session: usize, held: &SessionView) {
        let load = self.load(session, &held.epoch);
        agree(&mut load.states, held.seq, state_of(held), "the state");
        if matches!(held.view, View::Full | View::Coalesced) {
            agree(&mut load.growing, held.seq, growing_of(held), "what grows");
        }
        agree(&mut load.leaves, held.seq, held.state.leaf_id.clone(), "the leaf");
    }

    /// Compares entries of a client, which follow each other, with what others have of them.
    pub(super) fn entries(&mut self, entries: &[ViewEntry]) {
        for entry in entries {
            let Some(content) = content_of(entry) else { continue };
            let known = self.entries.entry(entry.id.clone()).or_insert_with(|| content.clone());
            assert_eq!(*known, content, "entry {}", entry.id);
        }
        for pair in entries.windows(2) {
            let next = self.next.entry(pair[0].id.clone()).or_insert_with(|| pair[1].id.clone());
            assert_eq!(*next, pair[1].id, "what follows entry {}", pair[0].id);
        }
    }

    /// Checks at the end that no view passed over an event that it should have shown.
    pub(super) fn check_gaps(&self) {
        for load in self.loads.values() {
            for (view, after, before) in &load.passed_over {
                for seq in after + 1..*before {
                    let Some((text, Some(least))) = load.events.get(&seq) else { continue };
                    assert!(!shows(*view, *least), "{view:?} went from {after} to {before}, over {text}");
                }
            }
        }
    }
}

/// Tells whether the view `status` shows less of an event.
fn is_shortened(event: &Event) -> bool {
    matches!(
        event,
        Event::MessageEnd { .. }
            | Event::EntryAppended { .. }
            | Event::ToolExecutionStart { .. }
            | Event::ToolExecutionEnd { .. }
    )
}

/// Returns the poorest view that shows an event, as the documentation says.
fn least_view(event: &Event) -> Option<View> {
    match event {
        Event::MessageStart { .. } | Event::MessageUpdate { .. } | Event::ToolExecutionUpdate { .. } => {
            Some(View::Coalesced)
        }
        Event::TurnStart {} | Event::TurnEnd { .. } | Event::AgentEnd { .. } => Some(View::Entries),
        Event::Unknown(_) => None,
        _ => Some(View::Status),
    }
}

fn shows(view: View, least: View) -> bool {
    match view {
        View::Full | View::Coalesced => true,
        View::Entries => least != View::Coalesced,
        View::Status => least == View::Status,
    }
}

/// Describes what every view shows of a session.
pub(super) fn state_of(held: &SessionView) -> String {
    let state = &held.state;
    // That a run is being stopped is told by its end only.
    let status = match state.status {
        SessionStatus::Stopping => SessionStatus::Running,
        status => status,
    };
    let retry = &state.retry;
    format!(
        "{status:?} {} {:?} {:?} {:?} {} {:?} {} {retry:?}",
        state.is_streaming,
        state.session_name,
        held.model,
        state.thinking_level,
        state.pending_message_count,
        held.queue,
        state.interrupted,
    )
}

/// Describes what grows: the open message and the running tools.
pub(super) fn growing_of(held: &SessionView) -> String {
    let mut out = String::new();
    if let Some(open) = &held.open {
        write!(out, "{}:", open.entry_id).unwrap();
        for block in &open.message.content {
            write!(out, " {}", block_of(block)).unwrap();
        }
        write!(out, " {:?}", open.message.usage.output).unwrap();
    }
    for tool in &held.tools {
        write!(out, " {} {} {}", tool.tool_call_id, tool.tool_name, tool.args).unwrap();
        match &tool.ended {
            Some(ended) => write!(out, " {:?} {}", ended.result.content, ended.is_error).unwrap(),
            None => write!(out, " {:?}", tool.output).unwrap(),
        }
    }
    out
}

/// Describes a block; a call that is complete reads the same whether its arguments have been parsed or not.
pub(super) fn block_of(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text { text, .. } => format!("text {text:?}"),
        ContentBlock::Thinking { thinking, .. } => format!("thinking {thinking:?}"),
        ContentBlock::ToolCall(call) => {
            let arguments = match &call.arguments_text {
                // A call without any text is one without arguments.
                Some(text) if text.is_empty() => Value::Object(serde_json::Map::new()),
                Some(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.clone())),
                None => call.arguments.clone(),
            };
            format!("call {} {} {arguments}", call.id, call.name)
        }
        other => format!("{other:?}"),
    }
}

/// Describes an entry; `None` for a result whose call was not seen.
pub(super) fn content_of(entry: &ViewEntry) -> Option<String> {
    match &entry.content {
        EntryContent::Message(message) => {
            let mut value = serde_json::to_value(message).unwrap();
            if matches!(**message, Message::ToolResult(_)) {
                value.as_object_mut().unwrap().remove("timestamp");
            }
            Some(value.to_string())
        }
        EntryContent::Other(entry) => Some(entry.0.get().to_owned()),
        EntryContent::UnseenResult(_) => None,
    }
}

//! Which views show an event.

use agentd_protocol::message::Message;
use agentd_protocol::methods::View;

use crate::agent::event::Event;

/// How many views there are.
const VIEWS: usize = 4;

/// One value for each view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PerView<T>([T; VIEWS]);

impl<T> PerView<T> {
    pub(super) fn of(value: impl Fn(View) -> T) -> Self {
        Self([View::Full, View::Coalesced, View::Entries, View::Status].map(value))
    }

    pub(super) fn get(&self, view: View) -> &T {
        &self.0[place(view)]
    }

    pub(super) fn get_mut(&mut self, view: View) -> &mut T {
        &mut self.0[place(view)]
    }
}

fn place(view: View) -> usize {
    match view {
        View::Full => 0,
        View::Coalesced => 1,
        View::Entries => 2,
        View::Status => 3,
    }
}

/// The least that a view must show to show an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// What runs, and what is new.
    Status,
    /// What is complete.
    Entry,
    /// What grows.
    Growing,
}

impl Class {
    pub(super) fn of(event: &Event) -> Self {
        match event {
            Event::MessageStart(_) | Event::MessageUpdate { .. } | Event::ToolExecutionUpdate { .. } => Self::Growing,
            Event::TurnStart | Event::TurnEnd { .. } | Event::AgentEnd { .. } => Self::Entry,
            Event::AgentStart
            | Event::MessageEnd(_)
            | Event::AgentSettled { .. }
            | Event::ToolExecutionStart(_)
            | Event::ToolExecutionEnd { .. }
            | Event::QueueUpdate { .. }
            | Event::AutoRetryStart { .. }
            | Event::AutoRetryEnd { .. }
            | Event::ApprovalRequested(_)
            | Event::ApprovalResolved { .. }
            | Event::EntryAppended(_)
            | Event::SessionInfoChanged { .. }
            | Event::ModelChanged { .. }
            | Event::ThinkingLevelChanged { .. }
            | Event::ClientAttached { .. }
            | Event::ClientDetached { .. }
            | Event::Notice { .. } => Self::Status,
        }
    }

    /// Tells whether a view shows events of this class.
    pub(super) fn is_in(self, view: View) -> bool {
        self <= richest(view)
    }
}

/// Returns the class that shows most among those of a view.
pub(super) fn richest(view: View) -> Class {
    match view {
        View::Full | View::Coalesced => Class::Growing,
        View::Entries => Class::Entry,
        View::Status => Class::Status,
    }
}

/// What is growing at some point of the stream. A reader of a poor view has not seen it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    is_message_open: bool,
    running_tools: u32,
    /// Tools whose result is not an entry yet. Its content came with the end of the call, which `status` does not show.
    unwritten_results: u32,
}

impl Growth {
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::MessageStart(entry) if matches!(*entry.message, Message::Assistant(_)) => {
                self.is_message_open = true
            }
            Event::MessageEnd(entry) if matches!(*entry.message, Message::Assistant(_)) => self.is_message_open = false,
            Event::MessageEnd(entry) if matches!(*entry.message, Message::ToolResult(_)) => {
                self.unwritten_results = self.unwritten_results.saturating_sub(1);
            }
            Event::ToolExecutionStart(_) => {
                self.running_tools += 1;
                self.unwritten_results += 1;
            }
            Event::ToolExecutionEnd { .. } => self.running_tools = self.running_tools.saturating_sub(1),
            Event::AgentSettled { .. } => *self = Self::default(),
            _ => {}
        }
    }

    /// Returns what readers of poorer views lack here.
    pub(super) fn lacks(self) -> Lacks {
        let of_entries = self.is_message_open || self.running_tools > 0;
        Lacks { of_entries, of_status: of_entries || self.unwritten_results > 0 }
    }
}

/// Whether a reader lacks something at some point of the stream that later events of a richer view take as known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lacks {
    of_entries: bool,
    of_status: bool,
}

impl Lacks {
    /// Tells so of a reader of this view.
    pub(super) fn is_any(self, view: View) -> bool {
        match view {
            View::Full | View::Coalesced => false,
            View::Entries => self.of_entries,
            View::Status => self.of_status,
        }
    }
}

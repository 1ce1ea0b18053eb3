//! What clients have been told of the running tools: the fold of the published events, as a snapshot carries it.

use std::sync::Arc;

use agentd_protocol::EntryId;
use agentd_protocol::message::Message;
use agentd_protocol::methods::{EndedTool, RunningTool};

use crate::agent::event::{Event, ToolStart};
use crate::constants::TOOL_OUTPUT_BYTES;

/// Tools between their start and the message with their result, in call order.
#[derive(Default)]
pub(super) struct PublishedTools(Vec<PublishedTool>);

struct PublishedTool {
    start: Arc<ToolStart>,
    output: String,
    ended: Option<EndedTool>,
}

impl PublishedTools {
    /// Takes in an event that is being published.
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::ToolExecutionStart(start) => {
                self.0.push(PublishedTool { start: Arc::clone(start), output: String::new(), ended: None });
            }
            Event::ToolExecutionUpdate { call, delta } => {
                if let Some(tool) = self.find(&call.entry_id) {
                    tool.output.push_str(delta);
                    keep_tail(&mut tool.output, TOOL_OUTPUT_BYTES);
                }
            }
            Event::ToolExecutionEnd { call, result, is_error, duration_ms, .. } => {
                if let Some(tool) = self.find(&call.entry_id) {
                    // The result says it all; the output is not sent twice.
                    tool.output = String::new();
                    let result = (**result).clone();
                    tool.ended = Some(EndedTool { result, is_error: *is_error, duration_ms: *duration_ms });
                }
            }
            Event::MessageEnd(entry) => {
                if matches!(*entry.message, Message::ToolResult(_)) {
                    self.0.retain(|tool| tool.start.entry_id != entry.id);
                }
            }
            Event::AgentSettled { .. } => self.0.clear(),
            _ => {}
        }
    }

    /// Returns the tools as a snapshot carries them.
    pub(super) fn snapshot(&self) -> Vec<RunningTool> {
        let tools = self.0.iter().map(|tool| RunningTool {
            tool_call_id: tool.start.id.clone(),
            tool_name: tool.start.name.clone(),
            args: tool.start.args.clone(),
            output: tool.output.clone(),
            ended: tool.ended.clone(),
        });
        tools.collect()
    }

    fn find(&mut self, id: &EntryId) -> Option<&mut PublishedTool> {
        self.0.iter_mut().find(|tool| tool.start.entry_id == *id)
    }
}

/// Drops the beginning of a text that is more than twice too long, at a character's edge.
fn keep_tail(text: &mut String, limit: usize) {
    if text.len() > 2 * limit {
        let mut cut = text.len() - limit;
        while !text.is_char_boundary(cut) {
            cut += 1;
        }
        text.drain(..cut);
    }
}

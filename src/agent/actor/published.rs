//! What clients have been told: the fold of the published events, as snapshots and states carry it. The machine is
//! ahead of it while effects wait for the disk.

use std::sync::Arc;

use agentd_protocol::message::Message;
use agentd_protocol::methods::{EndedTool, OpenMessage, Question, Queue, RetryState, RunningTool, SessionStatus};
use agentd_protocol::{ApprovalId, EntryId};

use crate::agent::event::{Event, ToolStart};
use crate::constants::TOOL_OUTPUT_BYTES;

/// What the events so far come to.
pub(super) struct Published {
    /// What the session is doing. That a run is being stopped is told by its end only.
    pub(super) status: SessionStatus,
    /// What is waited for, in retry wait.
    pub(super) retry: Option<RetryState>,
    /// Messages waiting to be sent.
    pub(super) queue: Queue,
    /// Questions waiting for an answer, oldest first.
    pub(super) questions: Vec<Question>,
    /// Whether the last run was cut short.
    pub(super) is_interrupted: bool,
    /// A message whose response has ended, until its end is published.
    pub(super) closing: Option<OpenMessage>,
    /// Tools between their start and the message with their result, in call order.
    tools: Vec<PublishedTool>,
}

struct PublishedTool {
    start: Arc<ToolStart>,
    output: String,
    ended: Option<EndedTool>,
}

impl Published {
    /// Begins with what a session was loaded with.
    pub(super) fn new(queue: Queue, is_interrupted: bool, questions: Vec<Question>) -> Self {
        let status = if questions.is_empty() { SessionStatus::Idle } else { SessionStatus::Asking };
        Self { status, retry: None, queue, questions, is_interrupted, closing: None, tools: Vec::new() }
    }

    /// Takes in an event that is being published.
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::AgentStart => {
                (self.status, self.retry, self.is_interrupted) = (SessionStatus::Running, None, false);
            }
            Event::AutoRetryStart { attempt, max_attempts, delay_ms, error_message } => {
                self.status = SessionStatus::RetryWait;
                self.retry = Some(RetryState {
                    attempt: *attempt,
                    max_attempts: *max_attempts,
                    delay_ms: *delay_ms,
                    error_message: error_message.clone(),
                });
            }
            Event::AutoRetryEnd { .. } => self.retry = None,
            Event::AgentSettled { .. } => self.settled(),
            Event::ApprovalRequested(question) => {
                self.status = SessionStatus::Asking;
                self.questions.push(question.clone());
            }
            Event::ApprovalResolved { approval_id, .. } => self.resolved(approval_id),
            Event::QueueUpdate { steering, follow_up } => {
                let texts = |texts: &[Arc<str>]| texts.iter().map(|text| text.to_string()).collect();
                self.queue = Queue { steering: texts(steering), follow_up: texts(follow_up) };
            }
            Event::MessageEnd(entry) => match &*entry.message {
                Message::Assistant(_) => self.closing = None,
                Message::ToolResult(_) => self.tools.retain(|tool| tool.start.entry_id != entry.id),
                _ => {}
            },
            Event::ToolExecutionStart(_) | Event::ToolExecutionUpdate { .. } | Event::ToolExecutionEnd { .. } => {
                self.note_tool(event);
            }
            _ => {}
        }
    }

    fn resolved(&mut self, id: &ApprovalId) {
        self.questions.retain(|question| question.approval_id != *id);
        if self.questions.is_empty() && self.status == SessionStatus::Asking {
            self.status = SessionStatus::Running;
        }
    }

    fn settled(&mut self) {
        (self.status, self.retry, self.closing) = (SessionStatus::Idle, None, None);
        self.tools.clear();
    }

    fn note_tool(&mut self, event: &Event) {
        match event {
            Event::ToolExecutionStart(start) => {
                self.tools.push(PublishedTool { start: Arc::clone(start), output: String::new(), ended: None });
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
            _ => {}
        }
    }

    /// Returns the tools as a snapshot carries them.
    pub(super) fn tools(&self) -> Vec<RunningTool> {
        let tools = self.tools.iter().map(|tool| RunningTool {
            tool_call_id: tool.start.id.clone(),
            tool_name: tool.start.name.clone(),
            args: tool.start.args.clone(),
            output: tool.output.clone(),
            ended: tool.ended.clone(),
        });
        tools.collect()
    }

    fn find(&mut self, id: &EntryId) -> Option<&mut PublishedTool> {
        self.tools.iter_mut().find(|tool| tool.start.entry_id == *id)
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

#[cfg(test)]
mod tests {
    use agentd_protocol::methods::RunEnd;
    use pretty_assertions::assert_eq;

    use super::*;

    fn described(published: &Published) -> (SessionStatus, bool, usize, bool) {
        (published.status, published.retry.is_some(), published.queue.len(), published.is_interrupted)
    }

    #[test]
    fn a_state_says_what_the_events_said() {
        let mut published =
            Published::new(Queue { steering: vec!["a".into()], follow_up: Vec::new() }, true, Vec::new());
        assert_eq!(described(&published), (SessionStatus::Idle, false, 1, true));
        published.note(&Event::AgentStart);
        published.note(&Event::QueueUpdate { steering: [].into(), follow_up: [].into() });
        assert_eq!(described(&published), (SessionStatus::Running, false, 0, false));
        let error_message = "busy".to_owned();
        published.note(&Event::AutoRetryStart { attempt: 1, max_attempts: 3, delay_ms: 5, error_message });
        assert_eq!(described(&published), (SessionStatus::RetryWait, true, 0, false));
        published.note(&Event::AutoRetryEnd { success: false, attempt: 1, final_error: None });
        assert_eq!(described(&published), (SessionStatus::RetryWait, false, 0, false));
        published.note(&Event::AgentSettled { aborted: true, reason: RunEnd::Aborted, error_message: None });
        assert_eq!(described(&published), (SessionStatus::Idle, false, 0, false));
    }
}

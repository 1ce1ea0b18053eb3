//! What the demo shows of events: a row for each thing that a person would speak of.

use agentd_protocol::Seq;
use agentd_protocol::event::{AssistantMessageEvent, Event, EventParams};
use agentd_protocol::message::Message;
use agentd_protocol::session_view::text_of;

use super::Who;
use crate::show::clean::clean;
use crate::show::style::width;
use crate::show::tool_text::{call_line, end_line};

/// Columns of the range of numbers.
const RANGE_COLUMNS: usize = 9;
/// Columns of a line of text; fits into the usual 80 with what stands before it.
const TEXT_COLUMNS: usize = 62;
/// Lines that are shown of one text.
const TEXT_LINES: usize = 6;

/// Makes rows of events. Every event belongs to a row: those that nobody would speak of to the next one.
pub(super) struct Rows {
    /// The last event that a row was shown for.
    shown: Seq,
    /// Text of the block that is streaming.
    text: String,
}

/// Returns the line above the rows.
pub(super) fn head() -> String {
    format!("{:<RANGE_COLUMNS$}  A  B  what", "events")
}

impl Rows {
    /// Begins after an event.
    pub(super) fn after(seq: Seq) -> Self {
        Self { shown: seq, text: String::new() }
    }

    /// Takes an event that both clients were told; returns the lines to show. `asking` is who prompted.
    pub(super) fn add(&mut self, params: &EventParams, asking: Who) -> Vec<String> {
        let Some(text) = self.describe(&params.event, asking) else { return Vec::new() };
        let from = self.shown + 1;
        self.shown = params.seq;
        let range = if from == params.seq { from.to_string() } else { format!("{from}–{}", params.seq) };
        let mut lines = wrap(&text).into_iter();
        let first = lines.next().unwrap_or_default();
        let mut rows = vec![format!("{range:<RANGE_COLUMNS$}  ✓  ✓  {first}")];
        rows.extend(lines.map(|line| Self::act(&line)));
        rows
    }

    /// Tells whether the model has just finished saying something.
    pub(super) fn ends_text(event: &Event) -> bool {
        let Event::MessageUpdate { assistant_message_event, .. } = event else { return false };
        matches!(assistant_message_event, AssistantMessageEvent::TextEnd { .. })
    }

    /// Returns a row for what a client does, which is no event yet.
    pub(super) fn act(text: &str) -> String {
        format!("{:RANGE_COLUMNS$}        {text}", "")
    }

    fn describe(&mut self, event: &Event, asking: Who) -> Option<String> {
        match event {
            Event::MessageUpdate { assistant_message_event, .. } => self.stream(assistant_message_event),
            Event::MessageEnd { message: Some(Message::User(user)), .. } => {
                Some(format!("{asking:?} says: {}", text_of(&user.content)))
            }
            Event::ToolExecutionStart { tool_name, args, .. } => Some(call_line(tool_name, args)),
            Event::ToolExecutionEnd { tool_name, result, is_error, duration_ms, .. } => {
                Some(format!("[{tool_name}] {}", end_line(&result.content, *is_error, *duration_ms)))
            }
            Event::Notice { message, .. } => Some(message.clone()),
            Event::AgentSettled { error_message: Some(error), .. } => Some(format!("failed: {error}")),
            Event::AgentSettled { aborted: true, .. } => Some("settled: aborted".to_owned()),
            Event::AgentSettled { .. } => Some("settled".to_owned()),
            _ => None,
        }
    }

    fn stream(&mut self, update: &AssistantMessageEvent) -> Option<String> {
        match update {
            AssistantMessageEvent::TextStart { .. } => self.text.clear(),
            AssistantMessageEvent::TextDelta { delta, .. } => self.text.push_str(delta),
            AssistantMessageEvent::TextEnd { .. } => return Some(format!("model: {}", std::mem::take(&mut self.text))),
            _ => {}
        }
        None
    }
}

/// Breaks a text into lines, and leaves out what is too much.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in clean(text).lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && width(&line) + 1 + width(word) > TEXT_COLUMNS {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if !line.is_empty() {
            lines.push(line);
        }
    }
    if lines.len() > TEXT_LINES {
        lines.truncate(TEXT_LINES - 1);
        lines.push("…".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn rows(events: &[Value]) -> Vec<String> {
        let mut rows = Rows::after(2);
        let mut seq = 2;
        let mut lines = Vec::new();
        for event in events {
            seq += 1;
            let params = json!({"sessionId": "s", "seq": seq, "event": event});
            lines.extend(rows.add(&serde_json::from_value(params).unwrap(), Who::B));
        }
        lines
    }

    fn update(event: &Value) -> Value {
        json!({"type": "message_update", "assistantMessageEvent": event})
    }

    #[test]
    fn each_thing_has_one_row_and_each_event_one_place() {
        let result = json!({"content": [{"type": "text", "text": "a\nb"}]});
        let shown = rows(&[
            json!({"type": "agent_start"}),
            json!({"type": "message_end", "entryId": "e", "message": {"role": "user", "content": "hello"}}),
            update(&json!({"type": "text_start", "contentIndex": 0})),
            update(&json!({"type": "text_delta", "contentIndex": 0, "delta": "I "})),
            update(&json!({"type": "text_delta", "contentIndex": 0, "delta": "look.\x1b"})),
            update(&json!({"type": "text_end", "contentIndex": 0})),
            json!({"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "args": {"command": "ls"}}),
            json!({"type": "tool_execution_end", "toolCallId": "c", "toolName": "bash", "result": result, "isError": false}),
            json!({"type": "agent_settled", "aborted": false, "reason": "done"}),
        ]);
        assert_eq!(
            shown,
            [
                "3–4        ✓  ✓  B says: hello",
                "5–8        ✓  ✓  model: I look.␛",
                "9          ✓  ✓  [bash] ls",
                "10         ✓  ✓  [bash] 2 lines",
                "11         ✓  ✓  settled",
            ]
        );
    }

    #[test]
    fn long_text_is_wrapped_and_cut() {
        let text = "word ".repeat(200);
        let lines = wrap(&text);
        assert_eq!(lines.len(), TEXT_LINES);
        assert!(lines.iter().all(|line| width(line) <= TEXT_COLUMNS), "{lines:?}");
        assert_eq!(lines.last().map(String::as_str), Some("…"));
    }
}

//! Keys are taken out of all that comes into a session, before anything of it is kept or told.

use std::sync::Arc;

use agentd_protocol::message::{ContentBlock, ToolResult, UserMessage};

use super::SessionActor;
use crate::agent::event::{DeltaKind, Event};
use crate::agent::machine::{Input, ToolEnd};
use crate::provider::stream::StreamEvent;
use crate::redact::{Keys, Redactor};

/// Takes keys out of a response while it streams. Each block is a stream of its own.
#[derive(Debug, Default)]
pub(super) struct ResponseRedactor {
    blocks: Vec<Option<(DeltaKind, Redactor)>>,
}

impl ResponseRedactor {
    /// Takes the next event and adds to `out` what can go on.
    pub(super) fn push(&mut self, keys: &Keys, event: StreamEvent, out: &mut Vec<StreamEvent>) {
        match event {
            StreamEvent::Delta { index, kind, delta } => self.push_delta(keys, (index, kind), delta, out),
            StreamEvent::BlockEnd { index } => {
                out.extend(self.finish(keys, index));
                out.push(StreamEvent::BlockEnd { index });
            }
            StreamEvent::Stop { .. } => {
                out.extend(self.finish_all(keys));
                out.push(event);
            }
            other => out.push(other),
        }
    }

    fn push_delta(
        &mut self,
        keys: &Keys,
        (index, kind): (usize, DeltaKind),
        delta: Arc<str>,
        out: &mut Vec<StreamEvent>,
    ) {
        if self.blocks.len() <= index {
            self.blocks.resize_with(index + 1, || None);
        }
        let (_, redactor) = self.blocks[index].get_or_insert_with(|| (kind, Redactor::default()));
        let delta = match redactor.push_text(keys, &delta) {
            std::borrow::Cow::Borrowed(_) => delta,
            std::borrow::Cow::Owned(text) if text.is_empty() => return,
            std::borrow::Cow::Owned(text) => Arc::from(text),
        };
        out.push(StreamEvent::Delta { index, kind, delta });
    }

    /// Returns what was held back of a block that has ended.
    fn finish(&mut self, keys: &Keys, index: usize) -> Option<StreamEvent> {
        let (kind, mut redactor) = self.blocks.get_mut(index)?.take()?;
        let text = redactor.finish_text(keys);
        (!text.is_empty()).then(|| StreamEvent::Delta { index, kind, delta: text.into() })
    }

    /// Returns what was held back of all blocks, because the response has ended.
    pub(super) fn finish_all(&mut self, keys: &Keys) -> Vec<StreamEvent> {
        (0..self.blocks.len()).filter_map(|index| self.finish(keys, index)).collect()
    }
}

impl SessionActor {
    /// Takes keys out of what the machine is told. A user is told when that happens to a message.
    pub(super) fn without_keys(&mut self, mut input: Input) -> Input {
        let keys = self.services.key_book.keys();
        if keys.is_empty() {
            return input;
        }
        let is_of_user = match &mut input {
            Input::Prompt { user, .. } | Input::Steer { user, .. } | Input::FollowUp { user, .. } => {
                hide_in_message(&keys, user)
            }
            Input::ToolFinished { end, .. } | Input::ToolValidated { verdict: Err(end), .. } => {
                hide_in_end(&keys, end);
                false
            }
            _ => false,
        };
        if is_of_user {
            let message = "a configured key was taken out of the message: no model and no session file gets it";
            self.publish(Event::Notice { kind: "key_redacted", message: message.to_owned() });
        }
        input
    }
}

fn hide_in_message(keys: &Keys, user: &mut UserMessage) -> bool {
    let mut is_changed = false;
    for block in &mut user.content {
        if let ContentBlock::Text { text, .. } = block {
            is_changed |= keys.redact_in(text);
        }
    }
    is_changed
}

fn hide_in_end(keys: &Keys, end: &mut ToolEnd) {
    let ToolResult { content, details, structured_content } = Arc::make_mut(&mut end.result);
    for block in content {
        match block {
            ContentBlock::Text { text, .. } => {
                keys.redact_in(text);
            }
            ContentBlock::Other(value) => keys.redact_json(value),
            _ => {}
        }
    }
    [details, structured_content].into_iter().flatten().for_each(|value| keys.redact_json(value));
}

#[cfg(test)]
mod tests {
    use agentd_protocol::message::StopReason;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    const KEY: &str = "sk-CANARY123";

    fn keys() -> Keys {
        Keys::new([("K", KEY)])
    }

    fn delta(index: usize, text: &str) -> StreamEvent {
        let kind = if index == 0 { DeltaKind::Text } else { DeltaKind::ToolCall };
        StreamEvent::Delta { index, kind, delta: text.into() }
    }

    fn stop() -> StreamEvent {
        StreamEvent::Stop { reason: StopReason::Stop, raw: None }
    }

    #[test]
    fn each_block_is_a_stream_of_its_own() {
        let mut redactor = ResponseRedactor::default();
        let mut out = Vec::new();
        let events = [
            delta(0, "a sk-CAN"),
            delta(1, r#"{"x":"sk-CANARY"#),
            delta(0, "ARY123."),
            delta(1, r#"123"}"#),
            delta(0, "sk-CANAR"),
            StreamEvent::BlockEnd { index: 0 },
            delta(1, "sk-C"),
            stop(),
        ];
        events.into_iter().for_each(|event| redactor.push(&keys(), event, &mut out));
        let expected = [
            delta(0, "a "),
            delta(1, r#"{"x":""#),
            delta(0, "[redacted: K]."),
            delta(1, r#"[redacted: K]"}"#),
            delta(0, "[redacted: K]"),
            StreamEvent::BlockEnd { index: 0 },
            delta(1, "sk-C"),
            stop(),
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn results_are_searched_to_their_leaves() {
        let result = ToolResult {
            content: vec![ContentBlock::text(format!("a {KEY}")), ContentBlock::Other(json!({"x": KEY}))],
            details: Some(json!({"diff": ["-", {"deep": format!("+{KEY}")}], "n": 1})),
            structured_content: Some(json!(KEY)),
        };
        let mut end = ToolEnd { result: Arc::new(result), is_error: false, duration_ms: None };
        hide_in_end(&keys(), &mut end);
        let expected = ToolResult {
            content: vec![ContentBlock::text("a [redacted: K]"), ContentBlock::Other(json!({"x": "[redacted: K]"}))],
            details: Some(json!({"diff": ["-", {"deep": "+[redacted: K]"}], "n": 1})),
            structured_content: Some(json!("[redacted: K]")),
        };
        assert_eq!(*end.result, expected);
    }
}

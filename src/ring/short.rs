//! The short frames of the `status` view: what is new, without its content.

use agentd_protocol::Seq;
use agentd_protocol::message::Message;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::encode::{Fields, frame};
use crate::agent::event::Event;

/// What is told of an entry.
#[derive(Serialize, Deserialize)]
struct Entry<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    id: std::borrow::Cow<'a, str>,
}

/// Makes the short frame of an event that has content to leave out.
pub(super) fn short_frame(head: &[u8], seq: Seq, event: &Event) -> Option<Bytes> {
    let mut out = Vec::new();
    match event {
        Event::MessageEnd(entry) => frame(&mut out, head, seq, "message_end", |f| {
            f.str("entryId", entry.id.as_str());
            if let Message::ToolResult(result) = &*entry.message {
                f.str("toolCallId", result.tool_call_id.as_str());
            }
        }),
        Event::EntryAppended(entry) => {
            let entry = summary(entry)?;
            frame(&mut out, head, seq, "entry_appended", |f| f.json("entry", &entry));
        }
        Event::ToolExecutionStart(call) => frame(&mut out, head, seq, "tool_execution_start", |f| {
            f.str("toolCallId", call.id.as_str());
            f.str("toolName", &call.name);
        }),
        Event::ToolExecutionEnd { call, is_error, duration_ms, .. } => {
            frame(&mut out, head, seq, "tool_execution_end", |f: &mut Fields<'_>| {
                f.str("toolCallId", call.id.as_str());
                f.str("toolName", &call.name);
                f.json("isError", is_error);
                f.optional("durationMs", duration_ms.as_ref());
            });
        }
        _ => return None,
    }
    Some(out.into())
}

/// Entries are written by us or kept as a line of the file, so that one without type and id is not a fault here.
fn summary(entry: &RawValue) -> Option<Entry<'_>> {
    serde_json::from_str(entry.get()).ok()
}

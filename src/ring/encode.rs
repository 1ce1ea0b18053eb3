//! Events as bytes of the wire. Written by hand: nothing on the path of deltas makes a JSON value first.
//!
//! The shapes are those of `agentd_protocol::event`; a test decodes every event into those types.

use std::sync::Arc;

use agentd_protocol::message::{Message, Usage};
use agentd_protocol::methods::{AttachResult, ClientRef, View};
use agentd_protocol::{EntryId, Seq, SessionId};
use bytes::Bytes;
use serde::Serialize;

use crate::agent::event::{AssistantUpdate, BlockKind, DeltaKind, Event, MessageEntry, ToolStart};

/// Which growing thing a delta belongs to. Deltas of the same place that follow each other may be merged.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A block of the streaming message.
    Block { index: usize, kind: DeltaKind },
    /// The output of a tool call.
    Tool(Arc<ToolStart>),
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Block { index, kind }, Self::Block { index: other_index, kind: other_kind }) => {
                index == other_index && kind == other_kind
            }
            (Self::Tool(call), Self::Tool(other)) => Arc::ptr_eq(call, other) || call.id == other.id,
            _ => false,
        }
    }
}

/// The part of an event that can be merged with its neighbours.
pub(super) struct Delta<'a> {
    pub(super) place: Place,
    pub(super) usage: Option<Usage>,
    pub(super) text: &'a Arc<str>,
}

/// Returns what an event adds to a growing text, if that is all it does.
pub(super) fn delta_of(event: &Event) -> Option<Delta<'_>> {
    match event {
        Event::MessageUpdate { usage, update: AssistantUpdate::Delta { index, kind, delta } } => {
            Some(Delta { place: Place::Block { index: *index, kind: *kind }, usage: *usage, text: delta })
        }
        Event::ToolExecutionUpdate { call, delta } => {
            Some(Delta { place: Place::Tool(call.clone()), usage: None, text: delta })
        }
        _ => None,
    }
}

/// Returns the bytes with which every frame of a session begins.
pub(super) fn frame_head(session: &SessionId) -> Box<[u8]> {
    let mut head = br#"{"jsonrpc":"2.0","method":"event","params":{"sessionId":"#.to_vec();
    string(&mut head, session.as_str());
    head.push(b',');
    head.into_boxed_slice()
}

/// Appends the frame of deltas whose text, already escaped, is `escaped`.
pub(super) fn delta_frame(
    out: &mut Vec<u8>,
    head: &[u8],
    (from, seq): (Option<Seq>, Seq),
    (place, usage): (&Place, Option<&Usage>),
    escaped: impl FnOnce(&mut Vec<u8>),
) {
    begin(out, head, from, seq);
    match place {
        Place::Block { index, kind } => {
            message_update(out, usage);
            out.extend_from_slice(match kind {
                DeltaKind::Text => br#"text_delta","contentIndex":"#,
                DeltaKind::Thinking => br#"thinking_delta","contentIndex":"#,
                DeltaKind::ToolCall => br#"toolcall_delta","contentIndex":"#,
            });
            number(out, *index as u64);
            out.extend_from_slice(br#","delta":""#);
            escaped(out);
            out.extend_from_slice(br#""}"#);
        }
        Place::Tool(call) => {
            out.extend_from_slice(br#"tool_execution_update","toolCallId":"#);
            string(out, call.id.as_str());
            out.extend_from_slice(br#","delta":""#);
            escaped(out);
            out.push(b'"');
        }
    }
    end(out);
}

/// Appends the frame of one event.
pub(super) fn event_frame(out: &mut Vec<u8>, head: &[u8], seq: Seq, event: &Event) {
    if let Some(Delta { place, usage, text }) = delta_of(event) {
        delta_frame(out, head, (None, seq), (&place, usage.as_ref()), |out| escape(out, text));
        return;
    }
    begin(out, head, None, seq);
    event_body(out, event);
    end(out);
}

/// Appends the frame of an event with the given fields.
pub(super) fn frame(out: &mut Vec<u8>, head: &[u8], seq: Seq, kind: &str, write: impl FnOnce(&mut Fields<'_>)) {
    begin(out, head, None, seq);
    fields(out, kind, write);
    end(out);
}

/// Makes the frame that tells a client that it fell behind and what stands for the events it missed.
pub(crate) fn lagged_frame(result: &AttachResult) -> Bytes {
    let mut out = Vec::new();
    begin(&mut out, &frame_head(&result.session_id), None, result.seq);
    out.extend_from_slice(br#"lagged","#);
    let start = out.len();
    json(&mut out, result);
    out.remove(start); // its opening brace: its fields stand beside `type`
    out.pop();
    end(&mut out);
    out.into()
}

/// Makes the frame that tells a client that a session can no longer be read. `seq` is the last event it got.
pub(crate) fn detached_frame(session: &SessionId, seq: Seq, message: &str) -> Bytes {
    let mut out = Vec::new();
    frame(&mut out, &frame_head(session), seq, "detached", |f| f.str("message", message));
    out.into()
}

/// Appends an event from its type's name (whose opening quote is there already) to before its closing brace.
fn event_body(out: &mut Vec<u8>, event: &Event) {
    match event {
        Event::AgentStart => fields(out, "agent_start", |_| {}),
        Event::TurnStart => fields(out, "turn_start", |_| {}),
        Event::MessageStart(entry) => message_start(out, entry),
        Event::MessageUpdate { usage, update } => block_update(out, usage.as_ref(), update),
        Event::MessageEnd(entry) => message_end(out, entry),
        Event::TurnEnd { message, tool_results } => fields(out, "turn_end", |f| {
            f.str("entryId", message.id.as_str());
            f.json("toolResultIds", &ids(tool_results));
        }),
        Event::AgentEnd { messages, will_retry } => fields(out, "agent_end", |f| {
            f.json("entryIds", &ids(messages));
            f.json("willRetry", will_retry);
        }),
        Event::AgentSettled { aborted, reason, error_message } => fields(out, "agent_settled", |f| {
            f.json("aborted", aborted);
            f.json("reason", reason);
            f.optional("errorMessage", error_message.as_ref());
        }),
        Event::ToolExecutionStart(call) => fields(out, "tool_execution_start", |f| {
            f.str("toolCallId", call.id.as_str());
            f.str("toolName", &call.name);
            f.json("args", &call.args);
        }),
        Event::ToolExecutionUpdate { .. } => unreachable!("deltas are written by delta_frame"),
        Event::ToolExecutionEnd { call, result, is_error, duration_ms } => fields(out, "tool_execution_end", |f| {
            f.str("toolCallId", call.id.as_str());
            f.str("toolName", &call.name);
            f.json("result", &**result);
            f.json("isError", is_error);
            f.optional("durationMs", duration_ms.as_ref());
        }),
        Event::QueueUpdate { steering, follow_up } => fields(out, "queue_update", |f| {
            f.json("steering", steering);
            f.json("followUp", follow_up);
        }),
        Event::AutoRetryStart { attempt, max_attempts, delay_ms, error_message } => {
            fields(out, "auto_retry_start", |f| {
                f.json("attempt", attempt);
                f.json("maxAttempts", max_attempts);
                f.json("delayMs", delay_ms);
                f.str("errorMessage", error_message);
            });
        }
        Event::AutoRetryEnd { success, attempt, final_error } => fields(out, "auto_retry_end", |f| {
            f.json("success", success);
            f.json("attempt", attempt);
            f.optional("finalError", final_error.as_ref());
        }),
        Event::ApprovalRequested(question) => fields(out, "approval_requested", |f| {
            f.str("approvalId", question.approval_id.as_str());
            f.json("kind", &question.kind);
            f.str("text", &question.text);
            f.json("options", &question.options);
            f.json("askedAt", &question.asked_at);
            f.optional("deadline", question.deadline.as_ref());
            f.optional("turns", question.turns.as_ref());
            f.optional("tool", question.tool.as_ref());
        }),
        Event::ApprovalResolved { approval_id, answer } => fields(out, "approval_resolved", |f| {
            f.str("approvalId", approval_id.as_str());
            f.json("decision", &answer.decision);
            f.optional("by", answer.by.as_ref());
            f.optional("pid", answer.pid.as_ref());
            f.optional("message", answer.message.as_ref());
        }),
        Event::EntryAppended(entry) => fields(out, "entry_appended", |f| f.json("entry", entry)),
        Event::SessionInfoChanged { name } => {
            fields(out, "session_info_changed", |f| f.optional("name", name.as_ref()));
        }
        Event::ModelChanged { model } => fields(out, "model_changed", |f| f.str("model", model)),
        Event::ThinkingLevelChanged { level } => fields(out, "thinking_level_changed", |f| f.json("level", level)),
        Event::ClientAttached { client, view, clients } => presence(out, "client_attached", client, *view, *clients),
        Event::ClientDetached { client, view, clients } => presence(out, "client_detached", client, *view, *clients),
        Event::Notice { kind, message } => fields(out, "notice", |f| {
            f.str("kind", kind);
            f.str("message", message);
        }),
    }
}

/// The message itself comes with its end; only an assistant's beginning tells more than role and entry.
fn message_start(out: &mut Vec<u8>, entry: &MessageEntry) {
    fields(out, "message_start", |f| {
        f.str("role", role(&entry.message));
        f.str("entryId", entry.id.as_str());
        if let Message::Assistant(_) = &*entry.message {
            f.json("message", &*entry.message);
        }
        f.optional("client", entry.client.as_deref());
    });
}

/// A tool result's content travelled with the end of its call and is not repeated.
fn message_end(out: &mut Vec<u8>, entry: &MessageEntry) {
    fields(out, "message_end", |f| match &*entry.message {
        Message::ToolResult(result) => {
            f.str("entryId", entry.id.as_str());
            f.str("toolCallId", result.tool_call_id.as_str());
        }
        message => {
            f.json("message", message);
            f.str("entryId", entry.id.as_str());
            f.optional("client", entry.client.as_deref());
        }
    });
}

fn presence(out: &mut Vec<u8>, kind: &str, client: &ClientRef, view: View, clients: u32) {
    fields(out, kind, |f| {
        f.str("name", &client.name);
        f.optional("pid", client.pid.as_ref());
        f.json("view", &view);
        f.json("clients", &clients);
    });
}

fn block_update(out: &mut Vec<u8>, usage: Option<&Usage>, update: &AssistantUpdate) {
    message_update(out, usage);
    match update {
        AssistantUpdate::Start { index, block } => match block {
            BlockKind::Text => fields(out, "text_start", |f| f.json("contentIndex", index)),
            BlockKind::Thinking => fields(out, "thinking_start", |f| f.json("contentIndex", index)),
            BlockKind::ToolCall { id, name } => fields(out, "toolcall_start", |f| {
                f.json("contentIndex", index);
                f.str("id", id.as_str());
                f.str("toolName", name);
            }),
        },
        AssistantUpdate::End { index, kind } => {
            let name = match kind {
                DeltaKind::Text => "text_end",
                DeltaKind::Thinking => "thinking_end",
                DeltaKind::ToolCall => "toolcall_end",
            };
            fields(out, name, |f| f.json("contentIndex", index));
        }
        AssistantUpdate::Delta { .. } => unreachable!("deltas are written by delta_frame"),
    }
    out.push(b'}');
}

/// Appends what stands before the update of a `message_update`, up to the opening quote of its type.
fn message_update(out: &mut Vec<u8>, usage: Option<&Usage>) {
    out.extend_from_slice(br#"message_update","#);
    if let Some(usage) = usage {
        out.extend_from_slice(br#""usage":"#);
        json(out, usage);
        out.push(b',');
    }
    out.extend_from_slice(br#""assistantMessageEvent":{"type":""#);
}

fn begin(out: &mut Vec<u8>, head: &[u8], from: Option<Seq>, seq: Seq) {
    out.extend_from_slice(head);
    if let Some(from) = from {
        out.extend_from_slice(br#""from":"#);
        number(out, from);
        out.push(b',');
    }
    out.extend_from_slice(br#""seq":"#);
    number(out, seq);
    out.extend_from_slice(br#","event":{"type":""#);
}

fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"}}}");
}

/// The words of the wire for a message's role.
fn role(message: &Message) -> &str {
    match message {
        Message::System(_) => "system",
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        Message::ToolResult(_) => "toolResult",
        Message::BashExecution(_) => "bashExecution",
        Message::CompactionSummary(_) => "compactionSummary",
        Message::BranchSummary(_) => "branchSummary",
        Message::Custom(_) => "custom",
        Message::Other(value) => value["role"].as_str().unwrap_or_default(),
    }
}

fn ids(entries: &[MessageEntry]) -> Vec<&EntryId> {
    entries.iter().map(|entry| &entry.id).collect()
}

/// Appends the fields of an object whose type's name comes first.
pub(super) struct Fields<'a>(&'a mut Vec<u8>);

fn fields(out: &mut Vec<u8>, kind: &str, write: impl FnOnce(&mut Fields<'_>)) {
    out.extend_from_slice(kind.as_bytes());
    out.push(b'"');
    write(&mut Fields(out));
}

impl Fields<'_> {
    fn name(&mut self, name: &str) {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    pub(super) fn str(&mut self, name: &str, text: &str) {
        self.name(name);
        string(self.0, text);
    }

    pub(super) fn json<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.name(name);
        json(self.0, value);
    }

    pub(super) fn optional<T: Serialize>(&mut self, name: &str, value: Option<&T>) {
        if let Some(value) = value {
            self.json(name, value);
        }
    }
}

fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("wire types have text as keys, and a vector takes all bytes");
}

fn number(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escape(out, text);
    out.push(b'"');
}

/// For each byte: 0 if it stands for itself in a JSON string, else the letter after the backslash (`u` for `\u00XX`).
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = b'u';
        byte += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0a] = b'n';
    table[0x0c] = b'f';
    table[0x0d] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

/// Appends `text` escaped for the inside of a JSON string.
pub(super) fn escape(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    let mut start = 0;
    for (at, byte) in bytes.iter().copied().enumerate() {
        let escape = ESCAPES[usize::from(byte)];
        if escape == 0 {
            continue;
        }
        out.extend_from_slice(&bytes[start..at]);
        out.extend_from_slice(&[b'\\', escape]);
        if escape == b'u' {
            out.extend_from_slice(b"00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        start = at + 1;
    }
    out.extend_from_slice(&bytes[start..]);
}

#[cfg(test)]
mod tests;

//! Headers and entries → lines, with pi's key order.

use agentd_protocol::EntryId;
use agentd_protocol::message::{Message, ThinkingLevel, Usage};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::time::format_timestamp;
use crate::session::{Compaction, Entry, EntryBody, Header};

/// Why an entry cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// Its content is not known to this build.
    #[error("entries of kind {0:?} can be copied, but not written by this build")]
    UnknownKind(String),
    /// Its content cannot be put as JSON.
    #[error("an entry cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeaderLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    version: u32,
    id: &'a str,
    timestamp: String,
    cwd: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_session: Option<&'a str>,
}

/// Returns the line of a header, without the line end. It is always of the current version.
pub fn encode_header(header: &Header) -> String {
    let line = HeaderLine {
        kind: "session",
        version: super::CURRENT_VERSION,
        id: header.id.as_str(),
        timestamp: format_timestamp(header.timestamp),
        cwd: &header.cwd,
        parent_session: header.parent_session.as_deref(),
    };
    serde_json::to_string(&line).expect("a struct of strings and numbers is always JSON")
}

/// What every entry has. pi writes it before the content, for the kinds of extensions after it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Place<'a> {
    id: &'a EntryId,
    parent_id: Option<&'a EntryId>,
    timestamp: String,
}

#[derive(Serialize)]
struct PlaceFirst<'a, T: Serialize> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    place: Place<'a>,
    #[serde(flatten)]
    content: T,
}

#[derive(Serialize)]
struct PlaceLast<'a, T: Serialize> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    content: T,
    #[serde(flatten)]
    place: Place<'a>,
}

#[derive(Serialize)]
struct MessageContent<'a> {
    message: &'a Message,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ModelChange<'a> {
    provider: &'a str,
    model_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingLevelChange {
    thinking_level: ThinkingLevel,
}

#[derive(Serialize)]
struct SessionInfo<'a> {
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContextEdit<'a> {
    target_id: &'a EntryId,
    replacement: Option<&'a Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CompactionContent<'a> {
    summary: &'a str,
    first_kept_entry_id: &'a EntryId,
    tokens_before: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Usage>,
    from_hook: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_message: Option<&'a Message>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BranchSummary<'a> {
    from_id: &'a str,
    summary: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Usage>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Label<'a> {
    target_id: &'a EntryId,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
}

#[derive(Serialize)]
struct UsageContent<'a> {
    usage: &'a Usage,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Custom<'a> {
    custom_type: &'a str,
    data: &'a Value,
}

/// Returns an entry with its line.
///
/// # Errors
/// An entry of a kind that this build does not know cannot be written, only copied.
pub fn encode_entry(
    id: &EntryId,
    parent: Option<&EntryId>,
    timestamp_ms: i64,
    body: &EntryBody,
) -> Result<Entry, EncodeError> {
    let place = Place { id, parent_id: parent, timestamp: format_timestamp(timestamp_ms) };
    let line = encode_body(place, body)?;
    Ok(Entry {
        id: id.clone(),
        parent_id: parent.cloned(),
        timestamp: timestamp_ms,
        body: body.clone(),
        raw: RawValue::from_string(line)?.into(),
    })
}

fn encode_body(place: Place<'_>, body: &EntryBody) -> Result<String, EncodeError> {
    let line = match body {
        EntryBody::Message(message) => first("message", place, MessageContent { message }),
        EntryBody::ModelChange { provider, model_id } => {
            first("model_change", place, ModelChange { provider, model_id })
        }
        EntryBody::ThinkingLevelChange(level) => {
            first("thinking_level_change", place, ThinkingLevelChange { thinking_level: *level })
        }
        EntryBody::SessionInfo { name } => first("session_info", place, SessionInfo { name }),
        EntryBody::ContextEdit { target, replacement } => {
            first("context_edit", place, ContextEdit { target_id: target, replacement: replacement.as_ref() })
        }
        EntryBody::Compaction(compaction) => first("compaction", place, compaction_content(compaction)),
        EntryBody::BranchSummary { from, summary, usage } => {
            first("branch_summary", place, BranchSummary { from_id: from, summary, usage: usage.as_deref() })
        }
        EntryBody::Label { target, label } => {
            first("label", place, Label { target_id: target, label: label.as_deref() })
        }
        EntryBody::Usage(usage) => first("usage", place, UsageContent { usage }),
        EntryBody::CustomMessage(message) => custom_message(place, message),
        EntryBody::Custom { custom_type, data } => last("custom", place, Custom { custom_type, data }),
        EntryBody::Unknown { kind } => return Err(EncodeError::UnknownKind(kind.clone())),
    };
    Ok(line?)
}

fn first(kind: &'static str, place: Place<'_>, content: impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(&PlaceFirst { kind, place, content })
}

fn last(kind: &'static str, place: Place<'_>, content: impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(&PlaceLast { kind, content, place })
}

fn compaction_content(compaction: &Compaction) -> CompactionContent<'_> {
    CompactionContent {
        summary: &compaction.summary,
        first_kept_entry_id: &compaction.first_kept,
        tokens_before: compaction.tokens_before,
        details: compaction.details.as_ref(),
        usage: compaction.usage.as_ref(),
        from_hook: false,
        system_message: compaction.system_message.as_deref(),
    }
}

/// The entry holds the message's fields but for the role; the time is the entry's own.
fn custom_message(place: Place<'_>, message: &Message) -> serde_json::Result<String> {
    let mut content = serde_json::to_value(message)?;
    if let Value::Object(object) = &mut content {
        object.shift_remove("role");
        object.shift_remove("timestamp");
    }
    last("custom_message", place, content)
}

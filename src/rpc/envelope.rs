//! The envelope of JSON-RPC 2.0: what a message is, before anybody looks at method or parameters.
//!
//! Ours rather than jsonrpsee's, because an id is echoed byte for byte (any number, any string, null), because
//! answers to questions that we never ask are ignored, and because notifications and batches are treated as the
//! specification says.

use std::borrow::Cow;

use agentd_protocol::error_code::ErrorKind;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::error_map::Failure;

/// One message of a client.
#[derive(Debug)]
pub(super) enum Message<'a> {
    /// One item.
    Single(Item<'a>),
    /// Several, to be answered together.
    Batch(Vec<Item<'a>>),
}

/// One request, or what came in its place.
#[derive(Debug)]
pub(super) enum Item<'a> {
    /// A request or, without an id, a notification.
    Call(Request<'a>),
    /// An answer. We ask nothing by request, so it is ignored.
    Answer,
    /// Not a request: the id if it has a usable one, and what is wrong.
    Invalid(Option<&'a RawValue>, Failure),
}

/// A request or notification.
#[derive(Debug)]
pub(super) struct Request<'a> {
    /// The id as it was written; `None` for a notification.
    pub(super) id: Option<&'a RawValue>,
    /// The method.
    pub(super) method: Cow<'a, str>,
    /// The parameters as they were written.
    pub(super) params: Option<&'a RawValue>,
}

/// Members of a request. Each is kept if present, `null` included.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads a message.
///
/// # Errors
/// When it is not JSON, or an empty or over-long batch: one answer with id null is due.
pub(super) fn parse(text: &[u8], max_batch: usize) -> Result<Message<'_>, Failure> {
    let text: &RawValue = serde_json::from_slice(text)
        .map_err(|error| Failure::new(ErrorKind::ParseError, format!("the message is not JSON: {error}")))?;
    if !text.get().starts_with('[') {
        return Ok(Message::Single(item(text)));
    }
    let items: Vec<&RawValue> = serde_json::from_str(text.get())
        .map_err(|error| Failure::new(ErrorKind::ParseError, format!("the batch cannot be read: {error}")))?;
    match items.len() {
        0 => Err(invalid("an empty batch asks for nothing")),
        count if count > max_batch => {
            Err(invalid(format!("a batch of {count} requests; at most {max_batch} are taken")))
        }
        _ => Ok(Message::Batch(items.into_iter().map(item).collect())),
    }
}

fn item(text: &RawValue) -> Item<'_> {
    if !text.get().starts_with('{') {
        return Item::Invalid(None, invalid("a request is an object"));
    }
    let members: Members<'_> = match serde_json::from_str(text.get()) {
        Ok(members) => members,
        // What is left to fail is a member that comes twice.
        Err(error) => return Item::Invalid(None, invalid(format!("the request is ambiguous: {error}"))),
    };
    if members.method.is_none() && (members.result.is_some() || members.error.is_some()) {
        return Item::Answer;
    }
    let id = match members.id {
        Some(id) if !is_usable_id(id) => {
            return Item::Invalid(None, invalid("an id is a string, a number or null"));
        }
        id => id,
    };
    if members.jsonrpc.is_none_or(|version| version.get() != r#""2.0""#) {
        return Item::Invalid(id, invalid(r#"the member "jsonrpc" must be "2.0""#));
    }
    match members.method.map(|method| serde_json::from_str(method.get())) {
        Some(Ok(Text(method))) => Item::Call(Request { id, method, params: members.params }),
        Some(Err(_)) => Item::Invalid(id, invalid(r#"the member "method" must be a string"#)),
        None => Item::Invalid(id, invalid(r#"the member "method" is missing"#)),
    }
}

/// A string that is borrowed where it holds no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn is_usable_id(id: &RawValue) -> bool {
    matches!(id.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9' | b'n'))
}

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(ErrorKind::InvalidRequest, message)
}

#[cfg(test)]
mod tests;

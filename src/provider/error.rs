//! What can go wrong with a request to a provider, and what that means for a retry.
//!
//! Pure. Messages are those that pi stores as `errorMessage`; classes are decided here, once, from the HTTP status,
//! the provider's error code and its words, in that order of trust.

use std::time::Duration;

use serde_json::Value;

use super::retry_after::wait_in_text;
use super::secret::Secret;
use crate::constants::MAX_RESPONSE_BLOCKS;

/// Longest message made of a response body, in bytes: error pages of proxies are long and say little.
const MAX_MESSAGE_BYTES: usize = 8 * 1024;

/// How messages begin of streams that ended in order, but not as they must.
const NO_FINISH: &str = "Stream ended without";
const BAD_FINISH: &str = "Provider finish_reason: ";

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What the failure means.
    pub class: ErrorClass,
    /// What is stored and shown (pi's wording); holds no keys.
    pub message: String,
    /// HTTP status, where there was an answer.
    pub status: Option<u16>,
    /// How long the provider asks to wait; never zero.
    pub retry_after: Option<Duration>,
}

/// What a failure means for what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The network or the provider failed in passing.
    Transient,
    /// Too many requests for now.
    RateLimit,
    /// The account has nothing left; waiting a little does not help.
    Quota,
    /// The key is missing, wrong, or not allowed to do this.
    Auth,
    /// The context does not fit the model's window.
    Overflow,
    /// The provider refuses an image of the request.
    Image,
    /// The provider refuses the request, or its answer for what it says.
    BadRequest,
    /// The provider's answer cannot be understood.
    Malformed,
    /// A person stopped it.
    Cancelled,
}

impl ErrorClass {
    /// Tells whether the same request may succeed later.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::Transient | Self::RateLimit => true,
            Self::Quota
            | Self::Auth
            | Self::Overflow
            | Self::Image
            | Self::BadRequest
            | Self::Malformed
            | Self::Cancelled => false,
        }
    }
}

impl ProviderError {
    /// Returns an error without a status.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), status: None, retry_after: None }
    }

    /// The request was cancelled.
    pub fn cancelled() -> Self {
        Self::new(ErrorClass::Cancelled, "Request was aborted")
    }

    /// No answer came: the connection could not be made, or closed before the headers.
    pub fn connection(cause: &str) -> Self {
        let class = if is_certificate_fault(cause) { ErrorClass::BadRequest } else { ErrorClass::Transient };
        Self::new(class, format!("Connection error.: {cause}"))
    }

    /// The connection broke in the middle of the answer.
    pub fn cut(cause: &str) -> Self {
        Self::new(ErrorClass::Transient, format!("terminated: {cause}"))
    }

    /// Tells whether the response broke off, so that no block still open can be called complete. One that ended in
    /// order, but without or with a bad finish reason, closes its blocks (as pi does).
    pub fn is_cut(&self) -> bool {
        !(self.message.starts_with(NO_FINISH) || self.message.starts_with(BAD_FINISH))
    }

    /// Nothing came for too long.
    pub fn timed_out(what: &str) -> Self {
        Self::new(ErrorClass::Transient, format!("Request timed out: {what}"))
    }

    /// The stream ended in order, but without the marker that says that the response is complete.
    pub fn no_finish_reason() -> Self {
        Self::new(ErrorClass::Transient, format!("{NO_FINISH} finish_reason"))
    }

    /// The stream of a Messages response ended in order, but without the event that says that it is complete.
    pub fn no_message_stop() -> Self {
        Self::new(ErrorClass::Transient, "Stream ended without message_stop")
    }

    /// An event held something other than JSON.
    pub fn malformed_event() -> Self {
        Self::new(ErrorClass::Malformed, "Error reading response: malformed server-sent event JSON.")
    }

    /// The response has more blocks than [`MAX_RESPONSE_BLOCKS`].
    pub fn too_many_blocks() -> Self {
        let message = format!("Error reading response: it has more than {MAX_RESPONSE_BLOCKS} blocks.");
        Self::new(ErrorClass::Malformed, message)
    }

    /// The response ended for a reason that makes it unusable (`content_filter`, or a word unknown to us).
    pub fn finish_reason(word: &str) -> Self {
        let message = format!("{BAD_FINISH}{word}");
        let class = match word {
            _ if is_overflow(&normalize(word)) => ErrorClass::Overflow,
            "network_error" | "error" => ErrorClass::Transient,
            _ => ErrorClass::BadRequest,
        };
        Self::new(class, message)
    }

    /// An answer with a status of failure. `body` may be cut; keys in it are hidden.
    pub fn from_response(status: u16, body: &str, retry_after: Option<Duration>, keys: &[Secret]) -> Self {
        let body = redact(body, keys);
        let body = body.trim();
        let parsed: Option<Value> = serde_json::from_str(body).ok();
        let error = parsed.as_ref().and_then(|value| value.get("error")).filter(|error| !error.is_null());
        let message = match error {
            Some(Value::String(text)) => format!("{status}: {text}"),
            Some(error) => format!("{status}: {error}"),
            None if body.is_empty() => format!("{status} status code (no body)"),
            None => format!("{status} {body}"),
        };
        let class = classify(Some(status), error.and_then(error_code).as_deref(), body);
        let retry_after = retry_after.or_else(|| wait_in_text(body)).filter(|_| class.is_retryable());
        Self { class, message: shorten(message), status: Some(status), retry_after }
    }

    /// The same in the words in which pi gives refusals of the Messages API: the whole body behind the status.
    pub fn from_whole_response(status: u16, body: &str, retry_after: Option<Duration>, keys: &[Secret]) -> Self {
        let error = Self::from_response(status, body, retry_after, keys);
        match serde_json::from_str::<Value>(&redact(body, keys)) {
            Ok(whole) => Self { message: shorten(format!("{status} {whole}")), ..error },
            Err(_) => error,
        }
    }

    /// Adds the provider's id of the request, for its support.
    pub fn with_request_id(mut self, id: &str) -> Self {
        self.message = format!("{} (request id {})", self.message, shorten(id.to_owned()));
        self
    }

    /// An error object in the middle of the stream: its message, or all of it where there is none.
    pub fn from_stream(error: &Value, keys: &[Secret]) -> Self {
        Self::from_stream_as(None, error, keys)
    }

    /// The same, where the dialect knows the `status` with which the provider would have refused the request.
    pub fn from_stream_as(status: Option<u16>, error: &Value, keys: &[Secret]) -> Self {
        let text = match error {
            Value::String(text) => text.clone(),
            _ => match error.get("message").and_then(Value::as_str) {
                Some(text) if !text.is_empty() => text.to_owned(),
                _ => error.to_string(),
            },
        };
        let text = redact(&text, keys);
        let code = error_code(error);
        let words = format!("{} {text}", code.as_deref().unwrap_or_default());
        let status = status.or_else(|| code.as_deref().and_then(status_code));
        let class = classify(status, code.as_deref(), words.trim());
        let retry_after = wait_in_text(&text).filter(|_| class.is_retryable());
        Self { class, message: shorten(text), status: None, retry_after }
    }
}

/// Returns the error that the data of an event of type `error` is, or holds.
pub(super) fn error_in(data: &str) -> Value {
    match serde_json::from_str::<Value>(data) {
        Ok(Value::Object(mut object)) => match object.shift_remove("error") {
            Some(error) if !error.is_null() => error,
            _ => Value::Object(object),
        },
        _ => Value::String(data.to_owned()),
    }
}

/// Decides what a failure means.
///
/// Numbers in `text` count only where a status stands (at its start, or after a word such as `status`): digits inside
/// ids and byte counts mean nothing.
pub fn classify(status: Option<u16>, code: Option<&str>, text: &str) -> ErrorClass {
    let text = normalize(text);
    let code = code.map(normalize).unwrap_or_default();
    let status = status.or_else(|| status_in_text(&text));
    if status == Some(413) || is_overflow(&text) || is_overflow(&code) {
        return ErrorClass::Overflow;
    }
    if status == Some(402) || QUOTA_CODES.contains(&code.as_str()) || (may_be_quota(status) && has(&text, QUOTA)) {
        return ErrorClass::Quota;
    }
    if names_image(&text) && (matches!(status, Some(400 | 404 | 415 | 422)) || text.contains("not support")) {
        return ErrorClass::Image;
    }
    match status {
        Some(401 | 403) => ErrorClass::Auth,
        Some(429) => ErrorClass::RateLimit,
        Some(408 | 409 | 425 | 500..) => ErrorClass::Transient,
        _ if has(&text, RATE_LIMIT) => ErrorClass::RateLimit,
        Some(_) if has(&text, OVERLOADED) => ErrorClass::Transient,
        None if has(&text, OVERLOADED) || has(&text, FAILED_IN_PASSING) => ErrorClass::Transient,
        _ => ErrorClass::BadRequest,
    }
}

/// Codes of accounts that are used up: 1113, 1308 and 1310 are Z.ai's for no balance and for used-up plans.
const QUOTA_CODES: &[&str] = &["1113", "1308", "1310"];

/// Phrases are matched against lower-case text in which `_`, `-` and quotes are blanks.
const QUOTA: &[&str] = &[
    "insufficient quota",
    "exceeded your current quota",
    "quota exceeded",
    "exceeded your quota",
    "billing",
    "out of budget",
    "budget exceeded",
    "budget has been exceeded",
    "credit balance is too low",
    "insufficient credit",
    "insufficient balance",
    "insufficient funds",
    "out of credits",
    "payment required",
    "usage limit reached",
    "usage limit exceeded",
    "usage not included",
    "hit your usage limit",
];

const RATE_LIMIT: &[&str] =
    &["rate limit", "ratelimit", "too many requests", "throttl", "tokens per min", "requests per min", "per minute"];

/// Words that mean "later" even beside a status that says otherwise.
const OVERLOADED: &[&str] =
    &["overloaded", "temporarily unavailable", "service unavailable", "at capacity", "try again later"];

/// Words of failures of the network and of servers, for errors that carry no status.
const FAILED_IN_PASSING: &[&str] = &[
    "server error",
    "internal error",
    "internalerror",
    "servererror",
    "bad gateway",
    "gateway timeout",
    "timed out",
    "timeout",
    "connection error",
    "connection reset",
    "connection refused",
    "connection closed",
    "connection lost",
    "connection was",
    "network error",
    "socket",
    "econnreset",
    "econnrefused",
    "etimedout",
    "epipe",
    "eai again",
    "upstream",
    "fetch failed",
    "terminated",
    "stream ended",
    "other side closed",
    "no healthy",
    "please retry",
    "provider returned error",
];

/// What providers and their gateways say when the context does not fit.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input too long",
    "context is too long",
    "maximum context length",
    "max context length",
    "maximum context size",
    "context length exceeded",
    "contextlengthexceeded",
    "context window exceeded",
    "contextwindowexceeded",
    "exceeds the context",
    "exceeds context",
    "exceed context",
    "exceeds the available context",
    "exceeds the model context",
    "exceed the context",
    "exceeds the maximum context",
    "context window exceeds",
    "configured context size is",
    "greater than the context length",
    "larger than the context",
    "exceeds max length",
    "exceeds the max length",
    "exceeds maximum length",
    "maximum prompt length",
    "maximum allowed input length",
    "maximum input length",
    "input token count exceeds",
    "exceeds the maximum number of tokens",
    "exceeded model token limit",
    "exceeds model token limit",
    "token limit exceeded",
    "too many tokens",
    "too many input tokens",
    "request too large",
    "reduce the length of the messages",
    "reduce the length of your prompt",
];

fn is_overflow(text: &str) -> bool {
    // Images and files have limits too; only one on tokens is about the context.
    let is_token_limit = text.contains("exceeds the limit of") && text.contains("token");
    (is_token_limit || has(text, OVERFLOW)) && !has(text, RATE_LIMIT)
}

/// Providers word it in many ways; what they share is the word itself, in a text or in the name of a field.
fn names_image(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| matches!(word, "image" | "images"))
}

/// A failing server may mention billing without meaning ours.
fn may_be_quota(status: Option<u16>) -> bool {
    status.is_none_or(|status| status < 500)
}

fn has(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.contains(phrase))
}

fn is_certificate_fault(cause: &str) -> bool {
    cause.to_ascii_lowercase().contains("certificate")
}

fn normalize(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let c = if matches!(c, '_' | '-' | '`' | '\'' | '"') || c.is_whitespace() { ' ' } else { c };
        if c != ' ' || !out.ends_with(' ') {
            out.extend(c.to_lowercase());
        }
    }
    out
}

/// Finds a status that the text states: a number of three digits at its start or after a word that announces one.
fn status_in_text(text: &str) -> Option<u16> {
    let mut announced = true;
    for word in text.split(|c: char| c.is_whitespace() || matches!(c, ':' | '(' | ')' | ',' | '=' | '{' | '}')) {
        if word.is_empty() {
            continue;
        }
        if announced && let Some(status) = status_code(word.trim_end_matches('.')) {
            return Some(status);
        }
        announced = matches!(word, "status" | "code" | "error" | "http" | "statuscode" | "http/1.1" | "http/2");
    }
    None
}

fn status_code(word: &str) -> Option<u16> {
    if word.len() != 3 {
        return None;
    }
    word.parse().ok().filter(|status| (400..600).contains(status))
}

/// The provider's machine-readable word for the error: `code`, else `type`.
fn error_code(error: &Value) -> Option<String> {
    ["code", "type"].iter().find_map(|field| match error.get(field)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

fn redact(text: &str, keys: &[Secret]) -> String {
    keys.iter().fold(text.to_owned(), |text, key| key.redact(&text))
}

fn shorten(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests;

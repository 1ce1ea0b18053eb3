//! Which provider's API a request speaks.

use serde_json::Value;

use super::script::Reply;
use super::{anthropic, chat, validator};

/// A provider API, told by the request's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// OpenAI Chat Completions and all that copy it.
    Chat,
    /// Anthropic Messages.
    Anthropic,
}

impl Dialect {
    /// Returns the dialect of a path (without its query).
    pub(crate) fn of(path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if path.ends_with("/messages") {
            Some(Self::Anthropic)
        } else {
            None
        }
    }

    /// Returns the events of a streamed reply, one chunk an item.
    pub(crate) fn chunks(self, reply: &Reply, request: &Value, number: usize) -> Vec<Vec<u8>> {
        match self {
            Self::Chat => chat::chunks(reply, request, number),
            Self::Anthropic => anthropic::chunks(reply, request, number),
        }
    }

    /// Returns the body of a reply that is not streamed.
    pub(crate) fn whole(self, reply: &Reply, request: &Value, number: usize) -> Value {
        match self {
            Self::Chat => chat::whole(reply, request, number),
            Self::Anthropic => anthropic::whole(reply, request, number),
        }
    }

    /// Returns an in-stream error event.
    pub(crate) fn error_event(self, error: &Value) -> Vec<u8> {
        match self {
            Self::Chat => chat::error_event(error),
            Self::Anthropic => anthropic::error_event(error),
        }
    }

    /// Returns what a strict provider would refuse about a request; empty when it is legal.
    pub(crate) fn violations(self, request: &Value) -> Vec<String> {
        match self {
            Self::Chat => validator::chat(request),
            Self::Anthropic => validator::anthropic(request),
        }
    }
}

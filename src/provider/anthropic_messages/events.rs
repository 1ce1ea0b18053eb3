//! The JSON of the stream's events, as servers really send it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::provider::lenient::{List, Number, Text};

/// One event. Which members count depends on its type. What few events have is boxed: the others are moved faster.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    /// Number of the block that it is about.
    pub(super) index: Number,
    #[serde(borrow)]
    pub(super) message: Option<Box<Body<'a>>>,
    #[serde(borrow)]
    pub(super) content_block: Option<Box<Block<'a>>>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    pub(super) usage: Option<Box<RawUsage>>,
}

/// Only the type of an event.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
}

/// A response: without content and stop reason as a stream begins, whole where a server does not stream.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Body<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) content: List<Block<'a>>,
    pub(super) usage: Option<RawUsage>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
}

/// A block as it begins; most of it comes as deltas.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) signature: Text<'a>,
    /// What stands for thinking that was withheld.
    #[serde(borrow)]
    pub(super) data: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
}

/// What an event adds to a block, or says of the end.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) signature: Text<'a>,
    #[serde(borrow)]
    pub(super) partial_json: Text<'a>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) stop_details: Option<Box<StopDetails<'a>>>,
}

/// More on a refusal.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct StopDetails<'a> {
    #[serde(borrow)]
    pub(super) explanation: Text<'a>,
}

/// Tokens so far. Those read from and written to a cache are not part of `input_tokens`.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawUsage {
    pub(super) input_tokens: Number,
    pub(super) output_tokens: Number,
    pub(super) cache_read_input_tokens: Number,
    pub(super) cache_creation_input_tokens: Number,
    pub(super) cache_creation: Option<CacheCreation>,
}

/// Tokens written to a cache, by how long they are kept.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct CacheCreation {
    pub(super) ephemeral_5m_input_tokens: Number,
    pub(super) ephemeral_1h_input_tokens: Number,
}

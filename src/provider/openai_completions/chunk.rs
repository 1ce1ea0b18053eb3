//! The JSON of one chunk, as servers really send it.
//!
//! Text is borrowed from the event where it holds no escapes. A field of a type that nobody expects counts as left
//! out: one odd field must not cost the rest of the chunk. What few chunks have is boxed: the others are moved faster.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::provider::args::mend;
use crate::provider::lenient::{Content, List, Number, Text};

/// One chunk.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) choices: List<Choice<'a>>,
    pub(super) usage: Option<Box<RawUsage>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// `error` where the chunk itself is an error (vLLM).
    #[serde(borrow)]
    pub(super) object: Text<'a>,
}

/// One choice; only the first counts.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    /// Stands for `delta` in an answer that is no stream.
    #[serde(borrow)]
    pub(super) message: Option<Box<Delta<'a>>>,
    #[serde(borrow)]
    pub(super) finish_reason: Text<'a>,
    /// Some servers put the usage here.
    pub(super) usage: Option<Box<RawUsage>>,
}

/// What a chunk adds.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Content<'a>,
    #[serde(borrow)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning_text: Text<'a>,
    #[serde(borrow)]
    pub(super) tool_calls: List<CallPiece<'a>>,
}

/// A piece of a tool call.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CallPiece<'a> {
    pub(super) index: Number,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) function: Option<FunctionPiece<'a>>,
    /// Where Gemini puts the signature of the thought behind a call.
    #[serde(borrow)]
    extra_content: Option<&'a RawValue>,
}

impl CallPiece<'_> {
    /// Returns the signature of the thought behind the call, if this piece brings it.
    pub(super) fn thought_signature(&self) -> Option<String> {
        let extra: serde_json::Value = serde_json::from_str(self.extra_content?.get()).ok()?;
        extra.pointer("/google/thought_signature")?.as_str().map(str::to_owned)
    }
}

/// A piece of a call's function.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionPiece<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

impl<'a> FunctionPiece<'a> {
    /// Returns the text of the arguments: that of a string, or any other value as JSON. `None` when there are none.
    pub(super) fn arguments_text(&self) -> Option<Cow<'a, str>> {
        let raw = self.arguments?.get();
        if raw.starts_with('"') {
            let text = serde_json::from_str::<Text<'a>>(raw).ok().map(|text| text.0);
            // Half of a surrogate pair passes for JSON until it is decoded.
            return text.or_else(|| serde_json::from_str::<String>(&mend(raw)).ok().map(Cow::Owned));
        }
        Some(Cow::Borrowed(raw))
    }
}

/// Tokens.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawUsage {
    pub(super) prompt_tokens: Number,
    pub(super) completion_tokens: Number,
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    pub(super) completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's name for cached prompt tokens.
    pub(super) prompt_cache_hit_tokens: Number,
    /// Moonshot's name for them.
    pub(super) cached_tokens: Number,
    pub(super) reasoning_tokens: Number,
    /// OpenRouter's bill, in dollars.
    pub(super) cost: Number,
}

/// Parts of the prompt tokens.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct PromptDetails {
    pub(super) cached_tokens: Number,
    pub(super) cache_write_tokens: Number,
}

/// Parts of the generated tokens.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct CompletionDetails {
    pub(super) reasoning_tokens: Number,
}

//! Server-sent events of a Messages stream to [`StreamEvent`]s.
//!
//! A response is complete with `message_stop`, and only with it. Blocks come one after the other, each with its own
//! start and end. Events of unknown types, pings above all, mean nothing.

use std::sync::Arc;

use agentd_protocol::ToolCallId;
use agentd_protocol::message::StopReason;
use serde_json::Value;

use super::events::{Block, Body, Delta, Event, Kind};
use super::usage::Tokens;
use crate::agent::event::{BlockKind, DeltaKind};
use crate::constants::MAX_RESPONSE_BLOCKS;
use crate::provider::args::mend;
use crate::provider::call_ids::unique_in_response;
use crate::provider::error::{ProviderError, error_in};
use crate::provider::reader::{Decode, Flow};
use crate::provider::secret::Secret;
use crate::provider::spec::ModelSpec;
use crate::provider::sse::SseEvent;
use crate::provider::stream::StreamEvent;

/// Types of events that mean something, by which a stream names them.
const KNOWN: &[&str] = &[
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "error",
    // What the parser calls an event without a name; also the type of a whole response.
    "message",
    "",
];

/// Decodes one response.
pub struct Decoder {
    spec: Arc<ModelSpec>,
    keys: Vec<Secret>,
    /// Makes the ids of calls without one differ between responses.
    id_seed: String,
    blocks: Vec<OpenBlock>,
    /// Number of blocks in the message; those of unknown types are not in it.
    places: usize,
    has_meta: bool,
    tokens: Tokens,
    stop_reason: Option<String>,
    /// Why the model refused.
    explanation: Option<String>,
    is_complete: bool,
}

/// A block that has begun.
struct OpenBlock {
    /// The stream's number for it.
    number: Option<u64>,
    /// Its place in the message.
    place: usize,
    content: Content,
    is_open: bool,
}

/// What is known of a block's content so far.
enum Content {
    Text,
    /// What is not told of the signature is told with the end of the block: it may come in pieces.
    Thinking {
        signature: String,
        is_told: bool,
    },
    /// `input` came with the start; it counts where no piece follows.
    Call {
        id: ToolCallId,
        input: Option<String>,
    },
    /// A type that means nothing here, such as the calls of tools that run at the provider.
    Unknown,
}

impl Decoder {
    /// Returns a decoder for a response of `spec`. `id_seed` goes into the ids of tool calls that come without one;
    /// `keys` are hidden in error texts.
    pub fn new(spec: Arc<ModelSpec>, id_seed: String, keys: Vec<Secret>) -> Self {
        Self {
            spec,
            keys,
            id_seed,
            blocks: Vec::new(),
            places: 0,
            has_meta: false,
            tokens: Tokens::default(),
            stop_reason: None,
            explanation: None,
            is_complete: false,
        }
    }

    fn known(&mut self, event: &Event<'_>, data: &str, out: &mut Vec<StreamEvent>) -> Result<Flow, ProviderError> {
        match &*event.kind.0 {
            "message_start" => {
                if let Some(body) = &event.message {
                    self.meta(body, out);
                }
            }
            "content_block_start" => {
                if let Some(block) = &event.content_block {
                    self.start(event.index.count(), block, out)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = &event.delta {
                    self.delta(event.index.count(), delta, out);
                }
            }
            "content_block_stop" => self.stop(event.index.count(), out),
            "message_delta" => self.message_delta(event, out),
            "message_stop" => {
                self.is_complete = true;
                return Ok(Flow::Done);
            }
            "message" => return self.whole(data, out),
            "error" => return Err(self.error(data)),
            _ => return Ok(Flow::Aside),
        }
        Ok(Flow::More)
    }

    fn meta(&mut self, body: &Body<'_>, out: &mut Vec<StreamEvent>) {
        if !std::mem::replace(&mut self.has_meta, true) {
            let response_id = body.id.get().map(str::to_owned);
            let response_model = body.model.get().filter(|model| *model != self.spec.model.id).map(str::to_owned);
            if response_id.is_some() || response_model.is_some() {
                out.push(StreamEvent::Meta { response_id, response_model });
            }
        }
        if let Some(usage) = &body.usage {
            out.extend(self.tokens.take(usage, &self.spec));
        }
    }

    fn start(
        &mut self,
        number: Option<u64>,
        block: &Block<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if self.blocks.len() == MAX_RESPONSE_BLOCKS {
            return Err(ProviderError::too_many_blocks());
        }
        let place = self.places;
        let content = match &*block.kind.0 {
            "text" => {
                out.push(StreamEvent::BlockStart { index: place, kind: BlockKind::Text });
                out.extend(piece(place, DeltaKind::Text, block.text.get()));
                Content::Text
            }
            "thinking" => {
                out.push(StreamEvent::BlockStart { index: place, kind: BlockKind::Thinking });
                out.extend(piece(place, DeltaKind::Thinking, block.thinking.get()));
                let signature = block.signature.get().unwrap_or_default().to_owned();
                Content::Thinking { is_told: signature.is_empty(), signature }
            }
            "redacted_thinking" => {
                out.push(StreamEvent::BlockStart { index: place, kind: BlockKind::Thinking });
                out.push(StreamEvent::Redacted { index: place });
                Content::Thinking { signature: block.data.get().unwrap_or_default().to_owned(), is_told: false }
            }
            "tool_use" => {
                let id = self.call_id(block.id.get(), place);
                let name = block.name.get().unwrap_or_default().to_owned();
                out.push(StreamEvent::BlockStart { index: place, kind: BlockKind::ToolCall { id: id.clone(), name } });
                let input = block.input.map(|input| input.get()).filter(|input| !matches!(*input, "null" | "{}"));
                Content::Call { id, input: input.map(str::to_owned) }
            }
            _ => Content::Unknown,
        };
        self.places += usize::from(!matches!(content, Content::Unknown));
        self.blocks.push(OpenBlock { number, place, content, is_open: true });
        Ok(())
    }

    /// Makes an id for the call at this place that no other one of the message has.
    fn call_id(&self, id: Option<&str>, place: usize) -> ToolCallId {
        let made_up = || format!("toolu_{}_{place}", self.id_seed);
        let is_taken = |taken: &ToolCallId| {
            self.blocks.iter().any(|block| matches!(&block.content, Content::Call { id, .. } if id == taken))
        };
        unique_in_response(&id.map_or_else(made_up, str::to_owned), place, is_taken)
    }

    fn delta(&mut self, number: Option<u64>, delta: &Delta<'_>, out: &mut Vec<StreamEvent>) {
        let Some(block) = find(&mut self.blocks, number) else { return };
        let index = block.place;
        match (&*delta.kind.0, &mut block.content) {
            ("text_delta", Content::Text) => out.extend(piece(index, DeltaKind::Text, delta.text.get())),
            ("thinking_delta", Content::Thinking { .. }) => {
                out.extend(piece(index, DeltaKind::Thinking, delta.thinking.get()));
            }
            ("signature_delta", Content::Thinking { signature, is_told }) => {
                signature.push_str(&delta.signature.0);
                *is_told = false;
            }
            ("input_json_delta", Content::Call { input, .. }) => {
                if let Some(text) = delta.partial_json.get() {
                    *input = None;
                    out.extend(piece(index, DeltaKind::ToolCall, Some(text)));
                }
            }
            // Citations, and what is still to come.
            _ => {}
        }
    }

    fn stop(&mut self, number: Option<u64>, out: &mut Vec<StreamEvent>) {
        if let Some(block) = find(&mut self.blocks, number) {
            block.end(out);
        }
    }

    fn message_delta(&mut self, event: &Event<'_>, out: &mut Vec<StreamEvent>) {
        if let Some(delta) = &event.delta {
            if let Some(reason) = delta.stop_reason.get() {
                self.stop_reason = Some(reason.to_owned());
            }
            let explanation = delta.stop_details.as_ref().and_then(|details| details.explanation.get());
            self.explanation = explanation.map(str::to_owned).or(self.explanation.take());
        }
        if let Some(usage) = &event.usage {
            out.extend(self.tokens.take(usage, &self.spec));
        }
    }

    /// Takes a response that is one JSON value.
    fn whole(&mut self, data: &str, out: &mut Vec<StreamEvent>) -> Result<Flow, ProviderError> {
        let body: Body<'_> = serde_json::from_str(data).map_err(|_| ProviderError::malformed_event())?;
        self.meta(&body, out);
        for block in &body.content.0 {
            self.start(None, block, out)?;
            self.stop(None, out);
        }
        self.stop_reason = body.stop_reason.get().map(str::to_owned);
        self.is_complete = true;
        Ok(Flow::Done)
    }

    fn error(&self, data: &str) -> ProviderError {
        let error = error_in(data);
        let status = error.get("type").and_then(Value::as_str).and_then(status_of);
        ProviderError::from_stream_as(status, &error, &self.keys)
    }

    fn refusal(&self, raw: &str) -> ProviderError {
        let error = ProviderError::finish_reason(raw);
        match &self.explanation {
            Some(explanation) => ProviderError::new(error.class, format!("{}: {explanation}", error.message)),
            None => error,
        }
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: SseEvent<'_>, out: &mut Vec<StreamEvent>) -> Result<Flow, ProviderError> {
        if self.is_complete {
            return Ok(Flow::Done);
        }
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" || !KNOWN.contains(&event.event) {
            return Ok(Flow::Aside);
        }
        if event.event == "error" {
            return Err(self.error(data));
        }
        match serde_json::from_str::<Event<'_>>(data) {
            Ok(parsed) => self.known(&parsed, data, out),
            Err(error) if error.is_data() => self.odd(data),
            Err(_) => {
                // Half of a surrogate pair is no JSON to us, but JavaScript servers cut texts there.
                let mended = mend(data);
                match serde_json::from_str::<Event<'_>>(&mended) {
                    Ok(parsed) => self.known(&parsed, &mended, out),
                    Err(_) => Err(ProviderError::malformed_event()),
                }
            }
        }
    }

    fn finish(mut self, cut: Option<ProviderError>, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if let Some(error) = cut.filter(|_| !self.is_complete) {
            return Err(error);
        }
        for block in &mut self.blocks {
            block.end(out);
        }
        if !self.is_complete {
            return Err(ProviderError::no_message_stop());
        }
        let has_calls = self.blocks.iter().any(|block| matches!(block.content, Content::Call { .. }));
        let reason = match &self.stop_reason {
            Some(raw) => stop_reason(raw),
            None if has_calls => StopReason::ToolUse,
            None => StopReason::Stop,
        };
        out.push(StreamEvent::Stop { reason, raw: self.stop_reason.clone() });
        match &self.stop_reason {
            Some(raw) if reason == StopReason::Error => Err(self.refusal(raw)),
            _ => Ok(()),
        }
    }
}

impl Decoder {
    /// An event of a shape that nobody expects: an error all the same, or nothing.
    fn odd(&self, data: &str) -> Result<Flow, ProviderError> {
        let is_error = serde_json::from_str::<Kind<'_>>(data).is_ok_and(|kind| kind.kind.get() == Some("error"));
        if is_error { Err(self.error(data)) } else { Ok(Flow::Aside) }
    }
}

impl OpenBlock {
    fn end(&mut self, out: &mut Vec<StreamEvent>) {
        if !std::mem::replace(&mut self.is_open, false) {
            return;
        }
        let index = self.place;
        match &mut self.content {
            Content::Unknown => return,
            Content::Call { input, .. } => out.extend(piece(index, DeltaKind::ToolCall, input.take().as_deref())),
            Content::Thinking { signature, is_told: false } => {
                out.push(StreamEvent::Signature { index, signature: std::mem::take(signature) });
            }
            Content::Text | Content::Thinking { .. } => {}
        }
        out.push(StreamEvent::BlockEnd { index });
    }
}

/// Finds the open block with a number, or the last open one where the stream does not count.
fn find(blocks: &mut [OpenBlock], number: Option<u64>) -> Option<&mut OpenBlock> {
    blocks.iter_mut().rev().find(|block| block.is_open && (number.is_none() || block.number == number))
}

fn piece(index: usize, kind: DeltaKind, text: Option<&str>) -> Option<StreamEvent> {
    text.map(|text| StreamEvent::Delta { index, kind, delta: Arc::from(text) })
}

/// `pause_turn` is what the model said so far; with tools of our own it does not come. A window that was filled up
/// (`model_context_window_exceeded`) is an overflow, not a short answer.
fn stop_reason(raw: &str) -> StopReason {
    match raw {
        "end_turn" | "stop_sequence" | "pause_turn" => StopReason::Stop,
        "max_tokens" => StopReason::Length,
        "tool_use" => StopReason::ToolUse,
        _ => StopReason::Error,
    }
}

/// The status with which the API refuses a request for an error of this type (its page on errors).
fn status_of(error_type: &str) -> Option<u16> {
    Some(match error_type {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "api_error" => 500,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;

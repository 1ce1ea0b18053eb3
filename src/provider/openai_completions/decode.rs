//! Server-sent events of a Chat Completions stream to [`StreamEvent`]s.
//!
//! A response is complete when a `finish_reason` was seen; `[DONE]` may follow or not. Blocks are closed together at
//! the end of the stream, in block order, as pi does: only then is it known that nothing is added to them.

use std::sync::Arc;

use agentd_protocol::message::{StopReason, Usage};
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::calls::{Calls, Placed};
use super::chunk::{CallPiece, Chunk, Delta, RawUsage};
use crate::agent::event::{BlockKind, DeltaKind};
use crate::constants::MAX_RESPONSE_BLOCKS;
use crate::provider::args::mend;
use crate::provider::cost::priced;
use crate::provider::error::{ProviderError, error_in};
use crate::provider::reader::{Decode, Flow};
use crate::provider::secret::Secret;
use crate::provider::spec::ModelSpec;
use crate::provider::sse::SseEvent;
use crate::provider::stream::StreamEvent;

/// Data of the event that ends a stream.
const DONE: &str = "[DONE]";

/// Decodes one response.
pub struct Decoder {
    spec: Arc<ModelSpec>,
    keys: Vec<Secret>,
    calls: Calls,
    /// Number of blocks.
    blocks: usize,
    /// Text block that text is added to; a tool call ends it.
    text: Option<usize>,
    /// Thinking block that thinking is added to; a tool call ends it.
    thinking: Option<(usize, &'static str)>,
    response_id: Option<String>,
    has_model: bool,
    usage: Option<Usage>,
    finish_reason: Option<String>,
}

impl Decoder {
    /// Returns a decoder for a response of `spec`. `id_seed` goes into the ids of tool calls that come without one;
    /// `keys` are hidden in error texts.
    pub fn new(spec: Arc<ModelSpec>, id_seed: String, keys: Vec<Secret>) -> Self {
        Self {
            spec,
            keys,
            calls: Calls::new(id_seed),
            blocks: 0,
            text: None,
            thinking: None,
            response_id: None,
            has_model: false,
            usage: None,
            finish_reason: None,
        }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, data: &str, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if let Some(error) = chunk.error.filter(|raw| is_error(raw)) {
            return Err(self.error_object(error.get()));
        }
        if chunk.object.get() == Some("error") {
            return Err(self.error_object(data));
        }
        self.meta(chunk, out);
        if let Some(choice) = chunk.choices.0.first() {
            if let Some(delta) = choice.delta.as_ref().or(choice.message.as_deref()) {
                self.delta(delta, out)?;
            }
            if let Some(reason) = choice.finish_reason.get() {
                self.finish_reason = Some(reason.to_owned());
            }
            if let Some(usage) = &choice.usage {
                self.usage(usage, out);
            }
        }
        if let Some(usage) = &chunk.usage {
            self.usage(usage, out);
        }
        Ok(())
    }

    fn meta(&mut self, chunk: &Chunk<'_>, out: &mut Vec<StreamEvent>) {
        let response_id = chunk.id.get().filter(|_| self.response_id.is_none()).map(str::to_owned);
        let model = chunk.model.get().filter(|_| !self.has_model);
        self.has_model |= model.is_some();
        let response_model = model.filter(|model| *model != self.spec.model.id).map(str::to_owned);
        if response_id.is_some() || response_model.is_some() {
            self.response_id = self.response_id.take().or_else(|| response_id.clone());
            out.push(StreamEvent::Meta { response_id, response_model });
        }
    }

    /// Thinking comes before text, and text before calls: that is the order in which a model makes them.
    fn delta(&mut self, delta: &Delta<'_>, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        // Some servers send the same thinking under two names; one is enough.
        let fields = [
            ("reasoning_content", &delta.reasoning_content),
            ("reasoning", &delta.reasoning),
            ("reasoning_text", &delta.reasoning_text),
        ];
        if let Some((field, text)) = fields.iter().find_map(|(field, text)| Some((*field, text.get()?))) {
            self.add_thinking(field, text, out)?;
        }
        if let Some(text) = delta.content.0.get() {
            self.add_text(text, out)?;
        }
        for piece in &delta.tool_calls.0 {
            self.add_call(piece, out)?;
        }
        Ok(())
    }

    fn add_thinking(
        &mut self,
        field: &'static str,
        text: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let index = match self.thinking {
            Some((index, open)) if open == field => index,
            _ => {
                let index = self.start(BlockKind::Thinking, out)?;
                out.push(StreamEvent::Signature { index, signature: field.to_owned() });
                self.thinking = Some((index, field));
                index
            }
        };
        out.push(StreamEvent::Delta { index, kind: DeltaKind::Thinking, delta: Arc::from(text) });
        Ok(())
    }

    fn add_text(&mut self, text: &str, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let index = match self.text {
            Some(index) => index,
            None => {
                let index = self.start(BlockKind::Text, out)?;
                self.text = Some(index);
                index
            }
        };
        out.push(StreamEvent::Delta { index, kind: DeltaKind::Text, delta: Arc::from(text) });
        Ok(())
    }

    fn add_call(&mut self, piece: &CallPiece<'_>, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let arguments = piece.function.as_ref().and_then(|function| function.arguments_text());
        let text = arguments.as_deref().unwrap_or_default();
        let block = match self.calls.place(piece, text, self.blocks) {
            Placed::New(at) => {
                let call = self.calls.get(at);
                let kind = BlockKind::ToolCall { id: call.id.clone(), name: call.name.clone() };
                // What is said after a call stands after it.
                (self.text, self.thinking) = (None, None);
                self.start(kind, out)?
            }
            Placed::Known { at, is_renamed } => {
                let call = self.calls.get(at);
                if is_renamed {
                    let (id, name) = (call.id.clone(), call.name.clone());
                    out.push(StreamEvent::ToolCallName { index: call.block, id, name });
                }
                call.block
            }
        };
        if arguments.is_some() {
            out.push(StreamEvent::Delta { index: block, kind: DeltaKind::ToolCall, delta: Arc::from(text) });
        }
        if let Some(signature) = piece.thought_signature() {
            out.push(StreamEvent::Signature { index: block, signature });
        }
        Ok(())
    }

    fn start(&mut self, kind: BlockKind, out: &mut Vec<StreamEvent>) -> Result<usize, ProviderError> {
        if self.blocks == MAX_RESPONSE_BLOCKS {
            return Err(ProviderError::too_many_blocks());
        }
        let index = self.blocks;
        self.blocks += 1;
        out.push(StreamEvent::BlockStart { index, kind });
        Ok(index)
    }

    fn usage(&mut self, raw: &RawUsage, out: &mut Vec<StreamEvent>) {
        let usage = usage(raw, &self.spec);
        if self.usage != Some(usage) {
            self.usage = Some(usage);
            out.push(StreamEvent::Usage(usage));
        }
    }

    fn error_object(&self, json: &str) -> ProviderError {
        let error = serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.to_owned()));
        ProviderError::from_stream(&error, &self.keys)
    }
}

impl Decode for Decoder {
    fn event(&mut self, event: SseEvent<'_>, out: &mut Vec<StreamEvent>) -> Result<Flow, ProviderError> {
        let data = event.data.trim();
        if data == DONE {
            return Ok(Flow::Done);
        }
        if data.is_empty() {
            return Ok(Flow::More);
        }
        if event.event == "error" {
            return Err(ProviderError::from_stream(&error_in(data), &self.keys));
        }
        match parse(data) {
            Ok(chunk) => self.chunk(&chunk, data, out)?,
            Err(NoChunk::Other) => {}
            // Half of a surrogate pair is no JSON to us, but JavaScript servers cut texts there.
            Err(NoChunk::Broken) => {
                let mended = mend(data);
                match parse(&mended) {
                    Ok(chunk) => self.chunk(&chunk, &mended, out)?,
                    Err(_) => return Err(ProviderError::malformed_event()),
                }
            }
        }
        Ok(Flow::More)
    }

    fn finish(mut self, cut: Option<ProviderError>, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let reason = self.finish_reason.take();
        let is_silent = reason.is_none() && !self.spec.compat.supports_finish_reason && self.blocks > 0;
        if let Some(error) = cut
            && reason.is_none()
        {
            return Err(error);
        }
        out.extend((0..self.blocks).map(|index| StreamEvent::BlockEnd { index }));
        let Some(raw) = reason.or_else(|| is_silent.then(|| "stop".to_owned())) else {
            return Err(ProviderError::no_finish_reason());
        };
        let reason = stop_reason(&raw);
        out.push(StreamEvent::Stop { reason, raw: Some(raw.clone()) });
        if reason == StopReason::Error { Err(ProviderError::finish_reason(&raw)) } else { Ok(()) }
    }
}

/// What an event's data is, where it is no chunk.
enum NoChunk {
    /// JSON of another shape: nothing that this dialect knows.
    Other,
    /// No JSON.
    Broken,
}

fn parse(data: &str) -> Result<Chunk<'_>, NoChunk> {
    // Only objects: serde would also take a list for a chunk, member by member.
    if !data.starts_with('{') {
        let is_json = serde_json::from_str::<IgnoredAny>(data).is_ok();
        return Err(if is_json { NoChunk::Other } else { NoChunk::Broken });
    }
    serde_json::from_str(data).map_err(|error| if error.is_data() { NoChunk::Other } else { NoChunk::Broken })
}

/// `"error": null` and its like stand in ordinary chunks of some servers.
fn is_error(raw: &RawValue) -> bool {
    !matches!(raw.get(), "null" | "false" | "\"\"" | "{}" | "0")
}

fn stop_reason(raw: &str) -> StopReason {
    match raw {
        "stop" | "end" | "eos" | "end_turn" | "stop_sequence" => StopReason::Stop,
        "length" | "max_tokens" => StopReason::Length,
        "tool_calls" | "function_call" | "tool_use" => StopReason::ToolUse,
        _ => StopReason::Error,
    }
}

/// Cached tokens are part of `prompt_tokens` and are counted apart; reasoning tokens are part of `completion_tokens`
/// and stay there.
fn usage(raw: &RawUsage, spec: &ModelSpec) -> Usage {
    let details = raw.prompt_tokens_details.unwrap_or_default();
    let cache_read = details
        .cached_tokens
        .count()
        .or(raw.prompt_cache_hit_tokens.count())
        .or(raw.cached_tokens.count())
        .unwrap_or(0);
    let cache_write = details.cache_write_tokens.count().unwrap_or(0);
    let prompt = raw.prompt_tokens.count().unwrap_or(0);
    let reasoning = raw.completion_tokens_details.unwrap_or_default().reasoning_tokens.count();
    let reported = raw.cost.0.filter(|cost| spec.compat.reports_cost && *cost >= 0.0);
    let usage = Usage {
        input: prompt.saturating_sub(cache_read).saturating_sub(cache_write),
        output: raw.completion_tokens.count().unwrap_or(0),
        cache_read,
        cache_write,
        reasoning: Some(reasoning.or(raw.reasoning_tokens.count()).unwrap_or(0)),
        ..Usage::default()
    };
    priced(usage, spec, reported)
}

#[cfg(test)]
mod tests;

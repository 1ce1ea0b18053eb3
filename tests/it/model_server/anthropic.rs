//! Anthropic Messages: a reply as the events of a stream, or as one body.

use serde_json::{Map, Value, json};

use super::script::{Block, Reply, Usage};
use super::text::{arguments, pieces};

/// Returns the events of a streamed reply in order: the message's start, each block, the stop reason, the end.
pub(crate) fn chunks(reply: &Reply, request: &Value, number: usize) -> Vec<Vec<u8>> {
    let usage = reply.tokens().unwrap_or(Usage { input: 0, output: 0, ..Usage::default() });
    let message = json!({
        "id": id(reply, number), "type": "message", "role": "assistant", "content": [], "model": model(reply, request),
        "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": usage.input, "output_tokens": 1, "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write,
        },
    });
    let mut out = vec![event("message_start", &json!({ "message": message }))];
    if let Some(synth) = &reply.synth {
        out.push(start(0, &json!({"type": "text", "text": ""})));
        out.extend((0..synth.deltas).map(|_| delta(0, &json!({"type": "text_delta", "text": synth.text}))));
        out.push(event("content_block_stop", &json!({"index": 0})));
    }
    for (index, content) in reply.content().iter().enumerate() {
        block(reply, number, index, content, &mut out);
        out.push(event("content_block_stop", &json!({ "index": index })));
    }
    if let Some(word) = reply.finish() {
        let stop = json!({"stop_reason": stop_reason(&word), "stop_sequence": null});
        out.push(event("message_delta", &json!({"delta": stop, "usage": {"output_tokens": usage.output}})));
        out.push(event("message_stop", &json!({})));
    }
    out
}

fn block(reply: &Reply, number: usize, index: usize, content: &Block, out: &mut Vec<Vec<u8>>) {
    match content {
        Block::Thinking { thinking, signature, .. } => {
            out.push(start(index, &json!({"type": "thinking", "thinking": "", "signature": ""})));
            let deltas = pieces(thinking, reply.chunk);
            out.extend(deltas.iter().map(|piece| delta(index, &json!({"type": "thinking_delta", "thinking": piece}))));
            let signature = signature.as_deref().unwrap_or("c2ln");
            out.push(delta(index, &json!({"type": "signature_delta", "signature": signature})));
        }
        Block::Redacted { redacted } => out.push(start(index, &json!({"type": "redacted_thinking", "data": redacted}))),
        Block::Tool { tool, args, raw_args, id } => {
            let id = id.clone().unwrap_or_else(|| format!("toolu_{number}_{index}"));
            out.push(start(index, &json!({"type": "tool_use", "id": id, "name": tool, "input": {}})));
            let deltas = pieces(&arguments(args.as_ref(), raw_args.clone()), reply.chunk);
            out.extend(
                deltas.iter().map(|piece| delta(index, &json!({"type": "input_json_delta", "partial_json": piece}))),
            );
        }
        Block::Text { text } => {
            out.push(start(index, &json!({"type": "text", "text": ""})));
            let deltas = pieces(text, reply.chunk);
            out.extend(deltas.iter().map(|piece| delta(index, &json!({"type": "text_delta", "text": piece}))));
        }
    }
}

/// Returns the body of a reply that is not streamed.
pub(crate) fn whole(reply: &Reply, request: &Value, number: usize) -> Value {
    let content: Vec<_> = reply
        .content()
        .into_iter()
        .enumerate()
        .map(|(index, block)| match block {
            Block::Thinking { thinking, .. } => json!({"type": "thinking", "thinking": thinking, "signature": "c2ln"}),
            Block::Redacted { redacted } => json!({"type": "redacted_thinking", "data": redacted}),
            Block::Tool { tool, args, id, .. } => json!({
                "type": "tool_use", "id": id.unwrap_or_else(|| format!("toolu_{number}_{index}")), "name": tool,
                "input": args.unwrap_or_else(|| json!({})),
            }),
            Block::Text { text } => json!({"type": "text", "text": text}),
        })
        .collect();
    let usage = reply.tokens().unwrap_or_default();
    json!({
        "id": id(reply, number), "type": "message", "role": "assistant", "content": content,
        "model": model(reply, request), "stop_reason": reply.finish().map(|word| stop_reason(&word)),
        "usage": {"input_tokens": usage.input, "output_tokens": usage.output},
    })
}

/// Returns an in-stream error event.
pub(crate) fn error_event(error: &Value) -> Vec<u8> {
    format!("event: error\ndata: {error}\n\n").into_bytes()
}

fn id(reply: &Reply, number: usize) -> String {
    reply.id.clone().unwrap_or_else(|| format!("msg_{number}"))
}

fn model(reply: &Reply, request: &Value) -> Value {
    reply.model.clone().map_or_else(|| request["model"].clone(), Value::String)
}

fn start(index: usize, block: &Value) -> Vec<u8> {
    event("content_block_start", &json!({"index": index, "content_block": block}))
}

fn delta(index: usize, delta: &Value) -> Vec<u8> {
    event("content_block_delta", &json!({"index": index, "delta": delta}))
}

fn event(name: &str, members: &Value) -> Vec<u8> {
    let mut data = Map::from_iter([("type".to_owned(), json!(name))]);
    data.extend(members.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
    format!("event: {name}\ndata: {}\n\n", Value::Object(data)).into_bytes()
}

fn stop_reason(word: &str) -> String {
    match word {
        "stop" => "end_turn",
        "toolUse" => "tool_use",
        "length" => "max_tokens",
        other => other,
    }
    .to_owned()
}

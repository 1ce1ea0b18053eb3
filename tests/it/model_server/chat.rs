//! OpenAI Chat Completions: a reply as the chunks of a stream, or as one body.

use serde_json::{Map, Value, json};

use super::script::{Block, Reply, Usage};
use super::text::{arguments, pieces};

const CREATED: u64 = 1_700_000_000;

/// Returns the `data:` events of a streamed reply in order: a role chunk, the content, the finish reason, usage, `[DONE]`.
pub(crate) fn chunks(reply: &Reply, request: &Value, number: usize) -> Vec<Vec<u8>> {
    let stream = Stream { reply, request, number };
    let mut out = vec![stream.delta(json!({"role": "assistant", "content": ""}), None)];
    if let Some(synth) = &reply.synth {
        out.extend((0..synth.deltas).map(|_| stream.delta(json!({"content": synth.text}), None)));
    }
    let mut calls = 0;
    for block in reply.content() {
        stream.block(&block, &mut calls, &mut out);
    }
    if let Some(finish) = reply.finish() {
        out.push(stream.delta(json!({}), Some(finish_reason(&finish))));
    }
    let wants_usage = request.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
    if let (Some(usage), true) = (reply.tokens(), wants_usage) {
        out.push(event(&stream.chunk(json!([]), Some(usage_value(&usage)))));
    }
    if !reply.no_done {
        out.push(b"data: [DONE]\n\n".to_vec());
    }
    out
}

/// Returns the body of a reply that is not streamed.
pub(crate) fn whole(reply: &Reply, request: &Value, number: usize) -> Value {
    let mut text = String::new();
    let mut calls = Vec::new();
    for block in reply.content() {
        match block {
            Block::Text { text: more } => text.push_str(&more),
            Block::Tool { tool, args, raw_args, id } => calls.push(json!({
                "id": id.unwrap_or_else(|| call_id(number, calls.len())),
                "type": "function",
                "function": {"name": tool, "arguments": arguments(args.as_ref(), raw_args)},
            })),
            Block::Thinking { .. } | Block::Redacted { .. } => {}
        }
    }
    let mut message = Map::from_iter([
        ("role".to_owned(), json!("assistant")),
        ("content".to_owned(), if text.is_empty() { Value::Null } else { json!(text) }),
    ]);
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), json!(calls));
    }
    json!({
        "id": format!("chatcmpl-{number}"), "object": "chat.completion", "created": CREATED,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish().map(|word| finish_reason(&word))}],
        "usage": usage_value(&reply.tokens().unwrap_or_default()),
    })
}

struct Stream<'a> {
    reply: &'a Reply,
    request: &'a Value,
    number: usize,
}

impl Stream<'_> {
    fn block(&self, block: &Block, calls: &mut usize, out: &mut Vec<Vec<u8>>) {
        match block {
            Block::Thinking { thinking, field, .. } => {
                let field = field.as_deref().unwrap_or("reasoning_content");
                out.extend(
                    pieces(thinking, self.reply.chunk)
                        .into_iter()
                        .map(|piece| self.delta(json!({ field: piece }), None)),
                );
            }
            Block::Redacted { .. } => {}
            Block::Text { text } => {
                out.extend(
                    pieces(text, self.reply.chunk).into_iter().map(|piece| self.delta(json!({"content": piece}), None)),
                );
            }
            Block::Tool { tool, args, raw_args, id } => {
                let index = *calls;
                *calls += 1;
                let id = id.clone().unwrap_or_else(|| call_id(self.number, index));
                let function = json!({"name": tool, "arguments": ""});
                let call = json!({"index": index, "id": id, "type": "function", "function": function});
                out.push(self.delta(json!({"tool_calls": [call]}), None));
                for piece in pieces(&arguments(args.as_ref(), raw_args.clone()), self.reply.chunk) {
                    let call = json!({"index": index, "function": {"arguments": piece}});
                    out.push(self.delta(json!({"tool_calls": [call]}), None));
                }
            }
        }
    }

    fn delta(&self, delta: Value, finish: Option<String>) -> Vec<u8> {
        event(&self.chunk(json!([{"index": 0, "delta": delta, "finish_reason": finish}]), None))
    }

    fn chunk(&self, choices: Value, usage: Option<Value>) -> Value {
        let id = self.reply.id.clone().unwrap_or_else(|| format!("chatcmpl-{}", self.number));
        let model = self.reply.model.clone().map_or_else(|| self.request["model"].clone(), Value::String);
        let mut chunk = json!({
            "id": id, "object": "chat.completion.chunk", "created": CREATED, "model": model, "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        chunk
    }
}

/// Returns an in-stream error event.
pub(crate) fn error_event(error: &Value) -> Vec<u8> {
    event(error)
}

fn event(chunk: &Value) -> Vec<u8> {
    format!("data: {chunk}\n\n").into_bytes()
}

fn call_id(number: usize, index: usize) -> String {
    format!("call_{number}_{index}")
}

fn finish_reason(word: &str) -> String {
    match word {
        "toolUse" => "tool_calls".to_owned(),
        other => other.to_owned(),
    }
}

fn usage_value(usage: &Usage) -> Value {
    let prompt = usage.input + usage.cache_read;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

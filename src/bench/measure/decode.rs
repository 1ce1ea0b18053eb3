//! Reading responses: bytes of a provider to stream events, on one core, without network and daemon.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::plan::Bench;
use crate::bench::error::BenchError;
use crate::bench::process;
use crate::bench::report::Row;
use crate::provider::reader::{Decode, Reader};
use crate::provider::sse::SseParser;
use crate::provider::{anthropic_messages, demo_spec, openai_completions};

/// Sizes of the pieces in which a body comes: a byte or a few, a packet, a TLS record, all at once.
const PIECES: [(usize, &str); 7] = [
    (1, "1 byte"),
    (3, "3 bytes"),
    (16, "16 bytes"),
    (64, "64 bytes"),
    (1400, "1,400 bytes"),
    TLS_RECORD,
    (1_000_000, "1 MB"),
];
/// The largest piece that comes over HTTPS.
const TLS_RECORD: (usize, &str) = (16 * 1024, "16 KiB");
/// Bytes that are repeated until the body is long enough. They hold whole events.
const ROUND_BYTES: usize = 1_000_000;
/// Least speed, in MB of body a second: hundreds of times what models write, so that reading never counts.
const TARGET: f64 = 150.0;
/// Most that memory may grow over a body, in MB: a buffer for an event and one for what it means, not the body.
const MOST_MEMORY: f64 = 8.0;
/// What models write, a word or two at a time.
const WORDS: [&str; 8] = [
    "The",
    " function",
    " returns",
    " `None`",
    ", which\n",
    " über \"das\"",
    " means 世界",
    " {\"path\": \"src/main.rs\"}",
];

/// A response: how it begins, and the events of which the rest consists.
struct Body {
    head: Vec<u8>,
    round: Vec<u8>,
}

/// Speed by dialect and by the size of the pieces; memory.
pub(super) fn speed(bench: &Bench<'_>) -> Result<Vec<Row>, BenchError> {
    let chat = || openai_completions::decode::Decoder::new(Arc::new(demo_spec()), String::new(), Vec::new());
    let messages = || anthropic_messages::decode::Decoder::new(Arc::new(demo_spec()), String::new(), Vec::new());
    let mut rows = dialect(bench, "Chat", &chat_body(), chat)?;
    rows.extend(dialect(bench, "Messages", &messages_body(), messages)?);
    Ok(rows)
}

fn dialect<D: Decode>(
    bench: &Bench<'_>,
    name: &str,
    body: &Body,
    decoder: impl Fn() -> D,
) -> Result<Vec<Row>, BenchError> {
    let total = bench.plan.decoded_bytes;
    let note = format!("{} MB of body, CPU of one core", total / 1_000_000);
    let mut rows = Vec::new();
    let before = process::start_peak()?;
    for (size, words) in PIECES {
        bench.check_interest()?;
        let (mut reader, mut out) = (Reader::new(decoder()), Vec::new());
        let mut is_whole = reader.push(&body.head, &mut out).is_ok();
        let cpu = timed(body, size, total, |piece| {
            is_whole &= reader.push(piece, &mut out).is_ok();
            out.clear();
        })?;
        if !is_whole {
            return Err(BenchError::Failed);
        }
        let row = Row::new(format!("decode {name}, pieces of {words}"), rate(total, cpu), "MB/s");
        rows.push(row.at_least(TARGET).note(&note));
    }
    let growth = process::peak()?.saturating_sub(before) as f64 / 1e6;
    rows.push(Row::new("  growth of memory", growth, "MB").target(MOST_MEMORY).note("peak RSS, over all of these"));
    let mut parser = SseParser::new();
    let mut is_whole = parser.push(&body.head, |_| ()).is_ok();
    let cpu = timed(body, TLS_RECORD.0, total, |piece| is_whole &= parser.push(piece, |_| ()).is_ok())?;
    if !is_whole {
        return Err(BenchError::Failed);
    }
    rows.push(Row::new("  of which events alone, pieces of 16 KiB", rate(total, cpu), "MB/s").note(&note));
    Ok(rows)
}

/// Gives what follows the head of a body in pieces to `take` and returns the CPU time.
fn timed(body: &Body, size: usize, total: usize, mut take: impl FnMut(&[u8])) -> Result<Duration, BenchError> {
    let before = process::cpu_time(std::process::id())?;
    let mut left = total;
    while left > 0 {
        let round = &body.round[..body.round.len().min(left)];
        round.chunks(size).for_each(&mut take);
        left -= round.len();
    }
    Ok(process::cpu_time(std::process::id())?.saturating_sub(before))
}

fn rate(bytes: usize, cpu: Duration) -> f64 {
    bytes as f64 / 1e6 / cpu.as_secs_f64()
}

/// Repeats the deltas that `of_word` makes until there is a round of them.
fn round(of_word: impl Fn(&str) -> Vec<String>) -> Vec<u8> {
    let once: String = WORDS.iter().flat_map(|word| of_word(word)).collect();
    once.repeat(ROUND_BYTES / once.len()).into_bytes()
}

fn chat_body() -> Body {
    let chunk = |delta: Value| {
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": "demo", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
        format!("data: {chunk}\n\n")
    };
    let call = |function: Value| json!({"tool_calls": [{"index": 0, "function": function}]});
    let mut first = call(json!({"name": "write", "arguments": ""}));
    first["tool_calls"][0]["id"] = json!("call_1");
    Body {
        head: chunk(first).into_bytes(),
        round: round(|word| {
            let deltas = [json!({"reasoning_content": word}), json!({"content": word}), json!({"content": word})];
            deltas.into_iter().chain([call(json!({"arguments": word}))]).map(chunk).collect()
        }),
    }
}

fn messages_body() -> Body {
    let event = |members: Value| {
        let kind = members["type"].as_str().unwrap_or_default().to_owned();
        format!("event: {kind}\ndata: {members}\n\n")
    };
    let start =
        |index: u8, block: Value| event(json!({"type": "content_block_start", "index": index, "content_block": block}));
    let delta = |index: u8, delta: Value| event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    let head = start(0, json!({"type": "thinking", "thinking": ""}))
        + &start(1, json!({"type": "text", "text": ""}))
        + &start(2, json!({"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}}));
    Body {
        head: head.into_bytes(),
        round: round(|word| {
            let text = || delta(1, json!({"type": "text_delta", "text": word}));
            let thinking = delta(0, json!({"type": "thinking_delta", "thinking": word}));
            vec![thinking, text(), text(), delta(2, json!({"type": "input_json_delta", "partial_json": word}))]
        }),
    }
}

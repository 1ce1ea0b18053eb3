//! How long a response may be: the model's limit, or what is left of its window.
//!
//! Pure. Servers refuse a request whose prompt and response together might not fit, so the prompt is estimated: by
//! the usage that the provider reported last, and four characters a token for what came since (pi's rule, also for
//! the margins, so that requests agree).

use std::sync::Arc;

use agentd_protocol::message::{AssistantMessage, ContentBlock, Message, StopReason, ToolDefinition};
use serde_json::Value;

use crate::provider::spec::ModelSpec;

/// Least margin for a prompt that counts more than estimated.
const MARGIN_TOKENS: u64 = 4096;
/// Part of the prompt that is kept as a margin beside large windows: 15 %.
const MARGIN_NUMERATOR: u64 = 15;
const MARGIN_DENOMINATOR: u64 = 100;
/// The larger margin is kept only while it leaves this much.
const LARGE_ROOM_TOKENS: u64 = 32_768;
/// Characters that an image counts for.
const IMAGE_CHARS: usize = 4800;
/// Characters of a token.
const CHARS_PER_TOKEN: usize = 4;

/// Returns the most tokens that a response to this context may have; at least one.
pub(super) fn max_tokens(spec: &ModelSpec, messages: &[Arc<Message>], tools: &[&ToolDefinition]) -> u64 {
    let (window, most) = (spec.model.context_window, spec.model.max_tokens.max(1));
    if window == 0 {
        return most;
    }
    let prompt = estimate(messages, tools);
    let margin = MARGIN_TOKENS.max((prompt * MARGIN_NUMERATOR).div_ceil(MARGIN_DENOMINATOR));
    let mut room = window.saturating_sub(prompt).saturating_sub(margin);
    if room < LARGE_ROOM_TOKENS {
        room = LARGE_ROOM_TOKENS.min(window.saturating_sub(prompt).saturating_sub(MARGIN_TOKENS));
    }
    most.min(room.max(1))
}

/// Estimates the prompt in tokens.
fn estimate(messages: &[Arc<Message>], tools: &[&ToolDefinition]) -> u64 {
    // Usage from before a compaction tells of a context that is gone.
    let compacted_at = messages.iter().filter_map(|message| match &**message {
        Message::CompactionSummary(summary) => Some(summary.timestamp),
        _ => None,
    });
    let compacted_at = compacted_at.max();
    let measured = messages.iter().enumerate().rev().find_map(|(at, message)| match &**message {
        Message::Assistant(response) if is_measured(response, compacted_at) => Some((at, response.usage.total_tokens)),
        _ => None,
    });
    match measured {
        Some((at, tokens)) => tokens + messages[at + 1..].iter().map(|message| tokens_of(message)).sum::<u64>(),
        None => {
            let schemas = tools.iter().map(|tool| tokens(chars(&tool.description) + json_len(&tool.parameters)));
            messages.iter().map(|message| tokens_of(message)).chain(schemas).sum()
        }
    }
}

fn is_measured(response: &AssistantMessage, compacted_at: Option<i64>) -> bool {
    response.usage.total_tokens > 0
        && matches!(response.stop_reason, StopReason::Stop | StopReason::Length | StopReason::ToolUse)
        && compacted_at.is_none_or(|at| response.timestamp > at)
}

fn tokens_of(message: &Message) -> u64 {
    let counted = match message {
        Message::System(system) => system.sections.values().filter_map(Value::as_str).map(chars).sum(),
        Message::User(user) => blocks(&user.content),
        Message::Custom(custom) => blocks(&custom.content),
        Message::Assistant(response) => blocks(&response.content),
        Message::ToolResult(result) => blocks(&result.content),
        Message::BashExecution(bash) => chars(&bash.command) + chars(&bash.output),
        Message::CompactionSummary(summary) => chars(&summary.summary),
        Message::BranchSummary(summary) => chars(&summary.summary),
        Message::Other(_) => 0,
    };
    tokens(counted)
}

fn blocks(blocks: &[ContentBlock]) -> usize {
    blocks
        .iter()
        .map(|block| match block {
            ContentBlock::Text { text, .. } => chars(text),
            ContentBlock::Thinking { thinking, .. } => chars(thinking),
            ContentBlock::Image { .. } => IMAGE_CHARS,
            ContentBlock::ToolCall(call) => chars(&call.name) + json_len(&call.arguments),
            ContentBlock::Other(_) => 0,
        })
        .sum()
}

/// UTF-16 units, as JavaScript counts; ASCII is counted without decoding.
fn chars(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

fn json_len(value: &Value) -> usize {
    value.to_string().len()
}

fn tokens(chars: usize) -> u64 {
    u64::try_from(chars.div_ceil(CHARS_PER_TOKEN)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::demo;

    fn message(value: Value) -> Arc<Message> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn response(total: u64, timestamp: i64, stop: &str) -> Arc<Message> {
        message(json!({"role": "assistant", "content": [{"type": "text", "text": "x".repeat(400)}], "stopReason": stop,
            "timestamp": timestamp, "usage": {"totalTokens": total}}))
    }

    fn user(chars: usize) -> Arc<Message> {
        message(json!({"role": "user", "content": "x".repeat(chars)}))
    }

    #[track_caller]
    fn check(window: u64, most: u64, messages: &[Arc<Message>], expected: u64) {
        let mut spec = demo::spec();
        (spec.model.context_window, spec.model.max_tokens) = (window, most);
        assert_eq!(max_tokens(&spec, messages, &[]), expected);
    }

    #[test]
    fn the_models_limit_where_there_is_room() {
        check(20_000, 2000, &[user(1000)], 2000);
        check(0, 2000, &[user(1_000_000)], 2000);
        check(20_000, 2000, &[response(3150, 0, "stop"), user(1000)], 2000);
    }

    #[test]
    fn what_is_left_of_the_window() {
        // Recorded: 20,050 tokens reported, a window of 20,000.
        check(20_000, 2000, &[response(20_050, 0, "stop"), user(540)], 1);
        check(20_000, 16_000, &[user(40_000)], 20_000 - 10_000 - 4096);
        check(200_000, 128_000, &[response(100_000, 0, "stop")], 200_000 - 115_000);
        check(200_000, 128_000, &[response(180_000, 0, "stop")], 200_000 - 184_096);
    }

    #[test]
    fn usage_that_tells_nothing_is_not_used() {
        check(20_000, 2000, &[response(0, 0, "stop")], 2000);
        check(20_000, 2000, &[response(20_050, 0, "error"), user(4)], 2000);
        let summary = message(json!({"role": "compactionSummary", "summary": "s", "timestamp": 5}));
        check(20_000, 2000, &[summary.clone(), response(20_050, 4, "stop")], 2000);
        check(20_000, 2000, &[summary, response(20_050, 6, "stop")], 1);
    }
}

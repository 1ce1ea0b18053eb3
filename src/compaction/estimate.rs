//! Token estimates: what the provider last reported, plus a guess at what came after.

use std::sync::Arc;

use agentd_protocol::message::{ContentBlock, Message, StopReason, SystemMessage};

/// Characters of most text that make one token.
const CHARS_PER_TOKEN: u64 = 4;
/// Tokens that a message costs besides its content.
const TOKENS_PER_MESSAGE: u64 = 4;
/// An image in tokens: 4800 characters' worth, as pi counts.
const TOKENS_PER_IMAGE: u64 = 1200;

/// Returns the tokens of a model context: those of the last whole response, which the provider counted, plus an
/// estimate of the messages after it; without such a response, an estimate of all.
pub fn context_tokens(messages: &[Arc<Message>]) -> u64 {
    let reported = messages.iter().enumerate().rev().find_map(|(place, message)| match &**message {
        Message::Assistant(assistant) if is_whole(assistant.stop_reason) && assistant.usage.total_tokens > 0 => {
            Some((place, assistant.usage.total_tokens))
        }
        _ => None,
    });
    let (counted, rest) = match reported {
        Some((place, tokens)) => (tokens, &messages[place + 1..]),
        None => (0, messages),
    };
    counted + rest.iter().map(|message| message_tokens(message)).sum::<u64>()
}

fn is_whole(stop_reason: StopReason) -> bool {
    matches!(stop_reason, StopReason::Stop | StopReason::Length | StopReason::ToolUse)
}

/// Returns an estimate of one message.
pub fn message_tokens(message: &Message) -> u64 {
    let content = match message {
        Message::System(system) => system_tokens(system),
        Message::User(user) => blocks_tokens(&user.content),
        Message::Assistant(assistant) => blocks_tokens(&assistant.content),
        Message::ToolResult(result) => blocks_tokens(&result.content),
        Message::BashExecution(bash) => text_tokens(&bash.command) + text_tokens(&bash.output),
        other => serde_json::to_string(other).map_or(0, |text| text_tokens(&text)),
    };
    content + TOKENS_PER_MESSAGE
}

fn system_tokens(system: &SystemMessage) -> u64 {
    let sections = system.sections.values().filter_map(|section| section.as_str()).map(text_tokens).sum::<u64>();
    let tools = system.tools_added.iter().map(|tool| {
        text_tokens(&tool.name) + text_tokens(&tool.description) + text_tokens(&tool.parameters.to_string())
    });
    text_tokens(&system.content) + sections + tools.sum::<u64>()
}

fn blocks_tokens(blocks: &[ContentBlock]) -> u64 {
    let tokens = blocks.iter().map(|block| match block {
        ContentBlock::Text { text, .. } => text_tokens(text),
        ContentBlock::Thinking { thinking, .. } => text_tokens(thinking),
        ContentBlock::Image { .. } => TOKENS_PER_IMAGE,
        ContentBlock::ToolCall(call) => text_tokens(&call.name) + text_tokens(&call.arguments.to_string()),
        ContentBlock::Other(value) => text_tokens(&value.to_string()),
    });
    tokens.sum()
}

/// Returns an estimate of a text: one token for each character of the scripts that tokenizers split into characters
/// (see [`is_wide`]), a quarter for each other one, rounded up.
pub fn text_tokens(text: &str) -> u64 {
    if text.is_ascii() {
        return (text.len() as u64).div_ceil(CHARS_PER_TOKEN);
    }
    let (mut wide, mut narrow) = (0_u64, 0_u64);
    for c in text.chars() {
        if is_wide(c) { wide += 1 } else { narrow += 1 }
    }
    wide + narrow.div_ceil(CHARS_PER_TOKEN)
}

/// Tells whether a character counts as a token of its own: kana, CJK ideographs with their extensions and
/// compatibility forms, Hangul, full-width forms (Unicode 16 blocks U+1100–11FF, U+2E80–A4CF, U+AC00–D7FF,
/// U+F900–FAFF, U+FE30–FE4F, U+FF00–FFEF, U+20000–3FFFF).
fn is_wide(c: char) -> bool {
    matches!(u32::from(c),
        0x1100..=0x11FF | 0x2E80..=0xA4CF | 0xAC00..=0xD7FF | 0xF900..=0xFAFF
        | 0xFE30..=0xFE4F | 0xFF00..=0xFFEF | 0x20000..=0x3FFFF)
}

#[cfg(test)]
mod tests {
    use agentd_protocol::message::{AssistantMessage, Usage, UserMessage};

    use super::*;

    #[test]
    fn texts_are_counted_by_script() {
        for (text, expected) in
            [("", 0), ("abcd", 1), ("abcde", 2), ("日本語", 3), ("日本 ab", 3), ("éèàù", 1), ("한국", 2)]
        {
            assert_eq!(text_tokens(text), expected, "{text}");
        }
    }

    fn user(text: &str) -> Arc<Message> {
        let content = vec![ContentBlock::text(text)];
        Arc::new(Message::User(UserMessage { content, timestamp: 0, client_message_id: None }))
    }

    fn assistant(stop_reason: StopReason, total_tokens: u64) -> Arc<Message> {
        let message: AssistantMessage =
            serde_json::from_value(serde_json::json!({"stopReason": "stop", "content": []})).unwrap();
        let usage = Usage { total_tokens, ..Usage::default() };
        Arc::new(Message::Assistant(AssistantMessage { stop_reason, usage, ..message }))
    }

    #[test]
    fn what_the_provider_counted_stands_for_all_before_it() {
        let messages = [user(&"x".repeat(400)), assistant(StopReason::Stop, 7000), user("abcdefgh")];
        assert_eq!(context_tokens(&messages), 7000 + 2 + TOKENS_PER_MESSAGE);
    }

    #[test]
    fn a_failed_or_uncounted_response_is_no_count() {
        let messages = [user("abcd"), assistant(StopReason::Error, 9000), assistant(StopReason::Stop, 0)];
        assert_eq!(context_tokens(&messages), 1 + 3 * TOKENS_PER_MESSAGE);
    }
}

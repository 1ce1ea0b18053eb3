//! What all dialects have in common where a conversation is sent again: which messages go back to a model, which
//! result belongs to which call, and the words for what no dialect has a form for.
//!
//! Pure.

use std::sync::Arc;

use agentd_protocol::message::{
    AssistantMessage, BashExecutionMessage, ContentBlock, Message, StopReason, ToolCall, ToolResultMessage,
};
use agentd_protocol::model::Model;

/// Result of a call that has none: the run was broken off (pi: the same).
pub(super) const NO_RESULT: &str = "No result provided";
/// Stands for a result without any text (pi: the same).
pub(super) const EMPTY_RESULT: &str = "(no tool output)";
/// Stands for a user's image where the model takes none (pi: the same).
pub(super) const IMAGE_OMITTED: &str = "(image omitted: model does not support images)";
/// Stands for an image of a tool result where the model takes none (pi: the same).
const TOOL_IMAGE_OMITTED: &str = "(tool image omitted: model does not support images)";

/// Stands before the summary of what a compaction took out.
pub(super) const COMPACTION_LEAD_IN: &str =
    "The earlier part of this conversation was replaced by this summary of it:\n\n";
/// Stands before the summary of a branch that was left.
pub(super) const BRANCH_LEAD_IN: &str =
    "This conversation went another way before and came back here. What happened there:\n\n";

/// Tells whether a model takes images.
pub(super) fn takes_images(model: &Model) -> bool {
    model.input.iter().any(|kind| kind == "image")
}

/// Failed and aborted responses never go back to a model: half a thought would count as said.
pub(super) fn is_sent(response: &AssistantMessage) -> bool {
    match response.stop_reason {
        StopReason::Stop | StopReason::Length | StopReason::ToolUse => true,
        StopReason::Error | StopReason::Aborted | StopReason::Pending => false,
    }
}

/// Tells whether `model` itself, over the same dialect, made a response: only then do its signatures mean anything.
pub(super) fn is_from(response: &AssistantMessage, model: &Model) -> bool {
    response.provider == model.provider && response.model == model.id && response.api == model.api
}

/// Returns the calls of a response in order.
pub(super) fn tool_calls(response: &AssistantMessage) -> impl Iterator<Item = &ToolCall> {
    response.content.iter().filter_map(|block| if let ContentBlock::ToolCall(call) = block { Some(call) } else { None })
}

/// Finds the result of each call of a response among the messages after it, up to the next response that is sent. No
/// result is taken twice.
pub(super) fn results<'a>(calls: &[&ToolCall], after: &'a [Arc<Message>]) -> Vec<Option<&'a ToolResultMessage>> {
    let next_response = |message: &&'a Arc<Message>| matches!(&***message, Message::Assistant(next) if is_sent(next));
    let mut found: Vec<Option<&'a ToolResultMessage>> = after
        .iter()
        .take_while(|message| !next_response(message))
        .filter_map(|message| if let Message::ToolResult(result) = &**message { Some(Some(result)) } else { None })
        .collect();
    calls
        .iter()
        .map(|call| {
            let mut matching =
                found.iter_mut().filter(|slot| slot.is_some_and(|result| result.tool_call_id == call.id));
            matching.next().and_then(Option::take)
        })
        .collect()
}

/// Returns the text of a result; images that are not sent are named in it. Never empty.
pub(super) fn result_text(result: &ToolResultMessage, takes_images: bool) -> String {
    let pieces = result.content.iter().filter_map(|block| match block {
        ContentBlock::Text { text, .. } if !text.is_empty() => Some(text.as_str()),
        ContentBlock::Image { .. } if !takes_images => Some(TOOL_IMAGE_OMITTED),
        _ => None,
    });
    let text = pieces.collect::<Vec<_>>().join("\n");
    let has_image = result.content.iter().any(|block| matches!(block, ContentBlock::Image { .. }));
    match (text.is_empty(), has_image) {
        (false, _) => text,
        (true, true) => "(see attached image)".to_owned(),
        (true, false) => EMPTY_RESULT.to_owned(),
    }
}

/// Wraps a summary for the model.
pub(super) fn summary_text(lead_in: &str, summary: &str) -> String {
    format!("{lead_in}<summary>\n{summary}\n</summary>")
}

/// Tells the model of a command that a person ran (pi's words).
pub(super) fn bash_text(bash: &BashExecutionMessage) -> String {
    let mut text = format!("Ran `{}`\n", bash.command);
    if bash.output.is_empty() {
        text.push_str("(no output)");
    } else {
        text.push_str(&format!("```\n{}\n```", bash.output));
    }
    match bash.exit_code {
        _ if bash.cancelled => text.push_str("\n\n(command cancelled)"),
        Some(code) if code != 0 => text.push_str(&format!("\n\nCommand exited with code {code}")),
        _ => {}
    }
    if let Some(path) = bash.full_output_path.as_ref().filter(|_| bash.truncated) {
        text.push_str(&format!("\n\n[Output truncated. Full output: {path}]"));
    }
    text
}

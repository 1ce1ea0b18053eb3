//! Images that a provider refused: taken out of the context, so that the session can go on.
//!
//! Providers do not say which image of which message they mean in a way that all share. Those that came since the last
//! answer are the likely ones, because all before have been accepted once; if there is none (another model, or a limit
//! on their number), all of them are. The file keeps what was there; only the context has a note in its place.

use agentd_protocol::message::{ContentBlock, Message, StopReason};
use serde_json::json;

use super::core::{Machine, Moment};
use super::effect::{Effect, NewEntry};
use crate::agent::event::Event;
use crate::session::context::{ContextMessage, build_context};
use crate::session::entry::EntryBody;

/// Stands for a refused image in the context.
const REFUSED: &str = "[Image left out: the provider refused it]";

impl Machine {
    /// Takes the images that were probably meant out of the context; false when there is none.
    pub(super) fn leave_images_out(&mut self, moment: Moment<'_>) -> bool {
        let context = build_context(moment.tree).messages;
        let answered = context.iter().rposition(is_answer).map_or(0, |place| place + 1);
        let mut edits: Vec<EntryBody> = context[answered..].iter().filter_map(without_images).collect();
        if edits.is_empty() {
            edits = context.iter().filter_map(without_images).collect();
        }
        if edits.is_empty() {
            return false;
        }
        let count = edits.len();
        let entries: Vec<NewEntry> = edits.into_iter().map(|body| self.new_entry(moment, body)).collect();
        let ids: Vec<_> = entries.iter().map(|entry| entry.id.clone()).collect();
        self.effects.push(Effect::Append { entries, sync: false });
        self.effects.extend(ids.into_iter().map(Effect::EmitEntry));
        let message = format!("the provider refused an image; {count} messages go on without their images");
        self.emit(Event::Notice { kind: "images_left_out", message });
        true
    }
}

fn is_answer(message: &ContextMessage) -> bool {
    match &*message.message {
        Message::Assistant(answer) => !matches!(answer.stop_reason, StopReason::Error | StopReason::Aborted),
        _ => false,
    }
}

/// Returns the edit that leaves a message's images out, if it has any.
fn without_images(message: &ContextMessage) -> Option<EntryBody> {
    let content = match &*message.message {
        Message::User(user) => &user.content,
        Message::ToolResult(result) => &result.content,
        Message::Custom(custom) => &custom.content,
        _ => return None,
    };
    let is_image = |block: &ContentBlock| matches!(block, ContentBlock::Image { .. });
    if !content.iter().any(is_image) {
        return None;
    }
    let mut kept: Vec<ContentBlock> = content.iter().filter(|block| !is_image(block)).cloned().collect();
    kept.push(ContentBlock::text(REFUSED));
    Some(EntryBody::ContextEdit { target: message.entry_id.clone()?, replacement: Some(json!({ "content": kept })) })
}

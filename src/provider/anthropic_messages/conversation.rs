//! Our messages to those of the dialect.
//!
//! What is sent always keeps the rules that the API checks: user and assistant take turns, the results of a turn's
//! calls begin the next user message and are complete, ids are legal and used once, no text is blank, thinking goes
//! back only signed and only to the model that made it.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use agentd_protocol::message::{AssistantMessage, ContentBlock, Message, ToolCall, ToolResultMessage};
use serde_json::{Map, Value};

use super::wire::{Image, Part, Role, WireMessage};
use crate::provider::call_ids::{CallIds, legal_name};
use crate::provider::replay::{self, BRANCH_LEAD_IN, COMPACTION_LEAD_IN, EMPTY_RESULT, IMAGE_OMITTED, NO_RESULT};
use crate::provider::spec::ModelSpec;

/// Media types that the API takes.
const IMAGE_TYPES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Input of a call whose arguments could not be understood.
static NO_INPUT: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));

/// Converts a context, but for its system messages.
pub(super) fn convert<'a>(messages: &'a [Arc<Message>], spec: &'a ModelSpec) -> Vec<WireMessage<'a>> {
    let takes_images = replay::takes_images(&spec.model);
    let mut conversation =
        Conversation { spec, takes_images, ids: CallIds::new(false), wire: Vec::with_capacity(messages.len()) };
    for (at, message) in messages.iter().enumerate() {
        conversation.message(message, &messages[at + 1..]);
    }
    conversation.wire
}

/// Tells whether the model is in the middle of a turn that did not begin with thinking: results of its calls are
/// sent, and its first response since the user spoke has none, because another model made it or thinking was off. A
/// request with a thinking budget is refused then.
pub(super) fn is_amid_unthought_turn(wire: &[WireMessage<'_>]) -> bool {
    let steps = wire.rchunks_exact(2).take_while(|step| step[1].content.iter().any(Part::is_result));
    steps.last().is_some_and(|first| !first[0].content.first().is_some_and(Part::is_thinking))
}

struct Conversation<'a> {
    spec: &'a ModelSpec,
    takes_images: bool,
    ids: CallIds,
    wire: Vec<WireMessage<'a>>,
}

impl<'a> Conversation<'a> {
    fn message(&mut self, message: &'a Message, after: &'a [Arc<Message>]) {
        match message {
            Message::User(user) => self.user(&user.content),
            Message::Custom(custom) => self.user(&custom.content),
            Message::Assistant(response) => self.assistant(response, after),
            // The prompt is no message of this dialect. Results are sent with their calls; one without a call is
            // never sent.
            Message::System(_) | Message::ToolResult(_) | Message::Other(_) => {}
            Message::BashExecution(bash) => {
                if bash.exclude_from_context != Some(true) {
                    self.user_text(replay::bash_text(bash));
                }
            }
            Message::CompactionSummary(summary) => {
                self.user_text(replay::summary_text(COMPACTION_LEAD_IN, &summary.summary));
            }
            Message::BranchSummary(summary) => self.user_text(replay::summary_text(BRANCH_LEAD_IN, &summary.summary)),
        }
    }

    /// Adds content to the last message of the same role, or begins a message: the API joins messages of one role
    /// itself, and servers that copy it refuse them.
    fn push(&mut self, role: Role, content: Vec<Part<'a>>) {
        if content.is_empty() {
            return;
        }
        match self.wire.last_mut().filter(|last| last.role == role) {
            Some(last) => last.content.extend(content),
            None => self.wire.push(WireMessage { role, content, is_marked: false }),
        }
    }

    fn user_text(&mut self, text: String) {
        self.push(Role::User, vec![Part::Text(Cow::Owned(text))]);
    }

    fn user(&mut self, content: &'a [ContentBlock]) {
        let parts = content.iter().filter_map(|block| match block {
            ContentBlock::Text { text, .. } if !is_blank(text) => Some(Part::Text(Cow::Borrowed(text.as_str()))),
            ContentBlock::Image { .. } if !self.takes_images => Some(Part::Text(Cow::Borrowed(IMAGE_OMITTED))),
            ContentBlock::Image { data, mime_type } => Some(match image(data, mime_type) {
                Some(image) => Part::Image(image),
                None => Part::Text(Cow::Owned(odd_image(mime_type))),
            }),
            _ => None,
        });
        self.push(Role::User, parts.collect());
    }

    fn assistant(&mut self, response: &'a AssistantMessage, after: &'a [Arc<Message>]) {
        if !replay::is_sent(response) {
            return;
        }
        let is_same = replay::is_from(response, &self.spec.model);
        let mut content = Vec::with_capacity(response.content.len());
        let mut wire_ids = Vec::new();
        for block in &response.content {
            match block {
                ContentBlock::Text { text, .. } if !is_blank(text) => {
                    content.push(Part::Text(Cow::Borrowed(text.as_str())));
                }
                ContentBlock::Thinking { thinking, thinking_signature, redacted } if is_same => {
                    content.extend(self.thinking(thinking, thinking_signature.as_deref(), *redacted));
                }
                ContentBlock::ToolCall(call) => {
                    let id = self.ids.assign(call.id.as_str());
                    wire_ids.push(id.clone());
                    let input = if call.arguments.is_object() { &call.arguments } else { &*NO_INPUT };
                    content.push(Part::ToolUse { id, name: legal_name(&call.name), input });
                }
                // Thinking of another model means nothing to this one, and as text it would be imitated.
                _ => {}
            }
        }
        if content.iter().all(Part::is_thinking) {
            // Thoughts alone are no turn.
            return;
        }
        self.push(Role::Assistant, content);
        if !wire_ids.is_empty() {
            self.results(response, wire_ids, after);
        }
    }

    /// Returns thinking as the model gave it; nothing where the signature is missing that proves it.
    fn thinking(&self, thinking: &'a str, signature: Option<&'a str>, redacted: bool) -> Option<Part<'a>> {
        match signature.filter(|signature| !signature.is_empty()) {
            Some(data) if redacted => Some(Part::RedactedThinking { data }),
            Some(signature) => Some(Part::Thinking { thinking, signature }),
            None if self.spec.anthropic.allow_empty_signature && !redacted && !is_blank(thinking) => {
                Some(Part::Thinking { thinking, signature: "" })
            }
            None => None,
        }
    }

    /// Sends the results of a response's calls, in the order of the calls; a call without one gets one.
    fn results(&mut self, response: &'a AssistantMessage, wire_ids: Vec<String>, after: &'a [Arc<Message>]) {
        let calls: Vec<&ToolCall> = replay::tool_calls(response).collect();
        let found = replay::results(&calls, after);
        let parts = wire_ids.into_iter().zip(found).map(|(id, result)| self.result(id, result)).collect();
        self.push(Role::User, parts);
    }

    fn result(&self, id: String, result: Option<&'a ToolResultMessage>) -> Part<'a> {
        let Some(result) = result else {
            return Part::ToolResult { id, text: Cow::Borrowed(NO_RESULT), images: Vec::new(), is_error: true };
        };
        let mut text = replay::result_text(result, self.takes_images);
        if is_blank(&text) {
            text = EMPTY_RESULT.to_owned();
        }
        let mut images = Vec::new();
        for block in result.content.iter().filter(|_| self.takes_images) {
            let ContentBlock::Image { data, mime_type } = block else { continue };
            match image(data, mime_type) {
                Some(image) => images.push(image),
                None => text = format!("{text}\n{}", odd_image(mime_type)),
            }
        }
        Part::ToolResult { id, text: Cow::Owned(text), images, is_error: result.is_error }
    }
}

impl Part<'_> {
    fn is_result(&self) -> bool {
        matches!(self, Self::ToolResult { .. })
    }

    fn is_thinking(&self) -> bool {
        matches!(self, Self::Thinking { .. } | Self::RedactedThinking { .. })
    }
}

/// Text without a single visible character is refused.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn image<'a>(data: &'a str, mime_type: &'a str) -> Option<Image<'a>> {
    let media_type = IMAGE_TYPES.iter().find(|known| mime_type.eq_ignore_ascii_case(known))?;
    (!data.is_empty()).then_some(Image { data, media_type })
}

fn odd_image(mime_type: &str) -> String {
    format!("(image omitted: the provider does not take {mime_type:?})")
}

//! Our messages to those of the dialect.
//!
//! What is sent always keeps the rules that strict servers check: every call has exactly one result right after it,
//! no result stands without its call, ids are legal and used once, and no text is empty.

use std::borrow::Cow;
use std::sync::Arc;

use agentd_protocol::message::{AssistantMessage, ContentBlock, Message, ToolCall};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::json;

use crate::provider::call_ids::{CallIds, legal_name};
use crate::provider::context::{change_text, folded_system, prompt_text};
use crate::provider::replay::{self, BRANCH_LEAD_IN, COMPACTION_LEAD_IN, IMAGE_OMITTED, NO_RESULT};
use crate::provider::spec::ModelSpec;

/// Names of the fields in which servers send thinking, and take it back.
const REASONING_FIELDS: &[&str] = &["reasoning_content", "reasoning", "reasoning_text"];

/// Stands for the signature of a call that another model made (ai.google.dev/gemini-api/docs/thought-signatures).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// A message of the dialect.
pub(super) enum WireMessage<'a> {
    System { role: &'static str, text: String },
    User(Vec<Part<'a>>),
    Assistant { content: Option<String>, reasoning: Option<(&'a str, String)>, calls: Vec<WireCall> },
    ToolResult { id: String, name: Option<String>, text: String },
}

/// A piece of a user message.
pub(super) enum Part<'a> {
    Text(Cow<'a, str>),
    Image { data: &'a str, mime_type: &'a str },
}

/// A call of an assistant message.
#[derive(Clone)]
pub(super) struct WireCall {
    id: String,
    name: String,
    arguments: String,
    /// Signature of the thought behind it.
    signature: Option<String>,
}

/// Converts a context. `is_reasoning` tells whether the model is asked to think.
pub(super) fn convert<'a>(
    messages: &'a [Arc<Message>],
    spec: &'a ModelSpec,
    is_reasoning: bool,
) -> Vec<WireMessage<'a>> {
    let mut conversion = Conversion {
        spec,
        is_reasoning,
        takes_images: replay::takes_images(&spec.model),
        ids: CallIds::new(spec.compat.requires_mistral_tool_ids),
        has_seen_system: false,
        wire: Vec::with_capacity(messages.len()),
    };
    conversion.system(messages);
    for (at, message) in messages.iter().enumerate() {
        conversion.message(message, &messages[at + 1..]);
    }
    conversion.wire
}

struct Conversion<'a> {
    spec: &'a ModelSpec,
    is_reasoning: bool,
    takes_images: bool,
    ids: CallIds,
    has_seen_system: bool,
    wire: Vec<WireMessage<'a>>,
}

impl<'a> Conversion<'a> {
    /// The leading prompt goes first wherever it stands: a shell command may have been run before the first prompt.
    fn system(&mut self, messages: &'a [Arc<Message>]) {
        let mut systems = messages.iter().map(Arc::as_ref).filter(|message| matches!(message, Message::System(_)));
        let text = if self.spec.compat.supports_mid_convo_system_messages {
            systems
                .next()
                .and_then(|first| if let Message::System(first) = first { Some(prompt_text(first)) } else { None })
        } else {
            folded_system(systems).map(|folded| prompt_text(&folded))
        };
        self.push_system(text.unwrap_or_default());
    }

    fn push_system(&mut self, text: String) {
        let is_developer = self.spec.compat.supports_developer_role && self.spec.model.reasoning;
        if !text.is_empty() {
            self.wire.push(WireMessage::System { role: if is_developer { "developer" } else { "system" }, text });
        }
    }

    fn message(&mut self, message: &'a Message, after: &'a [Arc<Message>]) {
        match message {
            Message::System(change) => {
                // The first one is the leading prompt, and already there.
                let is_first = !std::mem::replace(&mut self.has_seen_system, true);
                if !is_first && self.spec.compat.supports_mid_convo_system_messages {
                    self.push_system(change_text(change));
                }
            }
            Message::User(user) => self.user(&user.content),
            Message::Custom(custom) => self.user(&custom.content),
            Message::Assistant(response) => self.assistant(response, after),
            // Results are sent with their calls; one without a call is never sent.
            Message::ToolResult(_) | Message::Other(_) => {}
            Message::BashExecution(bash) => {
                if bash.exclude_from_context != Some(true) {
                    self.push_user(vec![Part::Text(Cow::Owned(replay::bash_text(bash)))]);
                }
            }
            Message::CompactionSummary(summary) => self.summary(COMPACTION_LEAD_IN, &summary.summary),
            Message::BranchSummary(summary) => self.summary(BRANCH_LEAD_IN, &summary.summary),
        }
    }

    fn summary(&mut self, lead_in: &str, summary: &str) {
        self.push_user(vec![Part::Text(Cow::Owned(replay::summary_text(lead_in, summary)))]);
    }

    fn user(&mut self, content: &'a [ContentBlock]) {
        let parts = content.iter().filter_map(|block| match block {
            ContentBlock::Text { text, .. } if !text.is_empty() => Some(Part::Text(Cow::Borrowed(text.as_str()))),
            ContentBlock::Image { data, mime_type } if self.takes_images => Some(Part::Image { data, mime_type }),
            ContentBlock::Image { .. } => Some(Part::Text(Cow::Borrowed(IMAGE_OMITTED))),
            _ => None,
        });
        self.push_user(parts.collect());
    }

    fn push_user(&mut self, parts: Vec<Part<'a>>) {
        if parts.is_empty() {
            return;
        }
        let after_result = matches!(self.wire.last(), Some(WireMessage::ToolResult { .. }));
        if after_result && self.spec.compat.requires_assistant_after_tool_result {
            let content = Some("The tool results are noted.".to_owned());
            self.wire.push(WireMessage::Assistant { content, reasoning: None, calls: Vec::new() });
        }
        self.wire.push(WireMessage::User(parts));
    }

    fn assistant(&mut self, response: &'a AssistantMessage, after: &'a [Arc<Message>]) {
        if !replay::is_sent(response) {
            return;
        }
        let text = |block: &'a ContentBlock| block.as_text().filter(|text| !text.trim().is_empty());
        let mut content: String = response.content.iter().filter_map(text).collect();
        let mut reasoning = self.reasoning(response);
        if self.spec.compat.requires_thinking_as_text
            && let Some((_, thinking)) = reasoning.take()
        {
            content = if content.is_empty() { thinking } else { format!("{thinking}\n\n{content}") };
        }
        if reasoning.is_none() && self.spec.compat.requires_reasoning_content && self.is_reasoning {
            reasoning = Some(("reasoning_content", String::new()));
        }
        let calls = self.calls(response);
        if content.is_empty() && calls.is_empty() {
            return;
        }
        let is_null = content.is_empty() && !self.spec.compat.requires_non_null_assistant_content;
        self.wire.push(WireMessage::Assistant {
            content: if is_null { None } else { Some(content) },
            reasoning,
            calls: calls.iter().map(|(_, wire)| wire.clone()).collect(),
        });
        if !calls.is_empty() {
            self.results(&calls, after);
        }
    }

    fn calls(&mut self, response: &'a AssistantMessage) -> Vec<(&'a ToolCall, WireCall)> {
        let is_same = replay::is_from(response, &self.spec.model);
        let mut calls: Vec<(&ToolCall, WireCall)> =
            replay::tool_calls(response).map(|call| (call, self.call(call, is_same))).collect();
        // Of calls made together only the first is signed.
        if let Some((_, first)) = calls.first_mut().filter(|_| self.spec.compat.requires_thought_signature) {
            first.signature.get_or_insert_with(|| NO_SIGNATURE.to_owned());
        }
        calls
    }

    fn call(&mut self, call: &ToolCall, is_same: bool) -> WireCall {
        let arguments = if call.arguments.is_object() { call.arguments.to_string() } else { "{}".to_owned() };
        // pi keeps something else there for other servers: an object of theirs, as JSON.
        let signature = call.thought_signature.clone().filter(|signature| is_same && !signature.starts_with('{'));
        WireCall { id: self.ids.assign(call.id.as_str()), name: legal_name(&call.name), arguments, signature }
    }

    /// Thinking goes back to the model that made it, in the field in which it came; to any other it means nothing.
    fn reasoning(&self, response: &'a AssistantMessage) -> Option<(&'a str, String)> {
        let is_same = replay::is_from(response, &self.spec.model);
        let mut thinking = response.content.iter().filter_map(|block| match block {
            ContentBlock::Thinking { thinking, thinking_signature: Some(field), .. }
                if !thinking.is_empty() && REASONING_FIELDS.contains(&field.as_str()) =>
            {
                Some((field.as_str(), thinking.as_str()))
            }
            _ => None,
        });
        let (field, first) = thinking.next().filter(|_| is_same)?;
        let rest = thinking.map(|(_, text)| text);
        Some((field, std::iter::once(first).chain(rest).collect::<Vec<_>>().join("\n")))
    }

    /// Sends the results of a message's calls, in the order of the calls; a call without one gets one.
    fn results(&mut self, calls: &[(&ToolCall, WireCall)], after: &'a [Arc<Message>]) {
        let sought: Vec<&ToolCall> = calls.iter().map(|(call, _)| *call).collect();
        let mut images = Vec::new();
        for ((_, wire), result) in calls.iter().zip(replay::results(&sought, after)) {
            let text =
                result.map_or_else(|| NO_RESULT.to_owned(), |result| replay::result_text(result, self.takes_images));
            let name = self.spec.compat.requires_tool_result_name.then(|| wire.name.clone());
            self.wire.push(WireMessage::ToolResult { id: wire.id.clone(), name, text });
            if self.takes_images {
                images.extend(result.into_iter().flat_map(|result| result.content.iter()).filter_map(image));
            }
        }
        // The dialect has no images in results; they follow in a message of their own.
        if !images.is_empty() {
            images.insert(0, Part::Text(Cow::Borrowed("Attached image(s) from tool result:")));
            self.push_user(images);
        }
    }
}

fn image(block: &ContentBlock) -> Option<Part<'_>> {
    match block {
        ContentBlock::Image { data, mime_type } => Some(Part::Image { data, mime_type }),
        _ => None,
    }
}

impl Serialize for WireMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::System { role, text } => {
                map.serialize_entry("role", role)?;
                map.serialize_entry("content", text)?;
            }
            Self::User(parts) => {
                map.serialize_entry("role", "user")?;
                match plain_text(parts) {
                    Some(text) => map.serialize_entry("content", &text)?,
                    None => map.serialize_entry("content", parts)?,
                }
            }
            Self::Assistant { content, reasoning, calls } => {
                map.serialize_entry("role", "assistant")?;
                map.serialize_entry("content", content)?;
                if let Some((field, text)) = reasoning {
                    map.serialize_entry(field, text)?;
                }
                if !calls.is_empty() {
                    map.serialize_entry("tool_calls", calls)?;
                }
            }
            Self::ToolResult { id, name, text } => {
                map.serialize_entry("role", "tool")?;
                map.serialize_entry("content", text)?;
                map.serialize_entry("tool_call_id", id)?;
                if let Some(name) = name {
                    map.serialize_entry("name", name)?;
                }
            }
        }
        map.end()
    }
}

/// Returns the text of a message that has nothing else: chat templates of local servers know only strings.
fn plain_text<'p>(parts: &'p [Part<'_>]) -> Option<Cow<'p, str>> {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => Some(&**text),
        Part::Image { .. } => None,
    });
    let texts: Vec<&str> = texts.collect::<Option<_>>()?;
    Some(match texts[..] {
        [text] => Cow::Borrowed(text),
        _ => Cow::Owned(texts.join("\n")),
    })
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        match self {
            Self::Text(text) => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
            }
            Self::Image { data, mime_type } => {
                map.serialize_entry("type", "image_url")?;
                map.serialize_entry("image_url", &ImageUrl { data, mime_type })?;
            }
        }
        map.end()
    }
}

struct ImageUrl<'a> {
    data: &'a str,
    mime_type: &'a str,
}

impl Serialize for ImageUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("url", &format!("data:{};base64,{}", self.mime_type, self.data))?;
        map.end()
    }
}

impl Serialize for WireCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: &'a str,
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("type", "function")?;
        map.serialize_entry("function", &Function { name: &self.name, arguments: &self.arguments })?;
        if let Some(signature) = &self.signature {
            map.serialize_entry("extra_content", &json!({"google": {"thought_signature": signature}}))?;
        }
        map.end()
    }
}

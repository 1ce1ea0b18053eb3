//! Messages of the dialect, and their JSON.

use std::borrow::Cow;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::{Value, json};

/// A message.
pub(super) struct WireMessage<'a> {
    pub(super) role: Role,
    pub(super) content: Vec<Part<'a>>,
    /// A cache marker stands on the last part: the provider keeps the prompt up to there.
    pub(super) is_marked: bool,
}

/// Who speaks. Tool results are the user's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Assistant,
}

/// A piece of a message.
pub(super) enum Part<'a> {
    Text(Cow<'a, str>),
    Image(Image<'a>),
    Thinking { thinking: &'a str, signature: &'a str },
    RedactedThinking { data: &'a str },
    ToolUse { id: String, name: String, input: &'a Value },
    ToolResult { id: String, text: Cow<'a, str>, images: Vec<Image<'a>>, is_error: bool },
}

/// An image, in base64.
pub(super) struct Image<'a> {
    pub(super) data: &'a str,
    pub(super) media_type: &'a str,
}

/// The marker that asks for a prompt to be kept, for five minutes since its last use.
pub(super) fn cache_marker() -> Value {
    json!({"type": "ephemeral"})
}

impl Serialize for WireMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("role", if self.role == Role::User { "user" } else { "assistant" })?;
        map.serialize_entry("content", &Content(self))?;
        map.end()
    }
}

struct Content<'m, 'a>(&'m WireMessage<'a>);

impl Serialize for Content<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(WireMessage { content, is_marked, .. }) = self;
        let mut seq = serializer.serialize_seq(Some(content.len()))?;
        for (at, part) in content.iter().enumerate() {
            seq.serialize_element(&Marked { part, is_marked: *is_marked && at + 1 == content.len() })?;
        }
        seq.end()
    }
}

struct Marked<'m, 'a> {
    part: &'m Part<'a>,
    is_marked: bool,
}

impl Serialize for Marked<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.part {
            Part::Text(text) => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
            }
            Part::Image(image) => {
                map.serialize_entry("type", "image")?;
                map.serialize_entry("source", &Source(image))?;
            }
            Part::Thinking { thinking, signature } => {
                map.serialize_entry("type", "thinking")?;
                map.serialize_entry("thinking", thinking)?;
                map.serialize_entry("signature", signature)?;
            }
            Part::RedactedThinking { data } => {
                map.serialize_entry("type", "redacted_thinking")?;
                map.serialize_entry("data", data)?;
            }
            Part::ToolUse { id, name, input } => {
                map.serialize_entry("type", "tool_use")?;
                map.serialize_entry("id", id)?;
                map.serialize_entry("name", name)?;
                map.serialize_entry("input", input)?;
            }
            Part::ToolResult { id, text, images, is_error } => {
                map.serialize_entry("type", "tool_result")?;
                map.serialize_entry("tool_use_id", id)?;
                if images.is_empty() {
                    map.serialize_entry("content", text)?;
                } else {
                    map.serialize_entry("content", &TextAndImages { text, images })?;
                }
                map.serialize_entry("is_error", is_error)?;
            }
        }
        if self.is_marked {
            map.serialize_entry("cache_control", &cache_marker())?;
        }
        map.end()
    }
}

struct TextAndImages<'m, 'a> {
    text: &'m str,
    images: &'m [Image<'a>],
}

impl Serialize for TextAndImages<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(1 + self.images.len()))?;
        seq.serialize_element(&json!({"type": "text", "text": self.text}))?;
        for image in self.images {
            seq.serialize_element(&ImagePart { kind: "image", source: Source(image) })?;
        }
        seq.end()
    }
}

#[derive(Serialize)]
struct ImagePart<'m, 'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    source: Source<'m, 'a>,
}

struct Source<'m, 'a>(&'m Image<'a>);

impl Serialize for Source<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("type", "base64")?;
        map.serialize_entry("media_type", self.0.media_type)?;
        map.serialize_entry("data", self.0.data)?;
        map.end()
    }
}

//! Reading messages: leniently, for one odd number must not make a whole message unreadable, and fast, for a session
//! file has tens of thousands of them.
//!
//! What serde derives for enums with a tag inside first buffers the whole value. Here the fields of a block are read
//! once, and a message whose `role` comes first (as every writer has it) is read straight into its type.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{ContentBlock, Message, ThinkingLevel, ToolCall};

impl Message {
    /// Reads a message from its JSON text. Gives what `serde_json::from_str` gives, but faster.
    ///
    /// # Errors
    /// The text is not JSON, or no object with a `role`.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        // What the fast way refuses may still be kept as it came.
        serde_json::from_str::<RoleFirst>(text).map(|message| message.0).or_else(|_| serde_json::from_str(text))
    }
}

/// A message of one of the common roles, read in one go. Refuses what only the slower way keeps: another role, a
/// field of another type, a role that does not come first.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleFirst(pub Message);

impl<'de> Deserialize<'de> for RoleFirst {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RoleVisitor;

        impl<'de> Visitor<'de> for RoleVisitor {
            type Value = RoleFirst;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a message with its role first")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RoleFirst, A::Error> {
                match map.next_key::<Text<'de>>()? {
                    Some(Text(key)) if key == "role" => {}
                    _ => return Err(A::Error::missing_field("role")),
                }
                let Text(role) = map.next_value()?;
                let rest = MapAccessDeserializer::new(map);
                Ok(RoleFirst(match &*role {
                    "system" => Message::System(Deserialize::deserialize(rest)?),
                    "user" => Message::User(Deserialize::deserialize(rest)?),
                    "assistant" => Message::Assistant(Deserialize::deserialize(rest)?),
                    "toolResult" => Message::ToolResult(Deserialize::deserialize(rest)?),
                    "bashExecution" => Message::BashExecution(Deserialize::deserialize(rest)?),
                    _ => return Err(A::Error::custom("another role")),
                }))
            }
        }

        deserializer.deserialize_map(RoleVisitor)
    }
}

/// A string that borrows from the input unless it has escapes (`Cow` alone never borrows).
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BlockVisitor;

        impl<'de> Visitor<'de> for BlockVisitor {
            type Value = ContentBlock;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a content block")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ContentBlock, A::Error> {
                let mut fields = Fields(Vec::with_capacity(4));
                while let Some(Text(key)) = map.next_key()? {
                    fields.0.push((key, map.next_value()?));
                }
                Ok(fields.into_block())
            }

            fn visit_str<E>(self, text: &str) -> Result<ContentBlock, E> {
                Ok(ContentBlock::Other(Value::from(text)))
            }

            fn visit_bool<E>(self, value: bool) -> Result<ContentBlock, E> {
                Ok(ContentBlock::Other(Value::from(value)))
            }

            fn visit_u64<E>(self, value: u64) -> Result<ContentBlock, E> {
                Ok(ContentBlock::Other(Value::from(value)))
            }

            fn visit_i64<E>(self, value: i64) -> Result<ContentBlock, E> {
                Ok(ContentBlock::Other(Value::from(value)))
            }

            fn visit_f64<E>(self, value: f64) -> Result<ContentBlock, E> {
                Ok(ContentBlock::Other(Value::from(value)))
            }

            fn visit_unit<E>(self) -> Result<ContentBlock, E> {
                Ok(ContentBlock::Other(Value::Null))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ContentBlock, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = seq.next_element()? {
                    values.push(value);
                }
                Ok(ContentBlock::Other(Value::Array(values)))
            }
        }

        deserializer.deserialize_any(BlockVisitor)
    }
}

/// The fields of a block in the order in which they came.
struct Fields<'a>(Vec<(Cow<'a, str>, Value)>);

impl Fields<'_> {
    /// Makes the block of the known type; one that lacks something or has it in another type stays as it came.
    fn into_block(mut self) -> ContentBlock {
        let kind = self.0.iter().find(|(key, _)| key == "type").and_then(|(_, kind)| kind.as_str());
        let known: Option<(&[&str], &[&str])> = match kind {
            Some("text") => Some((&["text"], &["textSignature"])),
            Some("thinking") => Some((&["thinking"], &["thinkingSignature"])),
            Some("image") => Some((&["data", "mimeType"], &[])),
            Some("toolCall") => Some((&["id", "name"], &["argumentsError", "thoughtSignature", "argumentsText"])),
            _ => None,
        };
        match known {
            Some((needed, optional)) if self.are_texts(needed, optional) => self.take_block(needed[0]),
            _ => ContentBlock::Other(Value::Object(
                self.0.into_iter().map(|(key, value)| (key.into_owned(), value)).collect::<Map<_, _>>(),
            )),
        }
    }

    fn are_texts(&self, needed: &[&str], optional: &[&str]) -> bool {
        let is = |name: &str, wanted: fn(&Value) -> bool| {
            let mut fields = self.0.iter().filter(|(key, _)| key == name).peekable();
            (fields.peek().is_some(), fields.all(|(_, value)| wanted(value)))
        };
        needed.iter().all(|name| is(name, Value::is_string) == (true, true))
            && optional.iter().all(|name| is(name, |value| value.is_string() || value.is_null()).1)
    }

    /// The name of the first field that a type needs tells the types apart.
    fn take_block(&mut self, first: &str) -> ContentBlock {
        match first {
            "text" => ContentBlock::Text { text: self.text("text"), text_signature: self.optional("textSignature") },
            "thinking" => ContentBlock::Thinking {
                thinking: self.text("thinking"),
                thinking_signature: self.optional("thinkingSignature"),
                redacted: self.take("redacted") == Some(Value::Bool(true)),
            },
            "data" => ContentBlock::Image { data: self.text("data"), mime_type: self.text("mimeType") },
            _ => ContentBlock::ToolCall(ToolCall {
                id: self.text("id").into(),
                name: self.text("name"),
                arguments: self.take("arguments").unwrap_or_default(),
                arguments_error: self.optional("argumentsError"),
                thought_signature: self.optional("thoughtSignature"),
                arguments_text: self.optional("argumentsText"),
            }),
        }
    }

    /// Takes a field out; of repeated ones the last counts, as in JavaScript.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.iter_mut().rev().find(|(key, _)| key == name).map(|(_, value)| value.take())
    }

    fn optional(&mut self, name: &str) -> Option<String> {
        match self.take(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    fn text(&mut self, name: &str) -> String {
        self.optional(name).unwrap_or_default()
    }
}

struct BlocksVisitor {
    or_text: bool,
}

impl<'de> Visitor<'de> for BlocksVisitor {
    type Value = Vec<ContentBlock>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.or_text { "a list of content blocks or a text" } else { "a list of content blocks" })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<ContentBlock>, A::Error> {
        // Most messages have one block or two, and there are many messages in memory: no room for more than come.
        let mut blocks = Vec::new();
        while let Some(block) = seq.next_element()? {
            blocks.reserve_exact(1);
            blocks.push(block);
        }
        Ok(blocks)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<ContentBlock>, E> {
        if self.or_text {
            return Ok(vec![ContentBlock::text(text)]);
        }
        Err(E::invalid_type(serde::de::Unexpected::Str(text), &self))
    }
}

pub(super) fn blocks<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<ContentBlock>, D::Error> {
    d.deserialize_seq(BlocksVisitor { or_text: false })
}

pub(super) fn blocks_or_text<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<ContentBlock>, D::Error> {
    d.deserialize_any(BlocksVisitor { or_text: true })
}

/// A number as JavaScript has it: whole, broken, or nothing.
enum Number {
    Count(u64),
    Integer(i64),
    Float(f64),
    Nothing,
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor(PhantomData<Number>);

        impl Visitor<'_> for NumberVisitor {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_u64<E>(self, count: u64) -> Result<Number, E> {
                Ok(Number::Count(count))
            }

            fn visit_i64<E>(self, integer: i64) -> Result<Number, E> {
                Ok(Number::Integer(integer))
            }

            fn visit_f64<E>(self, float: f64) -> Result<Number, E> {
                Ok(Number::Float(float))
            }

            fn visit_unit<E>(self) -> Result<Number, E> {
                Ok(Number::Nothing)
            }
        }

        deserializer.deserialize_any(NumberVisitor(PhantomData))
    }
}

impl Number {
    fn as_count(&self) -> Option<u64> {
        match *self {
            Self::Count(count) => Some(count),
            // A negative count is none.
            Self::Integer(_) => Some(0),
            Self::Float(float) => Some(float as u64),
            Self::Nothing => None,
        }
    }
}

pub(super) fn count<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    Ok(Number::deserialize(d)?.as_count().unwrap_or(0))
}

pub(super) fn optional_count<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    Ok(Number::deserialize(d)?.as_count())
}

pub(super) fn amount<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    Ok(match Number::deserialize(d)? {
        Number::Count(count) => count as f64,
        Number::Integer(integer) => integer as f64,
        Number::Float(float) => float,
        Number::Nothing => 0.0,
    })
}

pub(super) fn time<'de, D: Deserializer<'de>>(d: D) -> Result<i64, D::Error> {
    Ok(match Number::deserialize(d)? {
        Number::Count(count) => i64::try_from(count).unwrap_or(i64::MAX),
        Number::Integer(integer) => integer,
        Number::Float(float) => float as i64,
        Number::Nothing => 0,
    })
}

/// A level that this build does not know (a newer one) reads as none.
pub(super) fn thinking_level<'de, D: Deserializer<'de>>(d: D) -> Result<Option<ThinkingLevel>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Level {
        Known(ThinkingLevel),
        Other(IgnoredAny),
    }
    Ok(match Level::deserialize(d)? {
        Level::Known(level) => Some(level),
        Level::Other(_) => None,
    })
}

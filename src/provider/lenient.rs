//! JSON values as servers really send them.
//!
//! Pure. Text is borrowed from the input where it holds no escapes. A value of a type that nobody expects counts as
//! left out: one odd field must not cost the rest of an event.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A text; empty when it is null, left out, or no text. Numbers are taken as their digits (ids).
#[derive(Default, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl Text<'_> {
    /// Returns the text, unless it is empty.
    pub(super) fn get(&self) -> Option<&str> {
        Some(&*self.0).filter(|text| !text.is_empty())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor { takes_parts: false }).map(Found::into_text)
    }
}

/// The text of a message: a string, or a list of parts, of which those of type `text` count (Mistral).
#[derive(Default)]
pub(super) struct Content<'a>(pub(super) Text<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor { takes_parts: true }).map(|found| Self(found.into_text()))
    }
}

/// A part of a content.
#[derive(Deserialize)]
#[serde(untagged)]
enum ContentPart {
    Known {
        #[serde(rename = "type")]
        kind: String,
        text: String,
    },
    Other(IgnoredAny),
}

/// A number; `None` when it is null, left out, or no number. Digits in a string are taken too.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) struct Number(pub(super) Option<f64>);

impl Number {
    /// Returns it as a count; `None` for nothing, 0 for what is negative.
    pub(super) fn count(self) -> Option<u64> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, which is meant")]
        self.0.map(|number| number as u64)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor { takes_parts: false }).map(|found| match found {
            Found::Number(number) => Number(Some(number)),
            Found::Borrowed(text) => Number(text.parse().ok()),
            Found::Owned(text) => Number(text.parse().ok()),
            Found::Nothing => Number(None),
        })
    }
}

enum Found<'de> {
    Borrowed(&'de str),
    Owned(String),
    Number(f64),
    Nothing,
}

impl<'de> Found<'de> {
    fn into_text(self) -> Text<'de> {
        match self {
            Self::Borrowed(text) => Text(Cow::Borrowed(text)),
            Self::Owned(text) => Text(Cow::Owned(text)),
            Self::Number(number) => Text(Cow::Owned(number.to_string())),
            Self::Nothing => Text::default(),
        }
    }
}

struct TextVisitor {
    /// Whether a list is read as parts of a content.
    takes_parts: bool,
}

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Found::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Found::Owned(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Found::Owned(text))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Found::Number(number))
    }

    #[expect(clippy::cast_precision_loss, reason = "counts and indices stay far below 2^53")]
    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Found::Number(number as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "counts and indices stay far below 2^53")]
    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Found::Number(number as f64))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Found::Nothing)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Found::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut text = String::new();
        while let Some(part) = seq.next_element::<ContentPart>()? {
            if let ContentPart::Known { kind, text: piece } = part
                && self.takes_parts
                && kind == "text"
            {
                text.push_str(&piece);
            }
        }
        Ok(if text.is_empty() { Found::Nothing } else { Found::Owned(text) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Found::Nothing)
    }
}

/// A list; empty when it is null or left out. Members that are null are skipped.
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(ListVisitor(PhantomData))
    }
}

/// Reads members straight into their list: they are large.
struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or null")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(List::default())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(List::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = seq.next_element::<Option<T>>()? {
            members.extend(member);
        }
        Ok(List(members))
    }
}

//! One line → one header or entry.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use agentd_protocol::message::{Message, RoleFirst, ThinkingLevel};
use agentd_protocol::{EntryId, SessionId};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Damage;
use super::time::parse_timestamp;
use crate::session::{Compaction, Entry, EntryBody, Header};

/// What a line holds.
#[derive(Clone, Debug)]
pub enum Line {
    /// The header of a session.
    Header(Header),
    /// An entry; `Some` damage when it could be read only with a loss.
    Entry(Entry, Option<Damage>),
    /// Nothing but white space.
    Blank,
    /// Nothing that can be read.
    Damaged(Damage),
}

/// Reads one line (without or with its line end).
pub fn decode_line(line: &[u8]) -> Line {
    if line.trim_ascii().is_empty() {
        return Line::Blank;
    }
    match std::str::from_utf8(line) {
        Ok(text) => decode_text(text),
        // pi reads such a line with replacement characters; the entries after it hang from it.
        Err(_) => match decode_text(&String::from_utf8_lossy(line)) {
            Line::Entry(entry, _) => Line::Entry(entry, Some(Damage::NotUtf8)),
            other => other,
        },
    }
}

fn decode_text(text: &str) -> Line {
    let Ok(raw) = serde_json::from_str::<&RawValue>(text) else { return Line::Damaged(Damage::NotJson) };
    match Fields::read(raw) {
        None => Line::Damaged(Damage::NotJson),
        Some(fields) if fields.kind.as_deref() == Some("session") => {
            fields.header().map_or(Line::Damaged(Damage::NotAnEntry), Line::Header)
        }
        Some(fields) => fields.entry(raw).map_or(Line::Damaged(Damage::NotAnEntry), |entry| Line::Entry(entry, None)),
    }
}

/// The fields of a line that this build knows, each still as text: a field of an unexpected type must not spoil the
/// others. Of a repeated field the last one counts, as in pi.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) kind: Option<Cow<'a, str>>,
    id: Option<&'a RawValue>,
    parent_id: Option<&'a RawValue>,
    timestamp: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    /// The message, when it could be read in the same go.
    read_message: Option<Message>,
    known: Known<'a>,
}

/// Fields that occur in few kinds.
#[derive(Default)]
struct Known<'a> {
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Known<'a> {
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.fields.iter().rev().find(|(key, _)| key == name).map(|(_, raw)| *raw)
    }

    fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(text)
    }

    fn parse<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        self.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok())
    }
}

/// `eager`: messages are read along, which spares nearly all lines a second pass over their text. What cannot be read
/// so is an error; the line is then gone through again without.
struct FieldsVisitor {
    eager: bool,
}

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields::default();
        while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
            match &*key {
                "type" => fields.kind = text(map.next_value()?),
                "id" => fields.id = Some(map.next_value()?),
                "parentId" => fields.parent_id = Some(map.next_value()?),
                "timestamp" => fields.timestamp = Some(map.next_value()?),
                "message" if self.eager => fields.read_message = Some(map.next_value::<RoleFirst>()?.0),
                "message" => fields.message = Some(map.next_value()?),
                _ => fields.known.fields.push((key, map.next_value()?)),
            }
        }
        Ok(fields)
    }
}

/// A key that borrows from the line unless it has escapes (`Cow` alone never borrows).
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Key<'_>>(raw.get()).ok().map(|key| key.0)
}

impl<'a> Fields<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Option<Self> {
        let read = |eager| serde_json::Deserializer::from_str(raw.get()).deserialize_map(FieldsVisitor { eager }).ok();
        read(true).or_else(|| read(false))
    }

    fn header(&self) -> Option<Header> {
        let id = self.id.and_then(text).filter(|id| !id.is_empty())?;
        Some(Header {
            // The first version had no number yet.
            version: self.known.parse("version").unwrap_or(1),
            id: SessionId::new(id),
            timestamp: self.timestamp_ms(),
            cwd: self.known.text("cwd").unwrap_or_default().into_owned(),
            parent_session: self
                .known
                .text("parentSession")
                .or_else(|| self.known.text("branchedFrom"))
                .map(Cow::into_owned),
        })
    }

    fn entry(mut self, raw: &RawValue) -> Option<Entry> {
        let kind = self.kind.take()?;
        let id = self.id.and_then(text).filter(|id| !id.is_empty())?;
        Some(Entry {
            id: EntryId::new(id),
            parent_id: self.parent_id.and_then(text).map(EntryId::new),
            timestamp: self.timestamp_ms(),
            body: self.body(&kind),
            raw: Arc::from(raw.to_owned()),
        })
    }

    fn timestamp_ms(&self) -> i64 {
        let Some(raw) = self.timestamp else { return 0 };
        match text(raw) {
            Some(text) => parse_timestamp(&text).unwrap_or(0),
            None => serde_json::from_str(raw.get()).unwrap_or(0),
        }
    }

    /// Reads what the entry holds; a known kind that lacks what it needs is kept as unknown.
    fn body(&mut self, kind: &str) -> EntryBody {
        let body = match kind {
            "message" => {
                let message = self.read_message.take().or_else(|| self.message.and_then(parse_message));
                message.map(|message| EntryBody::Message(Arc::new(message)))
            }
            "model_change" => self.model_change(),
            "thinking_level_change" => {
                self.known.parse::<ThinkingLevel>("thinkingLevel").map(EntryBody::ThinkingLevelChange)
            }
            "session_info" => {
                let name = self.known.text("name").unwrap_or_default().into_owned();
                Some(EntryBody::SessionInfo { name })
            }
            "context_edit" => self.context_edit(),
            "compaction" => self.compaction(),
            "branch_summary" => self.branch_summary(),
            "custom_message" => self.custom_message(),
            "label" => self.label(),
            "usage" => self.known.parse("usage").map(|usage| EntryBody::Usage(Box::new(usage))),
            "custom" => self.custom(),
            _ => None,
        };
        body.unwrap_or_else(|| EntryBody::Unknown { kind: kind.to_owned() })
    }

    fn model_change(&self) -> Option<EntryBody> {
        Some(EntryBody::ModelChange {
            provider: self.known.text("provider")?.into_owned(),
            model_id: self.known.text("modelId")?.into_owned(),
        })
    }

    fn context_edit(&self) -> Option<EntryBody> {
        Some(EntryBody::ContextEdit {
            target: EntryId::new(self.known.text("targetId")?),
            replacement: self.known.get("replacement").and_then(parse_value).filter(|value| !value.is_null()),
        })
    }

    fn compaction(&self) -> Option<EntryBody> {
        Some(EntryBody::Compaction(Box::new(Compaction {
            summary: self.known.get("summary").and_then(parse_string)?,
            first_kept: EntryId::new(self.known.text("firstKeptEntryId")?),
            tokens_before: self.known.parse("tokensBefore").unwrap_or(0),
            details: self.known.get("details").and_then(parse_value).filter(|value| !value.is_null()),
            usage: self.known.parse("usage"),
            system_message: self.known.get("systemMessage").and_then(parse_message).map(Arc::new),
        })))
    }

    fn branch_summary(&self) -> Option<EntryBody> {
        Some(EntryBody::BranchSummary {
            from: self.known.text("fromId").unwrap_or_default().into_owned(),
            summary: self.known.get("summary").and_then(parse_string)?,
            usage: self.known.parse("usage").map(Box::new),
        })
    }

    /// The entry's own fields are those of the message but for the role.
    fn custom_message(&self) -> Option<EntryBody> {
        let mut object = serde_json::Map::new();
        object.insert("role".to_owned(), Value::from("custom"));
        for (key, raw) in &self.known.fields {
            object.insert(key.clone().into_owned(), parse_value(raw)?);
        }
        object.insert("timestamp".to_owned(), Value::from(self.timestamp_ms()));
        let message = serde_json::from_value(Value::Object(object)).ok()?;
        matches!(message, Message::Custom(_)).then(|| EntryBody::CustomMessage(Arc::new(message)))
    }

    fn label(&self) -> Option<EntryBody> {
        Some(EntryBody::Label {
            target: EntryId::new(self.known.text("targetId")?),
            label: self.known.get("label").and_then(parse_string).filter(|label| !label.is_empty()),
        })
    }

    fn custom(&self) -> Option<EntryBody> {
        Some(EntryBody::Custom {
            custom_type: self.known.text("customType")?.into_owned(),
            data: self.known.get("data").and_then(parse_value).unwrap_or_default(),
        })
    }
}

/// Parses with a second chance: JavaScript writes half surrogate pairs as escapes, which Rust strings cannot hold.
/// The entry keeps its line; what is parsed from it has U+FFFD in their place.
fn parse_lossy<T: for<'x> Deserialize<'x>>(raw: &RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok().or_else(|| {
        let mended = replace_lone_surrogates(raw.get())?;
        serde_json::from_str(&mended).ok()
    })
}

fn parse_message(raw: &RawValue) -> Option<Message> {
    Message::from_json(raw.get()).ok().or_else(|| Message::from_json(&replace_lone_surrogates(raw.get())?).ok())
}

fn parse_value(raw: &RawValue) -> Option<Value> {
    parse_lossy(raw)
}

fn parse_string(raw: &RawValue) -> Option<String> {
    parse_lossy(raw)
}

/// Returns the JSON text with each escaped half of a surrogate pair as `\ufffd`, or `None` if it has none.
pub(super) fn replace_lone_surrogates(json: &str) -> Option<String> {
    let bytes = json.as_bytes();
    let mut out = String::with_capacity(json.len());
    let (mut copied, mut at, mut found) = (0, 0, false);
    while let Some(step) = memchr::memchr(b'\\', &bytes[at..]) {
        at += step;
        let Some(unit) = escaped_unit(bytes, at) else {
            at += 2; // any other escape; a second backslash must not be taken for the start of one
            if at > bytes.len() {
                break;
            }
            continue;
        };
        let pair = (0xD800..0xDC00).contains(&unit)
            && escaped_unit(bytes, at + 6).is_some_and(|low| (0xDC00..0xE000).contains(&low));
        if pair {
            at += 12;
        } else {
            if (0xD800..0xE000).contains(&unit) {
                out.push_str(&json[copied..at]);
                out.push_str("\\ufffd");
                copied = at + 6;
                found = true;
            }
            at += 6;
        }
    }
    out.push_str(&json[copied..]);
    found.then_some(out)
}

/// Returns the UTF-16 unit of the `\uXXXX` escape at `at`.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

//! Finding keys in a text. Pure.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde_json::Value;

/// Shortest key that is looked for, in bytes: shorter ones would match ordinary words.
const MIN_KEY_BYTES: usize = 8;
/// Up to this length, small letters and dashes alone are taken for what people write where no key is needed
/// (`lm-studio`, `sk-no-key-required`): hiding these words everywhere would help nobody.
const MAX_PLACEHOLDER_BYTES: usize = 19;
/// How much of a key at the end of a piece is held back until more comes. Less of it ends many pieces by chance, and
/// tells nobody anything.
pub(super) const MIN_PARTIAL_BYTES: usize = 4;

/// Keys, and what stands in their places.
#[derive(Clone, Default)]
pub struct Keys {
    /// By first byte, long ones first.
    keys: Vec<Key>,
    /// Bit for each byte that a key begins with.
    first: [u64; 4],
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    bytes: Box<[u8]>,
    shown: Box<str>,
}

/// A place where a key is, or may be.
pub(super) enum Found<'a> {
    /// A whole key, and what is shown instead.
    Whole(Range<usize>, &'a str),
    /// From here to the end there may be the beginning of a key; what is shown instead of that.
    Partial(usize, &'a str),
}

impl fmt::Debug for Keys {
    /// Shows no key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.shown)).finish()
    }
}

impl Keys {
    /// Returns the keys of a list of names and keys. What is too short or no key is left out; the first name counts.
    pub fn new<'a>(named: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut found = Self::default();
        for (name, key) in named {
            found.add(name, key);
        }
        found.keys.sort_by(|a, b| {
            let order = |key: &Key| (key.bytes[0], usize::MAX - key.bytes.len());
            order(a).cmp(&order(b))
        });
        found
    }

    fn add(&mut self, name: &str, key: &str) {
        if !is_telling(key) {
            return;
        }
        let escaped = serde_json::to_string(key).unwrap_or_default();
        // As it stands within JSON, for one in the arguments of a tool call.
        for bytes in [key.as_bytes(), escaped.trim_matches('"').as_bytes()] {
            if !bytes.is_empty() && !self.keys.iter().any(|known| *known.bytes == *bytes) {
                self.first[usize::from(bytes[0] / 64)] |= 1 << (bytes[0] % 64);
                self.keys.push(Key { bytes: bytes.into(), shown: format!("[redacted: {name}]").into() });
            }
        }
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns a text with a note in the place of each key.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut out = String::new();
        let mut from = 0;
        while let Some(Found::Whole(at, shown)) = self.find(text.as_bytes(), from, false) {
            // A key is text, so it begins and ends between characters.
            out.push_str(text.get(from..at.start).unwrap_or_default());
            out.push_str(shown);
            from = at.end;
        }
        if from == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(text.get(from..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// Replaces keys in a text that is owned, and returns whether there were any.
    pub fn redact_in(&self, text: &mut String) -> bool {
        let Cow::Owned(redacted) = self.redact(text) else { return false };
        *text = redacted;
        true
    }

    /// Replaces keys in all texts of a JSON value. Those of our own making are not deep.
    pub fn redact_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                self.redact_in(text);
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.redact_json(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Tells whether a note that stands for one of these keys is somewhere in a JSON value.
    pub fn stands_in_json(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.stands_in(text),
            Value::Array(items) => items.iter().any(|item| self.stands_in_json(item)),
            Value::Object(members) => members.values().any(|member| self.stands_in_json(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Tells whether a text has a note in it that stands for one of these keys.
    fn stands_in(&self, text: &str) -> bool {
        text.contains("[redacted: ") && self.keys.iter().any(|key| text.contains(&*key.shown))
    }

    /// Returns the first key at or after `from`; with `partial` also what may become one.
    pub(super) fn find(&self, text: &[u8], from: usize, partial: bool) -> Option<Found<'_>> {
        if self.keys.is_empty() {
            return None;
        }
        text.iter().enumerate().skip(from).filter(|(_, byte)| self.begins_with(**byte)).find_map(|(at, byte)| {
            let rest = &text[at..];
            self.beginning_with(*byte).find_map(|key| {
                let common = rest.len().min(key.bytes.len());
                if rest[..common] != key.bytes[..common] {
                    return None;
                }
                if common == key.bytes.len() {
                    return Some(Found::Whole(at..at + common, &key.shown));
                }
                (partial && common >= MIN_PARTIAL_BYTES).then_some(Found::Partial(at, &key.shown))
            })
        })
    }

    fn begins_with(&self, byte: u8) -> bool {
        self.first[usize::from(byte / 64)] & (1 << (byte % 64)) != 0
    }

    fn beginning_with(&self, byte: u8) -> impl Iterator<Item = &Key> {
        let start = self.keys.partition_point(|key| key.bytes[0] < byte);
        self.keys[start..].iter().take_while(move |key| key.bytes[0] == byte)
    }
}

fn is_telling(key: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || matches!(c, '-' | '_' | '.');
    key.len() >= MIN_KEY_BYTES && (key.len() > MAX_PLACEHOLDER_BYTES || !key.chars().all(is_word))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn keys() -> Keys {
        Keys::new([
            ("A", "sk-CANARY1"),
            ("B", "sk-CANARY123"),
            ("again", "sk-CANARY123"),
            ("C", "p\"q\\r\u{e9}st"),
            ("D", "short"),
            ("E", "lm-studio"),
            ("F", "sk-no-key-required"),
            ("G", "correct-horse-battery-staple"),
        ])
    }

    #[test]
    fn keys_are_replaced_wherever_they_stand() {
        for (text, expected) in [
            ("", ""),
            ("nothing of the kind: sk-CANAR", "nothing of the kind: sk-CANAR"),
            ("sk-CANARY1", "[redacted: A]"),
            ("sk-CANARY123", "[redacted: B]"),
            ("sk-CANARY12", "[redacted: A]2"),
            ("é\u{2028}sk-CANARY123sk-CANARY123é", "é\u{2028}[redacted: B][redacted: B]é"),
            ("sk-sk-CANARY1", "sk-[redacted: A]"),
            (r#"{"k":"p\"q\\rést"}"#, r#"{"k":"[redacted: C]"}"#),
            ("p\"q\\rést", "[redacted: C]"),
            ("short lm-studio sk-no-key-required", "short lm-studio sk-no-key-required"),
            ("correct-horse-battery-staple", "[redacted: G]"),
        ] {
            assert_eq!(keys().redact(text), expected, "{text}");
            let mut owned = text.to_owned();
            keys().redact_in(&mut owned);
            assert_eq!(owned, expected);
        }
        assert_eq!(Keys::default().redact("sk-CANARY123"), "sk-CANARY123");
    }

    #[test]
    fn its_notes_are_known() {
        assert!(keys().stands_in("x [redacted: B] y"));
        assert!(!keys().stands_in("x [redacted: X] y"));
        assert!(!Keys::default().stands_in("[redacted: B]"));
    }

    #[test]
    fn nothing_prints_a_key() {
        assert!(!format!("{:?}", keys()).contains("CANARY"));
    }
}

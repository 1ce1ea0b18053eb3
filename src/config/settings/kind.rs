//! What a setting may hold, and how that is read from each kind of place.

use core::net::{IpAddr, SocketAddr};
use std::borrow::Cow;
use std::fmt;

use serde_json::Value as Json;

/// What a setting may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Flag,
    /// A whole number.
    Number {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// Text, also an empty one.
    Text,
    /// A path, absolute or beginning with `~/`.
    Path,
    /// One of some words, the one that allows least first.
    Word(&'static [&'static str]),
    /// Places on this machine: true for the usual ones, false for none, or a list of `host:port`.
    Loopback,
}

/// What a setting holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// See [`Kind::Flag`] and [`Kind::Loopback`].
    Flag(bool),
    /// See [`Kind::Number`].
    Number(u64),
    /// See [`Kind::Text`], [`Kind::Path`] and [`Kind::Word`].
    Text(Cow<'static, str>),
    /// See [`Kind::Loopback`].
    List(Vec<String>),
}

/// A value as a place with types of its own gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    /// True or false.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// Anything else, named for people.
    Other(&'static str),
}

impl Kind {
    /// Reads a value that has a type; `None` when it cannot be used.
    pub fn take(&self, raw: &Raw) -> Option<Value> {
        match (self, raw) {
            (Self::Flag | Self::Loopback, Raw::Flag(flag)) => Some(Value::Flag(*flag)),
            (Self::Number { min, max }, Raw::Number(number)) => {
                let number = u64::try_from(*number).ok()?;
                (*min..=*max).contains(&number).then_some(Value::Number(number))
            }
            (Self::Text, Raw::Text(text)) => Some(Value::Text(text.clone().into())),
            (Self::Path, Raw::Text(text)) => {
                (text.starts_with('/') || text.starts_with("~/")).then(|| Value::Text(text.clone().into()))
            }
            (Self::Word(words), Raw::Text(text)) => {
                words.iter().find(|word| *word == text).map(|word| Value::Text((*word).into()))
            }
            (Self::Loopback, Raw::Text(text)) => {
                addresses(text.split(',').map(str::trim).filter(|item| !item.is_empty()))
            }
            (Self::Loopback, Raw::List(items)) => addresses(items.iter().map(|item| item.trim())),
            _ => None,
        }
    }

    /// Tells whether a value has the right type, whatever it says.
    pub(super) fn takes_type(&self, raw: &Raw) -> bool {
        match raw {
            Raw::Flag(_) => matches!(self, Self::Flag | Self::Loopback),
            Raw::Number(_) => matches!(self, Self::Number { .. }),
            Raw::Text(text) => match self {
                Self::Text | Self::Loopback => true,
                Self::Path | Self::Word(_) => !text.is_empty(),
                Self::Flag | Self::Number { .. } => false,
            },
            Raw::List(_) => matches!(self, Self::Loopback),
            Raw::Other(_) => false,
        }
    }

    /// Reads a value from plain text: an environment variable or a command line.
    pub fn parse(&self, text: &str) -> Option<Value> {
        let trimmed = text.trim();
        match self {
            Self::Flag => parse_flag(trimmed).map(Value::Flag),
            Self::Number { .. } => self.take(&Raw::Number(trimmed.parse().ok()?)),
            Self::Text => self.take(&Raw::Text(trimmed.to_owned())),
            Self::Path | Self::Word(_) => self.take(&Raw::Text(trimmed.to_owned())),
            Self::Loopback => match parse_flag(trimmed) {
                Some(flag) => Some(Value::Flag(flag)),
                None => self.take(&Raw::Text(trimmed.to_owned())),
            },
        }
    }

    /// Says what may be set.
    pub fn expects(&self) -> String {
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Number { min: 0, max: u64::MAX } => "a whole number".to_owned(),
            Self::Number { min, max: u64::MAX } => format!("a whole number, at least {min}"),
            Self::Number { min, max } => format!("a whole number from {min} to {max}"),
            Self::Text => "text".to_owned(),
            Self::Path => "a path that begins with / or ~/".to_owned(),
            Self::Word(words) => one_of(words),
            Self::Loopback => "true, false, or host:port list whose hosts are localhost, 127.0.0.1 or [::1]".to_owned(),
        }
    }

    /// Tells whether `value` allows no more than `than`: an earlier word, a smaller number, the same of anything else.
    pub fn is_at_most(&self, value: &Value, than: &Value) -> bool {
        match (self, value, than) {
            (Self::Word(words), Value::Text(value), Value::Text(than)) => {
                let place = |word: &str| words.iter().position(|known| *known == word);
                place(value) <= place(than)
            }
            (_, Value::Number(value), Value::Number(than)) => value <= than,
            _ => value == than,
        }
    }
}

impl Raw {
    /// Wraps a JSON value.
    pub fn of_json(value: &Json) -> Self {
        match value {
            Json::Bool(flag) => Self::Flag(*flag),
            Json::Number(number) => number.as_i64().map_or(Self::Other("a number"), Self::Number),
            Json::String(text) => Self::Text(text.clone()),
            Json::Array(items) => {
                let texts: Option<_> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
                texts.map_or(Self::Other("a list"), Self::List)
            }
            Json::Object(_) => Self::Other("an object"),
            Json::Null => Self::Other("null"),
        }
    }

    /// Names its type for people. The value itself is not told: somebody may have written a key at the wrong place.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Flag(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(text) if text.is_empty() => "empty text",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Other(name) => name,
        }
    }
}

impl Value {
    /// Returns it as JSON.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Flag(flag) => Json::Bool(*flag),
            Self::Number(number) => Json::from(*number),
            Self::Text(text) => Json::String(text.clone().into_owned()),
            Self::List(items) => Json::from(items.clone()),
        }
    }
}

impl fmt::Display for Value {
    /// Writes it as it stands in a `config.toml`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // JSON's texts, numbers, flags and lists of texts are TOML's, too.
        self.to_json().fmt(f)
    }
}

/// Joins words: `a, b or c`.
fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn parse_flag(text: &str) -> Option<bool> {
    match text {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn addresses<'a>(items: impl Iterator<Item = &'a str>) -> Option<Value> {
    let all: Option<Vec<String>> = items.map(|item| parse_loopback(item).map(|_| item.to_owned())).collect();
    all.map(Value::List)
}

/// Reads `host:port` of this machine.
pub(super) fn parse_loopback(text: &str) -> Option<SocketAddr> {
    let address: SocketAddr = match text.strip_prefix("localhost:") {
        Some(port) => SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port.parse().ok()?),
        None => text.parse().ok()?,
    };
    (address.ip().is_loopback() && address.port() != 0).then_some(address)
}

#[cfg(test)]
mod tests;

//! Anything at all: no panic, no endless work, bounded memory, and events in their order.

use std::time::Duration;

use agentd::provider::retry_after::{retry_after, wait_in_text};
use agentd::provider::{ProviderError, Secret, StreamEvent, args};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

use super::made::{events, pieces, plain};
use super::search::search;
use super::{KEY, disorder, read, read_sse, split};
use crate::model_server::Dialect;

/// Bytes that mean something to one of the parsers.
const WORDS: &[&str] = &[
    "data: ",
    "data:",
    "data",
    "event: ",
    "event: error\n",
    "event: message_stop\n",
    "id: 1\n",
    "retry: 9\n",
    ": c\n",
    "\n",
    "\n\n",
    "\r",
    "\r\n",
    "\u{feff}",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "\\",
    "\\ud83d",
    "\\u00",
    "null",
    "true",
    "-1",
    "1e999",
    "[DONE]",
    "\"choices\":",
    "\"delta\":",
    "\"content\":",
    "\"tool_calls\":",
    "\"index\":",
    "\"id\":",
    "\"function\":",
    "\"arguments\":",
    "\"finish_reason\":\"stop\"",
    "\"error\":",
    "\"usage\":",
    "\"type\":",
    "\"content_block\":",
    "\"content_block_start\"",
    "\"content_block_stop\"",
    "\"message_start\"",
    "\"tool_use\"",
    "\"input\":",
    "\"signature_delta\"",
];

/// Pieces of answers of failure and of headers.
const FAULTS: &[&str] = &[
    "{\"error\":",
    "{\"message\":",
    "\"code\":",
    "\"type\":",
    "429",
    "529",
    "status 503",
    "rate limit",
    "overloaded",
    "quota",
    "prompt is too long",
    "try again in ",
    "retry after ",
    "6.2s",
    "1m",
    "99999999999999999999",
    "-1",
    "0",
    "NaN",
    "inf",
    "1e400",
    "Wed, 21 Oct 2015 07:28:00 GMT",
    "Wed, 31 Feb 9999 99:99:99 GMT",
    "Wednesday, 21-Oct-15 07:28:00 GMT",
    KEY,
    "<html>",
    "}",
    "\"",
    ": ",
    " ",
    ".",
    "s",
    "ms",
    "h",
    "é",
    "界",
    "ſ",
    "K",
];

fn words(list: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    let word =
        prop_oneof![4 => prop::sample::select(list).prop_map(str::to_owned), 1 => "\\PC{0,6}", 1 => any::<String>()];
    prop::collection::vec(word, 0..most).prop_map(|words| words.concat())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => prop::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// What happens to a stream on its way.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Remove(Index, u8),
    Repeat(Index, u8),
    Insert(Index, &'static str),
    End(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    prop_oneof![
        3 => (at(), any::<u8>()).prop_map(|(at, with)| Damage::Flip(at, with)),
        2 => (at(), any::<u8>()).prop_map(|(at, length)| Damage::Remove(at, length)),
        2 => (at(), any::<u8>()).prop_map(|(at, length)| Damage::Repeat(at, length)),
        3 => (at(), prop::sample::select(WORDS)).prop_map(|(at, word)| Damage::Insert(at, word)),
        1 => at().prop_map(Damage::End),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    let (Damage::Flip(at, _) | Damage::Remove(at, _) | Damage::Repeat(at, _) | Damage::Insert(at, _) | Damage::End(at)) =
        damage;
    let at = at.index(bytes.len() + 1);
    let until = |length: u8| (at + usize::from(length)).min(bytes.len());
    match damage {
        Damage::Flip(_, with) => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= with),
        Damage::Remove(_, length) => drop(bytes.drain(at..until(*length))),
        Damage::Repeat(_, length) => {
            let again = bytes[at..until(*length)].to_vec();
            bytes.splice(at..at, again);
        }
        Damage::Insert(_, word) => drop(bytes.splice(at..at, word.bytes())),
        Damage::End(_) => bytes.truncate(at),
    }
}

/// Streams with a few faults, and bytes that never were a stream.
fn damaged(dialect: Dialect) -> impl Strategy<Value = Vec<u8>> {
    let stream = (pieces(), prop::collection::vec(damage(), 0..5)).prop_map(move |(pieces, damages)| {
        let mut bytes = plain(&events(dialect, &pieces));
        damages.iter().for_each(|damage| apply(&mut bytes, damage));
        bytes
    });
    prop_oneof![4 => stream, 1 => bytes()]
}

/// Bytes of text that events hold.
fn held(events: &[StreamEvent]) -> usize {
    let held = |event: &StreamEvent| match event {
        StreamEvent::Delta { delta, .. } => delta.len(),
        StreamEvent::Signature { signature, .. } => signature.len(),
        StreamEvent::ToolCallName { id, name, .. } => id.as_str().len() + name.len(),
        _ => 0,
    };
    events.iter().map(held).sum()
}

fn check(name: &str, dialect: Dialect) {
    let cuts = prop::collection::vec(any::<Index>(), 0..8);
    search(name, &(damaged(dialect), cuts, any::<bool>()), |(bytes, cuts, is_cut)| {
        let whole = read(dialect, [&bytes[..]], is_cut);
        prop_assert_eq!(disorder(&whole), None);
        // A byte that is no UTF-8 becomes three.
        prop_assert!(held(&whole.0) <= 4 * bytes.len() + 64, "{} bytes held", held(&whole.0));
        prop_assert!(whole.0.len() <= bytes.len() + 8, "{} events", whole.0.len());
        prop_assert_eq!(&read(dialect, split(&bytes, &cuts), is_cut), &whole);
        prop_assert_eq!(&read(dialect, bytes.chunks(1), is_cut), &whole);
        Ok(())
    });
}

#[test]
fn damaged_chat_streams_are_survived() {
    check("chat noise", Dialect::Chat);
}

#[test]
fn damaged_messages_streams_are_survived() {
    check("messages noise", Dialect::Anthropic);
}

#[test]
fn any_bytes_are_survived_as_events() {
    let cuts = prop::collection::vec(any::<Index>(), 0..8);
    let any_bytes = prop_oneof![bytes(), damaged(Dialect::Anthropic), prop::collection::vec(any::<u8>(), 0..200)];
    search("sse noise", &(any_bytes, cuts), |(bytes, cuts)| {
        let whole = read_sse([&bytes[..]]);
        let held: usize = whole.0.iter().chain(&whole.1).map(|(event, data)| event.len() + data.len()).sum();
        // A type that nobody names is `message`.
        prop_assert!(held <= 3 * bytes.len() + 7 * (whole.0.len() + 1));
        prop_assert_eq!(&read_sse(split(&bytes, &cuts)), &whole);
        prop_assert_eq!(&read_sse(bytes.chunks(1)), &whole);
        Ok(())
    });
}

#[test]
fn any_arguments_are_an_object_or_an_error_that_says_where() {
    search("arguments noise", &words(WORDS, 16), |text| {
        match args::parse(&text) {
            Ok(value) => prop_assert!(value.is_object()),
            Err(error) => prop_assert!(!error.is_empty() && error.len() <= 400, "{}", error),
        }
        Ok(())
    });
}

#[test]
fn any_failure_is_classified_in_bounded_words_without_keys() {
    let strategy = (400u16..600, words(FAULTS, 12), any::<bool>());
    search("failure noise", &strategy, |(status, body, is_stream)| {
        let keys = [Secret::new(KEY)];
        let value = serde_json::from_str(&body).unwrap_or_else(|_| Value::String(body.clone()));
        let errors = if is_stream {
            [ProviderError::from_stream(&value, &keys), ProviderError::from_stream_as(Some(status), &value, &keys)]
        } else {
            [
                ProviderError::from_response(status, &body, None, &keys),
                ProviderError::from_whole_response(status, &body, None, &keys),
            ]
        };
        for error in errors {
            prop_assert!(error.message.len() <= 8192 + 3 && !error.message.contains(KEY), "{}", error.message);
            prop_assert!(error.retry_after.is_none() || error.class.is_retryable());
        }
        Ok(())
    });
}

#[test]
fn any_wish_to_wait_is_a_sensible_time_or_none() {
    const NAMES: [&str; 6] = [
        "retry-after-ms",
        "retry-after",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
    ];
    let headers = prop::collection::vec(prop::option::of(words(FAULTS, 4)), NAMES.len());
    let times = prop_oneof![0i64..4_000_000_000_000, any::<i64>()];
    search("wait noise", &(headers, times), |(values, now_ms)| {
        let header = |name: &str| {
            let at = NAMES.iter().position(|known| *known == name)?;
            values[at].as_deref()
        };
        let waits = [retry_after(header, now_ms), wait_in_text(&values.iter().flatten().cloned().collect::<String>())];
        for wait in waits.into_iter().flatten() {
            prop_assert!(wait > Duration::ZERO && wait.as_secs() <= 10 * 366 * 24 * 3600, "{:?}", wait);
        }
        Ok(())
    });
}

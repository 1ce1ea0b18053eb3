//! Streams made up of all that models send, written in all notations that the standard allows.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::search::search;
use super::{disorder, read, read_sse, split};
use crate::model_server::Dialect;

/// A piece of a response.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    Thinking(String),
    /// Name, and the text of the arguments in pieces.
    Call(String, Vec<String>),
}

/// How one event is written.
#[derive(Clone, Debug)]
struct Style {
    /// Lines before it: comments, fields that mean nothing here, events that mean nothing.
    noise: usize,
    has_blank: bool,
    /// The data are two lines, cut at a place where JSON may have blanks.
    is_folded: bool,
    /// The type comes after the data.
    is_turned: bool,
    end: &'static str,
}

/// One event: its type, where the dialect has types, and its data.
type Event = (Option<&'static str>, String);

fn piece() -> impl Strategy<Value = Piece> {
    let arguments = || prop::collection::vec("[{}\\[\\]\":,a-z0-9\\\\ é界\n]{0,12}", 0..4);
    prop_oneof![
        any::<String>().prop_map(Piece::Text),
        "[a-zé界🌍\u{2028}\u{feff}:\r\n ]{0,12}".prop_map(Piece::Text),
        any::<String>().prop_map(Piece::Thinking),
        ("[a-z]{1,6}", arguments()).prop_map(|(name, arguments)| Piece::Call(name, arguments)),
    ]
}

fn style() -> impl Strategy<Value = Style> {
    let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
    (0..NOISE.len(), any::<bool>(), any::<bool>(), any::<bool>(), end)
        .prop_map(|(noise, has_blank, is_folded, is_turned, end)| Style { noise, has_blank, is_folded, is_turned, end })
}

/// What may stand between events.
const NOISE: &[&[&str]] = &[
    &[],
    &[],
    &[": PROCESSING", ""],
    &[":"],
    &["id: 7", "retry: 10"],
    &["retry: 10", ""],
    &["event: ping", "data: {\"type\": \"ping\"}", ""],
    &["other: x", "data"],
    &["", ""],
    &["data:", ""],
];

pub(super) fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    prop::collection::vec(piece(), 0..6)
}

pub(super) fn events(dialect: Dialect, pieces: &[Piece]) -> Vec<Event> {
    match dialect {
        Dialect::Chat => chat(pieces),
        Dialect::Anthropic => messages(pieces),
    }
}

fn chat(pieces: &[Piece]) -> Vec<Event> {
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "c", "model": "demo", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
            .to_string()
    };
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Text(text) => deltas.push(json!({"content": text})),
            Piece::Thinking(text) => deltas.push(json!({"reasoning_content": text})),
            Piece::Call(name, arguments) => {
                let call = |mut call: Value| {
                    call["index"] = json!(at);
                    json!({"tool_calls": [call]})
                };
                let function = json!({"name": name, "arguments": ""});
                deltas.push(call(json!({"id": format!("c{at}"), "function": function})));
                deltas.extend(arguments.iter().map(|text| call(json!({"function": {"arguments": text}}))));
            }
        }
    }
    let mut data: Vec<String> = deltas.into_iter().map(|delta| chunk(delta, Value::Null)).collect();
    data.push(chunk(json!({}), json!("stop")));
    data.push(json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}).to_string());
    data.push("[DONE]".to_owned());
    data.into_iter().map(|data| (None, data)).collect()
}

fn messages(pieces: &[Piece]) -> Vec<Event> {
    let mut events =
        vec![("message_start", json!({"message": {"id": "m", "model": "demo", "usage": {"input_tokens": 3}}}))];
    for (at, piece) in pieces.iter().enumerate() {
        let (block, deltas) = match piece {
            Piece::Text(text) => {
                (json!({"type": "text", "text": ""}), vec![json!({"type": "text_delta", "text": text})])
            }
            Piece::Thinking(text) => (
                json!({"type": "thinking", "thinking": ""}),
                vec![
                    json!({"type": "thinking_delta", "thinking": text}),
                    json!({"type": "signature_delta", "signature": "c2ln"}),
                ],
            ),
            Piece::Call(name, arguments) => (
                json!({"type": "tool_use", "id": format!("t{at}"), "name": name, "input": {}}),
                arguments.iter().map(|text| json!({"type": "input_json_delta", "partial_json": text})).collect(),
            ),
        };
        events.push(("content_block_start", json!({"index": at, "content_block": block})));
        events.extend(deltas.into_iter().map(|delta| ("content_block_delta", json!({"index": at, "delta": delta}))));
        events.push(("content_block_stop", json!({"index": at})));
    }
    events.push(("message_delta", json!({"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}})));
    events.push(("message_stop", json!({})));
    events
        .into_iter()
        .map(|(kind, mut members)| {
            members["type"] = json!(kind);
            (Some(kind), members.to_string())
        })
        .collect()
}

/// Writes events in the plainest notation.
pub(super) fn plain(events: &[Event]) -> Vec<u8> {
    let write = |(kind, data): &Event| match kind {
        Some(kind) => format!("event: {kind}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    };
    events.iter().map(write).collect::<String>().into_bytes()
}

/// Writes events, each in a style.
fn styled(events: &[Event], styles: &[Style], has_mark: bool) -> Vec<u8> {
    let mut out = if has_mark { "\u{feff}".to_owned() } else { String::new() };
    for ((kind, data), style) in events.iter().zip(styles.iter().cycle()) {
        let mut line = |text: &str| {
            out.push_str(text);
            out.push_str(style.end);
        };
        NOISE[style.noise].iter().for_each(|text| line(text));
        let blank = if style.has_blank { " " } else { "" };
        let mut lines = match data.split_once('{').filter(|_| style.is_folded) {
            Some((_, rest)) => vec![format!("data:{blank}{{"), format!("data:{blank}{rest}")],
            None => vec![format!("data:{blank}{data}")],
        };
        if let Some(kind) = kind {
            lines.insert(if style.is_turned { lines.len() } else { 0 }, format!("event:{blank}{kind}"));
        }
        lines.iter().for_each(|text| line(text));
        line("");
    }
    out.into_bytes()
}

fn check(name: &str, dialect: Dialect) {
    let cuts = prop::collection::vec(any::<Index>(), 0..8);
    let strategy = (pieces(), prop::collection::vec(style(), 1..8), any::<bool>(), cuts);
    search(name, &strategy, |(pieces, styles, has_mark, cuts)| {
        let events = events(dialect, &pieces);
        let expected = read(dialect, [&plain(&events)[..]], false);
        prop_assert_eq!(&expected.1, &Ok(()));
        prop_assert_eq!(disorder(&expected), None);
        let bytes = styled(&events, &styles, has_mark);
        prop_assert_eq!(&read(dialect, [&bytes[..]], false), &expected);
        prop_assert_eq!(&read(dialect, bytes.chunks(1), false), &expected);
        prop_assert_eq!(&read(dialect, split(&bytes, &cuts), false), &expected);
        let at = cuts.first().map_or(0, |cut| cut.index(bytes.len()));
        prop_assert_eq!(&read(dialect, [&bytes[..at], &bytes[at..]], false), &expected);
        Ok(())
    });
}

#[test]
fn chat_means_the_same_in_every_notation() {
    check("chat notations", Dialect::Chat);
}

#[test]
fn messages_mean_the_same_in_every_notation() {
    check("messages notations", Dialect::Anthropic);
}

#[track_caller]
fn check_sse(bytes: &[u8], expected: &[&str]) {
    for size in [usize::MAX, 1, 2, 3, 16 * 1024] {
        let (events, _) = read_sse(bytes.chunks(size.min(bytes.len())));
        let data: Vec<&str> = events.iter().map(|(_, data)| data.as_str()).collect();
        assert_eq!(data, expected, "in pieces of {size}");
    }
}

/// Not even when it comes in the same piece, and the blank line after it is missing.
#[test]
fn what_follows_the_end_of_a_response_means_nothing() {
    let said = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}],\
        \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";
    let more = format!("{said}data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":9}}}}\n");
    let whole = read(Dialect::Chat, [said.as_bytes()], false);
    assert_eq!(read(Dialect::Chat, [more.as_bytes()], false), whole);
    assert_eq!(read(Dialect::Chat, more.as_bytes().chunks(1), false), whole);
}

#[test]
fn a_byte_order_mark_at_the_start_is_no_panic() {
    check_sse(b"\xef\xbb\xbfdata: a\n\n", &["a"]);
    check_sse(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", &["b"]);
}

#[test]
fn a_byte_that_is_not_utf_8_does_not_silence_the_rest() {
    check_sse(b"data: a\xffb\n\ndata: c\n\n", &["a\u{fffd}b", "c"]);
}

#[test]
fn an_event_that_ends_in_cr_does_not_wait_for_the_next_byte() {
    check_sse(b"data: a\r\r", &["a"]);
    check_sse(b"event: x\rdata: a\r\r", &["a"]);
}

#[test]
fn a_line_of_8_mb_in_small_pieces_is_read_once() {
    let text = "x".repeat(8 * 1024 * 1024);
    let body = format!("data: {text}\n\n");
    let (events, _) = read_sse(body.as_bytes().chunks(16 * 1024));
    assert!(events.len() == 1 && events[0].1 == text);
}

#[test]
fn many_small_events_in_one_piece_are_each_read_once() {
    let (events, _) = read_sse([&b"data: a\n\n".repeat(100_000)[..]]);
    assert_eq!(events.len(), 100_000);
}

#[test]
fn a_retry_field_alone_costs_no_event() {
    check_sse(b"retry: 10\n\ndata: a\n\n", &["a"]);
    check_sse(b"id: 1\nretry: 10\n\nevent: x\ndata: a\n\n", &["a"]);
}

#[test]
fn a_line_without_end_is_bounded() {
    let mut parser = agentd::provider::sse::SseParser::new();
    let piece = vec![b'x'; 1024 * 1024];
    let taken = (0..100).take_while(|_| parser.push(&piece, |_| ()).is_ok()).count();
    assert_eq!(taken, 32);
}

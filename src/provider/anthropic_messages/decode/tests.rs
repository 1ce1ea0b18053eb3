use agentd_protocol::message::Usage;
use agentd_protocol::model::ModelCost;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::provider::demo;
use crate::provider::error::ErrorClass;
use crate::provider::reader::Reader;

type Outcome = (Vec<StreamEvent>, Result<(), ProviderError>);

fn read_with<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, cut: Option<ProviderError>) -> Outcome {
    let mut spec = demo::spec();
    spec.model.id = "claude".into();
    spec.model.cost = ModelCost { input: 1.0, output: 2.0, cache_read: 0.1, cache_write: 1.25 };
    let mut reader = Reader::new(Decoder::new(Arc::new(spec), "seed".into(), vec![Secret::new("sk-CANARY123")]));
    let mut out = Vec::new();
    for piece in pieces {
        match reader.push(piece, &mut out) {
            Ok(Flow::More | Flow::Aside) => {}
            Ok(Flow::Done) => {
                let ended = reader.end(None, &mut out);
                return (out, ended);
            }
            Err(error) => return (out, Err(error)),
        }
    }
    let ended = reader.end(cut, &mut out);
    (out, ended)
}

fn read(body: &str) -> Outcome {
    read_with([body.as_bytes()], None)
}

fn event(kind: &str, members: Value) -> String {
    let mut data = json!({"type": kind});
    data.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    format!("event: {kind}\ndata: {data}\n\n")
}

fn begin() -> String {
    event(
        "message_start",
        json!({"message": {"id": "msg_1", "model": "claude", "role": "assistant", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 50, "output_tokens": 1, "cache_read_input_tokens": 0}}}),
    )
}

fn start(index: u64, block: Value) -> String {
    event("content_block_start", json!({"index": index, "content_block": block}))
}

fn delta(index: u64, delta: Value) -> String {
    event("content_block_delta", json!({"index": index, "delta": delta}))
}

fn text_delta(index: u64, text: &str) -> String {
    delta(index, json!({"type": "text_delta", "text": text}))
}

fn stop(index: u64) -> String {
    event("content_block_stop", json!({"index": index}))
}

fn end(reason: &str) -> String {
    event("message_delta", json!({"delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}))
        + &event("message_stop", json!({}))
}

/// Thinking, text with multi-byte characters, and two calls.
fn rich() -> String {
    [
        begin(),
        event("ping", json!({})),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "über 界"})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        stop(0),
        start(1, json!({"type": "text", "text": ""})),
        text_delta(1, "你好🌍é"),
        stop(1),
        start(2, json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}})),
        delta(2, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "{\"path\": \"ä"})),
        delta(2, json!({"type": "input_json_delta", "partial_json": ".txt\"}"})),
        stop(2),
        start(3, json!({"type": "tool_use", "id": "toolu_2", "name": "ls", "input": {}})),
        stop(3),
        end("tool_use"),
    ]
    .concat()
}

/// A short notation for events, one word each.
fn notes(events: &[StreamEvent]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            StreamEvent::Started => "started".into(),
            StreamEvent::Meta { response_id, response_model } => {
                format!("meta {} {}", response_id.as_deref().unwrap_or("-"), response_model.as_deref().unwrap_or("-"))
            }
            StreamEvent::BlockStart { index, kind: BlockKind::Text } => format!("{index} text"),
            StreamEvent::BlockStart { index, kind: BlockKind::Thinking } => format!("{index} thinking"),
            StreamEvent::BlockStart { index, kind: BlockKind::ToolCall { id, name } } => {
                format!("{index} call {id} {name}")
            }
            StreamEvent::Delta { index, delta, .. } => format!("{index} += {delta}"),
            StreamEvent::Signature { index, signature } => format!("{index} signed {signature}"),
            StreamEvent::Redacted { index } => format!("{index} redacted"),
            StreamEvent::ToolCallName { index, id, name } => format!("{index} renamed {id} {name}"),
            StreamEvent::BlockEnd { index } => format!("{index} end"),
            StreamEvent::Usage(usage) => format!("usage {}/{}", usage.input, usage.output),
            StreamEvent::Stop { reason, raw } => format!("stop {reason:?} {}", raw.as_deref().unwrap_or("-")),
        })
        .collect()
}

/// Checks what stands between the first usage and the last.
#[track_caller]
fn check(blocks: &[String], expected: &[&str]) {
    let (events, ended) = read(&[begin(), blocks.concat(), end("end_turn")].concat());
    let mut all = vec!["meta msg_1 -", "usage 50/1"];
    all.extend(expected);
    let found = notes(&events);
    assert_eq!(found[..all.len()], all);
    assert_eq!(ended, Ok(()));
}

#[test]
fn blocks_of_all_kinds() {
    let (events, ended) = read(&rich());
    let expected = [
        "meta msg_1 -",
        "usage 50/1",
        "0 thinking",
        "0 += über 界",
        "0 signed c2ln",
        "0 end",
        "1 text",
        "1 += 你好🌍é",
        "1 end",
        "2 call toolu_1 read",
        "2 += {\"path\": \"ä",
        "2 += .txt\"}",
        "2 end",
        "3 call toolu_2 ls",
        "3 end",
        "usage 50/9",
        "stop ToolUse tool_use",
    ];
    assert_eq!((notes(&events), ended), (expected.map(str::to_owned).to_vec(), Ok(())));
}

#[test]
fn b001_any_two_pieces_give_the_same_events() {
    let body = rich();
    let whole = read(&body);
    for at in 0..=body.len() {
        let (head, tail) = body.as_bytes().split_at(at);
        assert_eq!(read_with([head, tail], None), whole, "cut at {at}");
    }
    assert_eq!(read_with(body.as_bytes().chunks(1), None), whole, "byte by byte");
}

#[test]
fn b009_what_a_start_carries_is_kept() {
    check(
        &[start(0, json!({"type": "text", "text": "He"})), text_delta(0, "llo"), stop(0)],
        &["0 text", "0 += He", "0 += llo", "0 end"],
    );
    check(
        &[
            start(0, json!({"type": "thinking", "thinking": "hm", "signature": "a"})),
            delta(0, json!({"type": "signature_delta", "signature": "b"})),
            stop(0),
        ],
        &["0 thinking", "0 += hm", "0 signed ab", "0 end"],
    );
}

#[test]
fn calls_with_the_same_id_are_told_apart() {
    let call = |index: u64| start(index, json!({"type": "tool_use", "id": "x", "name": "ls"}));
    check(
        &[call(0), stop(0), call(1), stop(1), call(2), stop(2)],
        &["0 call x ls", "0 end", "1 call x_1 ls", "1 end", "2 call x_2 ls", "2 end"],
    );
}

#[test]
fn input_may_come_with_the_start() {
    let call = |input: Value| start(0, json!({"type": "tool_use", "id": "t", "name": "ls", "input": input}));
    check(&[call(json!({"path": "."})), stop(0)], &["0 call t ls", "0 += {\"path\":\".\"}", "0 end"]);
    let piece = delta(0, json!({"type": "input_json_delta", "partial_json": "{\"path\":\"b\"}"}));
    check(&[call(json!({"path": "."})), piece, stop(0)], &["0 call t ls", "0 += {\"path\":\"b\"}", "0 end"]);
    check(&[call(json!(null)), stop(0)], &["0 call t ls", "0 end"]);
    check(&[start(0, json!({"type": "tool_use"})), stop(0)], &["0 call toolu_seed_0 ", "0 end"]);
}

#[test]
fn more_blocks_than_any_model_makes_are_refused() {
    let blocks = |count| read(&start(0, json!({"type": "text", "text": ""})).repeat(count)).1;
    assert_eq!(blocks(MAX_RESPONSE_BLOCKS), Err(ProviderError::no_message_stop()));
    assert_eq!(blocks(MAX_RESPONSE_BLOCKS + 1), Err(ProviderError::too_many_blocks()));
}

#[test]
fn a_signature_in_many_pieces_is_told_once() {
    let piece = delta(0, json!({"type": "signature_delta", "signature": "c2ln"}));
    let (events, _) = read(&(start(0, json!({"type": "thinking"})) + &piece.repeat(50) + &stop(0)));
    assert_eq!(
        notes(&events),
        ["0 thinking".to_owned(), format!("0 signed {}", "c2ln".repeat(50)), "0 end".to_owned()]
    );
}

#[test]
fn withheld_thinking_is_kept_for_replay() {
    check(
        &[start(0, json!({"type": "redacted_thinking", "data": "ZW5j"})), stop(0)],
        &["0 thinking", "0 redacted", "0 signed ZW5j", "0 end"],
    );
}

#[test]
fn blocks_of_unknown_types_have_no_place() {
    check(
        &[
            start(0, json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
            delta(0, json!({"type": "input_json_delta", "partial_json": "{}"})),
            stop(0),
            start(1, json!({"type": "text", "text": ""})),
            delta(1, json!({"type": "citations_delta", "citation": {}})),
            text_delta(1, "a"),
            text_delta(7, "of no block"),
            delta(1, json!({"type": "thinking_delta", "thinking": "of another kind"})),
            stop(1),
            text_delta(1, "late"),
        ],
        &["0 text", "0 += a", "0 end", "usage 50/9"],
    );
}

#[test]
fn a_stream_that_does_not_count_its_blocks() {
    let plain = |kind: &str, members: Value| event(kind, members);
    check(
        &[
            plain("content_block_start", json!({"content_block": {"type": "text", "text": ""}})),
            plain("content_block_delta", json!({"delta": {"type": "text_delta", "text": "a"}})),
            plain("content_block_stop", json!({})),
            plain("content_block_start", json!({"content_block": {"type": "text", "text": "b"}})),
        ],
        &["0 text", "0 += a", "0 end", "1 text", "1 += b", "usage 50/9", "1 end"],
    );
}

#[test]
fn b003_what_means_nothing_is_passed_over() {
    let noise = [
        ": PROCESSING\n\n".repeat(10),
        event("ping", json!({})),
        "event: done\ndata: [DONE]\n\n".to_owned(),
        "data: [DONE]\n\n".to_owned(),
        "event: invented\ndata: {not json\n\n".to_owned(),
        "data: {\"type\":\"invented\",\"index\":[]}\n\n".to_owned(),
        "data: {\"type\":\"content_block_delta\",\"delta\":7}\n\n".to_owned(),
        "data: 7\n\n".to_owned(),
    ]
    .concat();
    check(
        &[
            noise.clone(),
            start(0, json!({"type": "text", "text": ""})),
            noise.clone(),
            text_delta(0, "a"),
            noise,
            stop(0),
        ],
        &["0 text", "0 += a", "0 end"],
    );
}

#[test]
fn b003_pings_are_no_sign_of_life() {
    let mut reader = Reader::new(Decoder::new(Arc::new(demo::spec()), String::new(), Vec::new()));
    let mut out = Vec::new();
    reader.push((event("ping", json!({})) + "event: odd\ndata: x\n\n").as_bytes(), &mut out).unwrap();
    assert_eq!((reader.events(), out.len()), (0, 0));
    reader.push((begin() + &event("ping", json!({}))).as_bytes(), &mut out).unwrap();
    assert_eq!(reader.events(), 1);
}

#[test]
fn events_without_a_name_are_known_by_their_type() {
    let unnamed: String = rich().lines().filter(|line| !line.starts_with("event:")).map(|l| format!("{l}\n")).collect();
    assert_eq!(read(&unnamed), read(&rich()));
}

#[test]
fn b005_without_its_last_event_a_response_is_an_error() {
    let body = rich();
    let events: Vec<&str> = body.split_inclusive("\n\n").collect();
    for count in 0..events.len() {
        let (_, ended) = read(&events[..count].concat());
        let error = ended.unwrap_err();
        assert_eq!((error.message.as_str(), error.class), ("Stream ended without message_stop", ErrorClass::Transient));
        let cut = ProviderError::cut("gone");
        let (found, ended) = read_with([events[..count].concat().as_bytes()], Some(cut.clone()));
        assert_eq!(ended, Err(cut));
        assert!(!found.iter().any(|event| matches!(event, StreamEvent::Stop { .. })), "{count}");
    }
    // Only its blank line may be missing.
    assert_eq!(read(body.trim_end()), read(&body));
}

#[test]
fn stop_reasons() {
    for (raw, expected) in [
        ("end_turn", Ok(StopReason::Stop)),
        ("stop_sequence", Ok(StopReason::Stop)),
        ("pause_turn", Ok(StopReason::Stop)),
        ("max_tokens", Ok(StopReason::Length)),
        ("tool_use", Ok(StopReason::ToolUse)),
        ("refusal", Err(ErrorClass::BadRequest)),
        ("model_context_window_exceeded", Err(ErrorClass::Overflow)),
        ("a_later_one", Err(ErrorClass::BadRequest)),
    ] {
        let (events, ended) = read(&(begin() + &end(raw)));
        let Some(StreamEvent::Stop { reason, raw: Some(found) }) = events.last() else { panic!("{events:?}") };
        assert_eq!(found, raw);
        let found = ended.map(|()| *reason).map_err(|error| {
            assert_eq!((*reason, error.message), (StopReason::Error, format!("Provider finish_reason: {raw}")));
            error.class
        });
        assert_eq!(found, expected, "{raw}");
    }
    let why =
        event("message_delta", json!({"delta": {"stop_reason": "refusal", "stop_details": {"explanation": "no"}}}));
    let (_, ended) = read(&(begin() + &why + &event("message_stop", json!({}))));
    assert_eq!(ended.unwrap_err().message, "Provider finish_reason: refusal: no");
    let (events, ended) = read(&(begin() + &event("message_stop", json!({}))));
    assert_eq!((notes(&events).last().unwrap().as_str(), ended), ("stop Stop -", Ok(())));
}

fn last_usage(reports: &[Value]) -> Usage {
    let mut body = begin().replace("\"input_tokens\":50,\"output_tokens\":1,\"cache_read_input_tokens\":0", "");
    for report in reports {
        body += &event("message_delta", json!({"delta": {}, "usage": report}));
    }
    let events = read(&body).0;
    let usage =
        events.iter().rev().find_map(|event| if let StreamEvent::Usage(usage) = event { Some(*usage) } else { None });
    usage.unwrap()
}

#[test]
fn b040_tokens_of_the_cache_are_counted_beside_the_input() {
    let usage = last_usage(&[json!({"input_tokens": 50, "cache_read_input_tokens": 90_000,
        "cache_creation_input_tokens": 5000, "output_tokens": 7})]);
    assert_eq!((usage.input, usage.cache_read, usage.cache_write, usage.output), (50, 90_000, 5000, 7));
    assert_eq!((usage.total_tokens, usage.reasoning, usage.cache_write_1h), (95_057, None, Some(0)));
    let expected = (50.0 + 7.0 * 2.0 + 90_000.0 * 0.1 + 5000.0 * 1.25) / 1e6;
    assert!((usage.cost.total - expected).abs() < 1e-12);
}

#[test]
fn reports_of_tokens_are_cumulative() {
    let first = json!({"input_tokens": 50, "cache_read_input_tokens": 10, "output_tokens": 1});
    for (later, expected) in [
        (json!({"output_tokens": 9}), (50, 10, 9)),
        (json!({"output_tokens": 9, "input_tokens": 0, "cache_read_input_tokens": null}), (50, 10, 9)),
        (json!({"output_tokens": 9, "input_tokens": 60, "cache_read_input_tokens": 11}), (60, 11, 9)),
        (json!({"output_tokens": -4, "input_tokens": "70"}), (70, 10, 1)),
    ] {
        let usage = last_usage(&[first.clone(), later.clone()]);
        assert_eq!((usage.input, usage.cache_read, usage.output), expected, "{later}");
    }
    let by_life = json!({"cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}});
    let usage = last_usage(&[by_life]);
    assert_eq!((usage.cache_write, usage.cache_write_1h), (7, Some(4)));
    let twice = begin() + &event("message_delta", json!({"usage": {"output_tokens": 1}}));
    assert_eq!(notes(&read(&twice).0), ["meta msg_1 -", "usage 50/1"]);
}

#[test]
fn errors_inside_a_stream() {
    let error = |kind: &str, message: &str| event("error", json!({"error": {"type": kind, "message": message}}));
    for (kind, message, class) in [
        ("overloaded_error", "Overloaded", ErrorClass::Transient),
        ("rate_limit_error", "slow down", ErrorClass::RateLimit),
        ("authentication_error", "invalid x-api-key", ErrorClass::Auth),
        ("api_error", "oops", ErrorClass::Transient),
        ("timeout_error", "too slow", ErrorClass::Transient),
        ("billing_error", "pay", ErrorClass::Quota),
        ("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum", ErrorClass::Overflow),
        ("invalid_request_error", "no", ErrorClass::BadRequest),
        ("a_later_error", "no", ErrorClass::BadRequest),
    ] {
        let body = begin() + &start(0, json!({"type": "text", "text": "a"})) + &error(kind, message);
        let (events, ended) = read(&body);
        assert_eq!(notes(&events)[2..], ["0 text", "0 += a"]);
        let found = ended.unwrap_err();
        assert_eq!((found.class, found.message.as_str()), (class, message), "{kind}");
    }
    for body in [
        "data: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"key sk-CANARY123\"}}\n\n",
        "data: {\"type\":\"error\",\"message\":\"key sk-CANARY123\"}\n\n",
        "event: error\ndata: key sk-CANARY123\n\n",
    ] {
        assert_eq!(read(body).1.unwrap_err().message, "key [redacted]", "{body}");
    }
}

#[test]
fn what_is_no_json_is_refused() {
    let body = begin() + "event: content_block_delta\ndata: {\"broken\": \n\n";
    assert_eq!(read(&body).1, Err(ProviderError::malformed_event()));
}

#[test]
fn half_of_a_surrogate_pair_costs_only_itself() {
    let half = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\\ud83d b\"}}\n\n";
    check(&[start(0, json!({"type": "text", "text": ""})), half.into(), stop(0)], &["0 text", "0 += a\u{fffd} b"]);
}

#[test]
fn a_server_that_does_not_stream() {
    let mut reader = Reader::new(Decoder::new(Arc::new(demo::spec()), "seed".into(), Vec::new()));
    let body = json!({"id": "msg_1", "type": "message", "model": "other", "stop_reason": "tool_use", "content": [
        {"type": "text", "text": "hi"}, {"type": "tool_use", "id": "t", "name": "ls", "input": {"path": "."}}],
        "usage": {"input_tokens": 5, "output_tokens": 6}});
    reader.keep(body.to_string().as_bytes()).unwrap();
    let mut out = Vec::new();
    assert_eq!(reader.end(None, &mut out), Ok(()));
    let expected = [
        "meta msg_1 other",
        "usage 5/6",
        "0 text",
        "0 += hi",
        "0 end",
        "1 call t ls",
        "1 += {\"path\":\".\"}",
        "1 end",
        "stop ToolUse tool_use",
    ];
    assert_eq!(notes(&out), expected);
}

proptest! {
    #[test]
    fn any_pieces_give_the_same_events(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let body = rich();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        at.sort_unstable();
        let bounds = std::iter::once(0).chain(at.iter().copied()).zip(at.iter().copied().chain([body.len()]));
        let pieces = bounds.map(|(from, to)| &body.as_bytes()[from..to]);
        prop_assert_eq!(read_with(pieces, None), read(&body));
    }

    #[test]
    fn any_events_are_survived(data in prop::collection::vec(
        "\\PC{0,40}|\\{\"type\":\"content_block_(start|delta|stop)\",\"index\":[0-3],\"(content_block|delta)\":\\{\"type\":\"(text|thinking|tool_use|text_delta|signature_delta|input_json_delta)\",\"(text|input|partial_json|signature)\":(\"a\"|7|\\{\\}|null)\\}\\}",
        0..10,
    )) {
        let body: String = data.iter().map(|data| format!("data: {data}\n\n")).collect();
        let (events, ended) = read(&body);
        prop_assert!(ended.is_err());
        // Every block begins before anything is said of it, ends at most once, and places are counted from 0.
        let mut open = Vec::new();
        for event in events {
            match event {
                StreamEvent::BlockStart { index, .. } => {
                    prop_assert_eq!(index, open.len());
                    open.push(true);
                }
                StreamEvent::Delta { index, .. } | StreamEvent::Signature { index, .. } => prop_assert!(open[index]),
                StreamEvent::BlockEnd { index } => prop_assert!(std::mem::replace(&mut open[index], false)),
                _ => {}
            }
        }
    }
}

use agentd_protocol::model::ModelCost;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::provider::demo;
use crate::provider::error::ErrorClass;
use crate::provider::openai_completions::compat::Compat;
use crate::provider::reader::Reader;

fn spec() -> ModelSpec {
    let mut spec = demo::spec();
    spec.model.id = "plain".into();
    spec.model.cost = ModelCost { input: 1.0, output: 2.0, cache_read: 0.1, cache_write: 1.25 };
    spec
}

type Outcome = (Vec<StreamEvent>, Result<(), ProviderError>);

fn read_with<'a>(spec: ModelSpec, pieces: impl IntoIterator<Item = &'a [u8]>, cut: Option<ProviderError>) -> Outcome {
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
    read_with(spec(), [body.as_bytes()], None)
}

/// One event of a stream of the recordings' model server.
fn chunk(delta: Value, finish: Option<&str>) -> String {
    let chunk = json!({"id": "chatcmpl-1", "model": "plain", "choices": [{"delta": delta, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}

fn raw(chunk: Value) -> String {
    format!("data: {chunk}\n\n")
}

fn call(piece: Value) -> String {
    chunk(json!({"tool_calls": [piece]}), None)
}

fn usage_chunk(prompt: u64, completion: u64, reasoning: u64) -> String {
    raw(json!({"id": "chatcmpl-1", "model": "plain", "choices": [], "usage": {"prompt_tokens": prompt,
        "completion_tokens": completion, "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": reasoning}}}))
}

const DONE: &str = "data: [DONE]\n\n";

fn stream(chunks: &[String]) -> String {
    chunk(json!({"role": "assistant", "content": ""}), None) + &chunks.concat()
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

#[track_caller]
fn check(body: &str, expected: &[&str]) {
    let (events, ended) = read(body);
    assert_eq!(notes(&events), expected);
    assert_eq!(ended, Ok(()));
}

/// The calls of a response as `id name arguments`.
#[track_caller]
fn check_calls(pieces: &[String], expected: &[&str]) {
    let body = stream(pieces) + &chunk(json!({}), Some("tool_calls")) + DONE;
    let (events, ended) = read(&body);
    assert_eq!(ended, Ok(()));
    let mut calls: Vec<(String, String)> = Vec::new();
    for event in events {
        match event {
            StreamEvent::BlockStart { index, kind: BlockKind::ToolCall { id, name } } => {
                assert_eq!(index, calls.len());
                calls.push((format!("{id} {name}"), String::new()));
            }
            StreamEvent::ToolCallName { index, id, name } => calls[index].0 = format!("{id} {name}"),
            StreamEvent::Delta { index, kind: DeltaKind::ToolCall, delta } => calls[index].1.push_str(&delta),
            _ => {}
        }
    }
    let calls: Vec<String> = calls.into_iter().map(|(call, arguments)| format!("{call} {arguments}")).collect();
    assert_eq!(calls, expected);
}

/// As recorded: thinking, text and two calls; all ends at the end, an empty delta after each call's start.
fn recorded() -> String {
    let pieces = [
        chunk(json!({"reasoning_content": "I should loo"}), None),
        chunk(json!({"reasoning_content": "k."}), None),
        chunk(json!({"content": "Reading thre"}), None),
        chunk(json!({"content": "e files."}), None),
        call(json!({"index": 0, "id": "call_a", "type": "function", "function": {"name": "read", "arguments": ""}})),
        call(json!({"index": 0, "function": {"arguments": "{\"path\": \"a."}})),
        call(json!({"index": 0, "function": {"arguments": "txt\"}"}})),
        call(json!({"index": 1, "id": "call_b", "type": "function", "function": {"name": "read", "arguments": ""}})),
        call(json!({"index": 1, "function": {"arguments": "{\"path\": \"界\"}"}})),
        chunk(json!({}), Some("tool_calls")),
        usage_chunk(900, 60, 15),
    ];
    stream(&pieces) + DONE
}

#[test]
fn a_recorded_response() {
    check(
        &recorded(),
        &[
            "meta chatcmpl-1 -",
            "0 thinking",
            "0 signed reasoning_content",
            "0 += I should loo",
            "0 += k.",
            "1 text",
            "1 += Reading thre",
            "1 += e files.",
            "2 call call_a read",
            "2 += ",
            "2 += {\"path\": \"a.",
            "2 += txt\"}",
            "3 call call_b read",
            "3 += ",
            "3 += {\"path\": \"界\"}",
            "usage 900/60",
            "0 end",
            "1 end",
            "2 end",
            "3 end",
            "stop ToolUse tool_calls",
        ],
    );
    let (events, _) = read(&recorded());
    let usage = events.iter().find_map(|event| if let StreamEvent::Usage(usage) = event { Some(*usage) } else { None });
    let expected = r#"{"input":900,"output":60,"cacheRead":0,"cacheWrite":0,"reasoning":15,"totalTokens":960,"cost":{"input":0.0009,"output":0.00011999999999999999,"cacheRead":0,"cacheWrite":0,"total":0.00102,"totalFromProvider":false}}"#;
    assert_eq!(serde_json::to_string(&usage.unwrap()).unwrap(), expected);
}

#[test]
fn every_split_gives_the_same_events() {
    let small = |data: &str| format!("data: {data}\n\n");
    let recorded = || recorded().replace("\"id\":\"chatcmpl-1\",\"model\":\"plain\",", "");
    let hard = format!(
        ": keep alive\r\n\r\n{}\u{feff}data: {{}}\n\n{}",
        small("{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}").replace('\n', "\r\n"),
        chunk(json!({"content": "🌍é\u{0}\n"}), Some("stop"))
    );
    let broken = small("{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}") + "data: {\"broken\": \n\n" + DONE;
    for body in [recorded(), hard, broken, chunk(json!({"content": "x"}), Some("length"))] {
        let whole = read(&body);
        let bytes = body.as_bytes();
        for at in 0..=bytes.len() {
            let (before, after) = bytes.split_at(at);
            assert_eq!(read_with(spec(), [before, after], None), whole, "split at {at}");
        }
        assert_eq!(read_with(spec(), bytes.chunks(1), None), whole, "byte by byte");
    }
}

#[test]
fn odd_chunks_are_skipped() {
    let odd = [
        "data: null\n\n",
        "data: {}\n\n",
        "data: []\n\n",
        "data: \"text\"\n\n",
        "data: 7\n\n",
        "data: \n\n",
        ": OPENROUTER PROCESSING\n\n",
        "data: {\"choices\":[]}\n\n",
        "data: {\"choices\":[{}]}\n\n",
        "data: {\"choices\":[null]}\n\n",
        "data: {\"choices\":null}\n\n",
        "data: {\"choices\":{}}\n\n",
        "data: {\"choices\":[{\"delta\":null}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":null,\"tool_calls\":null,\"role\":\"assistant\"},\"finish_reason\":null}],\"usage\":null,\"error\":null}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":[1,{\"a\":2}],\"reasoning\":7.5e300}}]}\n\n",
        "event: invented\nid: 7\nretry: 10\ndata: {\"x\":1}\n\n",
    ];
    let odd = odd.concat().replace("7.5e300", "true");
    let body = odd.clone()
        + &chunk(json!({"content": "text"}), None)
        + &odd
        + &chunk(json!({}), Some("stop"))
        + &usage_chunk(5, 6, 0)
        + DONE;
    check(&body, &["meta chatcmpl-1 -", "0 text", "0 += text", "usage 5/6", "0 end", "stop Stop stop"]);
}

#[test]
fn thinking_under_each_of_its_names() {
    for field in ["reasoning_content", "reasoning", "reasoning_text"] {
        let body =
            stream(&[chunk(json!({field: "t", "content": ""}), None), chunk(json!({"content": "x"}), Some("stop"))]);
        let signed = format!("0 signed {field}");
        check(
            &body,
            &[
                "meta chatcmpl-1 -",
                "0 thinking",
                &signed,
                "0 += t",
                "1 text",
                "1 += x",
                "0 end",
                "1 end",
                "stop Stop stop",
            ],
        );
    }
    let twice = stream(&[chunk(json!({"reasoning_content": "t", "reasoning": "t"}), Some("stop"))]);
    check(
        &twice,
        &["meta chatcmpl-1 -", "0 thinking", "0 signed reasoning_content", "0 += t", "0 end", "stop Stop stop"],
    );
}

#[test]
fn everything_in_one_chunk_keeps_its_order() {
    let both = json!({"reasoning_content": "r", "content": "c", "tool_calls":
        [{"index": 0, "id": "c1", "function": {"name": "ls", "arguments": "{}"}}]});
    let later = json!({"content": "after", "tool_calls": [{"index": 0, "function": {"arguments": " "}}]});
    check(
        &(stream(&[chunk(both, None), chunk(later, Some("tool_calls"))]) + DONE),
        &[
            "meta chatcmpl-1 -",
            "0 thinking",
            "0 signed reasoning_content",
            "0 += r",
            "1 text",
            "1 += c",
            "2 call c1 ls",
            "2 += {}",
            "3 text",
            "3 += after",
            "2 +=  ",
            "0 end",
            "1 end",
            "2 end",
            "3 end",
            "stop ToolUse tool_calls",
        ],
    );
}

#[test]
fn calls_to_which_the_server_gives_one_id_get_ids_of_their_own() {
    let piece = |index: u32, id: &str| json!({"index": index, "id": id, "function": {"name": "ls", "arguments": "{}"}});
    check_calls(
        &[call(piece(0, "same")), call(piece(1, "same")), call(piece(2, "same_1")), call(piece(3, "same"))],
        &["same ls {}", "same_1 ls {}", "same_1_2 ls {}", "same_3 ls {}"],
    );
    // Also when the id comes late; further pieces are found by it all the same.
    let late = |index: u32| json!({"index": index, "function": {"name": "ls", "arguments": "{"}});
    check_calls(
        &[
            call(late(0)),
            call(late(1)),
            call(json!({"index": 0, "id": "same", "function": {"arguments": "}"}})),
            call(json!({"index": 1, "id": "same", "function": {"arguments": ""}})),
            call(json!({"index": 1, "id": "same", "function": {"arguments": "}"}})),
        ],
        &["same ls {}", "same_1 ls {}"],
    );
}

#[test]
fn thinking_and_text_in_turns_stay_two_blocks() {
    let turn = |thinking: &str, text: &str| chunk(json!({"reasoning": thinking, "content": text}), None);
    let body = stream(&[turn("r1", "c1"), turn("r2", "c2"), chunk(json!({}), Some("stop"))]);
    check(
        &body,
        &[
            "meta chatcmpl-1 -",
            "0 thinking",
            "0 signed reasoning",
            "0 += r1",
            "1 text",
            "1 += c1",
            "0 += r2",
            "1 += c2",
            "0 end",
            "1 end",
            "stop Stop stop",
        ],
    );
}

fn whole_call(index: Option<u64>, id: Option<&str>, name: &str, arguments: &str) -> Value {
    let mut piece = json!({"type": "function", "function": {"name": name, "arguments": arguments}});
    if let Some(index) = index {
        piece["index"] = json!(index);
    }
    if let Some(id) = id {
        piece["id"] = json!(id);
    }
    piece
}

#[test]
fn parallel_calls_however_they_are_numbered() {
    let (ls, read_a) = (r#"{"path":"."}"#, r#"{"path":"a"}"#);
    let both = [r#"c1 ls {"path":"."}"#, r#"c2 read {"path":"a"}"#];
    for (first, second) in [(None, None), (Some(0), Some(0)), (Some(0), Some(5)), (Some(1), Some(0)), (None, Some(0))] {
        let pieces = [whole_call(first, Some("c1"), "ls", ls), whole_call(second, Some("c2"), "read", read_a)];
        check_calls(&pieces.clone().map(call), &both);
        check_calls(&[chunk(json!({"tool_calls": pieces}), None)], &both);
    }
    let same_tool = [whole_call(Some(0), Some("c1"), "ls", "{}"), whole_call(Some(0), Some("c2"), "ls", "{}")];
    check_calls(&same_tool.map(call), &["c1 ls {}", "c2 ls {}"]);
    let no_arguments = [whole_call(Some(0), Some("c1"), "ls", ""), whole_call(Some(0), Some("c2"), "read", read_a)];
    check_calls(&no_arguments.map(call), &["c1 ls ", r#"c2 read {"path":"a"}"#]);
}

#[test]
fn pieces_of_calls_that_come_in_turns() {
    let piece = |index: u64, arguments: &str| call(json!({"index": index, "function": {"arguments": arguments}}));
    check_calls(
        &[
            call(whole_call(Some(0), Some("c1"), "ls", "")),
            call(whole_call(Some(1), Some("c2"), "read", "")),
            piece(0, "{\"path\""),
            piece(1, "{\"path\":"),
            piece(0, ":\".\"}"),
            piece(1, "\"a\"}"),
        ],
        &[r#"c1 ls {"path":"."}"#, r#"c2 read {"path":"a"}"#],
    );
}

#[test]
fn a_gateway_that_renames_a_call_in_each_piece() {
    let piece = |id: &str, name: Option<&str>, arguments: &str| {
        call(json!({"index": 0, "id": id, "function": {"name": name, "arguments": arguments}}))
    };
    let expected = [r#"x1 read {"path":"a"}"#];
    check_calls(
        &[piece("x1", Some("read"), ""), piece("x2", None, "{\"path\""), piece("x3", None, ":\"a\"}")],
        &expected,
    );
    check_calls(
        &[piece("x1", Some("read"), "{\"pa"), piece("x2", Some("read"), "th\""), piece("x3", Some("read"), ":\"a\"}")],
        &expected,
    );
}

#[test]
fn ids_and_names_that_come_late_or_never() {
    check_calls(
        &[
            call(json!({"index": 0, "function": {"arguments": "{\"a\""}})),
            call(json!({"index": 0, "function": {"name": "ls"}})),
            call(json!({"index": 0, "id": "late", "function": {"arguments": ":1}"}})),
        ],
        &[r#"late ls {"a":1}"#],
    );
    check_calls(
        &[call(whole_call(None, None, "ls", "{}")), call(whole_call(None, None, "ls", "{}"))],
        &["call_seed_0 ls {}", "call_seed_1 ls {}"],
    );
    check_calls(
        &[call(whole_call(Some(0), None, "ls", "{}")), call(whole_call(Some(0), None, "read", "{}"))],
        &["call_seed_0 ls {}", "call_seed_1 read {}"],
    );
    check_calls(&[call(json!({"index": "0", "id": 7, "function": {"name": "ls", "arguments": "{}"}}))], &["7 ls {}"]);
    check_calls(
        &[call(whole_call(None, Some("c1"), "ls", "{\"a\"")), call(json!({"function": {"arguments": ":1}"}}))],
        &[r#"c1 ls {"a":1}"#],
    );
    check_calls(
        &[
            call(whole_call(None, Some("c1"), "ls", "{\"a\"")),
            call(json!({"id": "c1", "function": {"arguments": ":1}"}})),
        ],
        &[r#"c1 ls {"a":1}"#],
    );
}

#[test]
fn arguments_in_all_forms() {
    let with =
        |arguments: Value| call(json!({"index": 0, "id": "c", "function": {"name": "ls", "arguments": arguments}}));
    check_calls(&[with(json!({"path": "."}))], &[r#"c ls {"path":"."}"#]);
    check_calls(&[with(json!(""))], &["c ls "]);
    check_calls(&[with(json!("null"))], &["c ls null"]);
    check_calls(&[with(json!(null))], &["c ls "]);
    check_calls(&[call(json!({"index": 0, "id": "c", "function": {"name": "ls"}}))], &["c ls "]);
    check_calls(&[call(json!({"index": 0, "id": "c"}))], &["c  "]);
}

#[track_caller]
fn check_end(body: &str, cut: Option<ProviderError>, expected: Result<(), (ErrorClass, &str)>, last: &str) {
    let (events, ended) = read_with(spec(), [body.as_bytes()], cut);
    let ended = ended.map_err(|error| (error.class, error.message));
    assert_eq!(ended, expected.map_err(|(class, message)| (class, message.to_owned())), "{body}");
    assert_eq!(notes(&events).last().map_or("", String::as_str), last, "{body}");
}

#[test]
fn the_ends_of_a_stream() {
    let text = || stream(&[chunk(json!({"content": "odd"}), None)]);
    let finish = |word: &str| text() + &chunk(json!({}), Some(word));
    let no_finish = Err((ErrorClass::Transient, "Stream ended without finish_reason"));
    // A clean end without a reason closes the blocks; a cut leaves them open. Both as recorded.
    check_end(&text(), None, no_finish, "0 end");
    check_end(&(text() + DONE), None, no_finish, "0 end");
    check_end("", None, no_finish, "");
    let cut = ProviderError::cut("other side closed (UND_ERR_SOCKET)");
    let terminated = Err((ErrorClass::Transient, "terminated: other side closed (UND_ERR_SOCKET)"));
    check_end(&text(), Some(cut.clone()), terminated, "0 += odd");
    // The reason is what makes a response complete.
    check_end(&finish("stop"), None, Ok(()), "stop Stop stop");
    check_end(&finish("stop"), Some(cut), Ok(()), "stop Stop stop");
    check_end(&finish("length"), None, Ok(()), "stop Length length");
    check_end(&finish("function_call"), None, Ok(()), "stop ToolUse function_call");
    check_end(&finish("end"), None, Ok(()), "stop Stop end");
    let filtered = Err((ErrorClass::BadRequest, "Provider finish_reason: content_filter"));
    check_end(&(finish("content_filter") + &usage_chunk(1, 2, 0) + DONE), None, filtered, "stop Error content_filter");
    check_end(
        &finish("banana"),
        None,
        Err((ErrorClass::BadRequest, "Provider finish_reason: banana")),
        "stop Error banana",
    );
    let overflow = Err((ErrorClass::Overflow, "Provider finish_reason: model_context_window_exceeded"));
    check_end(&finish("model_context_window_exceeded"), None, overflow, "stop Error model_context_window_exceeded");
    // What follows the marker is not read.
    check_end(&(finish("stop") + DONE + "data: {\"broken\n\n"), None, Ok(()), "stop Stop stop");
}

#[test]
fn a_last_event_without_its_blank_line() {
    let text = stream(&[chunk(json!({"content": "odd"}), None)]);
    let finish = chunk(json!({}), Some("stop"));
    check_end(&(text.clone() + finish.trim_end()), None, Ok(()), "stop Stop stop");
    check_end(&(text.clone() + &finish + "data: [DONE]"), None, Ok(()), "stop Stop stop");
    let half = &finish[..finish.len() / 2];
    check_end(&(text + half), None, Err((ErrorClass::Transient, "Stream ended without finish_reason")), "0 end");
}

#[test]
fn a_server_that_never_says_why_it_ends() {
    let mut spec = spec();
    spec.compat = Compat::resolve("x", "http://x", Some(&json!({"supportsFinishReason": false})));
    let body = stream(&[chunk(json!({"content": "text"}), None)]) + DONE;
    let (events, ended) = read_with(spec.clone(), [body.as_bytes()], None);
    assert_eq!((notes(&events).last().map(String::as_str), ended), (Some("stop Stop stop"), Ok(())));
    assert!(read_with(spec, [&b""[..]], None).1.is_err());
}

#[test]
fn errors_in_the_stream() {
    let text = stream(&[chunk(json!({"content": "error"}), None)]);
    let malformed = Err((ErrorClass::Malformed, "Error reading response: malformed server-sent event JSON."));
    check_end(&(text.clone() + "data: {\"broken\": \n\n"), None, malformed, "0 += error");
    for (event, class, message) in [
        // Recorded.
        (
            "data: {\"error\": {\"message\": \"server_error: upstream failed\", \"type\": \"server_error\"}}\n\n",
            ErrorClass::Transient,
            "server_error: upstream failed",
        ),
        ("data: {\"error\": \"plain\"}\n\n", ErrorClass::BadRequest, "plain"),
        (
            "data: {\"error\":{\"code\":502,\"message\":\"bad\"},\"choices\":[{\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}\n\n",
            ErrorClass::Transient,
            "bad",
        ),
        (
            "data: {\"object\":\"error\",\"message\":\"prompt is too long\",\"code\":400}\n\n",
            ErrorClass::Overflow,
            "prompt is too long",
        ),
        ("event: error\ndata: {\"error\":{\"message\":\"Overloaded\"}}\n\n", ErrorClass::Transient, "Overloaded"),
        ("event: error\ndata: {\"message\":\"key sk-CANARY123\"}\n\n", ErrorClass::BadRequest, "key [redacted]"),
        ("event: error\ndata: rate limit\n\n", ErrorClass::RateLimit, "rate limit"),
    ] {
        check_end(&(text.clone() + event), None, Err((class, message)), "0 += error");
    }
}

#[test]
fn tokens_in_all_places() {
    let check = |usage: Value, expected: (u64, u64, u64, u64, Option<u64>)| {
        let (events, _) = read(&raw(json!({"choices": [], "usage": usage})));
        let Some(StreamEvent::Usage(found)) = events.last() else { panic!("{usage}") };
        assert_eq!(
            (found.input, found.output, found.cache_read, found.cache_write, found.reasoning),
            expected,
            "{usage}"
        );
        assert_eq!(found.total_tokens, found.input + found.output + found.cache_read + found.cache_write);
        assert!(found.cost.total >= 0.0);
    };
    check(json!({"prompt_tokens": 100, "completion_tokens": 10}), (100, 10, 0, 0, Some(0)));
    check(
        json!({"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 5}}),
        (55, 10, 40, 5, Some(0)),
    );
    check(
        json!({"prompt_tokens": 100, "completion_tokens": 10, "prompt_cache_hit_tokens": 30}),
        (70, 10, 30, 0, Some(0)),
    );
    check(
        json!({"prompt_tokens": 100, "completion_tokens": 10, "cached_tokens": 30, "reasoning_tokens": 4}),
        (70, 10, 30, 0, Some(4)),
    );
    check(
        json!({"prompt_tokens": 10, "completion_tokens": null, "prompt_tokens_details": {"cached_tokens": 40}}),
        (0, 0, 40, 0, Some(0)),
    );
    check(
        json!({"prompt_tokens": -5, "completion_tokens": 1.0, "completion_tokens_details": null}),
        (0, 1, 0, 0, Some(0)),
    );
    let in_choice = raw(json!({"choices": [{"delta": {}, "usage": {"prompt_tokens": 3}}]}));
    assert_eq!(notes(&read(&in_choice).0), ["usage 3/0"]);
    let twice = raw(json!({"choices": [{"usage": {"prompt_tokens": 3}}], "usage": {"prompt_tokens": 3}}));
    assert_eq!(notes(&read(&twice).0), ["usage 3/0"]);
}

#[test]
fn openrouters_bill_is_taken() {
    let body = raw(json!({"usage": {"prompt_tokens": 3, "cost": 0.5}}));
    let mut routed = spec();
    routed.compat = Compat::resolve("openrouter", "", None);
    for (spec, total) in [(routed, 0.5), (spec(), 3.0 / 1_000_000.0)] {
        let Some(StreamEvent::Usage(usage)) = read_with(spec, [body.as_bytes()], None).0.pop() else { panic!() };
        assert!((usage.cost.total - total).abs() < 1e-12, "{}", usage.cost.total);
    }
}

#[test]
fn content_in_parts() {
    let parts = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}, {"type": "text", "text": "a"},
        {"type": "text", "text": "b"}, 7, null]);
    for (content, expected) in [(parts, Some("0 += ab")), (json!([7]), None), (json!([]), None)] {
        let (events, _) = read(&raw(json!({"choices": [{"delta": {"content": content}}]})));
        assert_eq!(notes(&events).get(1).map(String::as_str), expected, "{content}");
    }
}

#[test]
fn another_model_is_named_once() {
    let named = |model: &str| raw(json!({"id": "r", "model": model, "choices": [{"delta": {"content": "x"}}]}));
    let (events, _) = read(&(named("other") + &named("other")));
    assert_eq!(notes(&events), ["meta r other", "0 text", "0 += x", "0 += x", "0 end"]);
}

#[test]
fn more_blocks_than_any_model_makes_are_refused() {
    let call = json!({"function": {"name": "ls", "arguments": "{}"}});
    let calls = |count| read(&raw(json!({"choices": [{"delta": {"tool_calls": vec![&call; count]}}]})));
    assert_eq!(calls(MAX_RESPONSE_BLOCKS).1, Err(ProviderError::no_finish_reason()));
    let (events, ended) = calls(MAX_RESPONSE_BLOCKS + 1);
    assert_eq!(ended, Err(ProviderError::too_many_blocks()));
    assert_eq!(events.len(), 2 * MAX_RESPONSE_BLOCKS);
}

#[test]
fn half_of_a_surrogate_pair_costs_only_itself() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"a\\ud83d b\"},\"finish_reason\":\"stop\"}]}\n\n";
    check(body, &["0 text", "0 += a\u{fffd} b", "0 end", "stop Stop stop"]);
    let body = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"ls\",\"arguments\":\"{\\\"a\\\":\\\"\\ud83d\\\"}\"}}]},\"finish_reason\":\"stop\"}]}\n\n";
    check(body, &["0 call c ls", "0 += {\"a\":\"\u{fffd}\"}", "0 end", "stop Stop stop"]);
}

proptest! {
    #[test]
    fn any_events_are_survived(data in prop::collection::vec(
        "\\PC{0,40}|\\{\"choices\":\\[\\{\"delta\":\\{\"(content|tool_calls|reasoning)\":[\\[\\]{}\"a:,0-9]{0,12}\\}\\}\\]\\}",
        0..8,
    )) {
        let body: String = data.iter().map(|data| format!("data: {data}\n\n")).collect();
        let (events, _) = read(&body);
        // Every block begins before anything is said of it, and places are counted from 0.
        let mut blocks = 0;
        for event in events {
            match event {
                StreamEvent::BlockStart { index, .. } => {
                    prop_assert_eq!(index, blocks);
                    blocks += 1;
                }
                StreamEvent::Delta { index, .. } | StreamEvent::BlockEnd { index } => prop_assert!(index < blocks),
                _ => {}
            }
        }
    }

    #[test]
    fn texts_arrive_unchanged(texts in prop::collection::vec(any::<String>(), 1..6)) {
        let chunks: Vec<String> = texts.iter().map(|text| chunk(json!({"content": text}), None)).collect();
        let (events, ended) = read(&(stream(&chunks) + &chunk(json!({}), Some("stop"))));
        prop_assert_eq!(ended, Ok(()));
        let found: String = events.iter().filter_map(|event| match event {
            StreamEvent::Delta { delta, .. } => Some(&**delta),
            _ => None,
        }).collect();
        prop_assert_eq!(found, texts.concat());
    }
}

#[test]
fn the_signature_of_the_thought_behind_a_call_is_kept() {
    let signed = json!({"index": 0, "id": "c1", "function": {"name": "read", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "sig"}}});
    let odd = json!({"index": 1, "id": "c2", "function": {"name": "read", "arguments": "{}"}, "extra_content": [7]});
    let (events, ended) = read(&(stream(&[call(signed), call(odd)]) + &chunk(json!({}), Some("tool_calls")) + DONE));
    assert_eq!(ended, Ok(()));
    let signatures: Vec<_> = events.iter().filter(|event| matches!(event, StreamEvent::Signature { .. })).collect();
    assert_eq!(signatures, [&StreamEvent::Signature { index: 0, signature: "sig".to_owned() }]);
}

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use agentd_protocol::message::{
    AssistantMessage, BashExecutionMessage, ContentBlock, Cost, CustomMessage, Message, StopReason, SystemMessage,
    ThinkingLevel, ToolCall, ToolResultMessage, Usage, UserMessage,
};
use agentd_protocol::{EntryId, SessionId, ToolCallId};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::session::{Compaction, Entry, EntryBody, Header, SessionTree};

pub(crate) fn fixture_sessions() -> Vec<PathBuf> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pi/sessions");
    let mut paths: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    assert!(paths.len() > 60, "the fixtures are there");
    paths
}

const HEADER: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w","parentSession":"/p"}"#;

#[track_caller]
fn entry_of(line: &str) -> Entry {
    match decode_line(line.as_bytes()) {
        Line::Entry(entry, None) => entry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_recorded_file_is_read_whole_and_could_be_written_the_same() {
    for path in fixture_sessions() {
        let bytes = fs::read(&path).unwrap();
        let loaded = load_bytes(&bytes).unwrap();
        assert_eq!(loaded.damaged, [], "{}", path.display());
        assert_eq!(loaded.entries.len() + 1, bytes.split(|byte| *byte == b'\n').count() - 1);
        for entry in &loaded.entries {
            assert!(is_known(&entry.body), "{}", entry.raw.get());
            let again = encode_entry(&entry.id, entry.parent_id.as_ref(), entry.timestamp, &entry.body).unwrap();
            let (ours, theirs) = (as_written(&again), as_written(entry));
            assert_eq!(ours, theirs, "{}", path.display());
        }
    }
}

fn is_known(body: &EntryBody) -> bool {
    match body {
        EntryBody::Unknown { .. } => false,
        EntryBody::Message(message) => !matches!(**message, Message::Other(_)),
        _ => true,
    }
}

/// Returns the line with its keys in the order of the file, spaces aside. pi's own order varies in two places: that
/// of an error message depends on when it was known, and a checkpoint has its time last.
fn as_written(entry: &Entry) -> String {
    let mut value: Value = serde_json::from_str(entry.raw.get()).unwrap();
    if let Some(message) = value.get_mut("message").and_then(Value::as_object_mut)
        && let Some(error) = message.shift_remove("errorMessage")
    {
        message.insert("errorMessage".into(), error);
        for key in ["durationMs", "thinkingLevel"] {
            if let Some(moved) = message.shift_remove(key) {
                message.insert(key.into(), moved);
            }
        }
    }
    if let Some(system) = value.get_mut("systemMessage").and_then(Value::as_object_mut)
        && let Some(timestamp) = system.shift_remove("timestamp")
    {
        system.insert("timestamp".into(), timestamp);
    }
    value.to_string()
}

#[test]
fn a_header_keeps_its_fields() {
    let Line::Header(header) = decode_line(HEADER.as_bytes()) else { panic!() };
    assert_eq!(
        header,
        Header {
            version: 3,
            id: SessionId::new("s1"),
            timestamp: 1_767_225_600_000,
            cwd: "/w".into(),
            parent_session: Some("/p".into()),
        }
    );
    assert_eq!(encode_header(&header), HEADER);
}

#[test]
fn what_is_no_entry_is_damaged_and_harms_nothing_else() {
    let cases: [(&str, &[u8], Damage); 10] = [
        ("text", b"BROKEN", Damage::NotJson),
        ("torn", br#"{"type":"custom","id":"a","par"#, Damage::NotJson),
        ("torn in a character", b"{\"type\":\"custom\",\"id\":\"\xc3", Damage::NotJson),
        ("two on one line", br#"{"type":"a","id":"a"}{"type":"b","id":"b"}"#, Damage::NotJson),
        ("array", b"[1]", Damage::NotJson),
        ("number", b"42", Damage::NotJson),
        ("null", b"null", Damage::NotJson),
        ("no type", br#"{"id":"a"}"#, Damage::NotAnEntry),
        ("no id", br#"{"type":"message","message":{"role":"user","content":"x"}}"#, Damage::NotAnEntry),
        ("zeros", b"\0\0\0\0", Damage::NotJson),
    ];
    let good = r#"{"type":"custom","customType":"t","data":1,"id":"g","parentId":null,"timestamp":""}"#;
    for (name, line, damage) in cases {
        let mut file = format!("{HEADER}\n").into_bytes();
        let offset = file.len() as u64;
        file.extend_from_slice(line);
        file.extend_from_slice(format!("\n\n  \r\n{good}\r\n").as_bytes());
        let loaded = load_bytes(&file).unwrap();
        assert_eq!(loaded.damaged, [DamagedLine { offset, len: line.len() as u64, damage }], "{name}");
        assert_eq!(loaded.entries.len(), 1, "{name}");
        assert!(loaded.len == file.len() as u64 && loaded.complete_len == loaded.len);
    }
}

#[test]
fn what_has_no_header_is_no_session() {
    let cases: [(&[u8], NotASession); 6] = [
        (b"", NotASession::Empty),
        (b"\n \n", NotASession::Empty),
        (b"this is no session\n", NotASession::Unreadable),
        (b"\x89PNG\r\n\x1a\n\0\0", NotASession::Unreadable),
        (br#"{"type":"custom","customType":"t","id":"g"}"#, NotASession::NoHeader),
        (
            br#"{"type":"session","version":3,"timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#,
            NotASession::Unreadable,
        ),
    ];
    for (bytes, why) in cases {
        assert_eq!(load_bytes(bytes).unwrap_err(), why, "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn unknown_kinds_and_fields_are_kept() {
    let line = r#"{"type":"future","id":"a","parentId":"b","timestamp":"x","more":{"z":1,"a":[1.10]}}"#;
    let entry = entry_of(line);
    assert_eq!(entry.body, EntryBody::Unknown { kind: "future".into() });
    assert_eq!((entry.raw.get(), entry.parent_id), (line, Some("b".into())));
    let line = r#"{"type":"label","id":"a","parentId":null,"timestamp":"x","targetId":"t","label":"l","extra":9007199254740993}"#;
    let entry = entry_of(line);
    assert_eq!(entry.body, EntryBody::Label { target: "t".into(), label: Some("l".into()) });
    assert_eq!(entry.raw.get(), line);
}

#[test]
fn a_known_kind_without_its_fields_stays_in_the_chain() {
    for line in [
        r#"{"type":"message","id":"a","parentId":"b"}"#,
        r#"{"type":"message","id":"a","parentId":"b","message":7}"#,
        r#"{"type":"model_change","id":"a","parentId":"b"}"#,
        r#"{"type":"compaction","id":"a","parentId":"b","summary":1}"#,
        r#"{"type":"thinking_level_change","id":"a","parentId":"b","thinkingLevel":"most"}"#,
    ] {
        let entry = entry_of(line);
        assert_eq!(entry.parent_id, Some("b".into()));
        assert!(!is_known(&entry.body), "{line}");
    }
}

#[test]
fn odd_numbers_and_levels_do_not_cost_the_message() {
    let entry = entry_of(
        r#"{"type":"message","id":"a","parentId":null,"timestamp":5,"message":{"role":"assistant","content":[],
        "usage":{"input":-3,"output":1.5,"cacheRead":null,"cost":{"total":null,"input":-1}},"stopReason":"stop",
        "timestamp":1.5,"thinkingLevel":"vast","durationMs":2.9}}"#,
    );
    let EntryBody::Message(message) = entry.body else { panic!() };
    let Message::Assistant(message) = &*message else { panic!("{message:?}") };
    assert_eq!((message.usage.input, message.usage.output, message.usage.cache_read), (0, 1, 0));
    assert_eq!((message.timestamp, message.duration_ms, message.thinking_level), (1, Some(2), None));
    assert_eq!(entry.timestamp, 5);
}

#[test]
fn repeated_keys_read_as_in_pi() {
    let entry = entry_of(r#"{"type":"label","id":"a","id":"b","targetId":"x","targetId":"y","label":"l"}"#);
    assert_eq!(entry.id, "b".into());
    assert_eq!(entry.body, EntryBody::Label { target: "y".into(), label: Some("l".into()) });
}

#[test]
fn half_surrogates_are_read_and_stay_in_the_line() {
    let line = r#"{"type":"message","id":"a","parentId":null,"timestamp":"","message":{"role":"user","content":[{"type":"text","text":"x\ud83dy \\ud83d \ud83d\ude00 \udc00\udc00"}],"timestamp":1}}"#;
    let entry = entry_of(line);
    let EntryBody::Message(message) = &entry.body else { panic!() };
    let Message::User(user) = &**message else { panic!() };
    assert_eq!(user.content[0].as_text(), Some("x\u{fffd}y \\ud83d 😀 \u{fffd}\u{fffd}"));
    assert_eq!(entry.raw.get(), line);
}

#[test]
fn bytes_that_are_not_utf8_are_read_with_a_loss() {
    let line = b"{\"type\":\"session_info\",\"id\":\"a\",\"parentId\":null,\"name\":\"x\xffy\"}";
    let Line::Entry(entry, damage) = decode_line(line) else { panic!() };
    assert_eq!(entry.body, EntryBody::SessionInfo { name: "x\u{fffd}y".into() });
    assert_eq!(damage, Some(Damage::NotUtf8));
}

#[test]
fn deep_values_neither_overflow_nor_break_the_chain() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let line = format!(r#"{{"type":"custom","customType":"t","data":{deep},"id":"a","parentId":"p"}}"#);
    let entry = entry_of(&line);
    assert_eq!(entry.parent_id, Some("p".into()));
    assert_eq!(entry.raw.get(), line);
}

#[test]
fn version_1_becomes_a_chain_with_steady_ids() {
    let file = concat!(
        r#"{"type":"session","id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w","branchedFrom":"/old"}"#,
        "\n",
        r#"{"type":"message","timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"q1","timestamp":1}}"#,
        "\n",
        "BROKEN\n",
        r#"{"type":"message","timestamp":"2026-01-01T00:00:02.000Z","message":{"role":"user","content":"q2","timestamp":2}}"#,
        "\n",
        r#"{"type":"compaction","timestamp":"2026-01-01T00:00:03.000Z","summary":"S","firstKeptEntryIndex":2,"tokensBefore":9}"#,
        "\n",
        r#"{"type":"message","timestamp":"2026-01-01T00:00:04.000Z","message":{"role":"hookMessage","customType":"x","content":"c","display":true,"timestamp":4}}"#,
    );
    let loaded = load_bytes(file.as_bytes()).unwrap();
    assert_eq!((loaded.version, loaded.entries.len(), loaded.damaged.len()), (1, 4, 1));
    assert_eq!(loaded.header.parent_session.as_deref(), Some("/old"));
    let tree = SessionTree::from_entries(loaded.header.clone(), loaded.entries.clone());
    assert_eq!(tree.branch().len(), 4);
    let EntryBody::Compaction(compaction) = &loaded.entries[2].body else { panic!() };
    assert_eq!(compaction.first_kept, loaded.entries[1].id);
    assert!(matches!(&loaded.entries[3].body, EntryBody::Message(message) if matches!(**message, Message::Custom(_))));

    let migrated = migrate_bytes(file.as_bytes()).unwrap();
    let again = load_bytes(&migrated).unwrap();
    assert_eq!((again.version, again.complete_len), (3, again.len));
    let lines = |entries: &[Entry]| entries.iter().map(|entry| entry.raw.get().to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(&again.entries), lines(&loaded.entries));
    assert!(migrated.windows(7).any(|window| window == b"BROKEN\n"), "a damaged line stays");
}

#[test]
fn version_2_only_renames_the_role() {
    let untouched = r#"{"id":"a", "parentId":null,"type":"session_info","name":"n"}"#;
    let file = format!(
        "{}\n{untouched}\n{}\n",
        r#"{"type":"session","version":2,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#,
        r#"{"type":"message","id":"b","parentId":"a","message":{"role":"hookMessage","customType":"x","content":[],"display":false}}"#
    );
    let loaded = load_bytes(file.as_bytes()).unwrap();
    assert_eq!(loaded.entries[0].raw.get(), untouched);
    assert!(loaded.entries[1].raw.get().contains(r#""role":"custom""#));
    let migrated = String::from_utf8(migrate_bytes(file.as_bytes()).unwrap()).unwrap();
    assert!(migrated.starts_with(r#"{"type":"session","version":3,"#) && migrated.contains(untouched));
}

#[test]
fn a_missing_line_end_is_told() {
    let entry = r#"{"type":"session_info","id":"a","parentId":null,"name":"n"}"#;
    let whole = load_bytes(format!("{HEADER}\n{entry}").as_bytes()).unwrap();
    assert!(whole.complete_len < whole.len && whole.tail_is_entry && whole.entries.len() == 1);
    assert_eq!(whole.complete_len, HEADER.len() as u64 + 1);
    let torn = load_bytes(format!("{HEADER}\n{}", &entry[..20]).as_bytes()).unwrap();
    assert!(torn.complete_len < torn.len && !torn.tail_is_entry && torn.entries.is_empty());
    assert_eq!(torn.damaged.len(), 1);
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        Just("\n\r\u{2028}\u{2029}\u{85}\0\u{b}\u{fffd}\\n\"".to_owned()),
        proptest::collection::vec(any::<char>(), 0..40).prop_map(|chars| chars.into_iter().collect()),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no infinity", |float| float.is_finite()).prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((any_text(), inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn any_usage() -> impl Strategy<Value = Usage> {
    (any::<u64>(), any::<u64>(), proptest::option::of(any::<u64>()), 0.0_f64..10.0).prop_map(
        |(input, output, reasoning, cost)| Usage {
            input,
            output,
            reasoning,
            cost: Cost { total: cost, input: cost / 3.0, ..Cost::default() },
            ..Usage::default()
        },
    )
}

fn any_block() -> impl Strategy<Value = ContentBlock> {
    prop_oneof![
        (any_text(), proptest::option::of(any_text()))
            .prop_map(|(text, text_signature)| ContentBlock::Text { text, text_signature }),
        (any_text(), proptest::option::of(any_text()), any::<bool>()).prop_map(
            |(thinking, thinking_signature, redacted)| ContentBlock::Thinking {
                thinking,
                thinking_signature,
                redacted
            }
        ),
        any_text().prop_map(|data| ContentBlock::Image { data, mime_type: "image/png".into() }),
        (any_text(), any_value(), proptest::option::of(any_text())).prop_map(|(id, arguments, arguments_error)| {
            let id = ToolCallId::new(id);
            ContentBlock::ToolCall(ToolCall {
                id,
                name: "bash".into(),
                arguments,
                arguments_error,
                arguments_text: None,
                thought_signature: None,
            })
        }),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    let blocks = || proptest::collection::vec(any_block(), 0..4);
    prop_oneof![
        (blocks(), proptest::option::of(any_text()), any::<i64>()).prop_map(
            |(content, client_message_id, timestamp)| Message::User(UserMessage {
                content,
                timestamp,
                client_message_id
            })
        ),
        (blocks(), any_usage(), any_text(), proptest::option::of(any::<u64>())).prop_map(
            |(content, usage, text, duration_ms)| {
                Message::Assistant(AssistantMessage {
                    content,
                    api: text.clone(),
                    provider: text.clone(),
                    model: text.clone(),
                    usage,
                    stop_reason: StopReason::Aborted,
                    timestamp: 1,
                    response_id: Some(text.clone()),
                    raw_stop_reason: None,
                    response_model: None,
                    error_message: Some(text),
                    duration_ms,
                    thinking_level: Some(ThinkingLevel::High),
                })
            }
        ),
        (blocks(), any_value(), any_text()).prop_map(|(content, details, id)| {
            Message::ToolResult(ToolResultMessage {
                tool_call_id: ToolCallId::new(id),
                tool_name: "read".into(),
                content,
                details: Some(details).filter(|details| !details.is_null()),
                is_error: true,
                duration_ms: None,
                timestamp: 0,
            })
        }),
        any_text().prop_map(|text| Message::System(SystemMessage {
            content: String::new(),
            sections: [(text.clone(), Value::from(text))].into_iter().collect(),
            ..SystemMessage::default()
        })),
        any_text().prop_map(|text| Message::BashExecution(BashExecutionMessage {
            command: text.clone(),
            output: text,
            exit_code: Some(-1),
            cancelled: false,
            truncated: true,
            full_output_path: None,
            exclude_from_context: Some(true),
            timestamp: 3,
        })),
    ]
}

fn any_body() -> impl Strategy<Value = EntryBody> {
    let id = || any_text().prop_map(EntryId::new);
    prop_oneof![
        4 => any_message().prop_map(|message| EntryBody::Message(Arc::new(message))),
        1 => (any_text(), any_text()).prop_map(|(provider, model_id)| EntryBody::ModelChange { provider, model_id }),
        1 => Just(EntryBody::ThinkingLevelChange(ThinkingLevel::Xhigh)),
        1 => any_text().prop_map(|name| EntryBody::SessionInfo { name }),
        1 => (id(), any_value()).prop_map(|(target, value)| {
            EntryBody::ContextEdit { target, replacement: Some(value).filter(|value| !value.is_null()) }
        }),
        1 => (any_text(), any_value()).prop_map(|(custom_type, data)| EntryBody::Custom { custom_type, data }),
        1 => (id(), proptest::option::of("[^\"]{1,9}")).prop_map(|(target, label)| EntryBody::Label { target, label }),
        1 => any_usage().prop_map(|usage| EntryBody::Usage(Box::new(usage))),
        1 => (any_text(), any_text(), proptest::option::of(any_usage()))
            .prop_map(|(from, summary, usage)| EntryBody::BranchSummary { from, summary, usage: usage.map(Box::new) }),
        1 => (any_text(), id(), proptest::option::of(any_usage()), any_message()).prop_map(|(summary, first_kept, usage, system)| {
            EntryBody::Compaction(Box::new(Compaction {
                summary,
                first_kept,
                tokens_before: 7,
                details: Some(json!({ "readFiles": [], "modifiedFiles": ["a"] })),
                usage,
                system_message: Some(Arc::new(system)),
            }))
        }),
        1 => (proptest::collection::vec(any_block(), 0..3), any_text()).prop_map(|(content, custom_type)| {
            let message = CustomMessage { custom_type, content, display: true, details: None, timestamp: 42 };
            EntryBody::CustomMessage(Arc::new(Message::Custom(message)))
        }),
    ]
}

proptest! {
    #[test]
    fn an_entry_is_one_line_and_comes_back_the_same(
        body in any_body(),
        id in "[0-9a-f]{8}",
        parent in proptest::option::of("[0-9a-f]{8}"),
    ) {
        let parent = parent.map(EntryId::from);
        let entry = encode_entry(&EntryId::new(id), parent.as_ref(), 42, &body).unwrap();
        prop_assert!(!entry.raw.get().bytes().any(|byte| byte == b'\n' || byte == b'\r'));
        let Line::Entry(again, None) = decode_line(entry.raw.get().as_bytes()) else { panic!("{}", entry.raw.get()) };
        prop_assert_eq!(&again.body, &entry.body);
        prop_assert_eq!((again.id, again.parent_id, again.timestamp), (entry.id, entry.parent_id, entry.timestamp));
        prop_assert_eq!(again.raw.get(), entry.raw.get());
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_line(&line);
        let _ = load_bytes(&line);
        let _ = migrate_bytes(&line);
    }

    #[test]
    fn escapes_of_any_kind_are_mended_without_a_panic(
        parts in proptest::collection::vec(prop_oneof![
            Just("\\"), Just("\\\\"), Just("\\u"), Just("\\ud83d"), Just("\\ude00"), Just("\\u00e9"), Just("\\n"), Just("é"), Just("x"),
        ], 0..12),
    ) {
        let text = parts.concat();
        let mended = super::decode::replace_lone_surrogates(&text);
        if serde_json::from_str::<&serde_json::value::RawValue>(&format!("\"{text}\"")).is_ok() {
            let text = mended.unwrap_or(text);
            prop_assert!(serde_json::from_str::<String>(&format!("\"{text}\"")).is_ok(), "{}", text);
        }
    }

    #[test]
    fn times_come_back(ms in -62_000_000_000_000_i64..250_000_000_000_000) {
        prop_assert_eq!(parse_timestamp(&format_timestamp(ms)), Some(ms));
    }
}

#[test]
fn times_beyond_all_calendars_are_written_somehow() {
    for ms in [i64::MIN, i64::MAX] {
        assert!(parse_timestamp(&format_timestamp(ms)).is_some());
    }
    assert_eq!(format_timestamp(1_796_033_302_000), "2026-11-30T10:08:22.000Z");
}

#[test]
fn a_file_cut_at_any_byte_opens_to_a_prefix() {
    let path = fixture_sessions().into_iter().find(|path| path.ends_with("bash-command.jsonl")).unwrap();
    // The long lines would only make it slow.
    let text = fs::read_to_string(path).unwrap();
    let bytes = text.split_inclusive('\n').filter(|line| line.len() < 500).collect::<String>().into_bytes();
    let whole = load_bytes(&bytes).unwrap();
    assert!(whole.entries.len() > 8);
    let mut least = 0;
    for cut in 0..=bytes.len() {
        let Ok(loaded) = load_bytes(&bytes[..cut]) else {
            assert!(cut < bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1);
            continue;
        };
        let count = loaded.entries.len();
        assert!(count >= least && count <= whole.entries.len());
        least = count;
        if let (Some(last), Some(expected)) = (loaded.entries.last(), whole.entries.get(count.wrapping_sub(1))) {
            assert_eq!(last.raw.get(), expected.raw.get());
        }
    }
    assert_eq!(least, whole.entries.len());
}

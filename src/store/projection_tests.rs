//! What the recorded and some hand-made files give: the model context and the facts for lists. They stand here and not
//! beside `session`, which knows nothing of files.

use std::fs;
use std::path::{Path, PathBuf};

use agentd_protocol::message::{ContentBlock, Message, ThinkingLevel};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::record::load_bytes;
use crate::session::rows::FIRST_MESSAGE_CHARS;
use crate::session::{SessionFacts, SessionTree, build_context, summarize};

fn fixture(kind: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pi").join(kind).join(name)
}

/// Returns a tree of the lines, whose places in the file are `timestamp`s, ids and chain.
fn tree(lines: &[Value]) -> SessionTree {
    let mut text =
        r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#.to_owned();
    for (place, line) in lines.iter().enumerate() {
        let mut line = line.clone();
        let object = line.as_object_mut().unwrap();
        object.entry("id").or_insert_with(|| json!(format!("e{place}")));
        object
            .entry("parentId")
            .or_insert_with(|| place.checked_sub(1).map_or(Value::Null, |p| json!(format!("e{p}"))));
        object.entry("timestamp").or_insert_with(|| json!(place));
        text.push_str(&format!("\n{line}"));
    }
    let loaded = load_bytes(text.as_bytes()).unwrap();
    assert_eq!(loaded.damaged, []);
    SessionTree::from_entries(loaded.header, loaded.entries)
}

fn user(text: &str) -> Value {
    json!({ "type": "message", "message": { "role": "user", "content": [{ "type": "text", "text": text }] } })
}

fn system(section: &str, text: Value) -> Value {
    json!({ "type": "message", "message": { "role": "system", "content": "", "sections": { section: text } } })
}

fn compaction(first_kept: &str) -> Value {
    json!({ "type": "compaction", "summary": "S", "firstKeptEntryId": first_kept, "tokensBefore": 7 })
}

/// Says in short what the context holds.
fn shown(tree: &SessionTree) -> Vec<String> {
    build_context(tree)
        .messages
        .iter()
        .map(|message| match &*message.message {
            Message::User(user) => user.content.iter().filter_map(ContentBlock::as_text).collect::<String>(),
            Message::System(system) => format!("system {}", Value::Object(system.sections.clone())),
            Message::CompactionSummary(summary) => format!("summary {}@{}", summary.summary, summary.timestamp),
            Message::BranchSummary(summary) => format!("branch {} from {}", summary.summary, summary.from_id),
            Message::Custom(custom) => format!("custom {}", custom.custom_type),
            other => format!("{other:?}"),
        })
        .collect()
}

#[track_caller]
fn check(lines: &[Value], expected: &[&str]) {
    assert_eq!(shown(&tree(lines)), expected);
}

#[test]
fn messages_of_the_branch_in_order() {
    check(&[], &[]);
    check(&[user("a"), json!({ "type": "model_change", "provider": "p", "modelId": "m" }), user("b")], &["a", "b"]);
    let mut fork = user("c");
    fork["parentId"] = json!("e0");
    check(&[user("a"), user("b"), fork], &["a", "c"]);
}

#[test]
fn an_edit_hides_or_replaces_and_the_last_one_counts() {
    let edit = |target: &str, replacement: Value| json!({ "type": "context_edit", "targetId": target, "replacement": replacement });
    check(&[user("a"), user("b"), edit("e0", Value::Null)], &["b"]);
    let whole = json!({ "role": "user", "content": "x" });
    check(&[user("a"), user("b"), edit("e0", whole.clone())], &["x", "b"]);
    check(&[user("a"), edit("e0", Value::Null), edit("e0", json!({ "content": "y" }))], &["y"]);
    check(&[user("a"), edit("e0", json!({ "content": 5 })), edit("none", Value::Null)], &["a"]);
    // An edit on another branch says nothing here.
    let mut other = user("b");
    other["parentId"] = json!("e0");
    check(&[user("a"), edit("e0", Value::Null), other], &["a", "b"]);
}

#[test]
fn a_compaction_keeps_its_tail() {
    check(&[user("a"), user("b"), compaction("e1"), user("c")], &["summary S@2", "b", "c"]);
    check(&[user("a"), user("b"), compaction("e9"), user("c")], &["summary S@2", "c"]);
    // The last one on the branch counts, and may keep from before the one before.
    check(
        &[user("a"), user("b"), compaction("e0"), user("c"), compaction("e1"), user("d")],
        &["summary S@4", "b", "c", "d"],
    );
}

#[test]
fn a_compaction_without_a_checkpoint_gets_the_merged_system_messages() {
    check(
        &[
            system("tools", json!("t")),
            user("a"),
            system("cwd", json!("c")),
            user("b"),
            compaction("e1"),
            system("tools", json!("u")),
        ],
        &[r#"system {"tools":"t","cwd":"c"}"#, "summary S@4", "a", "b", r#"system {"tools":"u"}"#],
    );
}

#[test]
fn summaries_and_messages_of_extensions_are_part_of_it() {
    let branch = json!({ "type": "branch_summary", "fromId": "e0", "summary": "B" });
    let custom = json!({ "type": "custom_message", "customType": "x", "content": "hi", "display": true });
    let hidden = json!({ "type": "custom", "customType": "x", "data": {} });
    check(&[user("a"), branch, custom, hidden], &["a", "branch B from e0", "custom x"]);
}

#[test]
fn settings_come_from_the_branch() {
    let change = |model: &str| json!({ "type": "model_change", "provider": "p", "modelId": model });
    let level = |level: &str| json!({ "type": "thinking_level_change", "thinkingLevel": level });
    let answer = json!({ "type": "message", "message": { "role": "assistant", "content": [], "provider": "q", "model": "n", "stopReason": "stop" } });
    let context = build_context(&tree(&[change("m"), level("low"), answer.clone(), level("high")]));
    assert_eq!((context.model, context.thinking_level), (Some(("p".into(), "m".into())), Some(ThinkingLevel::High)));
    let context = build_context(&tree(&[user("a"), answer]));
    assert_eq!((context.model, context.thinking_level), (Some(("q".into(), "n".into())), None));
    let context = build_context(&tree(&[json!({ "type": "session_info", "name": "n" })]));
    assert_eq!(context.name.as_deref(), Some("n"));
}

/// Every recorded `get_messages` answer is the projection of the session file up to that moment.
#[test]
fn recorded_answers_are_what_the_files_give() {
    let mut compared = 0;
    for path in fs::read_dir(fixture("transcripts", "")).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        // Its files are made by hand and not among the recorded ones; the next test has them.
        if !name.ends_with(".jsonl") || name == "switch-odd-files.jsonl" {
            continue;
        }
        let answers = get_messages_answers(&path);
        if answers.is_empty() {
            continue;
        }
        let contexts = contexts_over_time(name);
        for answer in answers {
            let answer = answer.iter().map(normalised).collect::<Vec<_>>();
            assert!(answer.is_empty() || contexts.contains(&answer), "{name}: no state of the file gives {answer:#?}");
            compared += 1;
        }
    }
    assert!(compared >= 25, "{compared}");
}

/// The last answer must be the whole file's where nothing was written after it.
#[test]
fn the_last_recorded_answer_is_the_whole_files() {
    for name in [
        "abort-with-queue",
        "compact-split-turn",
        "compact-threshold",
        "compact-threshold-mid-run",
        "overflow-recover",
        "retry-abort",
        "steer-mid-run",
        "stream-cut",
        "retry-429",
        "unicode-text",
        "thinking-tools-parallel",
        "queue-while-idle",
    ] {
        let name = format!("{name}.jsonl");
        let answer = get_messages_answers(&fixture("transcripts", &name)).pop().unwrap();
        let answer = answer.iter().map(normalised).collect::<Vec<_>>();
        assert_eq!(Some(&answer), contexts_over_time(&name).last(), "{name}");
    }
}

fn get_messages_answers(transcript: &Path) -> Vec<Vec<Value>> {
    fs::read_to_string(transcript)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|record| record["dir"] == "out" && record["msg"]["command"] == "get_messages")
        .map(|record| record["msg"]["data"]["messages"].as_array().unwrap().clone())
        .collect()
}

/// Returns the projection after each line of the recorded files of a scenario.
fn contexts_over_time(name: &str) -> Vec<Vec<Value>> {
    let stem = name.strip_suffix(".jsonl").unwrap();
    let mut contexts = Vec::new();
    let copies = std::iter::once(fixture("sessions", name)).chain(
        (2..).map(|number| fixture("sessions", &format!("{stem}.{number}.jsonl"))).take_while(|path| path.exists()),
    );
    for path in copies {
        let loaded = load_bytes(&fs::read(path).unwrap()).unwrap();
        let mut tree = SessionTree::new(loaded.header);
        for entry in loaded.entries {
            tree.push(entry);
            contexts.push(projection(&tree));
        }
    }
    contexts
}

fn projection(tree: &SessionTree) -> Vec<Value> {
    build_context(tree)
        .messages
        .iter()
        .map(|message| normalised(&serde_json::to_value(&*message.message).unwrap()))
        .collect()
}

/// A user text that is stored as a bare string reads as one block; the recordings show it as it is stored.
fn normalised(message: &Value) -> Value {
    let mut message = message.clone();
    if message["role"] == "user"
        && let Some(text) = message["content"].as_str()
    {
        message["content"] = json!([{ "type": "text", "text": text }]);
    }
    message
}

#[test]
fn hand_made_files_give_what_pi_gave_for_them() {
    let setup: Value = serde_json::from_slice(&fs::read(fixture("setups", "switch-odd-files.json")).unwrap()).unwrap();
    let answers = get_messages_answers(&fixture("transcripts", "switch-odd-files.jsonl"));
    let mut compared = 0;
    for name in ["torn2.jsonl", "v1.jsonl", "dangling.jsonl"] {
        // The recording shortens long texts.
        let Ok(loaded) = load_bytes(setup["files"][name].as_str().unwrap().as_bytes()) else { continue };
        let context = projection(&SessionTree::from_entries(loaded.header, loaded.entries));
        compared +=
            usize::from(answers.iter().any(|answer| answer.iter().map(normalised).collect::<Vec<_>>() == context));
    }
    assert_eq!(compared, 3);
}

fn facts_of(name: &str) -> SessionFacts {
    let path = fixture("sessions", name);
    let loaded = load_bytes(&fs::read(&path).unwrap()).unwrap();
    let len = loaded.len;
    summarize(&SessionTree::from_entries(loaded.header, loaded.entries), &path, len)
}

#[test]
fn a_recorded_session_in_short() {
    let facts = facts_of("compact-manual.jsonl");
    assert_eq!(facts.id.as_str(), "01a22bed-7370-7228-ac95-725add1f28d9");
    assert_eq!((facts.created, facts.modified), (1_796_033_311_601, 1_796_033_311_980));
    assert_eq!(facts.message_count, 13);
    // get_session_stats said so at the end of the recording
    assert!((facts.cost - 0.01904).abs() < 1e-12, "{}", facts.cost);
    assert_eq!(facts.model.as_deref(), Some("fake/small"));
    let first = facts.first_message.unwrap();
    assert!(first.starts_with("Q1 lorem ipsum") && first.chars().count() == FIRST_MESSAGE_CHARS, "{first}");
    assert_eq!(facts.name, None);
}

#[test]
fn the_last_name_is_shown() {
    assert_eq!(facts_of("concurrent-commands.jsonl").name.as_deref(), Some("n"));
}

use std::os::unix::fs::PermissionsExt;

use agentd_protocol::message::{ContentBlock, StopReason};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::agent::machine::QueuedMessage;

fn delta(index: usize, text: &str) -> JournalRecord {
    JournalRecord::Update(JournalUpdate::Delta(index, text.into()))
}

fn message_start(id: &str) -> JournalRecord {
    let message =
        serde_json::from_str(r#"{"api":"a","provider":"p","model":"m","stopReason":"pending","timestamp":5}"#).unwrap();
    JournalRecord::MessageStart { entry_id: id.into(), parent_id: Some("u".into()), message: Box::new(message) }
}

fn written(id: &str) -> JournalRecord {
    JournalRecord::MessageWritten { entry_id: id.into() }
}

fn queue(texts: &[&str]) -> JournalRecord {
    JournalRecord::Queue { steering: messages(texts), follow_up: vec![] }
}

fn queued(texts: &[&str]) -> JournalRecord {
    JournalRecord::Queued { steering: messages(texts), follow_up: vec![] }
}

fn unqueued(texts: &[&str]) -> JournalRecord {
    JournalRecord::Unqueued { entry_ids: texts.iter().map(|text| format!("q{text}").into()).collect() }
}

fn messages(texts: &[&str]) -> Vec<QueuedMessage> {
    texts
        .iter()
        .map(|text| QueuedMessage {
            entry_id: format!("q{text}").into(),
            message: agentd_protocol::message::UserMessage {
                content: vec![ContentBlock::text(*text)],
                timestamp: 1,
                client_message_id: Some((*text).into()),
            },
        })
        .collect()
}

fn run() -> JournalRecord {
    JournalRecord::Run { session_file: "/s/a.jsonl".into(), started: 9 }
}

fn tool_result(id: &str) -> JournalRecord {
    let message =
        serde_json::from_str(r#"{"toolCallId":"c","toolName":"bash","content":[],"isError":false,"timestamp":1}"#)
            .unwrap();
    JournalRecord::ToolFinished { entry_id: id.into(), message: Box::new(message) }
}

fn one_of_each() -> Vec<JournalRecord> {
    vec![
        run(),
        queue(&["x\ny"]),
        queued(&["z"]),
        unqueued(&["x\ny"]),
        message_start("a"),
        JournalRecord::Update(JournalUpdate::Start(0, JournalBlock::Text)),
        delta(0, "He\u{2028}l\nlo \0 \u{1F600}"),
        JournalRecord::Update(JournalUpdate::End(0)),
        JournalRecord::Update(JournalUpdate::Start(1, JournalBlock::Thinking)),
        JournalRecord::Update(JournalUpdate::Signature(1, "sig".into())),
        JournalRecord::Update(JournalUpdate::Redacted(1)),
        JournalRecord::Update(JournalUpdate::Start(2, JournalBlock::ToolCall("c".into(), "bash".into()))),
        JournalRecord::Update(JournalUpdate::Name(2, "d".into(), "read".into())),
        JournalRecord::Usage(agentd_protocol::message::Usage { input: 3, ..Default::default() }),
        written("a"),
        JournalRecord::ToolStarted { tool_call_id: "c".into(), tool_name: "bash".into(), entry_id: "t".into() },
        tool_result("t"),
    ]
}

fn journal(dir: &tempfile::TempDir) -> CrashJournal {
    CrashJournal::open(&dir.path().join("journal/s.journal"))
}

#[test]
fn records_come_back_and_deltas_are_short() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir);
    assert!(CrashJournal::read(journal.path()).unwrap().is_empty() && !dir.path().join("journal").exists());
    for record in one_of_each() {
        journal.append(&[record], SyncMode::Data).unwrap();
    }
    assert_eq!(CrashJournal::read(journal.path()).unwrap(), one_of_each());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(journal.path()), mode(&dir.path().join("journal"))), (0o600, 0o700));
    let mut line = Vec::new();
    encode_into(&[delta(0, "text")], &mut line).unwrap();
    assert_eq!(line, b"{\"d\":[0,\"text\"]}\n");
    journal.remove().unwrap();
    journal.remove().unwrap();
    assert!(!journal.path().exists());
}

#[test]
fn text_of_one_block_is_joined() {
    let mut lines = Vec::new();
    encode_into(&[delta(0, "a"), delta(0, "b"), delta(1, "c"), delta(0, "d")], &mut lines).unwrap();
    assert_eq!(decode_all(&lines).0, [delta(0, "ab"), delta(1, "c"), delta(0, "d")]);
}

#[test]
fn a_journal_cut_at_any_byte_gives_a_prefix() {
    let mut bytes = Vec::new();
    encode_into(&one_of_each(), &mut bytes).unwrap();
    let all = one_of_each();
    let mut least = 0;
    for cut in 0..=bytes.len() {
        let (records, whole) = decode_all(&bytes[..cut]);
        assert_eq!(records, all[..records.len()]);
        assert!(whole <= cut as u64 && records.len() >= least);
        least = records.len();
    }
    assert_eq!(least, all.len());
}

#[test]
fn going_on_after_a_torn_record_hides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = journal(&dir);
    first.append(&[run(), queue(&["a"])], SyncMode::Flush).unwrap();
    let whole = fs::read(first.path()).unwrap();
    fs::write(first.path(), [&whole[..], b"{\"d\":[0,\"to"].concat()).unwrap();
    let mut second = journal(&dir);
    second.append(&[queue(&["b"])], SyncMode::Flush).unwrap();
    assert_eq!(CrashJournal::read(second.path()).unwrap(), [run(), queue(&["a"]), queue(&["b"])]);
}

#[test]
fn reset_replaces_all_and_an_empty_one_removes() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir);
    journal.append(&one_of_each(), SyncMode::Flush).unwrap();
    journal.reset(&[queue(&["a"])], SyncMode::Data).unwrap();
    journal.append(&[run()], SyncMode::Flush).unwrap();
    assert_eq!(CrashJournal::read(journal.path()).unwrap(), [queue(&["a"]), run()]);
    assert_eq!(fs::read_dir(dir.path().join("journal")).unwrap().count(), 1);
    journal.reset(&[], SyncMode::Flush).unwrap();
    assert!(!journal.path().exists() && journal.is_empty());
}

#[test]
fn links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    fs::write(&target, "precious").unwrap();
    fs::create_dir(dir.path().join("journal")).unwrap();
    let mut journal = journal(&dir);
    std::os::unix::fs::symlink(&target, journal.path()).unwrap();
    assert!(journal.append(&[run()], SyncMode::Flush).is_err());
    assert!(CrashJournal::read(journal.path()).is_err());
    assert_eq!(fs::read_to_string(target).unwrap(), "precious");
}

#[test]
fn a_long_run_does_not_grow_its_journal_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir);
    journal.append(&[run(), queue(&["a"])], SyncMode::Flush).unwrap();
    let text = "x".repeat(50_000);
    for number in 0..40 {
        let id = format!("m{number}");
        journal.append(&[message_start(&id), delta(0, &text)], SyncMode::Flush).unwrap();
        journal.append(&[written(&id)], SyncMode::Flush).unwrap();
        if journal.is_long() {
            journal.shorten(SyncMode::Flush).unwrap();
        }
        assert!(journal.len() < COMPACT_FROM_BYTES + 60_000);
        assert_eq!(journal.len(), fs::metadata(journal.path()).unwrap().len());
    }
    journal.append(&[message_start("open"), delta(0, "rest")], SyncMode::Flush).unwrap();
    let live = live_records(&CrashJournal::read(journal.path()).unwrap());
    assert_eq!(live, [run(), queue(&["a"]), message_start("open"), delta(0, "rest")]);
}

/// What waits costs its own size and not a multiple of it; what is gone costs nothing for long.
#[test]
fn a_queue_does_not_grow_its_journal_beyond_its_content() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir);
    let text = "x".repeat(50_000);
    let name = |number: usize| format!("{number}{text}");
    let mut save = |record: JournalRecord, dead: u64| {
        journal.note_dead(dead);
        journal.append(&[record], SyncMode::Flush).unwrap();
        if journal.is_long() {
            journal.shorten(SyncMode::Flush).unwrap();
        }
        journal.len()
    };
    // The text, and the two ids that the test makes of it.
    let size = 3 * 51_000;
    for number in 0..40 {
        assert!(save(queued(&[&name(number)]), 0) < size * (number as u64 + 1));
    }
    for number in 0..40 {
        let len = save(unqueued(&[&name(number)]), 3 * 50_000);
        let left = size * (39 - number as u64);
        assert!(len < COMPACT_FROM_BYTES.max(3 * left), "{len} for {left}");
    }
}

#[test]
fn live_records_leave_out_what_has_ended() {
    let check = |records: &[JournalRecord], expected: &[JournalRecord]| assert_eq!(live_records(records), expected);
    check(&[], &[]);
    check(&[run(), message_start("a"), delta(0, "x"), run()], &[run()]);
    check(&[queue(&["a"]), run(), run()], &[queue(&["a"]), run()]);
    check(&[run(), queue(&["a"]), queue(&[])], &[run(), queue(&[])]);
    check(&[queued(&["a", "b"]), run(), unqueued(&["a"]), queued(&["c"])], &[run(), queue(&["b", "c"])]);
    check(&[run(), tool_result("t"), tool_result("u"), written("t")], &[run(), tool_result("u")]);
    check(
        &[run(), message_start("a"), delta(0, "x"), written("a"), message_start("b"), delta(0, "y")],
        &[run(), message_start("b"), delta(0, "y")],
    );
}

#[test]
fn an_assistant_message_is_kept_as_it_was() {
    let JournalRecord::MessageStart { message, .. } = message_start("a") else { panic!() };
    assert_eq!((message.stop_reason, message.timestamp), (StopReason::Pending, 5));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (_, whole) = decode_all(&bytes);
        prop_assert!(whole <= bytes.len() as u64);
    }

    #[test]
    fn any_text_comes_back(texts in proptest::collection::vec((0_usize..3, any::<String>()), 0..20)) {
        let records: Vec<JournalRecord> = texts.iter().map(|(index, text)| delta(*index, text)).collect();
        let mut bytes = Vec::new();
        encode_into(&records, &mut bytes).unwrap();
        let of = |records: &[JournalRecord], wanted: usize| -> String {
            records.iter().filter_map(|record| match record {
                JournalRecord::Update(JournalUpdate::Delta(index, text)) if *index == wanted => Some(&**text),
                _ => None,
            }).collect()
        };
        let again = decode_all(&bytes).0;
        for index in 0..3 {
            prop_assert_eq!(of(&again, index), of(&records, index));
        }
    }
}

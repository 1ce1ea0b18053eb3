use agentd_protocol::message::UserMessage;
use agentd_protocol::methods::{AskedCall, QuestionKind, Resolution, Shown, ShownKind};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::agent::machine::{QueuedMessage, ToolEnd};
use crate::store::crash_journal::live_records;
use crate::store::record::load_bytes;

const FILE: &str = "/s/a.jsonl";

/// A session of which each line is given as `id<parent kind`: `u` a user's message, `a(c1,c2)` a response with these
/// calls, `x(…)` one that failed, `r(c1)` a result, `n` a name.
fn tree(lines: &[&str]) -> SessionTree {
    let mut text =
        r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#.to_owned();
    for line in lines {
        let (place, kind) = line.split_once(' ').unwrap();
        let (id, parent) = place.split_once('<').unwrap();
        let parent = if parent.is_empty() { Value::Null } else { json!(parent) };
        let content = kind.get(1..).unwrap_or_default().trim_matches(['(', ')']);
        let calls: Vec<Value> = content
            .split(',')
            .filter(|call| !call.is_empty())
            .map(|call| json!({ "type": "toolCall", "id": call, "name": "bash", "arguments": {} }))
            .collect();
        let message = match &kind[..1] {
            "u" => json!({ "role": "user", "content": "q", "clientMessageId": format!("c-{id}") }),
            "a" => json!({ "role": "assistant", "content": calls, "stopReason": "toolUse" }),
            "x" => json!({ "role": "assistant", "content": calls, "stopReason": "aborted" }),
            "r" => json!({ "role": "toolResult", "toolCallId": content, "toolName": "bash", "content": [] }),
            _ => Value::Null,
        };
        let entry = if message.is_null() {
            json!({ "type": "session_info", "id": id, "parentId": parent, "timestamp": 1, "name": "n" })
        } else {
            json!({ "type": "message", "id": id, "parentId": parent, "timestamp": 1, "message": message })
        };
        text.push_str(&format!("\n{entry}"));
    }
    let loaded = load_bytes(text.as_bytes()).unwrap();
    assert_eq!(loaded.damaged, []);
    SessionTree::from_entries(loaded.header, loaded.entries)
}

fn run() -> JournalRecord {
    JournalRecord::Run { session_file: FILE.into(), started: 1 }
}

fn start(id: &str, parent: &str) -> JournalRecord {
    let message = json!({ "api": "x", "provider": "p", "model": "m", "stopReason": "pending", "timestamp": 7 });
    JournalRecord::MessageStart {
        entry_id: id.into(),
        parent_id: Some(parent.into()),
        message: Box::new(serde_json::from_value(message).unwrap()),
    }
}

fn block(index: usize, kind: JournalBlock) -> JournalRecord {
    JournalRecord::Update(JournalUpdate::Start(index, kind))
}

fn delta(index: usize, text: &str) -> JournalRecord {
    JournalRecord::Update(JournalUpdate::Delta(index, text.into()))
}

fn end(index: usize) -> JournalRecord {
    JournalRecord::Update(JournalUpdate::End(index))
}

fn tool_started(call: &str, entry: &str) -> JournalRecord {
    JournalRecord::ToolStarted { tool_call_id: call.into(), tool_name: "bash".into(), entry_id: entry.into() }
}

fn tool_finished(call: &str, entry: &str) -> JournalRecord {
    let message = json!({ "toolCallId": call, "toolName": "bash", "content": [{ "type": "text", "text": format!("did {call}") }] });
    JournalRecord::ToolFinished { entry_id: entry.into(), message: Box::new(serde_json::from_value(message).unwrap()) }
}

fn written(entry: &str) -> JournalRecord {
    JournalRecord::MessageWritten { entry_id: entry.into() }
}

fn queued(entry: &str, client: Option<&str>) -> QueuedMessage {
    let message = UserMessage { content: vec![], timestamp: 0, client_message_id: client.map(str::to_owned) };
    QueuedMessage { entry_id: entry.into(), message }
}

fn recovered(lines: &[&str], records: &[JournalRecord]) -> Recovery {
    let mut number = 0;
    recover(&tree(lines), records, 99, || {
        number += 1;
        number
    })
}

/// Says in short what is appended.
#[track_caller]
fn check(lines: &[&str], records: &[JournalRecord], expected: &[&str]) {
    let recovery = recovered(lines, records);
    let shown: Vec<String> = recovery.append.iter().map(shown).collect();
    assert_eq!(shown, expected);
}

fn shown(entry: &RecoveredEntry) -> String {
    let place = format!("{}<{}", entry.id, entry.parent.as_ref().map_or("", EntryId::as_str));
    let EntryBody::Message(message) = &entry.body else {
        let EntryBody::Custom { custom_type, .. } = &entry.body else { panic!("{:?}", entry.body) };
        return format!("{place} {custom_type}");
    };
    match &**message {
        Message::ToolResult(result) => {
            let text = result.content[0].as_text().unwrap();
            let text = match text {
                INTERRUPTED_TOOL => "interrupted",
                UNSTARTED_TOOL => "unstarted",
                other => other,
            };
            format!("{place} {}: {text}{}", result.tool_call_id, if result.is_error { "!" } else { "" })
        }
        Message::Assistant(answer) => {
            assert_eq!((answer.stop_reason, answer.timestamp), (StopReason::Aborted, 7));
            assert_eq!(answer.error_message.as_deref(), Some(INTERRUPTED_MESSAGE));
            format!("{place} {}", serde_json::to_string(&answer.content).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_happened() {
    assert_eq!(recovered(&["u< u"], &[]), Recovery::default());
    // A call without a result that no journal knows of is not ours to answer.
    assert_eq!(recovered(&["u< u", "a<u a(c)"], &[]), Recovery::default());
}

#[test]
fn an_interrupted_run_is_told() {
    assert!(recovered(&["u< u"], &[run()]).interrupted);
    assert!(recovered(&["u< u"], &[run(), start("a", "u")]).interrupted);
    assert!(!recovered(&["u< u"], &[]).interrupted);
}

#[test]
fn in_mid_text() {
    let records = [run(), start("a", "u"), block(0, JournalBlock::Text), delta(0, "Hel"), delta(0, "lo")];
    check(&["u< u"], &records, &[r#"a<u [{"type":"text","text":"Hello"}]"#]);
}

#[test]
fn before_the_first_text() {
    check(&["u< u"], &[run(), start("a", "u")], &["a<u []"]);
    check(&["u< u"], &[run(), start("a", "u"), block(0, JournalBlock::Text)], &["a<u []"]);
}

#[test]
fn in_mid_thinking() {
    let sign = JournalRecord::Update(JournalUpdate::Signature(0, "reasoning_content".into()));
    let records = [
        run(),
        start("a", "u"),
        block(0, JournalBlock::Thinking),
        sign,
        delta(0, "hm"),
        block(1, JournalBlock::Text),
        delta(1, "x"),
    ];
    let expected = r#"a<u [{"type":"thinking","thinking":"hm","thinkingSignature":"reasoning_content"},{"type":"text","text":"x"}]"#;
    check(&["u< u"], &records, &[expected]);
}

#[test]
fn thinking_that_was_withheld_is_known_as_such() {
    let records = [
        run(),
        start("a", "u"),
        block(0, JournalBlock::Thinking),
        JournalRecord::Update(JournalUpdate::Redacted(0)),
        JournalRecord::Update(JournalUpdate::Signature(0, "data".into())),
    ];
    let expected = r#"a<u [{"type":"thinking","thinking":"","thinkingSignature":"data","redacted":true}]"#;
    check(&["u< u"], &records, &[expected]);
}

#[test]
fn in_mid_arguments() {
    let call = |id: &str| JournalBlock::ToolCall(id.into(), "bash".into());
    let name = JournalRecord::Update(JournalUpdate::Name(1, "c2".into(), "read".into()));
    let records = [
        run(),
        start("a", "u"),
        block(0, call("c1")),
        delta(0, r#"{"command":"ls"}"#),
        end(0),
        block(1, call("")),
        name,
        delta(1, r#"{"path":"#),
    ];
    let recovery = recovered(&["u< u"], &records);
    let EntryBody::Message(message) = &recovery.append[0].body else { panic!() };
    let Message::Assistant(answer) = &**message else { panic!() };
    let [ContentBlock::ToolCall(whole), ContentBlock::ToolCall(cut)] = &answer.content[..] else { panic!() };
    assert_eq!((&whole.arguments, &whole.arguments_error), (&json!({ "command": "ls" }), &None));
    assert_eq!((cut.id.as_str(), cut.name.as_str(), &cut.arguments), ("c2", "read", &json!({})));
    assert!(cut.arguments_error.as_ref().unwrap().ends_with("Received arguments:\n{\"path\":"));
    assert_eq!(recovery.append.len(), 1, "calls of an unfinished response are not answered");
}

#[test]
fn usage_so_far_is_kept() {
    let usage = agentd_protocol::message::Usage { input: 5, ..Default::default() };
    let recovery = recovered(&["u< u"], &[run(), start("a", "u"), JournalRecord::Usage(usage)]);
    let EntryBody::Message(message) = &recovery.append[0].body else { panic!() };
    let Message::Assistant(answer) = &**message else { panic!() };
    assert_eq!(answer.usage, usage);
}

#[test]
fn what_is_in_the_file_is_not_written_again() {
    let open = [run(), start("a", "u"), block(0, JournalBlock::Text), delta(0, "Hello")];
    check(&["u< u", "a<u a"], &open, &[]);
    assert!(recovered(&["u< u", "a<u a"], &open).interrupted);
    check(&["u< u", "a<u a(c)", "t<a r(c)"], &[run(), tool_started("c", "t"), tool_finished("c", "t")], &[]);
}

#[test]
fn tools_that_were_running() {
    let records = [run(), start("a", "u"), written("a"), tool_started("c1", "t1"), tool_started("c2", "t2")];
    check(&["u< u", "a<u a(c1,c2)"], &records, &["t1<a c1: interrupted!", "t2<t1 c2: interrupted!"]);
}

#[test]
fn tools_in_all_states_answer_in_the_order_of_the_calls() {
    let records = [
        run(),
        written("a"),
        tool_started("c1", "t1"),
        tool_started("c2", "t2"),
        tool_started("c3", "t3"),
        tool_finished("c3", "t3"),
        tool_finished("c1", "t1"),
    ];
    check(
        &["u< u", "a<u a(c1,c2,c3,c4)"],
        &records,
        &["t1<a c1: did c1", "t2<t1 c2: interrupted!", "t3<t2 c3: did c3", "00000001<t3 c4: unstarted!"],
    );
    // The first result was written before the end came.
    check(
        &["u< u", "a<u a(c1,c2,c3,c4)", "t1<a r(c1)"],
        &records,
        &["t2<t1 c2: interrupted!", "t3<t2 c3: did c3", "00000001<t3 c4: unstarted!"],
    );
}

#[test]
fn a_response_written_whose_tools_never_began() {
    let records = [run(), start("a", "u"), block(0, JournalBlock::Text)];
    check(&["u< u", "a<u a(c1)"], &records, &["00000001<a c1: unstarted!"]);
}

#[test]
fn calls_of_a_failed_response_are_not_answered() {
    check(&["u< u", "a<u x(c1)"], &[run()], &[]);
}

#[test]
fn an_id_that_a_model_uses_again_means_the_later_call() {
    let records = [run(), tool_started("c", "t1"), tool_finished("c", "t1"), written("t1"), tool_started("c", "t2")];
    check(&["u< u", "a<u a(c)", "t1<a r(c)", "b<t1 a(c)"], &records, &["t2<b c: interrupted!"]);
}

#[test]
fn results_come_before_a_response_that_waits_for_them() {
    let records = [
        run(),
        tool_started("c", "t"),
        tool_finished("c", "t"),
        start("b", "t"),
        block(0, JournalBlock::Text),
        delta(0, "x"),
    ];
    check(&["u< u", "a<u a(c)"], &records, &["t<a c: did c", r#"b<t [{"type":"text","text":"x"}]"#]);
}

#[test]
fn a_setting_changed_meanwhile_stays_on_the_branch() {
    let records = [run(), start("a", "u"), block(0, JournalBlock::Text), delta(0, "x")];
    check(&["u< u", "n<u n"], &records, &[r#"a<n [{"type":"text","text":"x"}]"#]);
}

#[test]
fn another_program_that_went_on_keeps_the_leaf() {
    let records = [run(), start("a", "u"), block(0, JournalBlock::Text), delta(0, "x")];
    let text = r#"[{"type":"text","text":"x"}]"#;
    check(&["u< u", "v<u u", "w<v a"], &records, &[&format!("a<u {text}"), "00000001<w agentd.leaf"]);
    check(&["u< u", "v< u"], &records, &[&format!("a<u {text}"), "00000001<v agentd.leaf"]);
    // Nor does it get results for calls that it went on without.
    check(&["u< u", "a<u a(c)", "v<a u"], &[run(), tool_started("c", "t")], &[]);
}

#[test]
fn a_lost_parent_hangs_the_rest_from_the_leaf() {
    let records = [run(), start("a", "lost"), block(0, JournalBlock::Text), delta(0, "x")];
    check(&["u< u"], &records, &[r#"a<u [{"type":"text","text":"x"}]"#]);
}

#[test]
fn a_journal_names_its_file_in_its_last_run() {
    assert_eq!(journal_of(&[start("a", "u")]), None);
    let elsewhere = JournalRecord::Run { session_file: "/s/old.jsonl".into(), started: 0 };
    assert_eq!(journal_of(&[elsewhere, run(), start("a", "u")]), Some(Path::new(FILE)));
}

#[test]
fn queues_come_back_without_what_was_written() {
    let queue =
        |steering: Vec<QueuedMessage>, follow_up: Vec<QueuedMessage>| JournalRecord::Queue { steering, follow_up };
    let (one, two, three) = (queued("q1", None), queued("q2", Some("m2")), queued("q3", None));
    let recovery = recovered(&["u< u"], &[queue(vec![one.clone()], vec![two.clone(), three.clone()])]);
    assert_eq!(
        (&recovery.steering[..], &recovery.follow_up[..]),
        (&[one.clone()][..], &[two.clone(), three.clone()][..])
    );
    assert!(!recovery.interrupted && recovery.append.is_empty());
    // The last one counts, also over the beginning of a run.
    let recovery = recovered(&["u< u"], &[queue(vec![one.clone()], vec![]), queue(vec![], vec![two]), run()]);
    assert_eq!((recovery.steering.len(), recovery.follow_up.len(), recovery.interrupted), (0, 1, true));
    // Written just before the crash: known by its entry, or by the client's id.
    let again = queued("q9", Some("c-u"));
    let recovery = recovered(&["u< u", "q1<u u"], &[queue(vec![one, again], vec![three.clone()])]);
    assert_eq!((recovery.steering, recovery.follow_up), (vec![], vec![three]));
}

#[test]
fn a_recovery_cut_short_by_a_crash_is_finished_by_the_next() {
    let records = [run(), tool_started("c1", "t1"), tool_finished("c1", "t1"), tool_started("c2", "t2")];
    let lines = ["u< u", "a<u a(c1,c2)"];
    let whole = recovered(&lines, &records);
    let with_first = recovered(&[&lines[..], &["t1<a r(c1)"]].concat(), &records);
    assert_eq!(with_first.append, whole.append[1..]);
    let with_both = recovered(&[&lines[..], &["t1<a r(c1)", "t2<t1 r(c2)"]].concat(), &records);
    assert!(with_both.append.is_empty());
}

/// Whenever the end came: what is recovered can be added, every call of an unfailed response has one result right
/// after it, and there is nothing left to recover.
#[test]
fn a_crash_after_any_record_leaves_a_whole_session() {
    let call = |id: &str| JournalBlock::ToolCall(id.into(), "bash".into());
    // What the journal and the session file got, in the order in which they got it.
    enum Step {
        Journal(JournalRecord),
        File(&'static str),
    }
    use Step::{File, Journal};
    let steps = [
        Journal(run()),
        Journal(start("a", "u")),
        Journal(block(0, call("c1"))),
        Journal(delta(0, "{}")),
        Journal(block(1, call("c2"))),
        File("a<u a(c1,c2)"),
        Journal(written("a")),
        Journal(tool_started("c1", "t1")),
        Journal(tool_started("c2", "t2")),
        Journal(tool_finished("c2", "t2")),
        Journal(tool_finished("c1", "t1")),
        File("t1<a r(c1)"),
        Journal(written("t1")),
        File("t2<t1 r(c2)"),
        Journal(written("t2")),
        Journal(start("b", "t2")),
        Journal(block(0, JournalBlock::Text)),
        Journal(delta(0, "done")),
        File("b<t2 a"),
        Journal(written("b")),
    ];
    for cut in 0..=steps.len() {
        let (mut lines, mut records) = (vec!["u< u"], Vec::new());
        for step in &steps[..cut] {
            match step {
                Journal(record) => records.push(record.clone()),
                File(line) => lines.push(line),
            }
        }
        let mut tree = tree(&lines);
        let mut random = 0;
        let mut recovery = |tree: &SessionTree, records: &[JournalRecord]| {
            recover(tree, records, 99, || {
                random += 1;
                random
            })
        };
        for entry in recovery(&tree, &records).append {
            assert_eq!(entry.parent.as_ref(), tree.leaf(), "cut {cut}");
            tree.push(crate::store::record::encode_entry(&entry.id, entry.parent.as_ref(), 1, &entry.body).unwrap());
        }
        assert!(recovery(&tree, &records).append.is_empty(), "cut {cut}");
        let pruned = crate::store::crash_journal::live_records(&records);
        assert!(recovery(&tree, &pruned).append.is_empty(), "cut {cut}");
        check_pairs(&tree, cut);
    }
}

#[track_caller]
fn check_pairs(tree: &SessionTree, cut: usize) {
    let messages: Vec<_> = tree.branch().iter().filter_map(|entry| entry.message().cloned()).collect();
    for (place, message) in messages.iter().enumerate() {
        let Message::Assistant(answer) = &**message else { continue };
        if answer.stop_reason == StopReason::Aborted {
            continue;
        }
        let calls = answer.content.iter().filter_map(|block| match block {
            ContentBlock::ToolCall(call) => Some(call.id.clone()),
            _ => None,
        });
        let results = messages[place + 1..].iter().map_while(|message| match &**message {
            Message::ToolResult(result) => Some(result.tool_call_id.clone()),
            _ => None,
        });
        assert!(calls.eq(results), "cut {cut}");
    }
}

#[test]
fn odd_records_harm_nothing() {
    let records = [
        delta(0, "before any message"),
        end(7),
        run(),
        start("a", "u"),
        delta(3, "no such block"),
        block(usize::MAX, JournalBlock::Text),
        block(2, JournalBlock::Text),
        delta(2, "x"),
    ];
    check(&["u< u"], &records, &[r#"a<u [{"type":"text","text":"x"}]"#]);
}

#[test]
fn recovered_entries_can_be_written() {
    let records = [run(), start("a", "u"), block(0, JournalBlock::Text), delta(0, "x\u{2028}")];
    for entry in recovered(&["u< u", "v<u u"], &records).append {
        crate::store::record::encode_entry(&entry.id, entry.parent.as_ref(), 1, &entry.body).unwrap();
    }
}

fn asked(leaf: &str, entries: &[&str]) -> JournalRecord {
    let question = |entry: &&str| Question {
        deadline: None,
        tool: None,
        approval_id: questions::approval_id(&"s".into(), &(*entry).into()),
        kind: QuestionKind::MaxTurns,
        text: String::new(),
        options: Vec::new(),
        asked_at: 0,
        turns: None,
    };
    JournalRecord::Questions { leaf_id: Some(leaf.into()), questions: entries.iter().map(question).collect() }
}

/// Which questions are open, and whether the run counts as interrupted.
#[track_caller]
fn check_asked(tree: &SessionTree, records: &[JournalRecord], expected: (&[&str], bool)) {
    let recovery = recover(tree, records, 99, || 1);
    let ids: Vec<_> = recovery.questions.iter().map(|question| question.approval_id.as_str()).collect();
    assert_eq!((&ids[..], recovery.interrupted), expected);
    assert_eq!(recovery.append, []);
}

#[test]
fn an_open_question_is_asked_again() {
    let lines = ["u< u", "a<u a(c)", "r<a r(c)"];
    let records = [run(), asked("r", &["q"])];
    check_asked(&tree(&lines), &records, (&["s.q"], false));
    // A change of the name meanwhile is no answer; a message of another program is.
    check_asked(&tree(&[&lines[..], &["n<r n"]].concat()), &records, (&["s.q"], false));
    check_asked(&tree(&[&lines[..], &["v<r u"]].concat()), &records, (&[], true));
    // Another file has taken the place of the one where it was asked.
    check_asked(&tree(&["u< u"]), &records, (&[], true));
    // The last record counts, and a later run had none.
    check_asked(&tree(&lines), &[run(), asked("r", &["q"]), asked("r", &["p", "q"])], (&["s.p", "s.q"], false));
    check_asked(&tree(&lines), &[run(), asked("r", &["q"]), run()], (&[], true));
    assert_eq!(live_records(&[run(), asked("u", &["p"]), asked("r", &["q"])]), records);
}

#[test]
fn a_question_whose_answer_is_in_the_file_is_not() {
    let mut tree = tree(&["u< u"]);
    let mut book = questions::QuestionBook::default();
    let JournalRecord::Questions { questions, .. } = asked("u", &["q"]) else { panic!("questions") };
    book.ask(questions[0].clone());
    let end = book.end(|_| true, Resolution::Cancelled, 0).remove(0);
    tree.push(crate::store::record::encode_entry(&end.entry_id, Some(&"u".into()), 0, &end.body).unwrap());
    check_asked(&tree, &[run(), asked("u", &["q"])], (&[], true));
}

/// A question about a call, whose result will be the entry `e-<call>`.
fn asked_about(leaf: &str, calls: &[&str]) -> JournalRecord {
    let JournalRecord::Questions { leaf_id, mut questions } = asked(leaf, calls) else { panic!("questions") };
    for (question, call) in questions.iter_mut().zip(calls) {
        let shown = Shown { kind: ShownKind::Command, text: "c".into(), is_complete: true, is_exact: true };
        question.kind = QuestionKind::Tool;
        question.tool = Some(Box::new(AskedCall {
            tool_call_id: (*call).into(),
            tool_name: "bash".into(),
            entry_id: format!("e-{call}").as_str().into(),
            reason: String::new(),
            cwd: "/".into(),
            shown,
            always: Vec::new(),
            digest: String::new(),
        }));
    }
    JournalRecord::Questions { leaf_id, questions }
}

/// The calls of the batch that is left: their entries, and what their results say.
fn left(recovery: &Recovery) -> Vec<String> {
    let calls = recovery.batch.iter().flat_map(|batch| &batch.calls);
    let text = |end: &ToolEnd| match end.result.content[0].as_text().unwrap() {
        INTERRUPTED_TOOL => "interrupted".to_owned(),
        UNSTARTED_TOOL => "unstarted".to_owned(),
        other => other.to_owned(),
    };
    calls
        .map(|(start, end)| format!("{}={} {}", start.entry_id, start.id, end.as_ref().map_or("asks".into(), text)))
        .collect()
}

#[test]
fn a_call_that_was_asked_about_is_asked_about_again_and_the_others_are_not_run() {
    let lines = ["u< u", "a<u a(f,s,q,n,p)"];
    let records = [
        run(),
        tool_started("f", "e-f"),
        tool_started("s", "e-s"),
        asked_about("a", &["q", "p"]),
        tool_finished("f", "e-f"),
    ];
    let recovery = recovered(&lines, &records);
    let expected =
        ["e-f=f did f", "e-s=s interrupted", "e-q=q asks", "00000001=n unstarted", "e-p=p asks"].map(str::to_owned);
    assert_eq!(left(&recovery), expected);
    assert_eq!((recovery.questions.len(), recovery.interrupted), (2, false));
    assert_eq!(recovery.append, [], "the results are written when all are there");
    assert_eq!(recovery.batch.map(|batch| batch.assistant.id), Some("a".into()));
}

#[test]
fn what_was_left_before_is_left_again() {
    let lines = ["u< u", "a<u a(f,q)"];
    let records = [run(), tool_finished("f", "e-f"), asked_about("a", &["q"])];
    assert_eq!(left(&recovered(&lines, &records)), ["e-f=f did f", "e-q=q asks"]);
    assert_eq!(live_records(&records), records);
}

#[test]
fn calls_whose_questions_have_ended_are_answered_as_ever() {
    let records = |calls: &[&str]| [run(), asked_about("a", calls), tool_finished("f", "e-f")];
    // The last question was answered, and the call had not begun.
    let recovery = recovered(&["u< u", "a<u a(f,q)"], &records(&[]));
    assert_eq!((left(&recovery), recovery.append.len(), recovery.interrupted), (Vec::new(), 2, true));
    // Somebody went on with the session.
    let recovery = recovered(&["u< u", "a<u a(f,q)", "v<a u"], &records(&["q"]));
    assert_eq!((left(&recovery), recovery.questions, recovery.interrupted), (Vec::new(), Vec::new(), true));
    // The call is not there.
    let recovery = recovered(&["u< u", "a<u a(f)"], &records(&["q"]));
    assert_eq!((left(&recovery), recovery.questions, recovery.append.len()), (Vec::new(), Vec::new(), 1));
}

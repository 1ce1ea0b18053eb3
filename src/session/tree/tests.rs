use std::sync::Arc;

use agentd_protocol::message::{AssistantMessage, Cost, StopReason, ToolCall, UserMessage};
use agentd_protocol::{SessionId, ToolCallId};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;

fn header() -> Header {
    Header { version: 3, id: SessionId::new("s"), timestamp: 0, cwd: "/".into(), parent_session: None }
}

fn entry(id: &str, parent: Option<&str>, body: EntryBody) -> Entry {
    let raw: Arc<RawValue> = RawValue::from_string("{}".into()).unwrap().into();
    Entry { id: id.into(), parent_id: parent.map(EntryId::from), timestamp: 0, body, raw }
}

fn plain(id: &str, parent: Option<&str>) -> Entry {
    entry(id, parent, EntryBody::Custom { custom_type: "t".into(), data: Value::Null })
}

fn user(id: &str, parent: Option<&str>, client_message_id: Option<&str>) -> Entry {
    let message = UserMessage {
        content: vec![ContentBlock::text("hi")],
        timestamp: 0,
        client_message_id: client_message_id.map(str::to_owned),
    };
    entry(id, parent, EntryBody::Message(Arc::new(Message::User(message))))
}

#[track_caller]
fn check_branch(entries: &[(&str, Option<&str>)], expected: &[&str]) {
    let entries = entries.iter().map(|(id, parent)| plain(id, *parent)).collect();
    let tree = SessionTree::from_entries(header(), entries);
    let ids: Vec<&str> = tree.branch().iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, expected);
}

#[test]
fn the_branch_runs_from_the_root_to_the_last_line() {
    check_branch(&[], &[]);
    check_branch(&[("a", None)], &["a"]);
    check_branch(&[("a", None), ("b", Some("a")), ("c", Some("b"))], &["a", "b", "c"]);
    // a fork in the file
    check_branch(&[("a", None), ("b", Some("a")), ("c", Some("a"))], &["a", "c"]);
    // a second root
    check_branch(&[("a", None), ("b", None)], &["b"]);
}

#[test]
fn odd_parents_neither_hang_nor_cut_the_history() {
    // a lost line in the middle
    check_branch(&[("a", None), ("c", Some("lost")), ("d", Some("c"))], &["a", "c", "d"]);
    // a lost first line
    check_branch(&[("b", Some("lost")), ("c", Some("b"))], &["b", "c"]);
    // its own parent
    check_branch(&[("a", None), ("b", Some("b"))], &["a", "b"]);
    // a circle
    check_branch(&[("a", Some("b")), ("b", Some("a"))], &["a", "b"]);
    // one id twice: the first has it, but the last line is the leaf all the same
    check_branch(&[("a", None), ("b", Some("a")), ("a", Some("b"))], &["a", "b", "a"]);
}

#[test]
fn a_moved_leaf_makes_a_branch() {
    let mut tree = SessionTree::new(header());
    for (id, parent) in [("a", None), ("b", Some("a")), ("c", Some("b"))] {
        tree.push(plain(id, parent));
    }
    tree.push(entry("m", Some("a"), EntryBody::Custom { custom_type: "agentd.leaf".into(), data: Value::Null }));
    assert_eq!(tree.leaf(), Some(&"m".into()));
    let ids: Vec<&str> = tree.branch().iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["a", "m"]);
    let ids = tree.branch_to(&"c".into()).unwrap().iter().map(|entry| entry.id.to_string()).collect::<Vec<_>>();
    assert_eq!(ids, ["a", "b", "c"]);
    assert!(tree.branch_to(&"x".into()).is_none());
}

#[test]
fn new_ids_are_free_and_look_like_pis() {
    let mut tree = SessionTree::new(header());
    tree.push(plain("0000002a", None));
    let mut numbers = [42_u32, 42, 7].into_iter();
    assert_eq!(tree.new_entry_id(|| numbers.next().unwrap()).as_str(), "00000007");
}

#[test]
fn a_clients_message_is_found_again() {
    let mut tree = SessionTree::new(header());
    tree.push(user("a", None, Some("m1")));
    tree.push(user("b", Some("a"), Some("m1")));
    tree.push(user("c", Some("b"), None));
    assert_eq!(tree.find_client_message("m1"), Some(&"a".into()));
    assert_eq!(tree.find_client_message("m2"), None);
}

#[test]
fn the_last_name_counts_whatever_its_branch() {
    let name = |id: &str, name: &str| entry(id, None, EntryBody::SessionInfo { name: name.into() });
    let mut tree = SessionTree::new(header());
    assert_eq!(tree.name(), None);
    tree.push(name("a", "one"));
    tree.push(name("b", "two"));
    tree.push(plain("c", Some("a")));
    assert_eq!(tree.name(), Some("two"));
    tree.push(name("d", ""));
    assert_eq!(tree.name(), None);
}

#[test]
fn stats_count_the_whole_file() {
    let usage = Usage {
        input: 10,
        output: u64::MAX,
        cache_read: 3,
        cost: Cost { total: 0.5, ..Cost::default() },
        ..Usage::default()
    };
    let call = ToolCall {
        id: ToolCallId::new("c"),
        name: "bash".into(),
        arguments: Value::Null,
        arguments_error: None,
        arguments_text: None,
        thought_signature: None,
    };
    let answer = AssistantMessage {
        content: vec![ContentBlock::text("x"), ContentBlock::ToolCall(call.clone()), ContentBlock::ToolCall(call)],
        api: String::new(),
        provider: String::new(),
        model: String::new(),
        usage,
        stop_reason: StopReason::ToolUse,
        timestamp: 0,
        response_id: None,
        raw_stop_reason: None,
        response_model: None,
        error_message: None,
        duration_ms: None,
        thinking_level: None,
    };
    let mut tree = SessionTree::new(header());
    tree.push(user("a", None, None));
    tree.push(entry("b", Some("a"), EntryBody::Message(Arc::new(Message::Assistant(answer)))));
    tree.push(entry("c", Some("a"), EntryBody::Usage(Box::new(usage))));
    let stats = tree.stats();
    assert_eq!((stats.user_messages, stats.assistant_messages, stats.tool_calls, stats.total_messages), (1, 1, 2, 2));
    assert_eq!((stats.tokens.input, stats.tokens.output, stats.tokens.total), (20, u64::MAX, u64::MAX));
    assert_eq!(stats.cost, 1.0);
}

proptest! {
    #[test]
    fn any_parents_give_a_finite_branch_that_ends_at_the_leaf(
        links in proptest::collection::vec((0_u8..12, proptest::option::of(0_u8..14)), 0..40),
    ) {
        let mut tree = SessionTree::new(header());
        for (id, parent) in &links {
            tree.push(plain(&id.to_string(), parent.map(|parent| parent.to_string()).as_deref()));
        }
        let branch = tree.branch();
        prop_assert!(branch.len() <= links.len());
        prop_assert_eq!(branch.last().map(|entry| &entry.id), tree.leaf());
        let again = SessionTree::from_entries(header(), tree.entries().to_vec());
        prop_assert_eq!(again.branch().len(), branch.len());
    }
}

#[test]
fn a_chain_of_a_hundred_thousand_entries_is_walked() {
    let entries: Vec<Entry> = (0..100_000_u32)
        .map(|n| plain(&n.to_string(), n.checked_sub(1).map(|parent| parent.to_string()).as_deref()))
        .collect();
    assert_eq!(SessionTree::from_entries(header(), entries).branch().len(), 100_000);
}

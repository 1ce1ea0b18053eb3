//! The views `entries` and `status`.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn assistant(id: &str) -> MessageEntry {
    let message = json!({"role": "assistant", "content": [], "api": "a", "provider": "p", "model": "m",
        "usage": {}, "stopReason": "stop", "timestamp": 0});
    MessageEntry { id: id.into(), message: Arc::new(serde_json::from_value(message).unwrap()), client: None }
}

fn call() -> Arc<ToolStart> {
    let args = json!({"command": "ls"});
    Arc::new(ToolStart { id: "c".into(), name: "bash".into(), args, arguments_error: None, entry_id: "t".into() })
}

/// 1 start of a message, 2 delta, 3 a client comes, 4 end of the message, 5 a tool begins, 6 its output, 7 its end,
/// 8 end of the turn, 9 an entry, 10 the run has settled.
fn a_run() -> Vec<Event> {
    vec![
        Event::MessageStart(assistant("m")),
        delta(0, "x"),
        Event::ClientAttached { client: Arc::default(), view: View::Full, clients: 2 },
        Event::MessageEnd(assistant("m")),
        Event::ToolExecutionStart(call()),
        output("c", "y"),
        Event::ToolExecutionEnd { call: call(), result: Arc::default(), is_error: false, duration_ms: Some(1) },
        Event::TurnEnd { message: assistant("m"), tool_results: Vec::new() },
        Event::EntryAppended(serde_json::from_str(r#"{"type":"label","id":"e","x":1}"#).unwrap()),
        settled(),
    ]
}

fn pulled(subscription: &mut Subscription) -> Vec<Value> {
    let mut frames = Vec::new();
    assert_eq!(subscription.pull(&mut frames, MUCH, None), Pull::Empty);
    frames.iter().map(|frame| serde_json::from_slice::<Value>(frame).unwrap()["params"].take()).collect()
}

fn numbers(events: &[Value]) -> Vec<Seq> {
    events.iter().map(|event| event["seq"].as_u64().unwrap()).collect()
}

#[test]
fn entries_shows_what_is_complete_in_the_frames_of_full() {
    let ring = ring();
    let mut full = ring.subscribe(View::Full, 0, Wake::new());
    let mut entries = ring.subscribe(View::Entries, 0, Wake::new());
    ring.push(a_run());
    let (full, shown) = (pulled(&mut full), pulled(&mut entries));
    assert_eq!(numbers(&shown), [3, 4, 5, 7, 8, 9, 10]);
    assert!(shown.iter().all(|event| full.contains(event)));
}

#[test]
fn status_shows_what_is_new_without_its_content() {
    let ring = ring();
    let mut status = ring.subscribe(View::Status, 0, Wake::new());
    ring.push(a_run());
    let shown = pulled(&mut status);
    assert_eq!(numbers(&shown), [3, 4, 5, 7, 9, 10]);
    let events: Vec<&Value> = shown.iter().map(|event| &event["event"]).collect();
    assert_eq!(*events[1], json!({"type": "message_end", "entryId": "m"}));
    assert_eq!(*events[2], json!({"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash"}));
    assert_eq!(
        *events[3],
        json!({"type": "tool_execution_end", "toolCallId": "c", "toolName": "bash", "isError": false, "durationMs": 1})
    );
    assert_eq!(*events[4], json!({"type": "entry_appended", "entry": {"type": "label", "id": "e"}}));
    for event in shown {
        serde_json::from_value::<EventParams>(event).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_woken_for_what_a_view_does_not_show() {
    let ring = ring();
    let wake = Wake::new();
    let mut entries = ring.subscribe(View::Entries, 0, wake.clone());
    check_pull(&mut entries, None, &[], Pull::Empty);
    ring.push([delta(0, "a"), output("c", "b")]);
    assert_eq!(wake.take(), []);
    ring.push([settled()]);
    assert_eq!(wake.take(), [entries.token()]);
    // What it does not show can be gone without its missing anything.
    ring.settle();
    tokio::time::advance(RING_DELTA_KEEP).await;
    ring.drop_deltas();
    check_pull(&mut entries, None, &["3 *"], Pull::Empty);
    let mut late = ring.subscribe(View::Entries, 0, Wake::new());
    check_pull(&mut late, None, &["3 *"], Pull::Empty);
    let mut full = ring.subscribe(View::Full, 0, Wake::new());
    check_pull(&mut full, None, &[], Pull::Lagged);
}

#[test]
fn a_cursor_of_a_poorer_view_is_exact_only_where_nothing_grows() {
    let ring = ring();
    ring.push(a_run());
    let exact = |from: View, to: View| {
        let is_exact = |seq: &Seq| ring.can_replay(&Cursor { epoch: "e1".into(), seq: *seq, view: Some(from) }, to);
        (0..=10).filter(is_exact).collect::<Vec<Seq>>()
    };
    assert_eq!(exact(View::Entries, View::Full), [0, 4, 7, 8, 9, 10]);
    // The content of the result came with event 7, and its entry has not come.
    assert_eq!(exact(View::Status, View::Entries), [0, 4, 10]);
    let all: Vec<Seq> = (0..=10).collect();
    assert_eq!(exact(View::Full, View::Coalesced), all);
    assert_eq!(exact(View::Full, View::Status), all);
    assert_eq!(exact(View::Entries, View::Entries), all);
}

use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::event::{AssistantMessageEvent, Event as WireEvent, EventParams};
use agentd_protocol::message::{ContentBlock, Message, UserMessage};
use agentd_protocol::methods::{RunEnd, View};
use agentd_protocol::{Cursor, EntryId, Seq};
use bytes::Bytes;
use pretty_assertions::assert_eq;

use super::*;
use crate::agent::event::{AssistantUpdate, BlockKind, DeltaKind, Event, MessageEntry, ToolStart};
use crate::constants::RING_DELTA_KEEP;

mod laws;
mod views;

const MUCH: usize = usize::MAX;

fn ring() -> Ring {
    Ring::new("s1".into(), "e1".into(), RingBudget::new(MUCH))
}

fn delta(index: usize, text: &str) -> Event {
    let update = AssistantUpdate::Delta { index, kind: DeltaKind::Text, delta: text.into() };
    Event::MessageUpdate { usage: None, update }
}

fn output(call: &str, text: &str) -> Event {
    let args = serde_json::Value::Null;
    let call =
        Arc::new(ToolStart { id: call.into(), name: "bash".into(), args, arguments_error: None, entry_id: "e".into() });
    Event::ToolExecutionUpdate { call, delta: text.into() }
}

fn block_start(index: usize) -> Event {
    let update = AssistantUpdate::Start { index, block: BlockKind::Text };
    Event::MessageUpdate { usage: None, update }
}

fn settled() -> Event {
    Event::AgentSettled { aborted: false, reason: RunEnd::Done, error_message: None }
}

fn message_end(text: &str) -> Event {
    let message = UserMessage { content: vec![ContentBlock::text(text)], timestamp: 0, client_message_id: None };
    Event::MessageEnd(MessageEntry { id: EntryId::new("m"), message: Arc::new(Message::User(message)), client: None })
}

fn cursor(seq: Seq) -> Cursor {
    Cursor { epoch: "e1".into(), seq, view: None }
}

fn decode(frame: &Bytes) -> EventParams {
    #[derive(serde::Deserialize)]
    struct Notification {
        params: EventParams,
    }
    serde_json::from_slice::<Notification>(frame).unwrap().params
}

/// Names a frame by its range and the text it adds, such as `3-5 abc`.
fn brief(frame: &Bytes) -> String {
    let params = decode(frame);
    let text = match params.event {
        WireEvent::MessageUpdate {
            assistant_message_event: AssistantMessageEvent::TextDelta { delta, .. }, ..
        }
        | WireEvent::ToolExecutionUpdate { delta, .. } => delta,
        _ => "*".to_owned(),
    };
    match params.from {
        Some(from) => format!("{from}-{} {text}", params.seq),
        None => format!("{} {text}", params.seq),
    }
}

#[track_caller]
fn check_pull(subscription: &mut Subscription, until: Option<Seq>, expected: &[&str], pull: Pull) {
    let mut out = Vec::new();
    let result = subscription.pull(&mut out, MUCH, until);
    assert_eq!(
        (out.iter().map(brief).collect::<Vec<_>>(), result),
        (expected.iter().map(|s| (*s).to_owned()).collect(), pull)
    );
}

#[test]
fn numbers_are_contiguous_from_one() {
    let ring = ring();
    assert_eq!(ring.last_seq(), 0);
    assert_eq!(ring.push([delta(0, "a"), delta(0, "b")]), 2);
    assert_eq!(ring.push([]), 2);
    assert_eq!(ring.push([settled()]), 3);
    let mut full = ring.subscribe(View::Full, 0, Wake::new());
    check_pull(&mut full, None, &["1 a", "2 b", "3 *"], Pull::Empty);
    assert_eq!(full.position(), 3);
}

#[test]
fn deltas_of_one_place_are_merged() {
    let ring = ring();
    let mut sub = ring.subscribe(View::Coalesced, 0, Wake::new());
    ring.push([block_start(0), delta(0, "a"), delta(0, "b\""), delta(0, "c")]);
    check_pull(&mut sub, None, &["1 *"], Pull::Empty);
    assert!(ring.has_open_merge());
    ring.push([delta(1, "d"), output("x", "e"), output("x", "f"), output("y", "g"), settled(), delta(0, "h")]);
    check_pull(&mut sub, None, &["2-4 ab\"c", "5 d", "6-7 ef", "8 g", "9 *"], Pull::Empty);
    ring.flush_merge();
    assert!(!ring.has_open_merge());
    check_pull(&mut sub, None, &["10 h"], Pull::Empty);
}

#[test]
fn nothing_is_merged_without_readers_of_merged_frames() {
    let ring = ring();
    let _full = ring.subscribe(View::Full, 0, Wake::new());
    ring.push([delta(0, "a"), delta(0, "b")]);
    assert!(!ring.has_open_merge());
    let coalesced = ring.subscribe(View::Coalesced, 2, Wake::new());
    ring.push([delta(0, "c")]);
    assert!(ring.has_open_merge());
    drop(coalesced);
    assert!(!ring.has_open_merge());
}

#[test]
fn the_last_usage_of_a_merge_is_kept() {
    let ring = ring();
    let mut sub = ring.subscribe(View::Coalesced, 0, Wake::new());
    let usage = |output| Some(agentd_protocol::message::Usage { output, ..Default::default() });
    let update = |usage| Event::MessageUpdate {
        usage,
        update: AssistantUpdate::Delta { index: 0, kind: DeltaKind::Text, delta: "a".into() },
    };
    ring.push([update(usage(1)), update(usage(2)), update(None)]);
    ring.flush_merge();
    let mut out = Vec::new();
    sub.pull(&mut out, MUCH, None);
    let WireEvent::MessageUpdate { usage: found, .. } = decode(&out[0]).event else { panic!() };
    assert_eq!(found, usage(2));
}

#[test]
fn a_new_subscription_ends_the_open_merge() {
    let ring = ring();
    let mut first = ring.subscribe(View::Coalesced, 0, Wake::new());
    ring.push([delta(0, "a"), delta(0, "b")]);
    let mut second = ring.subscribe(View::Coalesced, 2, Wake::new());
    ring.push([delta(0, "c"), delta(0, "d")]);
    ring.flush_merge();
    check_pull(&mut first, None, &["1-2 ab", "3-4 cd"], Pull::Empty);
    check_pull(&mut second, None, &["3-4 cd"], Pull::Empty);
}

#[test]
fn a_replay_is_not_merged() {
    let ring = ring();
    let _other = ring.subscribe(View::Coalesced, 0, Wake::new());
    ring.push([delta(0, "a"), delta(0, "b"), delta(0, "c")]);
    let mut sub = ring.subscribe(View::Coalesced, 1, Wake::new());
    ring.push([delta(0, "d"), delta(0, "e")]);
    ring.flush_merge();
    check_pull(&mut sub, None, &["2 b", "3 c", "4-5 de"], Pull::Empty);
}

#[test]
fn a_pull_stops_at_its_size() {
    let ring = ring();
    let mut sub = ring.subscribe(View::Full, 0, Wake::new());
    ring.push([delta(0, "a"), delta(0, "b")]);
    let mut out = Vec::new();
    assert_eq!(sub.pull(&mut out, 1, None), Pull::More);
    assert_eq!((out.len(), sub.position()), (1, 1));
    check_pull(&mut sub, None, &["2 b"], Pull::Empty);
}

#[test]
fn a_pull_stops_at_its_number() {
    let ring = ring();
    let mut sub = ring.subscribe(View::Full, 0, Wake::new());
    ring.push([delta(0, "a"), delta(0, "b")]);
    check_pull(&mut sub, Some(1), &["1 a"], Pull::More);
    check_pull(&mut sub, Some(1), &[], Pull::More);
    check_pull(&mut sub, Some(9), &["2 b"], Pull::Empty);
}

#[test]
fn an_answer_ends_the_open_merge_that_it_reflects() {
    let ring = ring();
    let mut sub = ring.subscribe(View::Coalesced, 0, Wake::new());
    ring.push([delta(0, "a"), delta(0, "b"), delta(0, "c")]);
    check_pull(&mut sub, Some(0), &[], Pull::More);
    assert!(ring.has_open_merge());
    check_pull(&mut sub, Some(2), &["1-3 abc"], Pull::More);
    assert!(!ring.has_open_merge());
}

#[test]
fn frames_are_shared() {
    let ring = ring();
    let [mut one, mut two] = [0, 0].map(|after| ring.subscribe(View::Full, after, Wake::new()));
    ring.push([delta(0, "a"), message_end("b")]);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    one.pull(&mut first, MUCH, None);
    two.pull(&mut second, MUCH, None);
    assert_eq!(
        first.iter().map(|f| f.as_ptr()).collect::<Vec<_>>(),
        second.iter().map(|f| f.as_ptr()).collect::<Vec<_>>()
    );
}

#[test]
fn a_wake_comes_once_after_an_empty_pull() {
    let ring = ring();
    let wake = Wake::new();
    let mut full = ring.subscribe(View::Full, 0, wake.clone());
    let mut coalesced = ring.subscribe(View::Coalesced, 0, wake.clone());
    ring.push([settled()]);
    assert_eq!(wake.take(), [], "not before the first pull");
    check_pull(&mut full, None, &["1 *"], Pull::Empty);
    check_pull(&mut coalesced, None, &["1 *"], Pull::Empty);
    ring.push([delta(0, "a"), delta(0, "b")]);
    ring.push([delta(0, "c")]);
    assert_eq!(wake.take(), [full.token()], "the merge is open");
    ring.flush_merge();
    assert_eq!(wake.take(), [coalesced.token()]);
    ring.push([settled()]);
    assert_eq!(wake.take(), [], "neither has pulled");
}

#[tokio::test]
async fn a_waiting_connection_is_woken() {
    let ring = ring();
    let wake = Wake::new();
    let mut sub = ring.subscribe(View::Full, 0, wake.clone());
    check_pull(&mut sub, None, &[], Pull::Empty);
    let (ready, _) = tokio::join!(wake.ready(), async { ring.push([settled()]) });
    assert_eq!(ready, [sub.token()]);
}

#[test]
fn a_closed_ring_is_read_to_its_end() {
    let ring = ring();
    let wake = Wake::new();
    let mut sub = ring.subscribe(View::Coalesced, 0, wake.clone());
    check_pull(&mut sub, None, &[], Pull::Empty);
    ring.push([delta(0, "a"), delta(0, "b")]);
    ring.close();
    assert_eq!(wake.take(), [sub.token()]);
    check_pull(&mut sub, None, &["1-2 ab"], Pull::Closed);
}

#[test]
fn cursors_that_can_be_replayed() {
    let ring = ring();
    ring.push([delta(0, "a"), delta(0, "b")]);
    let can = |cursor: Cursor| ring.can_replay(&cursor, View::Full);
    assert_eq!([0, 1, 2, 3].map(|seq| can(cursor(seq))), [true, true, true, false]);
    assert!(!can(Cursor { epoch: "other".into(), ..cursor(1) }));
    assert!(!can(cursor(Seq::MAX)));
}

#[test]
fn subscribers_are_counted() {
    let ring = ring();
    let one = ring.subscribe(View::Full, 0, Wake::new());
    let two = ring.subscribe(View::Coalesced, 0, Wake::new());
    assert_eq!(ring.subscriber_count(), 2);
    drop(one);
    let three = ring.subscribe(View::Full, 0, Wake::new());
    drop(two);
    drop(three);
    assert_eq!(ring.subscriber_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn deltas_leave_some_time_after_settling() {
    let ring = ring();
    let mut slow = ring.subscribe(View::Full, 0, Wake::new());
    ring.push([delta(0, "a"), delta(0, "b"), message_end("ab"), settled()]);
    ring.settle();
    ring.drop_deltas();
    assert!(ring.can_replay(&cursor(0), View::Full), "too early");
    let due = ring.next_drop().unwrap();
    tokio::time::advance(RING_DELTA_KEEP / 2).await;
    ring.push([delta(0, "c"), settled()]);
    ring.settle();
    tokio::time::sleep_until(due).await;
    ring.drop_deltas();
    assert_eq!([1, 2, 3].map(|seq| ring.can_replay(&cursor(seq), View::Full)), [false, true, true]);
    assert_eq!(ring.next_drop(), Some(due + RING_DELTA_KEEP / 2));
    check_pull(&mut slow, None, &[], Pull::Lagged);
    tokio::time::advance(RING_DELTA_KEEP).await;
    ring.drop_deltas();
    assert_eq!([4, 5].map(|seq| ring.can_replay(&cursor(seq), View::Full)), [false, true]);
    assert_eq!(ring.next_drop(), None);
}

#[tokio::test(start_paused = true)]
async fn settling_without_new_deltas_changes_nothing() {
    let ring = ring();
    ring.push([settled()]);
    ring.settle();
    tokio::time::advance(RING_DELTA_KEEP + Duration::from_secs(1)).await;
    ring.drop_deltas();
    assert!(ring.can_replay(&cursor(0), View::Full));
}

#[test]
fn the_oldest_events_of_all_rings_leave_first() {
    let budget = RingBudget::new(100_000);
    let [one, two, three] = ["1", "2", "3"].map(|id| Ring::new(id.into(), "e1".into(), budget.clone()));
    let large = "x".repeat(20_000);
    one.push([message_end(&large)]);
    two.push([message_end(&large)]);
    one.push([message_end(&large)]);
    three.push([message_end(&large)]);
    two.push([message_end(&large)]);
    let first = |ring: &Ring| (0..=ring.last_seq()).find(|seq| ring.can_replay(&cursor(*seq), View::Full)).unwrap();
    assert_eq!([&one, &two, &three].map(first), [1, 0, 0]);
    assert!(budget.used() <= 100_000, "{}", budget.used());
    three.push([message_end(&large), message_end(&large)]);
    assert_eq!([&one, &two, &three].map(first), [2, 1, 0]);
    drop(two);
    drop(three);
    one.push([message_end(&"x".repeat(200_000))]);
    assert_eq!((first(&one), budget.used()), (3, 0), "an event over the budget leaves at once");
}

#[test]
fn bytes_are_given_back() {
    let budget = RingBudget::new(MUCH);
    let ring = Ring::new("1".into(), "e1".into(), budget.clone());
    let mut sub = ring.subscribe(View::Coalesced, 0, Wake::new());
    ring.push([delta(0, "a"), delta(0, "b"), message_end("c")]);
    let before = budget.used();
    check_pull(&mut sub, None, &["1-2 ab", "3 *"], Pull::Empty);
    assert!(budget.used() > 0 && budget.used() != before);
    drop(ring);
    assert!(budget.used() > 0, "a subscriber still reads it");
    drop(sub);
    assert_eq!(budget.used(), 0);
}

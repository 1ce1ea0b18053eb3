use std::collections::BTreeMap;

use agentd_protocol::event::{ListEvent, ListEventParams};
use futures_util::FutureExt;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn row(id: &str, modified: i64) -> SessionRow {
    SessionRow {
        session_id: id.into(),
        session_file: Some(format!("/s/{id}.jsonl")),
        cwd: "/w".into(),
        name: None,
        first_message: Some("hello".into()),
        created: 0,
        modified,
        message_count: 1,
        model: None,
        cost: 0.0,
        status: SessionStatus::Unloaded,
        retry_at: None,
        duplicate_of: None,
    }
}

fn put(id: &str, modified: i64, is_new: bool) -> RowChange {
    RowChange::Put { row: Box::new(row(id, modified)), is_new }
}

fn doing(status: SessionStatus) -> Doing {
    Doing { status, retry_at: None }
}

fn read(watch: &mut ListWatch) -> Vec<ListEventParams> {
    #[derive(serde::Deserialize)]
    struct Notification {
        params: ListEventParams,
    }
    let mut frames = Vec::new();
    while watch.pull(&mut frames, 100, None) == Pull::More {}
    frames.iter().map(|frame| serde_json::from_slice::<Notification>(frame).unwrap().params).collect()
}

fn as_of(log: &ListLog, revision: u64, rows: &mut [SessionRow]) -> u64 {
    log.as_of(revision, rows).now_or_never().expect("it is numbered already")
}

#[test]
fn a_watcher_hears_of_every_change_once() {
    let log = ListLog::new(10);
    log.begin(100);
    let (mut watch, replay) = log.watch(None, Wake::new());
    assert_eq!((watch.position(), replay), (11, ListReplay::List), "what was before the index is open is unknown");
    log.set_doing(&"a".into(), doing(SessionStatus::Idle), false);
    assert_eq!(read(&mut watch), [], "a session without a file is in no list");
    log.set_doing(&"a".into(), doing(SessionStatus::Running), false);
    log.rows_changed(100, 101, vec![put("a", 1, true)]);
    log.set_doing(&"a".into(), doing(SessionStatus::Running), true);
    log.set_doing(&"a".into(), doing(SessionStatus::Idle), true);
    log.rows_changed(101, 103, vec![put("a", 2, false), RowChange::Gone("b".into())]);
    log.set_doing(&"a".into(), Doing::UNLOADED, false);
    let with = |modified, status| Box::new(SessionRow { status, ..row("a", modified) });
    let status = |status| ListEvent::SessionStatus { session_id: "a".into(), status, retry_at: None };
    let expected = [
        ListEvent::SessionCreated { session: with(1, SessionStatus::Running) },
        status(SessionStatus::Idle),
        ListEvent::SessionChanged { session: with(2, SessionStatus::Idle) },
        ListEvent::SessionGone { session_id: "b".into() },
        status(SessionStatus::Unloaded),
    ];
    let numbered = expected.into_iter().zip(12..).map(|(event, list_seq)| ListEventParams { list_seq, event });
    assert_eq!(read(&mut watch), numbered.collect::<Vec<_>>());
    let (mut later, replay) = log.watch(Some(14), Wake::new());
    assert_eq!((read(&mut later).len(), replay), (2, ListReplay::Exact));
}

#[tokio::test]
async fn whoever_waits_is_woken_by_the_next_change() {
    let log = ListLog::new(0);
    let wake = Wake::new();
    let (mut watch, _) = log.watch(None, wake.clone());
    assert_eq!(read(&mut watch), []);
    log.rows_changed(0, 1, vec![put("a", 1, true)]);
    assert_eq!(wake.ready().await, [watch.token()]);
    log.rows_changed(1, 2, vec![put("b", 1, true)]);
    assert_eq!(wake.take(), [], "once until it has pulled");
}

#[test]
fn numbers_of_other_times_are_known_as_such() {
    let log = ListLog::new(1000);
    log.begin(1);
    for (since, expected) in
        [(0, ListReplay::List), (1000, ListReplay::List), (1001, ListReplay::Exact), (1002, ListReplay::List)]
    {
        assert_eq!(log.watch(Some(since), Wake::new()).1, expected, "{since}");
    }
    let (mut watch, _) = log.watch(None, Wake::new());
    // Somebody else has written to the index.
    log.rows_changed(5, 6, vec![put("a", 1, true)]);
    let events = read(&mut watch);
    assert_eq!((&events[0].event, events[0].list_seq), (&ListEvent::Lagged {}, 1003), "{events:?}");
    assert_eq!(log.watch(Some(1001), Wake::new()).1, ListReplay::List);
}

#[test]
fn a_watcher_that_does_not_read_costs_nothing_and_is_told_to_list_again() {
    let log = ListLog::new(0);
    log.begin(1);
    let (mut watch, _) = log.watch(None, Wake::new());
    for change in 1..10_000 {
        log.rows_changed(change, change + 1, vec![put("a", change as i64, false)]);
    }
    assert!(log.lock().bytes <= LIST_LOG_BYTES);
    let events = read(&mut watch);
    assert_eq!(events.len(), 1, "it is told once");
    assert_eq!((&events[0].event, events[0].list_seq), (&ListEvent::Lagged {}, log.lock().last()));
    log.rows_changed(10_000, 10_001, vec![put("b", 1, true)]);
    assert_eq!(read(&mut watch).len(), 1, "later changes follow by themselves");
}

#[test]
fn a_page_that_is_older_than_all_that_is_kept_cannot_be_watched_from() {
    let log = ListLog::new(0);
    log.begin(1);
    for change in 1..10_000 {
        log.rows_changed(change, change + 1, vec![put("a", change as i64, false)]);
    }
    let since = as_of(&log, 5, &mut []);
    assert_eq!(log.watch(Some(since), Wake::new()).1, ListReplay::List);
    let since = as_of(&log, 10_000, &mut []);
    assert_eq!(log.watch(Some(since), Wake::new()).1, ListReplay::Exact);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_nobody_numbers_is_not_waited_for_long() {
    let log = ListLog::new(0);
    log.begin(1);
    let before = as_of(&log, 1, &mut []);
    let after = log.as_of(3, &mut []).await;
    assert!(after > before);
    assert_eq!(log.watch(Some(before), Wake::new()).1, ListReplay::List, "what it was is not known");
}

/// What a log is told, and when somebody lists.
#[derive(Clone, Debug)]
enum Step {
    Put(u8, i64),
    Gone(u8),
    Doing(u8, SessionStatus),
    /// Reads a page of the index, some changes before its number is asked for.
    List {
        late: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let status = prop_oneof![Just(SessionStatus::Idle), Just(SessionStatus::Running), Just(SessionStatus::Unloaded)];
    let step = prop_oneof![
        3 => (0u8..4, 0i64..9).prop_map(|(id, modified)| Step::Put(id, modified)),
        1 => (0u8..4).prop_map(Step::Gone),
        3 => (0u8..4, status).prop_map(|(id, status)| Step::Doing(id, status)),
        2 => (0usize..6).prop_map(|late| Step::List { late }),
    ];
    proptest::collection::vec(step, 1..60)
}

/// The list as a client keeps it.
type List = BTreeMap<SessionId, SessionRow>;

fn apply(list: &mut List, event: ListEvent) {
    match event {
        ListEvent::SessionCreated { session } => {
            assert!(list.insert(session.session_id.clone(), *session).is_none(), "created twice");
        }
        ListEvent::SessionChanged { session } => {
            assert!(list.insert(session.session_id.clone(), *session).is_some(), "changed before it was created");
        }
        ListEvent::SessionGone { session_id } => assert!(list.remove(&session_id).is_some()),
        ListEvent::SessionStatus { session_id, status, .. } => {
            // A session may say what it does after its file has gone.
            if let Some(row) = list.get_mut(&session_id) {
                assert_ne!(row.status, status, "a status that is known already");
                row.status = status;
            }
        }
        ListEvent::Lagged {} | ListEvent::Unknown(_) => panic!("{event:?}"),
    }
}

proptest! {
    /// Listing at any moment and watching from there on gives the list.
    #[test]
    fn a_list_and_the_changes_after_it_are_the_list(steps in steps()) {
        let log = ListLog::new(0);
        log.begin(1);
        let (mut revision, mut rows) = (1, List::new());
        let mut doings: BTreeMap<SessionId, Doing> = BTreeMap::new();
        let mut clients: Vec<(ListWatch, List)> = Vec::new();
        // Pages that were read, and how many steps later they are numbered.
        let mut pages: Vec<(usize, u64, List)> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Put(id, modified) => {
                    let id = SessionId::new(format!("s{id}"));
                    let is_new = rows.insert(id.clone(), row(id.as_str(), *modified)).is_none();
                    log.rows_changed(revision, revision + 1, vec![put(id.as_str(), *modified, is_new)]);
                    revision += 1;
                }
                Step::Gone(id) => {
                    let id = SessionId::new(format!("s{id}"));
                    if rows.remove(&id).is_some() {
                        log.rows_changed(revision, revision + 1, vec![RowChange::Gone(id)]);
                        revision += 1;
                    }
                }
                Step::Doing(id, status) => {
                    let id = SessionId::new(format!("s{id}"));
                    log.set_doing(&id, doing(*status), rows.contains_key(&id));
                    doings.insert(id, doing(*status));
                }
                Step::List { late } => pages.push((at + late, revision, rows.clone())),
            }
            for (_, revision, page) in pages.extract_if(.., |(when, ..)| *when <= at) {
                let mut rows: Vec<SessionRow> = page.into_values().collect();
                let since = as_of(&log, revision, &mut rows);
                let (watch, replay) = log.watch(Some(since), Wake::new());
                prop_assert_eq!(replay, ListReplay::Exact);
                clients.push((watch, rows.into_iter().map(|row| (row.session_id.clone(), row)).collect()));
            }
        }
        for (id, row) in &mut rows {
            row.status = doings.get(id).map_or(SessionStatus::Unloaded, |doing| doing.status);
        }
        for (mut watch, mut list) in clients {
            read(&mut watch).into_iter().for_each(|change| apply(&mut list, change.event));
            prop_assert_eq!(&list, &rows);
        }
    }
}

use agentd_protocol::methods::{SessionRow, SessionStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::client::Client;
use super::fake::Fake;
use crate::ring::RowChange;

fn row(id: &str, modified: i64) -> Box<SessionRow> {
    Box::new(SessionRow {
        session_id: id.into(),
        session_file: None,
        cwd: "/work".into(),
        name: None,
        first_message: Some("x".repeat(200)),
        created: 0,
        modified,
        message_count: 1,
        model: None,
        cost: 0.0,
        status: SessionStatus::Unloaded,
        retry_at: None,
        duplicate_of: None,
    })
}

/// Makes the list change `count` times, beginning after `revision`.
fn change(fake: &Fake, revision: u64, count: u64) {
    for revision in revision..revision + count {
        let row = row("s1", i64::try_from(revision).unwrap());
        fake.list_log.rows_changed(revision, revision + 1, vec![RowChange::Put { row, is_new: revision == 0 }]);
    }
}

fn list_seq(message: &Value) -> u64 {
    assert_eq!(message["method"], "session_list_event", "{message}");
    message["params"]["listSeq"].as_u64().unwrap()
}

#[tokio::test]
async fn a_list_stands_among_its_changes_where_its_number_is() {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect_with(&fake.server(), &fake.tasks, 200);
    let begin = client.call("watch_sessions", json!({})).await["listSeq"].as_u64().unwrap();
    change(&fake, 0, 50);
    let ask = client.ask("list_sessions", json!({})).await;
    let mut seen = begin;
    loop {
        let message = client.next().await;
        if message["id"] == ask {
            assert!(message["result"]["listSeq"].as_u64().unwrap() <= seen, "{message}");
            break;
        }
        assert_eq!(list_seq(&message), seen + 1);
        seen += 1;
    }
    change(&fake, 50, 1);
    while seen < begin + 51 {
        assert_eq!(list_seq(&client.next().await), seen + 1);
        seen += 1;
    }
    client.call("unwatch_sessions", json!({})).await;
    change(&fake, 51, 1);
    client.call("ping", json!({})).await;
}

/// One that does not read is told so once, whatever it has missed, and its other streams go on.
#[tokio::test]
async fn a_slow_watcher_is_told_to_list_again() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect_with(&fake.server(), &fake.tasks, 1000);
    let begin = client.call("watch_sessions", json!({})).await["listSeq"].as_u64().unwrap();
    let attached = client.call("attach", json!({"sessionId": "s1", "history": false})).await;
    change(&fake, 0, 20_000);
    let last = session.stream(["a", "b", "c"]);
    let (mut changes, mut lagged, mut seq, mut seen) = (0, 0, attached["seq"].as_u64().unwrap(), begin);
    while seen < begin + 20_000 || seq < last {
        let message = client.next().await;
        if message["method"] == "event" {
            seq += 1;
            assert_eq!(message["params"]["seq"], seq);
            continue;
        }
        let before = std::mem::replace(&mut seen, list_seq(&message));
        match message["params"]["event"]["type"] == "lagged" {
            true => lagged += 1,
            false => assert_eq!(seen, before + 1),
        }
        changes += 1;
    }
    assert_eq!(lagged, 1);
    assert!(changes < 5000, "{changes} of 20,000 changes were kept for it");
    change(&fake, 20_000, 1);
    assert_eq!(list_seq(&client.next().await), begin + 20_001, "later changes follow by themselves");
}

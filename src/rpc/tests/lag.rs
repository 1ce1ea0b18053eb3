use pretty_assertions::assert_eq;
use serde_json::json;

use super::client::{Client, until};
use super::fake::Fake;
use crate::constants::{STUCK_CLIENT_LIMIT, WRITE_BATCH_BYTES};

#[tokio::test]
async fn a_slow_client_goes_on_from_a_snapshot() {
    let fake = Fake::new(200_000);
    let session = fake.load("s1", "e1");
    let server = fake.server();
    for view in ["full", "coalesced"] {
        let mut slow = Client::connect_with(&server, &fake.tasks, 1000);
        let mut quick = Client::connect(&server, &fake.tasks);
        for client in [&mut slow, &mut quick] {
            client.call("attach", json!({"sessionId": "s1", "view": view})).await;
        }
        let start = session.text();
        let mut quick_text = start.clone();
        for round in 0..300 {
            let texts: Vec<String> = (0..20).map(|n| format!("{round}.{n} ")).collect();
            let last = session.stream(texts.iter().map(String::as_str));
            session.ring().flush_merge();
            loop {
                let event = quick.event().await;
                quick_text += event["event"]["assistantMessageEvent"]["delta"].as_str().unwrap();
                if event["seq"] == last {
                    break;
                }
            }
        }
        assert_eq!(quick_text, session.text(), "a slow client is no concern of others");
        assert!(fake.budget.used() <= 200_000);

        let mut text = start;
        let mut seq = None;
        let mut lags = 0;
        while seq != Some(session.ring().last_seq()) {
            let event = slow.event().await;
            if event["event"]["type"] == "lagged" {
                lags += 1;
                assert_eq!(event["event"]["seq"], event["seq"]);
                text = event["event"]["snapshot"]["message"]["content"][0]["text"].as_str().unwrap().to_owned();
            } else {
                let from = event.get("from").unwrap_or(&event["seq"]).as_u64().unwrap();
                assert!(seq.is_none_or(|seq| from == seq + 1));
                text += event["event"]["assistantMessageEvent"]["delta"].as_str().unwrap();
            }
            seq = event["seq"].as_u64();
        }
        assert_eq!((text, lags), (session.text(), 1), "{view}");
        // The stream goes on by itself.
        session.stream(["more"]);
        session.ring().flush_merge();
        assert_eq!(slow.event().await["event"]["assistantMessageEvent"]["delta"], "more");
    }
}

#[tokio::test]
async fn a_client_of_a_session_that_was_loaded_anew_gets_a_snapshot() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("attach", json!({"sessionId": "s1"})).await;
    session.stream(["a"]);
    let again = fake.load("s1", "e2");
    session.crash();
    assert_eq!(client.event().await["seq"], 3, "what there was is read first");
    let lagged = client.event().await;
    assert_eq!((&lagged["event"]["type"], &lagged["event"]["epoch"]), (&json!("lagged"), &json!("e2")));
    again.stream(["b"]);
    assert_eq!(client.event().await["seq"], 3);
    drop(client);
    until(|| again.log() == ["attach", "detach"]).await;
}

#[tokio::test]
async fn a_client_of_a_session_that_is_gone_is_told_so() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("attach", json!({"sessionId": "s1"})).await;
    fake.remove("s1");
    session.crash();
    let event = client.event().await;
    assert_eq!((&event["event"]["type"], &event["seq"]), (&json!("detached"), &json!(2)));
    assert!(event["event"]["message"].as_str().unwrap().contains("no session s1"));
    let status = client.call("get_daemon_status", json!({})).await;
    assert_eq!(status["clients"][0]["attached"], json!([]));
}

#[tokio::test]
async fn attaching_while_a_snapshot_is_made_gives_one_stream() {
    let fake = Fake::new(20_000);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect_with(&fake.server(), &fake.tasks, 500);
    client.call("attach", json!({"sessionId": "s1"})).await;
    for _ in 0..20 {
        session.stream(["0123456789"; 200]);
        client.events.clear();
        let cursor = client.call("attach", json!({"sessionId": "s1"})).await["seq"].as_u64().unwrap();
        let last = session.stream(["x", "y"]);
        client.events.clear();
        let mut seq = cursor;
        while seq < last {
            let event = client.event().await;
            assert_eq!(event["seq"], seq + 1, "{event}");
            seq += 1;
        }
    }
}

/// Two clients that stop reading: for one answers are held, for the other only its place in the stream.
#[tokio::test(start_paused = true)]
async fn a_client_is_given_up_only_when_much_is_held_for_it_for_long() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    session.stream(["x".repeat(400_000).as_str()]);
    let server = fake.server();
    let mut asks = Client::connect_with(&server, &fake.tasks, 1000);
    asks.ask("get_last_assistant_text", json!({"sessionId": "s1"})).await;
    let mut reads = Client::connect_with(&server, &fake.tasks, 1000);
    let status = Client::connect(&server, &fake.tasks);
    reads.call("attach", json!({"sessionId": "s1", "history": false, "since": {"epoch": "e1", "seq": 3}})).await;
    session.stream(vec!["y"; 100_000]);
    let mut watcher = status;
    let clients = async |watcher: &mut Client| watcher.call("get_daemon_status", json!({})).await["clients"].clone();
    tokio::time::sleep(STUCK_CLIENT_LIMIT / 2).await;
    let shown = clients(&mut watcher).await;
    assert_eq!(shown.as_array().unwrap().len(), 3, "{shown}");
    assert!(shown[0]["bytesUnsent"].as_u64().unwrap() > 390_000, "{shown}");
    assert!(shown[1]["attached"][0]["lag"].as_u64().unwrap() > 90_000, "{shown}");
    tokio::time::sleep(STUCK_CLIENT_LIMIT).await;
    let shown = clients(&mut watcher).await;
    assert_eq!(shown.as_array().unwrap().len(), 2, "{shown}");
    assert_eq!(shown[0]["attached"][0]["sessionId"], "s1", "the other one stays, for as long as it likes");
    tokio::time::sleep(10 * STUCK_CLIENT_LIMIT).await;
    assert_eq!(clients(&mut watcher).await.as_array().unwrap().len(), 2);
    assert_eq!(reads.event().await["seq"], 4, "and goes on where it was");
}

#[tokio::test]
async fn a_snapshot_of_an_attachment_does_not_overtake_the_next_one() {
    let fake = Fake::new(300);
    let session = fake.load("s1", "e1");
    session.stream(["x".repeat(2 * WRITE_BATCH_BYTES).as_str()]);
    let mut client = Client::connect_with(&fake.server(), &fake.tasks, 64);
    client.ask("attach", json!({"sessionId": "s1"})).await;
    until(|| session.log().len() == 1).await;
    // It falls behind before it has read its first answer, and attaches again.
    session.stream(["a"; 50]);
    // A snapshot is made from the first of these answers on, and they are so large that it is there before the last.
    for _ in 0..3 {
        client.ask("get_last_assistant_text", json!({})).await;
    }
    client.ask("attach", json!({})).await;
    until(|| session.log().len() == 5).await;
    let last = session.stream(["b"; 10]);
    for _ in 0..4 {
        client.answer().await;
    }
    let cursor = client.answer().await["result"]["seq"].as_u64().unwrap();
    assert!(cursor < last);
    assert!(client.events.iter().all(|event| event["seq"].as_u64().unwrap() <= cursor), "{:?}", client.events);
    let lagged = client.event().await;
    assert_eq!((&lagged["event"]["type"], &lagged["seq"]), (&json!("lagged"), &json!(last)));
}

#[tokio::test]
async fn a_client_that_leaves_while_a_snapshot_is_to_be_made_is_not_left_behind_in_the_session() {
    let fake = Fake::new(300);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect_with(&fake.server(), &fake.tasks, 64);
    client.ask("attach", json!({"sessionId": "s1"})).await;
    until(|| session.log().len() == 1).await;
    // It falls behind before it has read its first answer.
    session.stream(["a"; 50]);
    client.ask("detach", json!({})).await;
    until(|| session.log().len() == 2).await;
    client.answer().await;
    client.answer().await;
    client.call("ping", json!({})).await;
    assert_eq!(session.log(), ["attach", "detach", "attach", "detach"], "the last is of the snapshot");
    let status = client.call("get_daemon_status", json!({})).await;
    assert_eq!(status["clients"][0]["attached"], json!([]));
}

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::client::{Client, until};
use super::fake::Fake;

fn seqs(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_new_session_is_attached_from_its_first_event() {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let result = client.call("new_session", json!({"cwd": "/work"})).await;
    assert!(client.events.is_empty(), "no event comes before the answer");
    assert_eq!((&result["epoch"], &result["seq"]), (&json!("e1"), &json!(0)));
    assert_eq!(result["sessionFile"], "/state/sessions/new-0.jsonl");
    assert_eq!(client.event().await["seq"], 1);
    assert_eq!(client.event().await["seq"], 2);
}

#[tokio::test]
async fn a_new_session_need_not_be_attached() {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let result = client.call("new_session", json!({"cwd": "/work", "attach": false})).await;
    assert_eq!((&result["epoch"], &result["seq"]), (&json!("e1"), &json!(2)));
    assert_eq!(client.call("get_state", json!({})).await["sessionId"], result["sessionId"]);
    assert!(client.events.is_empty());
}

#[tokio::test]
async fn a_snapshot_or_an_exact_replay() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    session.stream(["a", "b", "c"]);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let result = client.call("attach", json!({"sessionId": "s1"})).await;
    assert_eq!((&result["replay"], &result["seq"]), (&json!("snapshot"), &json!(5)));
    assert_eq!(result["snapshot"]["message"]["content"][0]["text"], "abc");
    session.stream(["d"]);
    assert_eq!(client.event().await["event"]["assistantMessageEvent"]["delta"], "d");

    let since = json!({"epoch": "e1", "seq": 3});
    let result = client.call("attach", json!({"sessionId": "s1", "since": since, "view": "coalesced"})).await;
    assert_eq!((&result["replay"], &result["seq"]), (&json!("exact"), &json!(3)));
    assert!(result.get("snapshot").is_none());
    for delta in ["b", "c", "d"] {
        assert_eq!(client.event().await["event"]["assistantMessageEvent"]["delta"], delta);
    }
    for since in [json!({"epoch": "other", "seq": 3}), json!({"epoch": "e1", "seq": 99})] {
        let result = client.call("attach", json!({"sessionId": "s1", "since": since})).await;
        assert_eq!(result["replay"], "snapshot");
    }
}

#[tokio::test]
async fn the_coalesced_view_merges() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("attach", json!({"sessionId": "s1", "view": "coalesced"})).await;
    session.stream(["a", "b", "c"]);
    session.ring().flush_merge();
    let event = client.event().await;
    assert_eq!((&event["from"], &event["seq"]), (&json!(3), &json!(5)));
    assert_eq!(event["event"]["assistantMessageEvent"]["delta"], "abc");
}

#[tokio::test]
async fn an_attachment_in_a_batch_takes_effect_after_the_batchs_answer() {
    let fake = Fake::new(usize::MAX);
    fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let since = json!({"epoch": "e1", "seq": 0});
    client
        .send(&json!([
            {"jsonrpc": "2.0", "id": 1, "method": "attach", "params": {"sessionId": "s1", "since": since}},
            {"jsonrpc": "2.0", "id": 2, "method": "prompt", "params": {"message": "a"}},
            {"jsonrpc": "2.0", "id": 3, "method": "attach", "params": {"since": since}},
        ]))
        .await;
    let answers = client.next().await;
    assert_eq!((&answers[1]["result"]["seq"], answers.as_array().unwrap().len()), (&json!(3), 3));
    for seq in 1..=3 {
        assert_eq!(client.event().await["seq"], seq);
    }
}

#[tokio::test]
async fn answers_come_after_the_events_that_they_reflect() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    for view in ["full", "coalesced"] {
        let mut client = Client::connect(&fake.server(), &fake.tasks);
        client.call("attach", json!({"sessionId": "s1", "view": view})).await;
        for _ in 0..50 {
            session.stream(["a", "b"]);
            let result = client.call("get_state", json!({})).await;
            let last = client.events.last().unwrap()["seq"].as_u64().unwrap();
            assert!(last >= result["seq"].as_u64().unwrap(), "{view}");
        }
        let seqs = seqs(&client.events);
        assert!(seqs.is_sorted() && seqs.len() >= 50);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_stands_in_the_stream_where_its_number_is() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("attach", json!({"sessionId": "s1"})).await;
    let streaming = {
        let session = session.clone();
        fake.tasks.spawn("streaming", async move {
            for _ in 0..2000 {
                session.stream(["a"]);
                tokio::task::yield_now().await;
            }
        })
    };
    let mut last = 2;
    while last < 2002 {
        let asked = client.ask("get_state", json!({})).await;
        loop {
            let message = client.next().await;
            if message["method"] == "event" {
                last = message["params"]["seq"].as_u64().unwrap();
                continue;
            }
            assert_eq!((&message["id"], &message["result"]["seq"]), (&json!(asked), &json!(last)));
            break;
        }
    }
    streaming.await.unwrap();
}

#[tokio::test]
async fn nothing_comes_after_detaching() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("attach", json!({"sessionId": "s1"})).await;
    session.stream(["a"]);
    let result = client.call("detach", json!({})).await;
    assert_eq!(seqs(&client.events), [result["seq"].as_u64().unwrap()]);
    session.stream(["b"]);
    client.events.clear();
    client.call("get_state", json!({})).await;
    assert!(client.events.is_empty());
    assert_eq!(session.ring().subscriber_count(), 0);
}

#[tokio::test]
async fn attaching_again_repeats_and_loses_nothing() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let mut last = 0;
    for round in 0..100 {
        session.stream(["a", "b", "c"]);
        let view = if round % 2 == 0 { "full" } else { "coalesced" };
        let result = client.call("attach", json!({"sessionId": "s1", "view": view})).await;
        session.stream(["d"]);
        let cursor = result["seq"].as_u64().unwrap();
        assert!(client.events.iter().all(|event| event["seq"].as_u64().unwrap() <= cursor), "none past the cursor");
        for event in client.events.drain(..) {
            let from = event.get("from").unwrap_or(&event["seq"]).as_u64().unwrap();
            assert!(last == 0 || from == last + 1, "{from} after {last}");
            last = event["seq"].as_u64().unwrap();
        }
        last = cursor;
    }
}

#[tokio::test]
async fn a_session_is_told_that_a_connection_ended() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("attach", json!({"sessionId": "s1"})).await;
    drop(client);
    until(|| session.log() == ["attach", "detach"]).await;
    assert_eq!(session.ring().subscriber_count(), 0);
}

#[tokio::test]
async fn two_clients_of_one_session_hear_the_same() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let server = fake.server();
    let mut clients = [(); 2].map(|()| Client::connect(&server, &fake.tasks));
    for client in &mut clients {
        client.call("attach", json!({"sessionId": "s1"})).await;
    }
    session.stream(["a", "b"]);
    let [one, two] = &mut clients;
    for _ in 0..2 {
        assert_eq!(one.event().await, two.event().await);
    }
}

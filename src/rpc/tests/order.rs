use agentd_protocol::framing::Frame;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::client::{Client, LIMIT, until};
use super::fake::{Fake, settled};
use crate::constants::{MAX_UNANSWERED_REQUESTS, MAX_UNSENT_ANSWER_BYTES};

#[tokio::test]
async fn three_thousand_requests_at_once_are_answered_in_order() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let client = Client::connect(&fake.server(), &fake.tasks);
    let mut input = String::new();
    for id in 0..3000 {
        let (method, name) = [("ping", "-"), ("set_session_name", "n")][id % 2];
        input += &format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{\"sessionId\":\"s1\",\"name\":\"{name}{id}\"}}}}\n"
        );
    }
    let (mut write, mut answers) = client.split();
    let writing = async { write.write_all(input.as_bytes()).await.unwrap() };
    let reading = async {
        for id in 0..3000 {
            let Some(Frame::Message(answer)) = answers.next().await.unwrap() else { panic!("{id}") };
            assert_eq!(serde_json::from_slice::<Value>(&answer).unwrap()["id"], id);
        }
    };
    tokio::time::timeout(LIMIT, async { tokio::join!(writing, reading) }).await.unwrap();
    let names: Vec<String> = (0..3000).filter(|id| id % 2 == 1).map(|id| format!("set_name n{id}")).collect();
    assert_eq!(session.log(), names);
}

#[tokio::test]
async fn methods_that_wait_hold_nobody_back() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("attach", json!({"sessionId": "s1"})).await;
    let wait = client.ask("wait", json!({})).await;
    let abort = client.ask("abort", json!({})).await;
    client.call("set_session_name", json!({"name": "after"})).await;
    assert_eq!(session.log(), ["attach", "wait", "abort", "set_name after"]);
    session.settle();
    let mut ids = [client.answer().await["id"].clone(), client.answer().await["id"].clone()];
    ids.sort_by_key(Value::as_u64);
    assert_eq!(ids, [json!(wait), json!(abort)]);
    assert_eq!(client.events.last().unwrap()["event"]["type"], "agent_settled", "it comes before the answer");
}

#[tokio::test]
async fn a_slow_session_holds_no_other_back_and_answers_keep_their_order() {
    let fake = Fake::new(usize::MAX);
    let (slow, other) = (fake.load("s1", "e1"), fake.load("s2", "e2"));
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let mut asked = vec![client.ask("prompt", json!({"sessionId": "s1", "message": "slow"})).await];
    asked.push(client.ask("prompt", json!({"sessionId": "s2", "message": "quick"})).await);
    asked.push(client.ask("prompt", json!({"sessionId": "s1", "message": "next"})).await);
    client.write("no JSON\n").await;
    asked.push(client.ask("ping", json!({})).await);
    until(|| !other.log().is_empty() && slow.log().len() == 2).await;
    slow.settle();
    let mut answered = Vec::new();
    for _ in 0..=asked.len() {
        answered.push(client.answer().await["id"].clone());
    }
    let mut expected: Vec<Value> = asked.into_iter().map(Value::from).collect();
    expected.insert(3, Value::Null);
    assert_eq!(answered, expected);
}

#[tokio::test]
async fn an_answer_keeps_its_place_among_the_events_behind_a_slow_one() {
    let fake = Fake::new(usize::MAX);
    let (slow, other) = (fake.load("s1", "e1"), fake.load("s2", "e2"));
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("attach", json!({"sessionId": "s2"})).await;
    client.ask("prompt", json!({"sessionId": "s1", "message": "slow"})).await;
    let quick = client.ask("prompt", json!({"sessionId": "s2", "message": "quick"})).await;
    until(|| other.log().len() == 2).await;
    other.push([settled()]);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    slow.settle();
    client.answer().await;
    assert_eq!(client.answer().await["id"], quick);
    assert_eq!(client.events.last().unwrap()["event"]["type"], "agent_start", "what it reflects, and nothing later");
    client.events.clear();
    assert_eq!(client.event().await["event"]["type"], "agent_settled");
}

#[tokio::test]
async fn an_answer_that_was_waited_for_brings_no_event_past_one_that_is_due() {
    let fake = Fake::new(usize::MAX);
    let (slow, other) = (fake.load("s1", "e1"), fake.load("s2", "e2"));
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("attach", json!({"sessionId": "s2"})).await;
    client.ask("prompt", json!({"sessionId": "s1", "message": "slow"})).await;
    let due = client.ask("set_session_name", json!({"sessionId": "s2", "name": "n"})).await;
    let wait = client.ask("wait", json!({"sessionId": "s2"})).await;
    until(|| other.log().len() == 3).await;
    other.settle();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    slow.settle();
    client.answer().await;
    let answer = client.answer().await;
    assert_eq!(answer["id"], due, "it was asked for before the run ended");
    assert!(client.events.iter().all(|event| event["seq"].as_u64() <= answer["result"]["seq"].as_u64()));
    assert_eq!(client.answer().await["id"], wait);
    assert_eq!(client.events.last().unwrap()["event"]["type"], "agent_settled");
}

#[tokio::test]
async fn large_answers_are_made_few_at_a_time() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    session.stream(["x".repeat(MAX_UNSENT_ANSWER_BYTES).as_str()]);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("get_last_assistant_text", json!({"sessionId": "s1"})).await;
    for _ in 0..20 {
        client.ask("get_last_assistant_text", json!({"sessionId": "s1"})).await;
    }
    until(|| session.log().len() >= 2).await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(session.log().len() <= 3, "{:?}", session.log().len());
    for _ in 0..20 {
        client.answer().await;
    }
}

#[tokio::test]
async fn a_session_left_and_attached_again_knows_that_the_connection_ends() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("attach", json!({"sessionId": "s1"})).await;
    client.ask("detach", json!({})).await;
    client.ask("attach", json!({"sessionId": "s1"})).await;
    client.answer().await;
    client.answer().await;
    let status = client.call("get_daemon_status", json!({})).await;
    assert_eq!(status["clients"][0]["attached"][0]["sessionId"], "s1");
    drop(client);
    until(|| session.log() == ["attach", "detach", "attach", "detach"]).await;
}

#[tokio::test]
async fn what_is_unanswered_is_limited() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("set_session_name", json!({"sessionId": "s1", "name": "small"})).await;
    let count = MAX_UNANSWERED_REQUESTS + 5;
    for _ in 0..count {
        client.ask("prompt", json!({"sessionId": "s1", "message": "slow"})).await;
    }
    until(|| session.log().len() == MAX_UNANSWERED_REQUESTS + 1).await;
    while session.log().len() < count + 1 {
        session.settle();
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_request_that_waits_can_be_cancelled() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let wait = client.ask("wait", json!({"sessionId": "s1"})).await;
    client.notify("$/cancelRequest", json!({"id": 99})).await;
    client.notify("$/cancelRequest", json!({"id": wait})).await;
    let answer = client.answer().await;
    assert_eq!((&answer["id"], &answer["error"]["data"]["kind"]), (&json!(wait), &json!("cancelled")));
    client.notify("$/cancelRequest", json!({"id": wait})).await;
    session.settle();
    client.call("ping", json!({})).await;
}

#[tokio::test]
async fn the_same_id_twice_in_flight_is_answered_twice() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let request = json!({"jsonrpc": "2.0", "id": "x", "method": "wait", "params": {"sessionId": "s1"}});
    client.send(&request).await;
    client.send(&request).await;
    client.call("ping", json!({})).await;
    session.settle();
    assert_eq!((client.answer().await["id"].clone(), client.answer().await["id"].clone()), (json!("x"), json!("x")));
}

#[tokio::test]
async fn what_was_asked_before_the_end_is_answered() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.ask("wait", json!({"sessionId": "s1"})).await;
    client.ask("ping", json!({})).await;
    client.finish().await;
    assert_eq!(client.answer().await["id"], 2);
    session.settle();
    assert_eq!(client.answer().await["id"], 1);
    assert_eq!(client.next_text().await, None);
}

/// Its first answer cannot be written, and all that it had asked is done.
#[tokio::test]
async fn what_was_asked_by_a_client_that_is_gone_is_done() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.ask("wait", json!({"sessionId": "s1"})).await;
    for number in 0..200 {
        client.ask("set_session_name", json!({"sessionId": "s1", "name": format!("n{number}")})).await;
    }
    drop(client);
    let named = |number| format!("set_name n{number}");
    until(|| session.log().last() == Some(&named(199))).await;
    assert_eq!(session.log()[1..], (0..200).map(named).collect::<Vec<_>>());
    let mut other = Client::connect(&fake.server(), &fake.tasks);
    other.call("ping", json!({})).await;
}

#[tokio::test]
async fn answers_that_are_not_read_stop_the_reading() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let text = "x".repeat(1024 * 1024);
    session.stream([text.as_str()]);
    let mut client = Client::connect_with(&fake.server(), &fake.tasks, 1024 * 1024);
    let count = 10;
    for _ in 0..count {
        client.ask("get_last_assistant_text", json!({"sessionId": "s1"})).await;
    }
    // The pipe takes less than one answer; it and those in the queue make up the limit.
    until(|| session.log().len() >= 4).await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(session.log().len() <= 5, "{}", session.log().len());
    for id in 1..=count {
        assert_eq!(client.answer().await["id"], id);
    }
}

#[tokio::test]
async fn ids_of_different_connections_are_apart() {
    let fake = Fake::new(usize::MAX);
    let server = fake.server();
    let mut clients = Vec::new();
    for number in 0..50 {
        let id = format!("s{number}");
        fake.load(&id, "e1").stream([id.as_str()]);
        for _ in 0..2 {
            let mut client = Client::connect(&server, &fake.tasks);
            client.ask("attach", json!({"sessionId": id})).await;
            client.ask("get_last_assistant_text", json!({})).await;
            clients.push((id.clone(), client));
        }
    }
    for (id, client) in &mut clients {
        assert_eq!(client.answer().await["result"]["sessionId"], json!(id));
        assert_eq!(client.answer().await["result"]["text"], json!(id));
    }
}

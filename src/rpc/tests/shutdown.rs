use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::client::{Client, until};
use super::fake::Fake;

#[tokio::test]
async fn a_stopping_daemon_refuses_what_is_new() {
    let fake = Fake::new(usize::MAX);
    fake.load("s1", "e1");
    let server = fake.server();
    let mut client = Client::connect(&server, &fake.tasks);
    client.call("ping", json!({})).await;
    server.refuse_requests();
    client.check_fail("prompt", json!({"sessionId": "s1", "message": "a"}), "shutting_down", None).await;
    client.check_fail("new_session", json!({"cwd": "/work"}), "shutting_down", None).await;
    client.call("ping", json!({})).await;
    client.call("get_daemon_status", json!({})).await;
}

#[tokio::test]
async fn goodbye_answers_what_waits_and_ends_connections() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let server = fake.server();
    let mut client = Client::connect(&server, &fake.tasks);
    client.call("attach", json!({"sessionId": "s1"})).await;
    let wait = client.ask("wait", json!({})).await;
    client.call("ping", json!({})).await;
    server.say_goodbye().await;
    let answer = client.answer().await;
    assert_eq!((&answer["id"], &answer["error"]["data"]["kind"]), (&json!(wait), &json!("shutting_down")));
    assert_eq!(client.next_text().await, None);
    until(|| session.log().last().is_some_and(|last| last == "detach")).await;
}

#[tokio::test(start_paused = true)]
async fn goodbye_does_not_wait_for_a_client_that_does_not_read() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let server = fake.server();
    let mut client = Client::connect_with(&server, &fake.tasks, 100);
    client.ask("attach", json!({"sessionId": "s1"})).await;
    session.stream(["x"; 100]);
    tokio::time::timeout(Duration::from_secs(10), server.say_goodbye()).await.unwrap();
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let fake = Fake::new(usize::MAX);
    let server = fake.server();
    let mut clients = Vec::new();
    for _ in 0..crate::constants::MAX_CONNECTIONS {
        clients.push(Client::connect_with(&server, &fake.tasks, 1024));
    }
    for client in &mut clients {
        client.call("ping", json!({})).await;
    }
    let mut late = Client::connect(&server, &fake.tasks);
    let answer = late.answer().await;
    assert_eq!((&answer["id"], &answer["error"]["data"]["kind"]), (&json!(null), &json!("overloaded")));
    assert_eq!(late.next_text().await, None);
    drop(clients.pop());
    let mut again = Client::connect(&server, &fake.tasks);
    while server_is_full(&mut again).await {
        again = Client::connect(&server, &fake.tasks);
    }
}

async fn server_is_full(client: &mut Client) -> bool {
    client.ask("ping", json!({})).await;
    client.answer().await.get("error").is_some()
}

//! Queues: a message is delivered once, whatever happens between.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{begin, texts};
use crate::model_server::ModelServer;

#[tokio::test]
async fn b170_steering_survives_an_abort_at_any_moment() {
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": "true"}}]});
    for after in 0..16 {
        // A server for each: a request that an abort has ended may still reach it later.
        let replies = [&[call.clone(), call.clone(), call.clone()][..], &vec![json!({"text": "end"}); 6]].concat();
        let server = ModelServer::replies(Value::from(replies));
        let (_daemon, mut client) = begin(&server).await;
        client.ok("prompt", json!({"message": "start"})).await;
        client.events_until("tool_execution_start").await;
        client.ok("steer", json!({"message": "steered"})).await;
        for _ in 0..after {
            client.event().await;
        }
        client.ok("abort", json!({})).await;
        client.ok("wait", json!({})).await;
        client.ok("prompt", json!({"message": "next"})).await;
        client.ok("wait", json!({})).await;
        let requests = server.requests();
        let users = texts(requests.last().unwrap(), "user");
        assert_eq!(users.iter().filter(|text| *text == "steered").count(), 1, "after {after} events: {users:?}");
        assert_eq!(client.ok("get_state", json!({})).await["pendingMessageCount"], 0, "after {after} events");
    }
}

#[tokio::test]
async fn b172_what_is_queued_during_a_retry_is_delivered_after_it() {
    let server = ModelServer::replies(
        json!([{"status": 500, "headers": {"Retry-After": "1"}, "body": "boom"}, {"text": "a"}, {"text": "b"}, {"text": "c"}]),
    );
    let (_daemon, mut client) = begin(&server).await;
    client.ok("prompt", json!({"message": "start"})).await;
    client.events_until("auto_retry_start").await;
    client.ok("follow_up", json!({"message": "later"})).await;
    client.ok("steer", json!({"message": "now"})).await;
    client.events_until("agent_settled").await;
    assert_eq!(texts(server.requests().last().unwrap(), "user"), ["start", "now", "later"]);
    assert_eq!(client.ok("get_state", json!({})).await["pendingMessageCount"], 0);
}

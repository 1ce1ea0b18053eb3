//! Aborts: what is recorded, what stops, and that nothing comes after the end.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{begin, kinds, settled, texts};
use crate::model_server::ModelServer;

#[tokio::test]
async fn b080_every_call_of_an_aborted_turn_has_its_result_in_order() {
    let call = |number: u8| {
        let command = if number == 1 { "echo first" } else { "echo started; sleep 60" };
        json!({"tool": "bash", "args": {"command": command}, "id": format!("c{number}")})
    };
    let server =
        ModelServer::replies(json!([{"blocks": [call(1), call(2), call(3), call(4), call(5)]}, {"text": "on"}]));
    let (_daemon, mut client) = begin(&server).await;
    client.ok("prompt", json!({"message": "x"})).await;
    client.events_until("tool_execution_end").await;
    client.ok("abort", json!({})).await;
    client.events_until("agent_settled").await;
    client.run("go on").await;
    let request = server.request(2).await;
    let ids: Vec<_> = request.messages().iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
    assert_eq!(ids, ["c1", "c2", "c3", "c4", "c5"]);
    let results = texts(&request, "tool");
    assert_eq!(results[0], "first\n");
    assert!(results[1..].iter().all(|result| result.contains("aborted")), "{results:?}");
}

#[tokio::test]
async fn b163_an_abort_ends_one_run_and_no_later_one() {
    let server = ModelServer::replies(json!([{"text": "never", "first_gate": "never"}, {"text": "a"}, {"text": "b"}]));
    let (_daemon, mut client) = begin(&server).await;
    client.ok("abort", json!({})).await;
    client.ok("prompt", json!({"message": "x"})).await;
    server.request(1).await;
    let (first, second) = (client.request("abort", json!({})).await, client.request("abort", json!({})).await);
    client.answer(first).await.unwrap();
    client.answer(second).await.unwrap();
    client.events_until("agent_settled").await;
    client.ok("follow_up", json!({"message": "later"})).await;
    let events = client.run("y").await;
    assert_eq!((&settled(&events)["aborted"], server.requests().len()), (&json!(false), 3));
}

#[tokio::test]
async fn b165_an_abort_at_any_moment_before_the_headers_is_an_abort() {
    // One for each request, whether it goes out before the abort or not.
    let server = ModelServer::replies(Value::from(vec![json!({"text": "never", "first_gate": "never"}); 4]));
    let (_daemon, mut client) = begin(&server).await;
    for wait_ms in [0, 1, 5, 50] {
        client.ok("prompt", json!({"message": "x"})).await;
        tokio::time::sleep(std::time::Duration::from_millis(wait_ms)).await;
        client.ok("abort", json!({})).await;
        let events = client.events_until("agent_settled").await;
        assert!(!kinds(&events).contains(&"auto_retry_start"), "after {wait_ms} ms");
        assert_eq!(settled(&events)["aborted"], true, "after {wait_ms} ms");
    }
}

#[tokio::test]
async fn b167_nothing_of_a_run_comes_after_its_end() {
    let flood = json!({"blocks": [{"tool": "bash", "args": {"command": "while :; do echo flood; done"}}]});
    let server = ModelServer::replies(json!([flood, {"text": "next"}]));
    let (_daemon, mut client) = begin(&server).await;
    client.ok("prompt", json!({"message": "x"})).await;
    client.events_until("tool_execution_update").await;
    client.ok("abort", json!({})).await;
    client.events_until("agent_settled").await;
    let events = client.run("y").await;
    assert_eq!(events[0]["event"]["type"], "agent_start", "the first event after the end");
    assert!(!kinds(&events).contains(&"tool_execution_update"));
}

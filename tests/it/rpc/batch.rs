//! Batches, as JSON-RPC 2.0 has them.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};

fn ping(id: u32) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

/// Sends a batch and returns the answer.
async fn batch(client: &mut Client, requests: Value) -> Value {
    client.send(&requests).await;
    client.find("the answer to a batch", |message| message.get("method").is_none()).await
}

#[tokio::test]
async fn a_batch_gets_one_answer_with_an_element_for_each_request() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let notification = json!({"jsonrpc": "2.0", "method": "ping"});
    let unknown = json!({"jsonrpc": "2.0", "id": 2, "method": "nope"});
    let answer = batch(&mut client, json!([ping(1), notification, unknown, 5, ping(3)])).await;
    let elements = answer.as_array().expect("an array");
    let shown: Vec<_> = elements.iter().map(|answer| (&answer["id"], answer["error"]["code"].as_i64())).collect();
    assert_eq!(shown, [(&json!(1), None), (&json!(2), Some(-32601)), (&Value::Null, Some(-32600)), (&json!(3), None),]);
}

#[tokio::test]
async fn an_empty_batch_is_invalid_and_one_of_notifications_silent() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let answer = batch(&mut client, json!([])).await;
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &Value::Null));
    client.send(&json!([{"jsonrpc": "2.0", "method": "ping"}, {"jsonrpc": "2.0", "method": "nope"}])).await;
    assert_eq!(batch(&mut client, ping(7)).await["id"], 7);
}

#[tokio::test]
async fn too_long_a_batch_is_refused_whole() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let limit = client.ok("initialize", json!({})).await["limits"]["maxBatch"].as_u64().unwrap();
    let requests: Vec<_> = (0..=limit).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).collect();
    let answer = batch(&mut client, json!(requests)).await;
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    let answer = batch(&mut client, json!(requests[1..])).await;
    assert_eq!(answer.as_array().map(Vec::len), usize::try_from(limit).ok());
}

#[tokio::test]
async fn methods_that_wait_are_refused_in_a_batch() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "demo").await;
    let request = |id: u32, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method});
    let answer = batch(&mut client, json!([request(1, "abort"), request(2, "wait"), request(3, "get_state")])).await;
    let kinds: Vec<_> = answer.as_array().unwrap().iter().map(|answer| &answer["error"]["data"]["kind"]).collect();
    assert_eq!(kinds, [&json!("not_in_batch"), &json!("not_in_batch"), &Value::Null]);
}

#[tokio::test]
async fn an_attach_inside_takes_effect_after_the_batch_answer() {
    let daemon = Daemon::start(Home::new());
    let mut one = daemon.connect().await;
    let session = one.new_session(daemon.home(), "demo").await;
    let mut two = daemon.connect().await;
    let rename = |name: &str| json!({"jsonrpc": "2.0", "id": name, "method": "set_session_name", "params": {"sessionId": session, "name": name}});
    let attach = json!({"jsonrpc": "2.0", "id": 1, "method": "attach", "params": {"sessionId": session}});
    two.send(&json!([attach, rename("first"), rename("second")])).await;
    let answer = two.next().await.expect("an answer");
    assert_eq!(answer.as_array().map(Vec::len), Some(3), "the batch answer comes first: {answer}");
    let cursor = answer[0]["result"]["seq"].as_u64().unwrap();
    let mut next = cursor + 1;
    let mut names = Vec::new();
    while names.len() < 2 {
        let event = two.event().await;
        assert_eq!(event["seq"], next, "events follow from the attach's cursor without a gap");
        next += 1;
        if event["event"]["type"] == "session_info_changed" {
            names.push(event["event"]["name"].clone());
        }
    }
    assert_eq!(names, ["first", "second"]);
}

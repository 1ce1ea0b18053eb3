//! Queues: a message is delivered once, whatever happens between.

use std::time::Duration;

use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{begin, texts};
use crate::harness::Daemon;
use crate::model_server::{ModelServer, Script};

/// Steers during the first of three tools and aborts a moment later, a round later than the last one.
async fn abort_after_steering(daemon: &Daemon, round: u32) {
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    client.ok("prompt", json!({"message": format!("start {round}.")})).await;
    client.events_until("tool_execution_start").await;
    client.ok("steer", json!({"message": "steered"})).await;
    tokio::time::sleep(round * Duration::from_micros(1250)).await;
    client.ok("abort", json!({})).await;
    client.ok("prompt", json!({"message": "next"})).await;
    client.ok("wait", json!({})).await;
    assert_eq!(client.ok("get_state", json!({})).await["pendingMessageCount"], 0, "round {round}");
}

#[tokio::test]
async fn b170_steering_survives_an_abort_at_any_moment() {
    const ROUNDS: u32 = 40;
    const AT_ONCE: usize = 4;
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": "true"}}]});
    let replies = [&[call.clone(), call.clone(), call][..], &vec![json!({"text": "end"}); 6]].concat();
    // A list for each: a request that an abort has ended may still reach the server later.
    let routes: Vec<_> =
        (0..ROUNDS).map(|round| json!({"contains": format!("start {round}."), "replies": replies})).collect();
    let server = ModelServer::with_script(Script::parse(json!({"routes": routes})));
    let (daemon, _client) = begin(&server).await;
    let rounds = (0..ROUNDS).map(|round| abort_after_steering(&daemon, round));
    futures_util::stream::iter(rounds).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    let requests = server.requests();
    for round in 0..ROUNDS {
        let is_of_round = |users: &Vec<String>| users[0] == format!("start {round}.") && users.contains(&"next".into());
        let last =
            requests.iter().rev().map(|request| texts(request, "user")).find(is_of_round).expect("a last request");
        assert_eq!(last.iter().filter(|text| *text == "steered").count(), 1, "{last:?}");
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

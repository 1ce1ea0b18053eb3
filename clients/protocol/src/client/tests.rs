use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};

use super::*;
use crate::methods::{Abort, Empty, GetLastAssistantText, Ping, SessionParams, Wait};

/// The daemon's end of a connection, played by the test.
struct Peer {
    stream: BufReader<DuplexStream>,
}

impl Peer {
    async fn request(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.expect("reads");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    async fn say(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).await.expect("writes");
    }

    async fn event(&mut self, seq: u64) {
        self.say(&event_line(seq)).await;
    }
}

fn event_line(seq: u64) -> String {
    let params = json!({"sessionId": "s", "seq": seq, "event": {"type": "turn_start"}});
    json!({"jsonrpc": "2.0", "method": "event", "params": params}).to_string()
}

fn connect() -> (Client, Events, Peer) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (client, events) = Client::spawn(ours);
    (client, events, Peer { stream: BufReader::new(theirs) })
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order() {
    let (client, _events, mut peer) = connect();
    let first = client.request::<Ping>(&Empty {}).await.expect("sent");
    let second = client.request::<Ping>(&Empty {}).await.expect("sent");
    assert_eq!(peer.request().await, json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}));
    assert_eq!(peer.request().await["id"], 2);
    peer.say(r#"{"jsonrpc":"2.0","id":2,"result":{"time":22}}"#).await;
    peer.say(r#"{"jsonrpc":"2.0","id":1,"result":{"time":11}}"#).await;
    assert_eq!(second.answer().await.expect("answer").time, 22);
    assert_eq!(first.answer().await.expect("answer").time, 11);
}

#[tokio::test]
async fn an_error_answer_tells_its_kind() {
    let (client, _events, mut peer) = connect();
    let call = client.request::<Abort>(&SessionParams::default()).await.expect("sent");
    peer.say(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"no session","data":{"kind":"no_session","retryable":false}}}"#).await;
    let error = call.answer().await.expect_err("an error");
    assert_eq!(error.kind(), Some(ErrorKind::NoSession));
    assert_eq!(error.to_string(), "no session");

    for (error, kind) in [
        (json!({"code": -32003, "message": "m"}), Some(ErrorKind::Busy)),
        (json!({"code": -32003, "message": "m", "data": {"kind": "from_the_future"}}), Some(ErrorKind::Busy)),
        (json!({"code": -1, "message": "m", "data": "text"}), None),
        (json!("not an error object"), None),
    ] {
        let call = client.request::<Ping>(&Empty {}).await.expect("sent");
        let line = json!({"jsonrpc": "2.0", "id": call.id, "error": error}).to_string();
        peer.say(&line).await;
        assert_eq!(call.answer().await.expect_err("an error").kind(), kind, "{line}");
    }
}

#[tokio::test]
async fn odd_lines_do_not_end_the_connection() {
    let (client, mut events, mut peer) = connect();
    let call = client.request::<Ping>(&Empty {}).await.expect("sent");
    for line in ["", "{", "null", "[]", "7", r#"{"id":99,"result":1}"#, r#"{"id":null,"error":{}}"#, "\u{fffd}\0"] {
        peer.say(line).await;
    }
    peer.stream.write_all(b"\xff\xfe\n").await.expect("writes");
    peer.say(r#"{"jsonrpc":"2.0","method":"other","params":[1]}"#).await;
    peer.say(r#"{"jsonrpc":"2.0","id":1,"result":{"time":1,"new":true}}"#).await;
    assert_eq!(call.answer().await.expect("answer").time, 1);
    let other = events.recv_raw().await.expect("a notification");
    assert_eq!((other.method.as_str(), other.params.get()), ("other", "[1]"));
    peer.event(1).await;
    assert_eq!(events.recv().await.expect("an event").seq, 1);
}

#[tokio::test]
async fn an_answer_of_another_shape_names_the_method() {
    let (client, _events, mut peer) = connect();
    let call = client.request::<Ping>(&Empty {}).await.expect("sent");
    peer.say(r#"{"jsonrpc":"2.0","id":1,"result":null}"#).await;
    let error = call.answer().await.expect_err("an error");
    assert!(error.to_string().starts_with("the answer to ping is not what this build expects"), "{error}");
}

#[tokio::test]
async fn the_cursor_of_an_answer_can_be_read() {
    let (client, _events, mut peer) = connect();
    let call = client.request::<GetLastAssistantText>(&SessionParams::default()).await.expect("sent");
    peer.say(r#"{"jsonrpc":"2.0","id":1,"result":{"text":"t","seq":41}}"#).await;
    let (result, seq) = call.answer_with_seq().await.expect("answer");
    assert_eq!((result.text.as_deref(), seq), (Some("t"), 41));
}

#[tokio::test]
async fn events_around_an_answer_are_told_apart_and_none_is_lost() {
    let (client, mut events, mut peer) = connect();
    let daemon = async {
        peer.request().await;
        for seq in 1..=3 {
            peer.event(seq).await;
        }
        peer.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
        peer.event(4).await;
        peer
    };
    let mut before = Vec::new();
    let params = SessionParams::default();
    let program = events.until_answer::<Abort>(&client, &params, |event| before.push(event.seq));
    let (answer, _peer) = tokio::join!(program, daemon);
    answer.expect("answer");
    assert_eq!(before, [1, 2, 3]);
    assert_eq!(events.recv().await.expect("an event").seq, 4);
}

#[tokio::test]
async fn a_program_that_reads_events_gets_its_answer_behind_many() {
    let (client, mut events, mut peer) = connect();
    let many = 3 * EVENT_BUFFER as u64;
    let daemon = async {
        peer.request().await;
        for seq in 1..=many {
            peer.event(seq).await;
        }
        peer.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
        peer
    };
    let mut seen = 0;
    let program = events.during(client.call::<Wait>(&SessionParams { session_id: None }), |_| seen += 1);
    let (answer, _peer) = tokio::join!(program, daemon);
    answer.expect("answer");
    while events.try_recv().is_some() {
        seen += 1;
    }
    assert_eq!(seen, many);
}

#[tokio::test]
async fn a_program_that_does_not_read_holds_the_daemon_back_but_not_its_own_requests() {
    let (client, mut events, mut peer) = connect();
    let mut said = 0;
    // The stream takes only what the driver reads, so at some event the peer cannot write any more.
    while let Ok(()) = tokio::time::timeout(Duration::from_millis(200), peer.event(said + 1)).await {
        said += 1;
        assert!(said < 1_000_000, "the driver reads without bound");
    }
    client.notify("still", &json!({})).await.expect("sent");
    assert_eq!(peer.request().await["method"], "still");
    for seq in 1..=said {
        assert_eq!(events.recv().await.expect("an event").seq, seq);
    }
}

#[tokio::test]
async fn events_that_nobody_wants_are_dropped() {
    let (client, events, mut peer) = connect();
    drop(events);
    let call = client.request::<Ping>(&Empty {}).await.expect("sent");
    for seq in 0..3 * EVENT_BUFFER as u64 {
        peer.event(seq).await;
    }
    peer.say(r#"{"jsonrpc":"2.0","id":1,"result":{"time":5}}"#).await;
    assert_eq!(call.answer().await.expect("answer").time, 5);
}

#[tokio::test]
async fn a_closed_connection_fails_calls_and_ends_events() {
    let (client, mut events, peer) = connect();
    let call = client.request::<Ping>(&Empty {}).await.expect("sent");
    drop(peer);
    assert!(matches!(call.answer().await, Err(ClientError::Closed(_))));
    assert!(events.recv().await.is_none());
    let error = client.call::<Ping>(&Empty {}).await.expect_err("closed");
    assert!(error.to_string().starts_with("the connection to the daemon closed"), "{error}");
}

#[tokio::test]
async fn cancelling_names_the_request_and_dropping_forgets_it() {
    let (client, _events, mut peer) = connect();
    let call = client.request::<Wait>(&SessionParams::default()).await.expect("sent");
    call.cancel().await.expect("sent");
    peer.request().await;
    assert_eq!(peer.request().await, json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}}));
    drop(call);
    assert!(lock(&client.requests).waiting.is_empty());
}

#[tokio::test]
async fn closing_writes_what_was_sent_before() {
    let (client, mut events, mut peer) = connect();
    client.front(&FrontParams { name: Some("t".into()), ..FrontParams::default() }).await.expect("sent");
    client.close().await;
    let mut all = String::new();
    peer.stream.read_to_string(&mut all).await.expect("reads to the end");
    assert_eq!(all, "{\"jsonrpc\":\"2.0\",\"method\":\"front\",\"params\":{\"name\":\"t\"}}\n");
    assert!(events.recv().await.is_none());
}

#[tokio::test]
async fn dropping_the_client_closes_the_connection() {
    let (client, _events, mut peer) = connect();
    client.notify("last", &json!({})).await.expect("sent");
    drop(client);
    let mut all = String::new();
    peer.stream.read_to_string(&mut all).await.expect("reads to the end");
    assert!(all.contains("last"), "{all}");
}

#[tokio::test]
async fn an_untyped_call_gives_the_result_as_it_came() {
    let (client, _events, mut peer) = connect();
    let params = RawValue::from_string(r#"{"a":1.0}"#.into()).expect("json");
    let call = client.call_raw("odd", Some(&params));
    let daemon = async {
        assert_eq!(peer.request().await["params"]["a"], 1.0);
        peer.say(r#"{"jsonrpc":"2.0","id":1,"result":{"b":1.50}}"#).await;
    };
    let (answer, ()) = tokio::join!(call, daemon);
    assert_eq!(answer.expect("answer").get(), r#"{"b":1.50}"#);
}

#[test]
fn views_of_a_later_version_are_passed_over() {
    let value = json!({"views": ["full", "holographic"], "confinement": "none"});
    let capabilities: crate::methods::Capabilities = serde_json::from_value(value).unwrap();
    assert_eq!(capabilities.views, [crate::methods::View::Full]);
}

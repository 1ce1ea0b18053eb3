//! Ids, malformed messages and errors: every request gets an answer, and no bytes end the connection or the daemon.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Home};

/// Sends raw lines and returns the code (0 for success) and the id of each answer until the one to `last`.
async fn answers(client: &mut Client, lines: &[&[u8]]) -> Vec<(i64, Value)> {
    for line in lines {
        client.send_raw(line).await;
        client.send_raw(b"\n").await;
    }
    client.send(&json!({"jsonrpc": "2.0", "id": "last", "method": "ping"})).await;
    let mut found = Vec::new();
    loop {
        let answer = client.next().await.expect("the connection lives on");
        if answer["id"] == "last" {
            return found;
        }
        found.push((answer["error"]["code"].as_i64().unwrap_or(0), answer["id"].clone()));
    }
}

#[tokio::test]
async fn ids_come_back_byte_for_byte() {
    let daemon = Daemon::start(Home::new());
    let mut client = Client::connect(&daemon.home().socket()).await;
    for id in [
        "1",
        "-7",
        "1.50",
        "1e3",
        "123456789012345678901234567890",
        "0.1e-7",
        "null",
        "\"\"",
        "\"a\"",
        r#""\u00e9\/""#,
        "\"é\"",
    ] {
        client.send_raw(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\": {id} }}\n")).await;
        let line = client.read_line().await.expect("an answer");
        assert!(line.contains(&format!("\"id\":{id},")) || line.contains(&format!("\"id\":{id}}}")), "{id}: {line}");
        assert!(line.contains("\"result\""), "{line}");
        client.send_raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"nope\"}}\n")).await;
        let line = client.read_line().await.expect("an answer");
        assert!(line.contains(&format!("\"id\":{id}")) && line.contains("-32601"), "{id}: {line}");
    }
}

#[tokio::test]
async fn ids_of_other_types_are_refused_with_id_null() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    for id in ["true", "{}", "[1]"] {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
        assert_eq!(answers(&mut client, &[line.as_bytes()]).await, [(-32600, Value::Null)], "{id}");
    }
}

#[tokio::test]
async fn b145_invalid_bytes_are_answered_and_valid_requests_served() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let ping = |id: u32| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}").into_bytes();
    let bom = [b"\xef\xbb\xbf", ping(4).as_slice()].concat();
    let found = answers(
        &mut client,
        &[
            &ping(1),
            b"\xff\xfe{}",
            &ping(2),
            b"{bad json",
            &ping(3),
            b"[]",
            b"123",
            b" ",
            b"\r",
            b"\0",
            b"\"text\"",
            b"null",
            &bom,
            &ping(5),
        ],
    )
    .await;
    let null = Value::Null;
    assert_eq!(
        found,
        [
            (0, json!(1)),
            (-32700, null.clone()),
            (0, json!(2)),
            (-32700, null.clone()),
            (0, json!(3)),
            (-32600, null.clone()),
            (-32600, null.clone()),
            (-32700, null.clone()),
            (-32600, null.clone()),
            (-32600, null.clone()),
            (-32700, null),
            (0, json!(5)),
        ]
    );
}

#[tokio::test]
async fn b145_invalid_text_inside_a_string_is_not_changed_silently() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"a\xffb\"}}";
    assert_eq!(answers(&mut client, &[line]).await, [(-32700, Value::Null)]);
}

#[tokio::test]
async fn b147_errors_carry_the_id_and_notifications_are_silent() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let found = answers(
        &mut client,
        &[
            br#"{"jsonrpc":"2.0","id":1,"method":"nope"}"#,
            br#"{"jsonrpc":"2.0","id":2,"method":"list_sessions","params":{"limit":"many"}}"#,
            br#"{"jsonrpc":"2.0","id":3,"method":"list_sessions","params":5}"#,
            br#"{"jsonrpc":"2.0","id":4}"#,
            br#"{"jsonrpc":"2.0","id":5,"method":7}"#,
            br#"{"jsonrpc":"2.0","method":"nope"}"#,
            br#"{"jsonrpc":"2.0","method":"list_sessions","params":{"limit":"many"}}"#,
            br#"{"jsonrpc":"2.0","method":"ping"}"#,
            br#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#,
            br#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#,
        ],
    )
    .await;
    let codes: Vec<_> = found.iter().map(|(code, _)| *code).collect();
    let ids: Vec<_> = found.iter().map(|(_, id)| id.clone()).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 6]);
    assert_eq!(codes[..2], [-32601, -32602]);
    assert!(matches!(codes[2], -32602 | -32600), "params that are no object: {}", codes[2]);
    assert_eq!(codes[3..], [-32600, -32600, 0, 0]);
}

#[tokio::test]
async fn b147_a_reply_nobody_asked_for_harms_nothing() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    client.send(&json!({"jsonrpc": "2.0", "id": 99, "result": {}})).await;
    client.send(&json!({"jsonrpc": "2.0", "id": 98, "error": {"code": 1, "message": "x"}})).await;
    client.ok("ping", json!({})).await;
}

#[tokio::test]
async fn errors_say_kind_and_whether_to_try_again() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let error = client.err("nope", json!({})).await;
    assert_eq!((error.code, error.kind(), &error.data["retryable"]), (-32601, "method_not_found", &json!(false)));
    let error = client.err("list_sessions", json!({"limit": "many"})).await;
    assert_eq!((error.kind(), &error.data["param"]), ("invalid_params", &json!("limit")));
    assert!(error.message.contains("limit"), "{}", error.message);
}

#[tokio::test]
async fn requests_of_one_connection_are_answered_in_order() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let mut burst = String::new();
    for id in 0..3000 {
        burst.push_str(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n"));
    }
    client.send_raw(burst).await;
    for id in 0..3000 {
        assert_eq!(client.next().await.expect("an answer")["id"], id);
    }
}

//! How messages are cut out of the bytes: lines, LSP headers, limits.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::harness::{Client, Daemon, Home, bounded};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// Sends bytes on a new connection, closes the sending side, and returns all that comes back.
async fn exchange(daemon: &Daemon, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(daemon.home().socket()).await.unwrap();
    // A refused connection may be closed before all is sent.
    let _sent = stream.write_all(bytes).await;
    let _closed = stream.shutdown().await;
    let mut answer = Vec::new();
    let _reset = bounded("the daemon closing the connection", stream.read_to_end(&mut answer)).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn lines_end_in_lf_with_an_optional_cr() {
    let daemon = Daemon::start(Home::new());
    for bytes in [format!("{PING}\n"), format!("{PING}\r\n"), format!("\n \r\n{PING}\n"), PING.to_owned()] {
        let answer = exchange(&daemon, bytes.as_bytes()).await;
        assert_eq!(answer.lines().count(), 1, "{bytes:?}: {answer:?}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["id"], 1);
        assert!(answer["result"].is_object(), "{answer}");
    }
}

#[tokio::test]
async fn line_separators_of_unicode_are_plain_data() {
    let daemon = Daemon::start(Home::new());
    let mut client = Client::connect(&daemon.home().socket()).await;
    let cwd = daemon.home().cwd();
    let made =
        client.ok("new_session", json!({"cwd": cwd, "model": "demo", "name": "a\u{2028}b\u{2029}c\u{85}d"})).await;
    assert_eq!(made["state"]["sessionName"], "a\u{2028}b\u{2029}c\u{85}d");
}

#[tokio::test]
async fn a_letter_first_means_lsp_headers_both_ways() {
    let daemon = Daemon::start(Home::new());
    for head in [
        format!("Content-Length: {}\r\n\r\n", PING.len()),
        format!("content-type: application/vscode-jsonrpc; charset=utf-8\r\nCONTENT-LENGTH:{}\r\n\r\n", PING.len()),
    ] {
        let answer = exchange(&daemon, format!("{head}{PING}{head}{PING}").as_bytes()).await;
        let mut rest = answer.as_str();
        for _ in 0..2 {
            let (head, after) = rest.split_once("\r\n\r\n").unwrap();
            let length: usize = head.strip_prefix("Content-Length: ").unwrap().parse().unwrap();
            let message: Value = serde_json::from_str(&after[..length]).unwrap();
            assert_eq!(message["id"], 1);
            rest = &after[length..];
        }
        assert_eq!(rest, "");
    }
}

#[tokio::test]
async fn other_protocols_are_refused_and_closed() {
    let daemon = Daemon::start(Home::new());
    for bytes in [&b"\x16\x03\x01\x02\x00\x01"[..], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"#!/bin/sh\n"] {
        let answer = exchange(&daemon, bytes).await;
        assert!(!answer.contains("\"result\""), "{bytes:?}: {answer}");
    }
    let mut client = daemon.connect().await;
    client.ok("ping", json!({})).await;
}

#[tokio::test]
async fn a_message_over_the_limit_is_skipped_exactly() {
    let daemon = Daemon::start(Home::new());
    let mut client = daemon.connect().await;
    let limit = client.ok("initialize", json!({})).await["limits"]["maxMessageBytes"].as_u64().unwrap();
    assert_eq!(limit, 64 * 1024 * 1024);
    let piece = vec![b'x'; 1024 * 1024];
    client.send_raw(br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":""#).await;
    for _ in 0..=limit / 1024 / 1024 {
        client.send_raw(&piece).await;
    }
    client.send_raw(b"\"}}\n").await;
    client.send_raw(PING).await;
    client.send_raw(b"\n").await;
    let refused = client.next().await.unwrap();
    assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32600), &Value::Null));
    assert!(client.next().await.unwrap()["result"].is_object());
}

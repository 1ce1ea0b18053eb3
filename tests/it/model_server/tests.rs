//! The model server, seen by a client that knows nothing but TCP.

use std::fmt::Write as _;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::ModelServer;
use crate::fixtures;
use crate::harness::bounded;

fn body(text: &str) -> Value {
    json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": text}],
    })
}

fn request(body: &Value) -> Vec<u8> {
    request_to("/v1/chat/completions", body)
}

fn request_to(path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// Sends a request on a new connection.
async fn send(server: &ModelServer, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    stream.write_all(&request(body)).await.unwrap();
    stream
}

/// Reads until the server has sent `end` or closed the connection.
async fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = bounded("bytes of the model server", stream.read(&mut buffer)).await.unwrap();
        text.extend_from_slice(&buffer[..count]);
        if count == 0 || text.ends_with(end.as_bytes()) {
            return String::from_utf8_lossy(&text).into_owned();
        }
    }
}

/// Reads until the server has ended the body or the connection.
async fn read(stream: &mut TcpStream) -> String {
    read_to(stream, "\r\n0\r\n\r\n").await
}

/// Returns the `data:` payloads of an answer.
async fn ask(server: &ModelServer, text: &str) -> Vec<String> {
    let answer = read(&mut send(server, &body(text)).await).await;
    answer.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
}

/// Returns a readable line for each payload: what was added, or the finish reason, or `usage`, or the text itself.
fn brief(payloads: &[String]) -> String {
    let mut out = String::new();
    for payload in payloads {
        let value: Value = serde_json::from_str(payload).unwrap_or(Value::Null);
        let choice = &value["choices"][0];
        let delta = &choice["delta"];
        let shown = [
            delta["content"].as_str().map(|text| format!("text {text:?}")),
            delta["reasoning_content"].as_str().map(|text| format!("thinking {text:?}")),
            delta.pointer("/tool_calls/0").map(|call| format!("call {} {}", call["index"], call["function"])),
            choice["finish_reason"].as_str().map(|word| format!("finish {word}")),
            value["usage"].as_object().map(|usage| format!("usage {}", usage["total_tokens"])),
        ];
        let shown = shown.into_iter().flatten().next().unwrap_or_else(|| payload.clone());
        writeln!(out, "{shown}").unwrap();
    }
    out
}

#[tokio::test]
async fn blocks_become_chunks() {
    let server = ModelServer::replies(json!([{
        "blocks": [{"thinking": "hm"}, {"text": "abc"}, {"tool": "read", "args": {"path": "é"}, "id": "c"}],
        "chunk": 2, "usage": {"input": 5, "output": 6, "cache_read": 7},
    }]));
    let expected = r#"text ""
thinking "hm"
text "ab"
text "c"
call 0 {"name":"read","arguments":""}
call 0 {"arguments":"{\""}
call 0 {"arguments":"pa"}
call 0 {"arguments":"th"}
call 0 {"arguments":"\":"}
call 0 {"arguments":" \""}
call 0 {"arguments":"\\u"}
call 0 {"arguments":"00"}
call 0 {"arguments":"e9"}
call 0 {"arguments":"\"}"}
finish tool_calls
usage 18
[DONE]
"#;
    assert_eq!(brief(&ask(&server, "x").await), expected);
}

#[tokio::test]
async fn anthropic_blocks_become_events() {
    let server = ModelServer::replies(json!([{"blocks": [
        {"thinking": "hm", "signature": "s"}, {"text": "abc"}, {"tool": "read", "args": {"path": "p"}},
    ]}]));
    let request =
        json!({"model": "m", "stream": true, "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    stream.write_all(&request_to("/v1/messages?beta=true", &request)).await.unwrap();
    let answer = read(&mut stream).await;
    let events: Vec<_> = answer.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let thinking = ["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"];
    let expected = [&["message_start"][..], &thinking, &block, &block, &["message_delta", "message_stop"]].concat();
    assert_eq!(events, expected);
    assert!(answer.contains(r#""partial_json":"{\"path\": \"p\"}""#), "{answer}");
    assert!(answer.contains(r#""stop_reason":"tool_use""#), "{answer}");
}

#[tokio::test]
async fn replies_are_taken_in_order_and_routes_first() {
    let server = ModelServer::start(json!({
        "replies": [{"text": "one", "repeat": 2}, {"text": "two"}],
        "routes": [{"contains": "special", "replies": [{"text": "routed"}]}],
    }));
    let mut texts = Vec::new();
    for prompt in ["a", "special", "special", "b", "c"] {
        let payloads = ask(&server, prompt).await;
        texts.push(brief(&payloads).lines().nth(1).unwrap().to_owned());
    }
    assert_eq!(texts, ["text \"one\"", "text \"routed\"", "text \"one\"", "text \"two\"", "text \"END OF SCRIPT\""]);
    let prompts: Vec<_> = server.requests().iter().map(|request| request.messages()[1]["content"].clone()).collect();
    assert_eq!(prompts, ["a", "special", "special", "b", "c"]);
    assert_eq!(server.max_parallel(), 1);
}

#[tokio::test]
async fn streams_break_where_the_script_says() {
    let text = json!("abcdef");
    for (step, expected) in [
        (json!({"cut_after": 2}), "text \"\"\ntext \"ab\"\n"),
        (json!({"end_after": 2}), "text \"\"\ntext \"ab\"\n"),
        (json!({"malformed_after": 1, "end_after": 2}), "text \"\"\n{\"broken\": \ntext \"ab\"\n"),
        (json!({"error_after": 1, "error": {"message": "no"}}), "text \"\"\n{\"message\":\"no\"}\n"),
        (
            json!({"stop": null, "usage": null, "no_done": true, "end_after": 3}),
            "text \"\"\ntext \"ab\"\ntext \"cd\"\n",
        ),
        (
            json!({"stop": "length", "usage": null}),
            "text \"\"\ntext \"ab\"\ntext \"cd\"\ntext \"ef\"\nfinish length\n[DONE]\n",
        ),
    ] {
        let mut reply = json!({"text": text, "chunk": 2});
        reply.as_object_mut().unwrap().extend(step.as_object().unwrap().clone());
        let server = ModelServer::replies(json!([reply]));
        assert_eq!(brief(&ask(&server, "x").await), expected, "{step}");
    }
}

#[tokio::test]
async fn plain_answers_keep_the_connection() {
    let server = ModelServer::replies(json!([
        {"status": 429, "headers": {"Retry-After": "1"}, "body": {"error": {"message": "slow down"}}},
        {"status": 503, "body": "later"},
    ]));
    let mut stream = send(&server, &body("x")).await;
    let first = read_to(&mut stream, "\"}}").await;
    let head = "HTTP/1.1 429 X\r\ncontent-type: application/json\r\ncontent-length: 33\r\nRetry-After: 1\r\n\r\n";
    assert_eq!(first, format!("{head}{{\"error\":{{\"message\":\"slow down\"}}}}"));
    stream.write_all(&request(&body("y"))).await.unwrap();
    assert!(read_to(&mut stream, "later").await.ends_with("\r\n\r\nlater"));
}

#[tokio::test]
async fn raw_pieces_gates_and_resets() {
    let server = ModelServer::replies(json!([
        {"raw": ["data: a", {"gate": "go"}, {"base64": "/w=="}, "\n\n"]},
        {"raw": ["data: b"], "then": "reset"},
        {"raw_http": ["HTTP/1.1 200", " OK\r\n\r\nend"]},
    ]));
    let mut stream = send(&server, &body("x")).await;
    read_to(&mut stream, "data: a").await;
    server.release("go");
    let mut got = Vec::new();
    bounded("the end", stream.read_to_end(&mut got)).await.unwrap();
    assert_eq!(got, b"\xff\n\n");
    let mut stream = send(&server, &body("y")).await;
    let error = bounded("the reset", stream.read_to_end(&mut got)).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let mut stream = send(&server, &body("z")).await;
    assert_eq!(read(&mut stream).await, "HTTP/1.1 200 OK\r\n\r\nend");
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed() {
    let server =
        ModelServer::replies(json!([{"text": "abc", "chunk": 1, "hang_after": 2}, {"text": "x", "gates": {"1": "g"}}]));
    let mut stream = send(&server, &body("x")).await;
    read_to(&mut stream, "\n\n\r\n").await;
    drop(stream);
    server.client_gone(1).await;
    drop(send(&server, &body("y")).await);
    server.client_gone(2).await;
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn parallel_requests_are_counted() {
    let server = ModelServer::replies(json!([{"text": "a", "first_gate": "g", "repeat": 3}]));
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(send(&server, &body("x")).await);
    }
    server.request(3).await;
    assert_eq!(server.max_parallel(), 3);
    server.release("g");
    for mut stream in streams {
        assert!(read(&mut stream).await.contains("\"a\""));
    }
}

#[tokio::test]
async fn illegal_requests_are_refused_and_fail_the_test() {
    let illegal = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": ""}]});
    let server = ModelServer::replies(json!([{"text": "never"}]));
    let answer = read_to(&mut send(&server, &illegal).await, "}}").await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("strict validator"), "{answer}");
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(server)));
    assert!(outcome.is_err(), "an illegal request must fail the test");

    let lenient = ModelServer::replies(json!([{"text": "yes"}]));
    lenient.be_lenient();
    assert!(read(&mut send(&lenient, &illegal).await).await.contains("yes"));
}

#[test]
fn every_recorded_script_is_understood() {
    let mut count = 0;
    for entry in std::fs::read_dir(fixtures::folder().join("setups")).unwrap() {
        let setup = fixtures::json(&entry.unwrap().path());
        if let Some(scenario) = setup.get("scenario") {
            super::Script::parse(scenario.clone());
            count += 1;
        }
    }
    assert_eq!(count, 65);
}

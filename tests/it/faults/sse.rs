//! Streams: cut characters, comments, odd chunks, ends that are none.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{begin, chunk, kinds, raw, reply, settled};
use crate::model_server::ModelServer;

/// Prompts once for each reply and checks what is stored.
async fn check(rows: Vec<(&str, Value, Value)>) {
    let server = ModelServer::replies(json!([]));
    let (daemon, mut client) = begin(&server).await;
    for (name, reply, expected) in rows {
        server.push(reply);
        client.new_session(daemon.home(), "fake/plain").await;
        let events = client.run(name).await;
        assert!(!kinds(&events).contains(&"auto_retry_start"), "{name}: {:?}", settled(&events));
        let end = events.iter().rev().find(|event| event["event"]["type"] == "message_end").unwrap();
        let blocks: Vec<_> =
            end["event"]["message"]["content"].as_array().unwrap().iter().map(without_signature).collect();
        assert_eq!(json!(blocks), expected, "{name}");
        let streamed: String =
            events.iter().filter_map(|event| event["event"]["assistantMessageEvent"]["delta"].as_str()).collect();
        let stored: String =
            blocks.iter().filter_map(|block| block["thinking"].as_str().or(block["text"].as_str())).collect();
        assert_eq!(streamed, stored, "{name}");
    }
}

fn without_signature(block: &Value) -> Value {
    let mut block = block.clone();
    block.as_object_mut().unwrap().retain(|key, _| !key.ends_with("Signature"));
    block
}

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

#[tokio::test]
async fn b001_characters_cut_by_the_network_stay_whole() {
    let whole = "你好🌍é";
    let mut rows = Vec::new();
    for split in 1..=3 {
        let mut reply = reply(&chunk(json!({"content": whole}), None), "stop");
        reply["raw_split"] = json!(split);
        rows.push(("split", reply, text(whole)));
    }
    check(rows).await;
}

#[tokio::test]
async fn b003_comments_and_unknown_fields_are_ignored() {
    let comments = ": PROCESSING\n\n".repeat(10);
    let hello = chunk(json!({"content": "hel"}), None);
    let events =
        format!("{comments}{hello}{comments}id: 7\nretry: 10\nevent: ping\n{}", chunk(json!({"content": "lo"}), None));
    check(vec![("comments", reply(&events, "stop"), text("hello"))]).await;
}

#[tokio::test]
async fn b007_chunks_without_content_are_skipped() {
    let odd = [
        "null",
        "{}",
        r#"{"choices":[]}"#,
        r#"{"choices":[{}]}"#,
        r#"{"choices":[{"delta":null}]}"#,
        r#"{"choices":null}"#,
    ];
    let odd: String = odd.iter().map(|data| format!("data: {data}\n\n")).collect();
    let events = odd.clone() + &chunk(json!({"content": null}), None) + &chunk(json!({"content": "hi"}), None) + &odd;
    let mut reply = reply(&events, "stop");
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10});
    let body = reply["raw"][0].as_str().unwrap();
    reply["raw"][0] =
        json!(body.replace("data: [DONE]", &format!("{}data: [DONE]", raw(&json!({"choices": [], "usage": usage})))));
    let server = ModelServer::replies(json!([reply]));
    let (_daemon, mut client) = begin(&server).await;
    client.run("x").await;
    assert_eq!(client.ok("get_last_assistant_text", json!({})).await["text"], "hi");
    let tokens = client.ok("get_session_stats", json!({})).await["tokens"].clone();
    assert_eq!((&tokens["input"], &tokens["output"]), (&json!(7), &json!(3)));
}

#[tokio::test]
async fn b009_thinking_and_text_of_one_chunk_are_both_kept() {
    let both = chunk(json!({"reasoning_content": "r", "content": "c"}), None);
    let expected = json!([{"type": "thinking", "thinking": "r"}, {"type": "text", "text": "c"}]);
    check(vec![("both", reply(&both, "stop"), expected)]).await;
}

#[tokio::test]
async fn b005_a_stream_without_its_end_is_never_an_answer() {
    // Chunks: the role, three of content, the reason, the usage, the end.
    let call = json!({"tool": "bash", "args": {"command": "touch ran"}, "id": "c1"});
    let server = ModelServer::replies(json!([]));
    let (daemon, mut client) = begin(&server).await;
    // The arguments of the call are whole with the last event before the reason, and do not run all the same.
    for (blocks, size) in [(json!([{"text": "abcdef"}]), 2), (json!([call]), 16)] {
        for (how, is_reset) in [("cut_after", false), ("cut_after", true), ("end_after", false)] {
            for after in 0..=4 {
                server.push(json!({"blocks": blocks, "chunk": size, how: after, "reset": is_reset}));
                server.push(json!({"text": "whole"}));
                client.new_session(daemon.home(), "fake/plain").await;
                let events = client.run("x").await;
                let row = format!("{how} {after} {is_reset} {blocks}");
                assert!(kinds(&events).contains(&"auto_retry_start"), "{row}");
                assert!(!kinds(&events).contains(&"tool_execution_start"), "{row}");
                assert_eq!(client.ok("get_last_assistant_text", json!({})).await["text"], "whole", "{row}");
            }
        }
    }
    assert!(!daemon.home().cwd().join("ran").exists());
    for after in [5, 6] {
        server.push(json!({"blocks": [{"text": "abcdef"}], "chunk": 2, "cut_after": after}));
        client.new_session(daemon.home(), "fake/plain").await;
        let events = client.run("x").await;
        assert!(!kinds(&events).contains(&"auto_retry_start"), "cut {after}: a finish reason is an end");
        assert_eq!(client.ok("get_last_assistant_text", json!({})).await["text"], "abcdef");
    }
    server.push(json!({"text": "abcdef", "chunk": 2, "no_done": true}));
    client.new_session(daemon.home(), "fake/plain").await;
    let events = client.run("x").await;
    assert!(!kinds(&events).contains(&"auto_retry_start"), "a finish reason is an end");
}

#[tokio::test]
async fn b011_endless_lines_and_error_pages_are_cut_off() {
    const MIB: usize = 1024 * 1024;
    const GIB: usize = 1024;
    let piece = json!({"repeat": "a".repeat(MIB), "times": GIB});
    let head = format!("HTTP/1.1 500 Oops\r\ncontent-length: {}\r\n\r\n", GIB * MIB);
    let server = ModelServer::replies(json!([{"raw": ["data: ", piece]}, {"raw_http": [head, piece]}]));
    let (daemon, mut client) = begin(&server).await;
    client.ok("set_auto_retry", json!({"enabled": false})).await;
    let before = daemon.memory("VmRSS");
    for number in 1..=2 {
        let events = client.run("x").await;
        assert_eq!(settled(&events)["reason"], "error");
        assert!(settled(&events)["errorMessage"].as_str().unwrap().len() < 10_000);
        // Long before the server had sent its GiB.
        server.client_gone(number).await;
    }
    let (peak, after) = (daemon.memory("VmHWM"), daemon.memory("VmRSS"));
    // An event may have 32 MiB.
    assert!(
        peak < before + 48 * MIB && after < before + 8 * MIB,
        "{before} bytes before, at most {peak}, {after} after"
    );
}

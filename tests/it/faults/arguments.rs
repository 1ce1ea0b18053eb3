//! Tool calls: how providers number, name and spell them.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{begin, chunk, reply, texts};
use crate::model_server::ModelServer;

/// One piece of a call; members that are null are left out.
fn call(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: Value) -> Value {
    let mut call = json!({"type": "function", "function": {}});
    if let Some(index) = index {
        call["index"] = json!(index);
    }
    if let Some(id) = id {
        call["id"] = json!(id);
    }
    if let Some(name) = name {
        call["function"]["name"] = json!(name);
    }
    if arguments != json!("<left out>") {
        call["function"]["arguments"] = arguments;
    }
    call
}

fn calls(calls: &[Value]) -> String {
    chunk(json!({"tool_calls": calls}), None)
}

fn echo(word: &str) -> Value {
    json!(json!({"command": format!("echo {word}")}).to_string())
}

/// Returns what each call was answered with, after a strict provider has taken it.
async fn results(tools: &[&str], response: Value) -> Vec<String> {
    let server = ModelServer::replies(json!([response, {"text": "done"}]));
    let (daemon, mut client) = begin(&server).await;
    daemon.home().write("f.txt", "content");
    client.ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "fake/plain", "tools": tools})).await;
    client.run("x").await;
    texts(&server.request(2).await, "tool")
}

#[tokio::test]
async fn b014_parallel_calls_without_numbers_stay_apart() {
    let pair = |first, second| {
        [call(first, Some("c1"), Some("bash"), echo("one")), call(second, Some("c2"), Some("bash"), echo("two"))]
    };
    let apart = |pair: [Value; 2]| calls(&pair[..1]) + &calls(&pair[1..]);
    for (name, events) in [
        ("no numbers", apart(pair(None, None))),
        ("all 0", apart(pair(Some(0), Some(0)))),
        ("one chunk", calls(&pair(None, None))),
        ("0 and 5", apart(pair(Some(0), Some(5)))),
    ] {
        assert_eq!(results(&["bash"], reply(&events, "tool_calls")).await, ["one\n", "two\n"], "{name}");
    }
}

#[tokio::test]
async fn b016_a_call_renamed_in_each_piece_is_one() {
    let pieces = [("x1", Some("bash"), r#"{"comm"#), ("x2", None, r#"and":"ec"#), ("x3", None, r#"ho one"}"#)];
    let events: String =
        pieces.iter().map(|(id, name, text)| calls(&[call(Some(0), Some(id), *name, json!(text))])).collect();
    assert_eq!(results(&["bash"], reply(&events, "tool_calls")).await, ["one\n"]);
}

#[tokio::test]
async fn b018_bad_escapes_and_raw_control_characters_lose_nothing() {
    for (name, arguments, kept) in [
        ("latex", "{\"path\":\"t.tex\",\"content\":\"\\usepackage{x}\\n\"}", "usepackage{x}"),
        ("tab and line feed", "{\"path\":\"t.tex\",\"content\":\"a\tb\nc\"}", "a\tb\nc"),
        ("half a pair", "{\"path\":\"t.tex\",\"content\":\"before \\ud83d after\"}", "before "),
    ] {
        let server =
            ModelServer::replies(json!([{"blocks": [{"tool": "write", "raw_args": arguments}]}, {"text": "ok"}]));
        let (daemon, mut client) = begin(&server).await;
        client.run("x").await;
        let result = texts(&server.request(2).await, "tool").concat();
        match std::fs::read_to_string(daemon.home().cwd().join("t.tex")) {
            Ok(written) => assert!(written.contains(kept), "{name}: {written:?}"),
            Err(_) => assert!(result.contains(kept), "{name}: refused, with the text: {result}"),
        }
    }
}

#[tokio::test]
async fn b020_a_call_cut_by_the_output_limit_is_answered_and_not_run() {
    let raw_args = "{\"path\":\"f.txt\",\"content\":\"half of";
    let cut = json!({"blocks": [{"tool": "write", "raw_args": raw_args, "id": "c1"}], "stop": "length"});
    let server = ModelServer::replies(json!([cut, {"text": "then"}, {"text": "more"}]));
    let (daemon, mut client) = begin(&server).await;
    client.run("x").await;
    client.run("y").await;
    assert!(!daemon.home().cwd().join("f.txt").exists());
    assert!(texts(&server.request(2).await, "tool")[0].contains("was not executed"));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn b022_arguments_in_every_shape() {
    for arguments in [json!({"path": "."}), json!(""), json!("null"), json!("<left out>")] {
        let whole = |name| reply(&calls(&[call(Some(0), Some("c1"), Some(name), arguments.clone())]), "tool_calls");
        assert_eq!(results(&["ls"], whole("ls")).await, ["f.txt"], "ls {arguments}");
        let read = results(&["read"], whole("read")).await.concat();
        let expected = if arguments.is_object() { "EISDIR" } else { "Validation failed for tool \"read\"" };
        assert!(read.contains(expected), "read {arguments}: {read}");
    }
}

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::client::Client;
use super::fake::Fake;
use agentd_protocol::framing::Framing;

/// Writes `input` and compares the answers, as text up to each error's message, with `expected`.
async fn check(input: impl AsRef<[u8]>, expected: &[&str]) {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.write(input).await;
    client.finish().await;
    let mut answers = Vec::new();
    while let Some(answer) = client.next_text().await {
        answers.push(strip_texts(&answer));
    }
    assert_eq!(answers, expected);
}

/// Leaves of an error its code, and of a time nothing.
fn strip_texts(answer: &str) -> String {
    let mut answer = answer.to_owned();
    while let Some(start) = answer.find(",\"message\":") {
        let end = start + answer[start..].find("}}").unwrap();
        answer.replace_range(start..=end + 1, "");
    }
    while let Some(start) = answer.find("{\"time\":") {
        let end = start + answer[start..].find('}').unwrap();
        answer.replace_range(start..=end, "T");
    }
    answer
}

#[tokio::test]
async fn ids_come_back_byte_for_byte() {
    let ids = ["1", "-0", "1.50", "1e400", "123456789012345678901234567890", "\"a\\u00e9\\n\"", "\"\"", "null"];
    let input: String =
        ids.iter().map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\": {id} ,\"method\":\"ping\"}}\n")).collect();
    let expected: Vec<String> =
        ids.iter().map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":T}}")).collect();
    check(input, &expected.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn bad_lines_are_answered_and_the_next_ones_served() {
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    let mut input = ping.as_bytes().to_vec();
    for line in [&b"\xff\xfe{}"[..], b"{bad json", b"[]", b"123", b" ", b"\r", b"\0", b"\"ping\"", b"null"] {
        input.extend_from_slice(line);
        input.push(b'\n');
    }
    input.extend_from_slice(ping.as_bytes());
    let pong = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":T}";
    let (parse, invalid) = (
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700}",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600}",
    );
    check(input, &[pong, parse, parse, invalid, invalid, parse, invalid, invalid, pong]).await;
}

#[tokio::test]
async fn requests_that_are_none() {
    check("{\"jsonrpc\":\"2.0\",\"id\":7}\n", &["{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32600}"]).await;
    check("{\"id\":7,\"method\":\"ping\"}\n", &["{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32600}"]).await;
    check(
        "{\"jsonrpc\":\"2.0\",\"id\":[7],\"method\":\"ping\"}\n",
        &["{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600}"],
    )
    .await;
    check(
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"nope\"}\n",
        &["{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32601}"],
    )
    .await;
}

#[tokio::test]
async fn notifications_and_answers_are_silent() {
    check(
        "{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"nope\",\"params\":5}\n\
         {\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":9,\"error\":{}}\n\
         {\"jsonrpc\":\"2.0\",\"method\":\"get_state\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":1}}",
        &[],
    )
    .await;
}

#[tokio::test]
async fn the_last_line_needs_no_line_feed_and_is_answered() {
    check("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", &["{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":T}"]).await;
}

#[tokio::test]
async fn what_is_neither_framing_is_refused_and_closed() {
    check("<html>\n", &["{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700}"]).await;
}

#[tokio::test]
async fn batches_are_answered_together() {
    check(
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"method\":\"ping\"},1,\
         {\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"nope\"},{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":1}]\n",
        &["[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":T},{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600},\
          {\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":-32601}]"],
    )
    .await;
    check("[{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}]\n", &[]).await;
}

#[tokio::test]
async fn a_batch_has_a_limit() {
    let request = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}";
    let many = vec![request; 1001].join(",");
    check(format!("[{many}]\n"), &["{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600}"]).await;
}

#[tokio::test]
async fn methods_that_wait_are_refused_in_a_batch() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let request = |id, method| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"sessionId": "s1"}});
    client.send(&json!([request(1, "wait"), request(2, "get_state"), request(3, "abort")])).await;
    let answers = client.next().await;
    let kinds: Vec<&Value> =
        answers.as_array().unwrap().iter().map(|answer| &answer["error"]["data"]["kind"]).collect();
    assert_eq!(kinds, [&json!("not_in_batch"), &Value::Null, &json!("not_in_batch")]);
    assert_eq!(session.log(), ["get_state"]);
}

#[tokio::test]
async fn an_over_long_message_is_skipped() {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let piece = vec![b'x'; 1024 * 1024];
    client.write("{\"a\":\"").await;
    for _ in 0..65 {
        client.write(&piece).await;
    }
    client.write("\"}\n").await;
    let answer = client.next().await;
    assert_eq!((&answer["id"], &answer["error"]["data"]["kind"]), (&Value::Null, &json!("invalid_request")));
    client.call("ping", json!({})).await;
}

#[tokio::test]
async fn lsp_framing_is_spoken_both_ways() {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.speak_lsp();
    client.call("ping", json!({})).await;
    client.check_fail("nope", json!({}), "method_not_found", None).await;
    assert_eq!(client.framing_heard(), Some(Framing::Lsp));
}

#[tokio::test]
async fn a_front_introduces_its_client_whatever_that_speaks() {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let front = json!({"cwd": "/work", "env": {"MODEL": "front/model"}, "name": "ed", "version": "1"});
    client.notify("front", front).await;
    client.speak_lsp();
    let models = client.call("get_available_models", json!({})).await;
    assert_eq!(models["models"][0]["provider"], "front");
    assert_eq!(client.framing_heard(), Some(Framing::Lsp));
    let status = client.call("get_daemon_status", json!({})).await;
    assert_eq!(status["clients"][0]["name"], "ed");
    client.call("new_session", json!({})).await;
}

#[tokio::test]
async fn a_front_that_asks_is_answered_first() {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    let answer = client.call("front", json!({"cwd": "/work", "name": "ed"})).await;
    assert_eq!(answer, json!({}));
    client.speak_lsp();
    let status = client.call("get_daemon_status", json!({})).await;
    assert_eq!(status["clients"][0]["name"], "ed");
    assert_eq!(client.framing_heard(), Some(Framing::Lsp));
    client.check_fail("front", json!({}), "method_not_found", None).await;
}

#[tokio::test]
async fn only_the_first_line_is_a_fronts() {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.call("ping", json!({})).await;
    client.notify("front", json!({"cwd": "/elsewhere", "env": {"MODEL": "front/model"}})).await;
    let models = client.call("get_available_models", json!({})).await;
    assert_eq!(models["models"][0]["provider"], "login");
    client.check_fail("new_session", json!({}), "invalid_params", Some("cwd")).await;
}

#[tokio::test]
async fn a_panic_in_a_handler_is_an_answer() {
    let fake = Fake::new(usize::MAX);
    let mut client = Client::connect(&fake.server(), &fake.tasks);
    client.check_fail("list_sessions", json!({"text": "panic"}), "internal", None).await;
    client.call("ping", json!({})).await;
}

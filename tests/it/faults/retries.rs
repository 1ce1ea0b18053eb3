//! Failed requests: what is tried again, when, and what is left of a failed attempt.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{begin, chunk, kinds, raw, settled, texts};
use crate::harness::{Daemon, Home};
use crate::model_server::ModelServer;

#[tokio::test]
async fn b027_the_wish_to_wait_is_honoured_when_it_can_be_read() {
    let server = ModelServer::replies(json!([]));
    let (daemon, mut client) = begin(&server).await;
    for (header, value, least) in [
        ("Retry-After", "soon", 1),
        ("Retry-After", "", 1),
        ("Retry-After", "-5", 1),
        ("Retry-After", "0", 1),
        ("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT", 1),
        ("Retry-After", "1.5", 1500),
        ("Retry-After", "40", 40_000),
        ("retry-after-ms", "300", 300),
        ("x-ratelimit-reset-requests", "6.2s", 6_200),
        ("x-ratelimit-reset-tokens", "1m1s", 0),
    ] {
        server.push(json!({"status": 429, "headers": {header: value}, "body": "slow down"}));
        client.new_session(daemon.home(), "fake/plain").await;
        client.ok("prompt", json!({"message": "x"})).await;
        if least == 0 {
            // Longer than a person should be left waiting without a word.
            let events = client.events_until("agent_settled").await;
            assert!(settled(&events)["errorMessage"].as_str().unwrap().contains("61 s"), "{:?}", settled(&events));
            continue;
        }
        let start = client.events_until("auto_retry_start").await.pop().unwrap();
        let delay = start["event"]["delayMs"].as_u64().unwrap();
        assert!(delay >= least && delay <= least * 5 / 4 + 2, "{header}: {value:?}: {delay}");
        client.ok("abort_retry", json!({})).await;
        client.events_until("agent_settled").await;
    }
}

/// Prompts once for each failure: exactly one request, and an error that a person can read.
async fn check_final(rows: &[(Value, &str)]) {
    let server = ModelServer::replies(json!([]));
    let (daemon, mut client) = begin(&server).await;
    for (number, (failure, said)) in rows.iter().enumerate() {
        server.push(failure.clone());
        client.new_session(daemon.home(), "fake/plain").await;
        let events = client.run("x").await;
        assert!(!kinds(&events).contains(&"auto_retry_start"), "{failure}");
        let (reason, message) =
            (&settled(&events)["reason"], settled(&events)["errorMessage"].as_str().unwrap_or_default());
        assert!(reason == "error" && message.contains(said), "{failure}: {reason} {message}");
        assert_eq!(server.requests().len(), number + 1, "{failure}");
    }
}

#[tokio::test]
async fn b029_used_up_accounts_are_not_asked_again() {
    let quota = |code: Value| json!({"status": 429, "body": {"error": {"code": code, "message": "You exceeded it"}}});
    let codes = [json!("insufficient_quota"), json!("1308"), json!(1308), json!("billing_hard_limit_reached")];
    let rows: Vec<_> = codes.into_iter().map(|code| (quota(code), "You exceeded it")).collect();
    check_final(&rows).await;
}

#[tokio::test]
async fn b031_an_overflow_is_named_and_not_sent_again() {
    let refused = |status: u16, text: &str| json!({"status": status, "body": {"error": {"message": text}}});
    let in_stream = |text: &str| json!({"raw": [raw(&json!({"error": {"message": text}}))]});
    let mut rows: Vec<_> = [
        "prompt is too long: 210000 tokens > 200000",
        "maximum context length is 262144 tokens",
        "(maximum context length (4096))",
        "context_length_exceeded",
        "exceeds max length",
        "Prompt has 9000 tokens, but the configured context size is 8192",
        "ContextWindowExceededError",
        "prompt too long; exceeded max context length",
        "maximum allowed input length",
    ]
    .iter()
    .flat_map(|text| [refused(400, text), in_stream(text)])
    .collect();
    rows.push(refused(413, "no"));
    rows.push(json!({"text": "a", "stop": "model_context_window_exceeded"}));
    let rows: Vec<_> = rows.into_iter().map(|failure| (failure, "context window")).collect();
    check_final(&rows).await;
}

#[tokio::test]
async fn b033_digits_inside_ids_mean_nothing() {
    let refused = |text: &str| json!({"status": 400, "body": {"error": {"message": text}}});
    check_final(&[
        (refused("invalid tool schema, request id req_5035290429"), "req_5035290429"),
        (refused("body of 52900 bytes"), "52900"),
    ])
    .await;
}

#[tokio::test]
async fn b035_each_success_counts_anew() {
    let call = json!({"blocks": [{"tool": "bash", "args": {"command": "true"}}]});
    let mut replies = Vec::new();
    for _ in 0..8 {
        replies.extend([json!({"status": 529, "body": "overloaded"}), call.clone()]);
    }
    replies.push(json!({"text": "done"}));
    let server = ModelServer::replies(json!(replies));
    let (_daemon, mut client) = begin(&server).await;
    let events = client.run("x").await;
    let attempts: Vec<_> = events
        .iter()
        .filter(|event| event["event"]["type"] == "auto_retry_start")
        .map(|event| event["event"]["attempt"].clone())
        .collect();
    assert_eq!(attempts, vec![json!(1); 8]);
    assert_eq!(settled(&events)["reason"], "done");
}

#[tokio::test]
async fn b037_b046_a_failed_attempt_is_kept_and_counted_and_never_sent() {
    let usage = |output: u64| {
        raw(
            &json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": output, "total_tokens": 100 + output}}),
        )
    };
    let failed = chunk(json!({"content": "AAA"}), None)
        + &usage(10)
        + &raw(&json!({"error": {"message": "server_error: upstream failed"}}));
    let good = chunk(json!({"content": "BBB"}), Some("stop")) + &usage(20) + "data: [DONE]\n\n";
    let server = ModelServer::replies(
        json!([{"raw": [failed]}, {"raw": [good]}, {"text": "CCC", "usage": {"input": 0, "output": 0}}]),
    );
    let (daemon, mut client) = begin(&server).await;
    client.run("one").await;
    let tokens = client.ok("get_session_stats", json!({})).await["tokens"].clone();
    assert_eq!((&tokens["input"], &tokens["output"]), (&json!(200), &json!(30)));
    client.run("two").await;
    assert_eq!(texts(&server.requests()[2], "assistant"), ["BBB"]);
    let lines = daemon.home().only_session();
    let attempt = lines.iter().find(|line| line["message"]["content"][0]["text"] == "AAA").unwrap();
    assert!(lines.iter().any(|line| line["type"] == "context_edit" && line["targetId"] == attempt["id"]));
}

#[tokio::test]
async fn b042_without_usage_the_context_is_estimated() {
    let server =
        ModelServer::replies(json!([{"text": "a", "usage": null}, {"text": "b", "usage": {"input": 0, "output": 0}}]));
    let (_daemon, mut client) = begin(&server).await;
    for _ in 0..2 {
        client.run(&"word ".repeat(4000)).await;
        let usage = client.ok("get_session_stats", json!({})).await["contextUsage"].clone();
        assert!(usage["tokens"].as_u64().unwrap() > 4000, "{usage}");
    }
}

#[tokio::test]
async fn b003_silence_and_comments_alone_are_ended_and_tried_again() {
    let comments = json!({"raw": [": PROCESSING\n\n"], "then": "hang"});
    let stalled = json!({"text": "abc", "chunk": 1, "hang_after": 2});
    let server = ModelServer::replies(json!([comments, stalled, {"text": "whole"}]));
    let limits = ["AGENTD_PROVIDER_FIRST_EVENT_TIMEOUT_MS", "AGENTD_PROVIDER_IDLE_TIMEOUT_MS"];
    let [first, idle] = limits.map(|name| (name, "1000"));
    let daemon = Daemon::start_with(Home::with_models(&server), [("AGENTD_RETRY_BASE_DELAY_MS", "1"), first, idle]);
    let mut client = daemon.connect().await;
    client.new_session(daemon.home(), "fake/plain").await;
    let events = client.run("x").await;
    assert_eq!(settled(&events)["reason"], "done");
    let starts = events.iter().filter(|event| event["event"]["type"] == "auto_retry_start");
    let errors: Vec<_> = starts.map(|event| event["event"]["errorMessage"].as_str().unwrap()).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors.iter().all(|error| error.starts_with("Request timed out: ")), "{errors:?}");
    server.client_gone(2).await;
}

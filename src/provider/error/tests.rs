use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::ErrorClass::{Auth, BadRequest, Image, Overflow, Quota, RateLimit, Transient};
use super::*;

#[track_caller]
fn check_body(status: u16, body: &str, expected: (ErrorClass, &str)) {
    let error = ProviderError::from_response(status, body, None, &[]);
    assert_eq!((error.class, error.message.as_str()), expected);
    assert_eq!(error.status, Some(status));
}

#[track_caller]
fn check_words(status: Option<u16>, text: &str, expected: ErrorClass) {
    assert_eq!(classify(status, None, text), expected, "{status:?} {text}");
}

#[test]
fn recorded_answers_keep_their_text() {
    for (status, body, class, message) in [
        (
            400,
            r#"{"error": {"message": "bad field", "type": "invalid_request_error"}}"#,
            BadRequest,
            r#"400: {"message":"bad field","type":"invalid_request_error"}"#,
        ),
        (401, r#"{"error": {"message": "no key"}}"#, Auth, r#"401: {"message":"no key"}"#),
        (
            429,
            r#"{"error": {"message": "insufficient_quota: pay", "code": "insufficient_quota"}}"#,
            Quota,
            r#"429: {"message":"insufficient_quota: pay","code":"insufficient_quota"}"#,
        ),
        (
            429,
            r#"{"error": {"message": "Rate limit reached for fake", "type": "rate_limit_error", "code": "rate_limit"}}"#,
            RateLimit,
            r#"429: {"message":"Rate limit reached for fake","type":"rate_limit_error","code":"rate_limit"}"#,
        ),
        (500, "boom", Transient, "500 boom"),
        (503, r#"{"error": {"message": "overloaded"}}"#, Transient, r#"503: {"message":"overloaded"}"#),
        (
            400,
            r#"{"error": {"message": "This model's maximum context length is 20000 tokens. However, your messages resulted in 25000 tokens.", "type": "invalid_request_error", "code": "context_length_exceeded"}}"#,
            Overflow,
            r#"400: {"message":"This model's maximum context length is 20000 tokens. However, your messages resulted in 25000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}"#,
        ),
        (502, "", Transient, "502 status code (no body)"),
        (400, r#"{"error": "model is not loaded"}"#, BadRequest, "400: model is not loaded"),
        (400, r#"{"detail": "x"}"#, BadRequest, r#"400 {"detail": "x"}"#),
    ] {
        check_body(status, body, (class, message));
    }
}

#[test]
fn overflow_in_the_words_of_many_providers() {
    for text in [
        "prompt is too long: 210000 tokens > 200000",
        "maximum context length is 262144 tokens",
        "input of 5000 tokens (maximum context length (4096))",
        "context_length_exceeded",
        "the prompt exceeds max length",
        "Prompt has 9000 tokens, but the configured context size is 8192",
        "ContextWindowExceededError",
        "prompt too long; exceeded max context length",
        "model_context_window_exceeded",
        "the input exceeds the maximum allowed input length",
        "Your input exceeds the context window of this model",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "request (9000 tokens) exceeds the available context size (8192 tokens)",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
        "Please reduce the length of the messages or completion.",
        "The input token count exceeds the maximum number of tokens allowed",
        "prompt token count of 150000 exceeds the limit of 128000",
    ] {
        check_words(Some(400), text, Overflow);
        check_words(None, text, Overflow);
    }
    check_words(Some(413), "", Overflow);
    assert_eq!(classify(Some(400), Some("context_length_exceeded"), "too big"), Overflow);
    assert_eq!(ProviderError::finish_reason("model_context_window_exceeded").class, Overflow);
}

#[test]
fn other_limits_are_no_overflow() {
    check_words(Some(400), "string too long: expected at most 64 characters", BadRequest);
}

#[test]
fn refused_images_are_known_by_the_word() {
    for text in [
        "image size exceeds the limit of 5 MB",
        "too many images",
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
        "Could not process image",
        "You uploaded an unsupported image. Please make sure your image is valid.",
        "Invalid value: 'image_url'. Supported values are: 'text'.",
    ] {
        check_words(Some(400), text, Image);
    }
    check_words(Some(404), "No endpoints found that support image input", Image);
    check_words(Some(500), "image input is not supported - hint: you may need to provide the mmproj", Image);
    check_words(Some(500), "internal error while reading the image", Transient);
    check_words(Some(429), "rate limit: too many images", RateLimit);
    check_words(Some(400), "imagery is no word of this", BadRequest);
}

#[test]
fn a_rate_limit_on_tokens_is_no_overflow() {
    check_words(
        Some(429),
        "Request too large for gpt-x on tokens per min (TPM): Limit 10000, Requested 12000",
        RateLimit,
    );
    check_words(None, "ThrottlingException: Too many tokens, please wait before trying again.", RateLimit);
    check_words(Some(400), "Rate limit: too many tokens", RateLimit);
}

#[test]
fn used_up_accounts_are_not_retried() {
    for body in [
        r#"{"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}"#,
        r#"{"error": {"code": "1308", "message": "used up"}}"#,
        r#"{"error": {"code": 1308, "message": "used up"}}"#,
        r#"{"error": {"code": "billing_hard_limit_reached", "message": "no"}}"#,
        r#"{"error": {"message": "The usage limit has been reached", "type": "usage_limit_reached"}}"#,
    ] {
        let error = ProviderError::from_response(429, body, None, &[]);
        assert_eq!(error.class, Quota, "{body}");
        assert!(!error.class.is_retryable());
    }
    check_words(Some(402), "pay", Quota);
    check_words(Some(400), "Your credit balance is too low to access the API.", Quota);
    check_words(Some(500), "billing backend failed", Transient);
}

#[test]
fn digits_inside_ids_and_counts_mean_nothing() {
    for text in [
        "invalid tool schema, request id req_5035290429",
        "body of 52900 bytes refused",
        "limit of 500 items",
        "see order 503",
        "field 429abc",
    ] {
        check_words(Some(400), text, BadRequest);
        check_words(None, text, BadRequest);
    }
}

#[test]
fn a_stated_status_counts_when_there_is_no_other() {
    check_words(None, "503 Service is gone", Transient);
    check_words(None, "upstream answered with status: 529", Transient);
    check_words(None, "Error code: 429", RateLimit);
    check_words(None, "HTTP 401", Auth);
}

#[test]
fn statuses() {
    for (status, expected) in [
        (400, BadRequest),
        (401, Auth),
        (403, Auth),
        (404, BadRequest),
        (408, Transient),
        (409, Transient),
        (422, BadRequest),
        (429, RateLimit),
        (500, Transient),
        (504, Transient),
        (520, Transient),
        (529, Transient),
    ] {
        check_words(Some(status), "", expected);
    }
    check_words(Some(400), "The engine is currently overloaded, please try again later", Transient);
    check_words(Some(400), "invalid timeout", BadRequest);
}

#[test]
fn errors_inside_a_stream() {
    for (error, class, message) in [
        // Recorded.
        (
            json!({"message": "server_error: upstream failed", "type": "server_error"}),
            Transient,
            "server_error: upstream failed",
        ),
        (json!({"message": "Overloaded"}), Transient, "Overloaded"),
        (json!({"code": 502, "message": "no answer"}), Transient, "no answer"),
        (json!({"code": 429, "message": "slow down"}), RateLimit, "slow down"),
        (json!({"code": "invalid_prompt", "message": "refused"}), BadRequest, "refused"),
        (json!({"message": "prompt is too long: 3 > 2"}), Overflow, "prompt is too long: 3 > 2"),
        (json!("plain text"), BadRequest, "plain text"),
        (json!({"odd": true}), BadRequest, r#"{"odd":true}"#),
    ] {
        let found = ProviderError::from_stream(&error, &[]);
        assert_eq!((found.class, found.message.as_str()), (class, message), "{error}");
    }
}

#[test]
fn refusals_of_the_messages_api_are_given_whole() {
    for (status, kind, text, class) in [
        // Recorded: the first two.
        (529, "overloaded_error", "Overloaded", Transient),
        (400, "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum", Overflow),
        (400, "invalid_request_error", "max_tokens: must be greater than thinking.budget_tokens", BadRequest),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000",
            Overflow,
        ),
        (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", Quota),
        (401, "authentication_error", "invalid x-api-key", Auth),
        (402, "billing_error", "pay", Quota),
        (403, "permission_error", "not for you", Auth),
        (404, "not_found_error", "model: claude-none", BadRequest),
        (413, "request_too_large", "Request exceeds the maximum size", Overflow),
        (
            429,
            "rate_limit_error",
            "This request would exceed the rate limit of 30,000 input tokens per minute",
            RateLimit,
        ),
        (500, "api_error", "Internal server error", Transient),
    ] {
        let body = json!({"type": "error", "error": {"type": kind, "message": text}});
        let error = ProviderError::from_whole_response(status, &body.to_string(), None, &[]);
        assert_eq!((error.class, error.message), (class, format!("{status} {body}")), "{kind}");
        let inside = ProviderError::from_stream_as(Some(status), &body["error"], &[]);
        assert_eq!((inside.class, inside.message.as_str()), (class, text), "{kind} in the stream");
    }
    let page = ProviderError::from_whole_response(502, "<html>sk-CANARY123", None, &[Secret::new("sk-CANARY123")]);
    assert_eq!(page.message, "502 <html>[redacted]");
    assert_eq!(page.with_request_id("req_1").message, "502 <html>[redacted] (request id req_1)");
}

#[test]
fn b027_a_wait_in_words_is_taken() {
    let body = r#"{"error": {"message": "Rate limit reached. Please try again in 6.2s."}}"#;
    let error = ProviderError::from_response(429, body, None, &[]);
    assert_eq!(error.retry_after, Some(Duration::from_millis(6200)));
    let header = Some(Duration::from_secs(1));
    assert_eq!(ProviderError::from_response(429, body, header, &[]).retry_after, header);
    assert_eq!(ProviderError::from_response(401, body, header, &[]).retry_after, None, "never tried again");
    let error = ProviderError::from_stream(&json!({"code": 429, "message": "retry after 2 seconds"}), &[]);
    assert_eq!(error.retry_after, Some(Duration::from_secs(2)));
}

#[test]
fn an_echoed_key_is_hidden() {
    let keys = [Secret::new("sk-CANARY123")];
    let body = r#"{"error": {"message": "Incorrect API key provided: sk-CANARY123."}}"#;
    let error = ProviderError::from_response(401, body, None, &keys);
    assert_eq!(error.message, r#"401: {"message":"Incorrect API key provided: [redacted]."}"#);
    let error = ProviderError::from_stream(&json!({"message": "key sk-CANARY123"}), &keys);
    assert_eq!(error.message, "key [redacted]");
}

#[test]
fn long_bodies_are_cut_at_a_character() {
    let error = ProviderError::from_response(500, &"界".repeat(30_000), None, &[]);
    assert!(error.message.len() < MAX_MESSAGE_BYTES + 8);
    assert!(error.message.ends_with('…'));
}

#[test]
fn broken_connections() {
    assert_eq!(ProviderError::connection("refused").class, Transient);
    assert_eq!(ProviderError::connection("invalid peer certificate: UnknownIssuer").class, BadRequest);
    assert_eq!(
        ProviderError::cut("other side closed (UND_ERR_SOCKET)").message,
        "terminated: other side closed (UND_ERR_SOCKET)"
    );
    assert!(ProviderError::no_finish_reason().class.is_retryable());
    assert!(!ProviderError::malformed_event().class.is_retryable());
}

proptest! {
    #[test]
    fn any_body_gives_a_bounded_message(status in 400u16..600, body in any::<String>()) {
        let error = ProviderError::from_response(status, &body, None, &[]);
        prop_assert!(error.message.starts_with(&status.to_string()));
    }
}

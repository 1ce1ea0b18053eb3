use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// Describes a message in one line: `call id method params`, `answer`, `invalid id` or `failure kind`.
fn describe(text: &[u8]) -> String {
    let item = |item: &Item<'_>| match item {
        Item::Call(Request { id, method, params }) => {
            let id = id.map_or("-", |id| id.get());
            format!("call {id} {method} {}", params.map_or("-", |params| params.get()))
        }
        Item::Answer => "answer".to_owned(),
        Item::Invalid(id, failure) => format!("invalid {} {:?}", id.map_or("-", |id| id.get()), failure.kind()),
    };
    match parse(text, 3) {
        Ok(Message::Single(single)) => item(&single),
        Ok(Message::Batch(items)) => format!("[{}]", items.iter().map(item).collect::<Vec<_>>().join(", ")),
        Err(failure) => format!("failure {:?}", failure.kind()),
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(describe(text.as_bytes()), expected);
}

#[test]
fn requests_and_notifications() {
    check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "call 1 ping -");
    check(
        r#" { "params" : [1, 2] , "method":"a\u0062", "id": "x", "jsonrpc":"2.0","more":{} } "#,
        r#"call "x" ab [1, 2]"#,
    );
    check(r#"{"jsonrpc":"2.0","method":"ping","params":{"a":null}}"#, r#"call - ping {"a":null}"#);
}

#[test]
fn ids_are_kept_as_written() {
    for id in ["null", "0", "-0", "1.50", "1e400", "123456789012345678901234567890", r#""""#, r#""\u00e9\n""#] {
        check(&format!(r#"{{"jsonrpc":"2.0","id": {id} ,"method":"ping"}}"#), &format!("call {id} ping -"));
    }
    for id in ["true", "{}", "[1]"] {
        check(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#), "invalid - InvalidRequest");
    }
}

#[test]
fn what_is_no_request() {
    check(r#"{"jsonrpc":"2.0","id":1}"#, "invalid 1 InvalidRequest");
    check(r#"{"jsonrpc":"2.0","id":1,"method":5}"#, "invalid 1 InvalidRequest");
    check(r#"{"id":1,"method":"ping"}"#, "invalid 1 InvalidRequest");
    check(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "invalid 1 InvalidRequest");
    check(r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, "invalid 1 InvalidRequest");
    check(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, "invalid - InvalidRequest");
    check("{}", "invalid - InvalidRequest");
    for other in ["123", "\"ping\"", "null", "true"] {
        check(other, "invalid - InvalidRequest");
    }
}

#[test]
fn answers_are_recognised() {
    check(r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "answer");
    check(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#, "answer");
}

#[test]
fn what_is_not_json() {
    for text in ["{bad json", "{\"a\":1", "\0", "nonsense", "{} {}", "[1,", "{\"a\":\"\n\"}"] {
        check(text, "failure ParseError");
    }
}

#[test]
fn batches() {
    check("[]", "failure InvalidRequest");
    check("[1,1,1,1]", "failure InvalidRequest");
    check(
        r#"[{"jsonrpc":"2.0","id":1,"method":"a"}, 1, {"jsonrpc":"2.0","method":"b"}]"#,
        "[call 1 a -, invalid - InvalidRequest, call - b -]",
    );
    check("[[]]", "[invalid - InvalidRequest]");
}

#[test]
fn deep_nesting_is_no_harm() {
    let deep = "[".repeat(200_000);
    check(&deep, "failure ParseError");
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    check(&deep, "[invalid - InvalidRequest]");
    let params = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{deep},"extra":{deep}}}"#);
    assert!(describe(params.as_bytes()).starts_with("call 1 a [[["));
}

proptest! {
    #[test]
    fn nothing_panics(text in proptest::collection::vec(any::<u8>(), 0..64)) {
        describe(&text);
    }

    #[test]
    fn no_json_panics(text in "[\\[\\]{}\",:0-9a-z. \\\\]{0,64}") {
        describe(text.as_bytes());
    }
}

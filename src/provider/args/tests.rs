use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[track_caller]
fn check(text: &str, expected: Result<Value, &str>) {
    assert_eq!(parse(text), expected.map_err(str::to_owned), "{text}");
}

#[test]
fn whole_arguments() {
    for (text, expected) in [
        (r#"{"path": "a.txt", "limit": 2}"#, json!({"path": "a.txt", "limit": 2})),
        ("", json!({})),
        (" \n", json!({})),
        ("null", json!({})),
        ("{}", json!({})),
        (r#""{\"path\": \"a\"}""#, json!({"path": "a"})),
        (r#"{"a": "\ud83d\ude00"}"#, json!({"a": "😀"})),
    ] {
        check(text, Ok(expected));
    }
}

#[test]
fn broken_arguments_are_refused_with_their_place() {
    for (text, expected) in [
        // Recorded.
        (
            r#"{"path": "f.txt", "content": "abc abc abc abc abc abc ab"#,
            "Unterminated string in JSON at position 56 (line 1 column 57)",
        ),
        (r#"{"path": "ten.t"#, "Unterminated string in JSON at position 15 (line 1 column 16)"),
        (r#"{"a": 1"#, "Expected ',' or '}' after property value in JSON at position 7 (line 1 column 8)"),
        ("[1]", "Expected an object, got [1]"),
        ("\"text\"", "Expected an object, got \"text\""),
        ("7", "Expected an object, got 7"),
    ] {
        check(text, Err(expected));
    }
}

#[test]
fn what_has_one_reading_is_mended_and_keeps_its_text() {
    for (text, expected) in [
        (r#"{"path":"t.tex","content":"\usepackage{x}\n"}"#, json!({"path": "t.tex", "content": "\\usepackage{x}\n"})),
        ("{\"content\":\"a\tb\nc\"}", json!({"content": "a\tb\nc"})),
        (r#"{"re":"\d+\.\w"}"#, json!({"re": "\\d+\\.\\w"})),
        (r#"{"a":"\ud83d","b":"x\ude00y"}"#, json!({"a": "\u{fffd}", "b": "x\u{fffd}y"})),
        (r#"{"a":"\ud83d\ude00 \q"}"#, json!({"a": "😀 \\q"})),
        (r#"{"a":"\u00e9 \u+123 \é"}"#, json!({"a": "é \\u+123 \\é"})),
        (r#"{"a":"\\usepackage \q"}"#, json!({"a": "\\usepackage \\q"})),
    ] {
        check(text, Ok(expected));
    }
}

#[test]
fn mending_never_completes_a_cut_call() {
    let whole = "{\"path\":\"t.tex\",\"content\":\"\\usepackage{x}\t\\ud83d\"}";
    for end in 1..whole.len() {
        assert!(parse(&whole[..end]).is_err(), "{}", &whole[..end]);
    }
}

#[test]
fn deep_nesting_is_an_error_not_a_crash() {
    let deep = format!("{{\"a\":{}", "[".repeat(200_000));
    assert!(parse(&deep).is_err());
    let whole = format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500));
    assert!(parse(&whole).unwrap_err().contains("recursion limit"));
}

proptest! {
    #[test]
    fn never_panics_and_gives_objects_only(text in "\\PC*|[{}\\[\\]\"\\\\ud8x0-9a-f:, \t\n]{0,40}") {
        if let Ok(value) = parse(&text) {
            prop_assert!(value.is_object());
        }
    }

    #[test]
    fn any_string_survives(text in any::<String>()) {
        let value = json!({ "content": text });
        prop_assert_eq!(parse(&value.to_string()), Ok(value));
    }
}

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["path", "edits"],
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "number"},
            "deep": {"type": "boolean"},
            "edits": {"type": "array", "items": {
                "type": "object", "required": ["a"], "properties": {"a": {"type": "string"}},
            }},
        },
    })
}

#[track_caller]
fn check(arguments: &Value, expected: &Value) {
    assert_eq!(coerce_arguments(&schema(), arguments), Ok(expected.clone()));
}

#[track_caller]
fn check_problems(arguments: &Value, expected: &[(&str, &str)]) {
    let problems = coerce_arguments(&schema(), arguments).unwrap_err();
    let found: Vec<_> = problems.iter().map(|problem| (problem.path.as_str(), problem.what.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn accepts_what_can_mean_only_one_thing() {
    let exact = json!({"path": "p", "limit": 2, "deep": true, "edits": [{"a": "x"}]});
    check(&exact, &exact);
    check(&json!({"path": "p", "limit": "2", "deep": "true", "edits": "[{\"a\": \"x\"}]"}), &exact);
    check(&json!({"path": "p", "limit": " 2 ", "deep": true, "edits": ["{\"a\": \"x\"}"], "more": 1}), &exact);
    check(&json!({"path": "p", "limit": null, "edits": []}), &json!({"path": "p", "edits": []}));
    check(&json!({"path": 7, "limit": 2.5, "edits": []}), &json!({"path": "7", "limit": 2.5, "edits": []}));
    check(&Value::from(exact.to_string()), &exact);
}

#[test]
fn names_what_is_wrong() {
    check_problems(&json!({}), &[("path", "missing"), ("edits", "missing")]);
    check_problems(&Value::Null, &[("path", "missing"), ("edits", "missing")]);
    check_problems(&json!({"path": null, "edits": []}), &[("path", "expected string")]);
    check_problems(&json!({"path": "p", "edits": [{"a": "x"}, {}]}), &[("edits.1.a", "missing")]);
    check_problems(
        &json!({"path": {}, "limit": "x", "deep": "no", "edits": "[{"}),
        &[
            ("path", "expected string"),
            ("limit", "expected number"),
            ("deep", "expected boolean"),
            ("edits", "expected array"),
        ],
    );
    for bad in ["", "NaN", "Infinity", "1e999"] {
        check_problems(&json!({"path": "p", "limit": bad, "edits": []}), &[("limit", "expected number")]);
    }
    check_problems(&json!(["path"]), &[("arguments", "expected object")]);
    check_problems(&json!("text"), &[("arguments", "expected object")]);
}

#[test]
fn schemas_hold_no_noise() {
    /// Not shown.
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only the schema is looked at")]
    struct Sample {
        /// Where.
        path: String,
        /// How many.
        limit: Option<f64>,
        /// Parts.
        parts: Vec<Part>,
    }
    /// Not shown either.
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only the schema is looked at")]
    #[serde(rename_all = "camelCase")]
    struct Part {
        /// Old.
        old_text: String,
    }
    assert_eq!(
        of::<Sample>().to_string(),
        concat!(
            r#"{"type":"object","required":["path","parts"],"properties":{"#,
            r#""path":{"type":"string","description":"Where."},"limit":{"type":"number","description":"How many."},"#,
            r#""parts":{"type":"array","items":{"type":"object","required":["oldText"],"#,
            r#""properties":{"oldText":{"type":"string","description":"Old."}}},"description":"Parts."}}}"#
        )
    );
}

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn a_whole_file() {
    let (providers, faults) = parse(
        r#"{
  // how to reach it
  "providers": {
    "fake": {
      "baseUrl": "http://127.0.0.1:1/v1", /* a
      comment */ "api": "openai-completions",
      "apiKey": "$FAKE_KEY",
      "headers": {"x-b": "1", "x-a": "!cmd // not a comment"},
      "authHeader": true,
      "compat": {"supportsStore": false},
      "models": [
        {"id": "plain", "name": "Fake Plain", "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 1.25,
          "tiers": [{"inputTokensAbove": 200000, "input": 2, "output": 4}]}},
        {"id": "thinker", "reasoning": true, "input": ["text", "image"], "contextWindow": 1000, "maxTokens": 10,
         "samplingParams": {"temperature": 0.5}, "samplingParamsByThinkingLevel": {"high": {"top_p": 1}},
         "thinkingLevelMap": {"off": null}, "unknown": {"x": 1}},
      ],
      "modelOverrides": {"other": {"name": "Other"}},
    },
    "empty": {},
  },
}"#,
    );
    assert_eq!(faults, []);
    assert_eq!(providers.iter().map(|p| p.id.as_str()).collect::<Vec<_>>(), ["fake", "empty"]);
    let fake = &providers[0];
    assert_eq!(fake.api_key.as_deref(), Some("$FAKE_KEY"));
    assert_eq!(fake.headers, [("x-b".into(), "1".into()), ("x-a".into(), "!cmd // not a comment".into())]);
    assert!(fake.auth_header);
    assert_eq!(fake.compat, Some(json!({"supportsStore": false})));
    let cost = fake.models[0].cost.as_ref().unwrap();
    assert_eq!((cost.input, cost.cache_write), (Some(1.0), Some(1.25)));
    assert_eq!((cost.tiers[0].input_tokens_above, cost.tiers[0].cost.output), (200_000, 4.0));
    assert_eq!(fake.models[1].thinking_level_map, Some(json!({"off": null})));
    assert_eq!(fake.models[1].sampling_params, json!({"temperature": 0.5}).as_object().cloned());
    assert!(fake.models[1].sampling_params_by_thinking_level.is_some());
    assert_eq!((fake.overrides[0].id.as_str(), fake.overrides[0].name.as_deref()), ("other", Some("Other")));
}

#[track_caller]
fn check_faults(text: &str, usable: &[&str], expected: &[(usize, usize, &str)]) {
    let (providers, faults) = parse(text);
    let models: Vec<String> =
        providers.iter().flat_map(|p| p.models.iter().map(move |m| format!("{}/{}", p.id, m.id))).collect();
    assert_eq!(models, usable);
    let found: Vec<(usize, usize, &str)> = faults.iter().map(|f| (f.line, f.column, f.message.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn broken_json_is_placed() {
    check_faults("{\n  \"providers\": {\n    \"a\" {}\n  }\n}", &[], &[(3, 9, "expected `:`")]);
    check_faults("", &[], &[(1, 1, "EOF while parsing a value")]);
    check_faults("[]", &[], &[(1, 1, "invalid type: sequence, expected an object")]);
    check_faults("{\"providers\": 7}", &[], &[(1, 15, "providers: invalid type: integer `7`, expected an object")]);
    check_faults("{\"other\": 7}", &[], &[]);
}

#[test]
fn a_fault_costs_only_the_provider_or_model_that_has_it() {
    check_faults(
        "{\"providers\": {\n \"bad\": {\"baseUrl\": 7, \"models\": [{\"id\": \"x\"}]},\n \"good\": {\"models\": [\n  {\"id\": \"m1\"},\n  {\"id\": \"m2\", \"contextWindow\": \"big\"},\n  {\"name\": \"no id\"},\n  {\"id\": \"m3\"}]}\n}}",
        &["good/m1", "good/m3"],
        &[
            (2, 21, "provider bad: invalid type: integer `7`, expected a string"),
            (5, 37, "provider good: model: invalid type: a string, expected u64"),
            (6, 3, "provider good: a model without id"),
        ],
    );
}

#[test]
fn a_key_in_the_wrong_place_is_not_quoted() {
    let (_, faults) = parse(r#"{"providers": {"p": {"apiKey": "x", "headers": "sk-CANARY123\", expected y"}}}"#);
    assert_eq!(faults[0].message, "provider p: invalid type: a string, expected an object");
}

#[test]
fn strings_are_left_alone() {
    assert_eq!(
        blank_comments(r#"{"a": "// x, ]", "b": "\"/*", "c": [1, 2 ,]}"#),
        r#"{"a": "// x, ]", "b": "\"/*", "c": [1, 2  ]}"#
    );
    assert_eq!(blank_comments("// é\n{}"), "     \n{}");
    assert_eq!(blank_comments("{} /* open"), "{}        ");
}

proptest! {
    #[test]
    fn never_panics(text in "\\PC{0,60}|[{}\\[\\]\":,/*a\\\\ \n]{0,60}") {
        let (_, faults) = parse(&text);
        for fault in faults {
            prop_assert!(fault.line >= 1 && fault.column >= 1);
        }
    }

    #[test]
    fn json_without_comments_is_unchanged(text in any::<String>()) {
        let json = json!({ "text": text, "list": [1, {"a": [2]}] }).to_string();
        prop_assert_eq!(blank_comments(&json), json);
    }
}

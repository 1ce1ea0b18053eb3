use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[track_caller]
fn block(value: Value) -> ContentBlock {
    let read: ContentBlock = serde_json::from_str(&value.to_string()).unwrap();
    assert_eq!(serde_json::from_value::<ContentBlock>(value).unwrap(), read);
    read
}

#[test]
fn blocks_of_known_types_are_typed() {
    assert_eq!(block(json!({ "type": "text", "text": "a\u{2028}\n" })), ContentBlock::text("a\u{2028}\n"));
    assert_eq!(
        block(json!({ "thinkingSignature": "s", "thinking": "t", "type": "thinking" })),
        ContentBlock::Thinking { thinking: "t".into(), thinking_signature: Some("s".into()), redacted: false }
    );
    let withheld = json!({ "type": "thinking", "thinking": "", "thinkingSignature": "d", "redacted": true });
    assert_eq!(serde_json::to_value(block(withheld.clone())).unwrap(), withheld);
    assert_eq!(
        block(json!({ "type": "image", "data": "d", "mimeType": "m", "more": 1 })),
        ContentBlock::Image { data: "d".into(), mime_type: "m".into() }
    );
    let ContentBlock::ToolCall(call) =
        block(json!({ "type": "toolCall", "id": "c", "name": "n", "arguments": { "a": [1] } }))
    else {
        panic!()
    };
    assert_eq!((call.id.as_str(), call.arguments), ("c", json!({ "a": [1] })));
}

#[test]
fn other_blocks_stay_as_they_came() {
    for value in [
        json!({ "type": "video", "z": 1, "a": [null, 1.5] }),
        json!({ "text": "no type" }),
        json!({ "type": "text" }),
        json!({ "type": "text", "text": 5 }),
        json!({ "type": "text", "text": "x", "textSignature": {} }),
        json!({ "type": "toolCall", "id": "c", "arguments": {} }),
        json!({}),
        json!("text"),
        json!(-1),
        json!(null),
        json!([1, "x"]),
        json!(true),
    ] {
        let read = block(value.clone());
        assert_eq!(read, ContentBlock::Other(value.clone()));
        assert_eq!(serde_json::to_string(&read).unwrap(), value.to_string());
    }
}

/// Both ways of reading must agree.
#[track_caller]
fn check_message(text: &str) -> Message {
    let read = Message::from_json(text).unwrap();
    assert_eq!(serde_json::from_str::<Message>(text).unwrap(), read, "{text}");
    read
}

#[test]
fn a_message_reads_the_same_both_ways() {
    for text in [
        r#"{"role":"user","content":"x","timestamp":1}"#,
        r#"{"content":[{"type":"text","text":"x"}],"role":"user"}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"x"}],"stopReason":"stop","usage":{"input":1,"cost":{"total":0.1}}}"#,
        r#"{"role":"toolResult","toolCallId":"c","toolName":"t","content":[],"isError":true,"details":null}"#,
        r#"{"role":"bashExecution","command":"c","exitCode":null}"#,
        r#"{"role":"system","sections":{"a":"b"},"toolsAdded":[{"name":"n","description":"d","parameters":{}}]}"#,
        r#"{"role":"custom","customType":"t","content":"x"}"#,
        r#"{"role":"compactionSummary","summary":"s","tokensBefore":3}"#,
    ] {
        let read = check_message(text);
        assert!(!matches!(read, Message::Other(_)), "{text}");
    }
    for text in [
        r#"{"role":"future","x":1}"#,
        r#"{"role":"user","content":5}"#,
        r#"{"role":"assistant","content":"text","stopReason":"stop"}"#,
        r#"{"role":"assistant","content":[],"stopReason":"future"}"#,
        r#"{"role":7}"#,
        "{}",
    ] {
        assert_eq!(check_message(text), Message::Other(serde_json::from_str(text).unwrap()));
    }
}

#[test]
fn whole_amounts_have_no_fraction() {
    let cost = Cost { input: 0.0, output: 2.0, cache_read: 0.1, total: -3.0, ..Cost::default() };
    assert_eq!(
        serde_json::to_string(&cost).unwrap(),
        r#"{"input":0,"output":2,"cacheRead":0.1,"cacheWrite":0,"total":-3}"#
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("type"),
        Just("text"),
        Just("toolCall"),
        Just("thinking"),
        Just("image"),
        Just("id"),
        Just("name"),
        Just("arguments"),
        Just("data"),
        Just("mimeType"),
        Just("textSignature"),
        Just("role"),
        Just("user"),
        Just("content"),
    ];
    let leaf = prop_oneof![word.clone().prop_map(Value::from), any::<i32>().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(3, 24, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((word.clone(), inner), 0..6).prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn no_block_loses_what_it_came_with(value in any_json()) {
        let read: ContentBlock = serde_json::from_str(&value.to_string()).unwrap();
        if let ContentBlock::Other(kept) = read {
            prop_assert_eq!(kept, value);
        }
    }

    #[test]
    fn any_message_reads_the_same_both_ways(value in any_json()) {
        let text = value.to_string();
        match (Message::from_json(&text), serde_json::from_str::<Message>(&text)) {
            (Ok(fast), Ok(slow)) => prop_assert_eq!(fast, slow),
            (Err(_), Err(_)) => {}
            other => prop_assert!(false, "{:?}", other),
        }
    }
}

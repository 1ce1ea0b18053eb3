use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::methods::{GetEntriesResult, WithSeq};

fn decode(event: &str) -> Event {
    serde_json::from_str(event).expect("every object decodes")
}

#[test]
fn an_entry_is_taken_byte_for_byte() {
    let entry = r#"{"type":"custom","id":"a1","x":1.50,"text":"caf\u00e9"}"#;
    let event = decode(&format!(r#"{{"type":"entry_appended","entry":{entry}}}"#));
    let Event::EntryAppended { entry: read } = &event else { panic!("{event:?}") };
    assert_eq!(read.0.get(), entry);
    let answer: WithSeq<GetEntriesResult> =
        serde_json::from_str(&format!(r#"{{"entries":[{entry}],"leafId":"a1","seq":4}}"#)).expect("decodes");
    assert_eq!(answer.result.entries[0].0.get(), entry);
    assert_eq!(answer.seq, 4);
}

#[test]
fn an_event_keeps_its_shape_through_both_directions() {
    for text in [
        r#"{"type":"agent_start"}"#,
        r#"{"type":"message_end","entryId":"e","toolCallId":"c"}"#,
        r#"{"type":"message_update","assistantMessageEvent":{"type":"toolcall_start","contentIndex":1,"id":"c","toolName":"ls"}}"#,
        r#"{"type":"entry_appended","entry":{"type":"label","id":"e"}}"#,
        r#"{"type":"agent_settled","aborted":true,"reason":"maxTurns"}"#,
    ] {
        assert_eq!(serde_json::to_string(&decode(text)).expect("encodes"), text);
    }
}

#[test]
fn what_this_build_does_not_know_never_fails() {
    for value in [json!({"type": "from_the_future", "a": 1}), json!({"a": 1}), json!({"type": "lagged"}), json!(7)] {
        assert_eq!(decode(&value.to_string()), Event::Unknown(value));
    }
    let event = decode(r#"{"type":"turn_start","new":[1]}"#);
    assert_eq!(event, Event::TurnStart {});
    let event = decode(r#"{"type":"message_update","assistantMessageEvent":{"type":"sung","contentIndex":0}}"#);
    assert!(matches!(event, Event::MessageUpdate { assistant_message_event: AssistantMessageEvent::Unknown(_), .. }));
}

#[test]
fn the_schema_names_the_event_types() {
    let schema = schemars::SchemaGenerator::default().into_root_schema_for::<EventParams>();
    let text = serde_json::to_string(&schema).expect("encodes");
    assert!(text.contains(r#""const":"agent_settled""#), "{text}");
}

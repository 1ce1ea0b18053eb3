use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

#[test]
fn merged_system_messages_say_the_same() {
    let tool = |name: &str, text: &str| {
        Arc::new(ToolDefinition {
            name: name.into(),
            description: text.into(),
            parameters: json!({}),
            constrained_sampling: None,
        })
    };
    let message = |sections: Value, tools_added: Vec<Arc<ToolDefinition>>, tools_removed: Vec<String>| SystemMessage {
        sections: sections.as_object().unwrap().clone(),
        tools_added,
        tools_removed,
        ..SystemMessage::default()
    };
    let merged = merge_system_messages(&[
        message(json!({ "a": "1", "b": "2" }), vec![tool("x", "1"), tool("y", "1")], vec![]),
        message(json!({ "b": null, "c": "3", "a": "4" }), vec![tool("y", "2"), tool("z", "1")], vec!["x".into()]),
    ])
    .unwrap();
    assert_eq!(merged, message(json!({ "a": "4", "c": "3" }), vec![tool("y", "2"), tool("z", "1")], vec![]));
    assert_eq!(merge_system_messages(&[]), None);
}

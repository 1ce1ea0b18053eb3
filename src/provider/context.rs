//! What a list of messages says about the system prompt and the tools.
//!
//! Pure. The first system message gives the whole prompt; later ones hold only what changed.

use agentd_protocol::message::{Message, SystemMessage, ToolDefinition};
use serde_json::{Map, Value};

/// Joins sections into the text of a prompt; the section texts bring their own tags.
pub(super) fn prompt_text(message: &SystemMessage) -> String {
    let free = Some(message.content.as_str()).filter(|text| !text.is_empty());
    let sections = message.sections.values().filter_map(Value::as_str).filter(|text| !text.is_empty());
    free.into_iter().chain(sections).collect::<Vec<_>>().join("\n\n")
}

/// Returns the text of a later system message: its sections, and a word on those that no longer hold.
pub(super) fn change_text(message: &SystemMessage) -> String {
    let mut texts = vec![prompt_text(message)];
    texts.extend(
        message
            .sections
            .iter()
            .filter(|(_, text)| text.is_null())
            .map(|(name, _)| format!("The section {name:?} of the instructions above no longer applies.")),
    );
    texts.retain(|text| !text.is_empty());
    texts.join("\n\n")
}

/// Folds all system messages into one, as it stands after the last.
pub(super) fn folded_system<'m>(messages: impl Iterator<Item = &'m Message>) -> Option<SystemMessage> {
    let mut systems = messages.filter_map(|message| match message {
        Message::System(system) => Some(system),
        _ => None,
    });
    let mut folded = systems.next()?.clone();
    for change in systems {
        fold_sections(&mut folded.sections, &change.sections);
        if !change.content.is_empty() {
            folded.content = [folded.content.as_str(), &change.content].join("\n\n").trim_start().to_owned();
        }
    }
    Some(folded)
}

fn fold_sections(sections: &mut Map<String, Value>, changes: &Map<String, Value>) {
    for (name, text) in changes {
        if text.is_null() {
            // Unlike `remove`, this keeps the order of the others, and with it the provider's prompt cache.
            sections.shift_remove(name);
        } else {
            sections.insert(name.clone(), text.clone());
        }
    }
}

/// Returns the tools that are available after the last message, in the order in which they were added.
pub(super) fn available_tools<'m>(messages: impl Iterator<Item = &'m Message>) -> Vec<&'m ToolDefinition> {
    let mut tools: Vec<&ToolDefinition> = Vec::new();
    for message in messages {
        let Message::System(system) = message else { continue };
        tools.retain(|tool| !system.tools_removed.contains(&tool.name));
        for added in &system.tools_added {
            match tools.iter_mut().find(|tool| tool.name == added.name) {
                Some(known) => *known = added,
                None => tools.push(added),
            }
        }
    }
    tools
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn system(value: Value) -> Message {
        let mut object = json!({"role": "system"});
        object.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        serde_json::from_value(object).unwrap()
    }

    fn tool(name: &str, description: &str) -> Value {
        json!({"name": name, "description": description, "parameters": {"type": "object"}})
    }

    #[test]
    fn sections_are_joined_in_order() {
        let Message::System(first) = system(json!({"sections": {"b": "B", "a": "A", "none": ""}})) else { panic!() };
        assert_eq!(prompt_text(&first), "B\n\nA");
    }

    #[test]
    fn changes_are_folded_in_place() {
        let messages = [
            system(json!({"sections": {"a": "A", "b": "B", "c": "C"}, "toolsAdded": [tool("x", "1"), tool("y", "1")]})),
            system(
                json!({"sections": {"b": "B2", "a": null, "d": "D"}, "toolsRemoved": ["x"], "toolsAdded": [tool("z", "1"), tool("y", "2")]}),
            ),
        ];
        assert_eq!(prompt_text(&folded_system(messages.iter()).unwrap()), "B2\n\nC\n\nD");
        let tools: Vec<_> = available_tools(messages.iter()).iter().map(|t| (&*t.name, &*t.description)).collect();
        assert_eq!(tools, [("y", "2"), ("z", "1")]);
        let Message::System(change) = &messages[1] else { panic!() };
        assert_eq!(change_text(change), "B2\n\nD\n\nThe section \"a\" of the instructions above no longer applies.");
    }
}

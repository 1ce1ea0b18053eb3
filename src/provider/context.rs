//! What a list of messages says about the tools.
//!
//! Pure.

use agentd_protocol::message::{Message, ToolDefinition};

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

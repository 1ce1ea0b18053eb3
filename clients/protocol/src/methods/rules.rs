//! Rules: what users and projects say of tool calls beforehand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a rule does with the calls that it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleAction {
    /// They run, unless something in them is not covered.
    Allow,
    /// A person decides.
    Ask,
    /// They do not run.
    Deny,
}

impl RuleAction {
    /// Returns its word in files and on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// Says what becomes of calls of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// What it does with them.
    pub action: RuleAction,
    /// Name of the tool.
    pub tool: String,
    /// For `bash`: the first words of a command, such as `git status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// For tools of files: a pattern of places, which covers what is below them. One that is not absolute begins in the
    /// working directory, or in the folder of the project whose rule it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Where a rule is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleScope {
    /// In the user's `rules.toml`.
    User,
    /// In `.agentd/rules.toml` of the project.
    Project,
}

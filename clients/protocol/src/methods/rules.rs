//! Rules: what users and projects say of tool calls beforehand.

use super::*;

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

/// Parameters of [`ListRules`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListRulesParams {
    /// The session whose working directory is meant when there is no `cwd`; the connection's current one when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Folder of the project, an absolute path; the session's working directory when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Result of [`ListRules`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListRulesResult {
    /// The files. They can be edited by hand; changes count from the next tool call on.
    pub files: Vec<RuleFileInfo>,
    /// The rules.
    pub rules: Vec<ListedRule>,
    /// What in the files cannot be followed. Unless it could only have allowed something, the calls that it may be about
    /// are asked about.
    pub problems: Vec<RuleProblem>,
}

/// A file of rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleFileInfo {
    /// Whose rules these are.
    pub scope: RuleScope,
    /// The file, which may not be there.
    pub path: String,
    /// Whether it counts: a project's only where its folder is trusted.
    pub is_read: bool,
}

/// A rule and where it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedRule {
    /// Where it is kept.
    pub scope: RuleScope,
    /// The rule.
    pub rule: Rule,
}

/// Something in a file of rules that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleProblem {
    /// The file.
    pub file: String,
    /// Its line, from 1; absent when the whole file cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

/// Parameters of [`AddRule`] and [`RemoveRule`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeRuleParams {
    /// The rule.
    pub rule: Rule,
    /// Where it is kept; `user` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<RuleScope>,
    /// The session whose working directory is meant when there is no `cwd`; the connection's current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Folder of the project, an absolute path; needed for the scope `project` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Result of [`AddRule`] and [`RemoveRule`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeRuleResult {
    /// The file.
    pub file: String,
    /// Whether it was changed: a rule that is there is not added, and one that is not there not removed.
    pub changed: bool,
}

/// Parameters of [`TestRule`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TestRuleParams {
    /// A command line for `bash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Instead: name of a tool …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// … and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// In which mode; `ask` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The session whose working directory is meant when there is no `cwd`; the connection's current one when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// In which folder, an absolute path; the session's working directory when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Result of [`TestRule`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestRuleResult {
    /// What would become of the call.
    pub verdict: RuleAction,
    /// Why it is asked about or denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rules that say so; empty where the mode does.
    pub rules: Vec<Rule>,
    /// The rules that the answer "always" would save.
    pub always: Vec<Rule>,
}

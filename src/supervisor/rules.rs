//! Rules for tool calls: listing, changing and trying them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_protocol::ToolCallId;
use agentd_protocol::message::{ContentBlock, ToolCall};
use agentd_protocol::methods::{
    ChangeRuleResult, ListRulesResult, ListedRule, Mode, Rule, RuleAction, RuleFileInfo, RuleProblem, RuleScope,
    TestRuleParams, TestRuleResult,
};
use serde_json::{Value, json};

use super::directory::Supervisor;
use super::error::SupervisorError;
use crate::config::env::SessionEnv;
use crate::permissions::policy::{Ask, Policy, Reason, Verdict, judge};
use crate::permissions::rule_files::{RuleEdit, RuleFileError};
use crate::permissions::rules::{Prepared, RuleFault, Rules};
use crate::tools::ToolOutput;
use crate::tools::places::canonical;

/// A change of a file of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleChange {
    /// What is done.
    pub edit: RuleEdit,
    /// The rule.
    pub rule: Rule,
    /// In which file.
    pub scope: RuleScope,
    /// Folder of the project; without meaning for the user's rules.
    pub folder: PathBuf,
}

impl Supervisor {
    /// Returns the rules for a folder.
    ///
    /// # Errors
    /// The folder is no absolute path.
    pub async fn list_rules(&self, cwd: PathBuf, home: Option<PathBuf>) -> Result<ListRulesResult, SupervisorError> {
        let services = Arc::clone(self.services());
        self.blocking(cwd, move |folder| {
            let is_trusted = services.trust.is_trusted(&folder);
            let rules = services.rules.load(&folder, home.as_deref(), || is_trusted);
            let file = |scope| RuleFileInfo {
                scope,
                path: text(&services.rules.path(scope, &folder)),
                is_read: scope == RuleScope::User || is_trusted,
            };
            listed([RuleScope::User, RuleScope::Project].map(file).into(), &rules)
        })
        .await
    }

    /// Changes a file of rules.
    ///
    /// # Errors
    /// The rule says nothing that could be followed; the file cannot be read or written; the folder is no absolute path.
    pub async fn change_rule(&self, change: RuleChange) -> Result<ChangeRuleResult, SupervisorError> {
        let services = Arc::clone(self.services());
        let RuleChange { edit, rule, scope, folder } = change;
        let done = self.blocking(folder, move |folder| services.rules.change(edit, &rule, scope, &folder)).await?;
        let (file, changed) = done?;
        if changed {
            tracing::info!(file = %file.display(), ?edit, "the rules were changed");
        }
        Ok(ChangeRuleResult { file: text(&file), changed })
    }

    /// Tells what would become of a tool call in a folder, for who has this environment.
    ///
    /// # Errors
    /// There is no such tool, or the call does not fit it; the folder is no absolute path.
    pub async fn test_rule(
        &self,
        params: TestRuleParams,
        cwd: PathBuf,
        env: SessionEnv,
    ) -> Result<TestRuleResult, SupervisorError> {
        let services = Arc::clone(self.services());
        let (tool, args) = called(&params)?;
        let call = ToolCall {
            id: ToolCallId::from(String::new()),
            name: tool.clone(),
            arguments: args,
            arguments_error: None,
            thought_signature: None,
            arguments_text: None,
        };
        let unfit = |output: ToolOutput| SupervisorError::InvalidParam { param: "args", message: said(&output) };
        let invocation = services.tools.validate(std::slice::from_ref(&tool), &call).map_err(unfit)?;
        let home = env.get("HOME").map(PathBuf::from);
        let of_folder = Arc::clone(&services);
        let (folder, rules) = self
            .blocking(cwd, move |folder| {
                let rules = of_folder.rules.load(&folder, home.as_deref(), || of_folder.trust.is_trusted(&folder));
                (folder, rules)
            })
            .await?;
        let env: Vec<(String, String)> = env.vars().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let cancel = services.tasks.cancel_token().child_token();
        let checked = services.tools.check(&invocation, &folder, &env, &cancel).await.map_err(unfit)?;
        let own_folders = Arc::clone(&services.own_folders);
        let policy = Policy { mode: params.mode.unwrap_or(Mode::Ask), rules, grants: Vec::new(), own_folders };
        let found = judge(&policy, &checked.view(&tool));
        let (verdict, reason, always) = match found.verdict {
            Verdict::Allow => (RuleAction::Allow, None, Vec::new()),
            Verdict::Deny(Reason(why)) => (RuleAction::Deny, Some(why), Vec::new()),
            Verdict::Ask(Ask { reason, always }) => (RuleAction::Ask, Some(reason), always),
        };
        Ok(TestRuleResult { verdict, reason, rules: found.rules, always })
    }

    /// Does something that blocks, in a folder that must be absolute and is made canonical.
    async fn blocking<T: Send + 'static>(
        &self,
        folder: PathBuf,
        work: impl FnOnce(PathBuf) -> T + Send + 'static,
    ) -> Result<T, SupervisorError> {
        if !folder.is_absolute() {
            let message = format!("{} is not an absolute path", folder.display());
            return Err(SupervisorError::InvalidParam { param: "cwd", message });
        }
        let done = self.services().tasks.spawn_blocking(move || work(canonical(&folder))).await;
        done.map_err(|_| SupervisorError::Failed)
    }
}

/// Returns the tool and the arguments that are asked about.
fn called(params: &TestRuleParams) -> Result<(String, Value), SupervisorError> {
    match (&params.command, &params.tool, &params.args) {
        (Some(command), None, None) => Ok(("bash".to_owned(), json!({"command": command}))),
        (None, Some(tool), args) => Ok((tool.clone(), args.clone().unwrap_or_else(|| json!({})))),
        _ => {
            let message = "either a command line, or a tool with its args".to_owned();
            Err(SupervisorError::InvalidParam { param: "command", message })
        }
    }
}

fn said(output: &ToolOutput) -> String {
    let texts = output.result.content.iter().filter_map(|block| match block {
        ContentBlock::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn listed(files: Vec<RuleFileInfo>, rules: &Rules) -> ListRulesResult {
    let row = |rule: &Prepared| rule.scope.map(|scope| ListedRule { scope, rule: rule.rule.clone() });
    let problem =
        |fault: &RuleFault| RuleProblem { file: text(&fault.file), line: fault.line, message: fault.message.clone() };
    ListRulesResult {
        files,
        rules: rules.rules.iter().filter_map(row).collect(),
        problems: rules.faults.iter().map(problem).collect(),
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

impl From<RuleFileError> for SupervisorError {
    fn from(error: RuleFileError) -> Self {
        let message = error.to_string();
        match error {
            RuleFileError::Wrong(_) => Self::InvalidParam { param: "rule", message },
            RuleFileError::File { .. } => Self::Storage(message),
        }
    }
}

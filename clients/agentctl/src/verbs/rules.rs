//! `rules`: what is said of tool calls beforehand.

use agentd_protocol::methods::{
    AddRule, ChangeRuleParams, ListRules, ListRulesParams, ListRulesResult, RemoveRule, Rule, RuleScope, TestRule,
    TestRuleParams,
};
use anyhow::{Context, Result};

use crate::cli::{RuleArgs, RulesAction, TestRuleArgs};
use crate::console::Console;
use crate::exit::Exit;
use crate::link::Link;
use crate::show::clean::one_line;

/// Runs the verb.
///
/// # Errors
/// The rule says nothing that could be followed, the files cannot be read or written, or the connection closes.
pub(crate) async fn run(link: &mut Link, console: &mut Console, action: Option<RulesAction>) -> Result<Exit> {
    match action {
        None | Some(RulesAction::List) => list(link, console).await,
        Some(RulesAction::Add(args)) => add(link, console, args).await,
        Some(RulesAction::Remove(args)) => remove(link, console, args).await,
        Some(RulesAction::Test(args)) => test(link, console, args).await,
    }
}

async fn list(link: &mut Link, console: &mut Console) -> Result<Exit> {
    let params = ListRulesParams { cwd: Some(cwd(console)?), ..ListRulesParams::default() };
    let found = link.call::<ListRules>(&params).await?;
    if console.json {
        console.json_line(&found)?;
        return Ok(Exit::Done);
    }
    for row in &found.rules {
        let scope = if row.scope == RuleScope::User { "user" } else { "project" };
        console.line(&format!("{scope:<7}  {}", shown(&row.rule)))?;
    }
    if found.rules.is_empty() {
        console.note("there are no rules")?;
    }
    tell_problems(console, &found)?;
    Ok(Exit::Done)
}

fn tell_problems(console: &mut Console, found: &ListRulesResult) -> Result<()> {
    for problem in &found.problems {
        let line = problem.line.map(|line| format!(", line {line}")).unwrap_or_default();
        console.note(&one_line(&format!("{}{line}: {}", problem.file, problem.message)))?;
    }
    for file in found.files.iter().filter(|file| !file.is_read && std::path::Path::new(&file.path).exists()) {
        console.note(&format!("{} does not count: its folder is not trusted", one_line(&file.path)))?;
    }
    Ok(())
}

async fn add(link: &mut Link, console: &mut Console, args: RuleArgs) -> Result<Exit> {
    let params = change_of(console, args)?;
    let changed = link.call::<AddRule>(&params).await?;
    match changed.changed {
        _ if console.json => console.json_line(&changed)?,
        true => console.line(&format!("{}: {}", one_line(&changed.file), shown(&params.rule)))?,
        false => console.note(&format!("{} has it already", one_line(&changed.file)))?,
    }
    Ok(Exit::Done)
}

async fn remove(link: &mut Link, console: &mut Console, args: RuleArgs) -> Result<Exit> {
    let params = change_of(console, args)?;
    let changed = link.call::<RemoveRule>(&params).await?;
    match changed.changed {
        _ if console.json => console.json_line(&changed)?,
        true => console.line(&format!("{}: removed {}", one_line(&changed.file), shown(&params.rule)))?,
        false => {
            console
                .note(&format!("{} has no such rule; agentctl rules lists those there are", one_line(&changed.file)))?;
            return Ok(Exit::Error);
        }
    }
    Ok(Exit::Done)
}

async fn test(link: &mut Link, console: &mut Console, args: TestRuleArgs) -> Result<Exit> {
    let (command, cwd) = (Some(args.command.join(" ")), Some(cwd(console)?));
    let params = TestRuleParams { command, mode: args.mode, cwd, ..TestRuleParams::default() };
    let found = link.call::<TestRule>(&params).await?;
    if console.json {
        console.json_line(&found)?;
        return Ok(Exit::Done);
    }
    let reason = found.reason.map(|reason| format!(": {}", one_line(&reason))).unwrap_or_default();
    console.line(&format!("{}{reason}", found.verdict.word()))?;
    for (what, rules) in [("by", &found.rules), ("always would save", &found.always)] {
        for rule in rules {
            console.line(&format!("  {what}: {}", shown(rule)))?;
        }
    }
    Ok(Exit::Done)
}

fn change_of(console: &Console, args: RuleArgs) -> Result<ChangeRuleParams> {
    let words = (!args.words.is_empty()).then(|| args.words.join(" "));
    let (command, path) = if args.tool.is_none() { (words, None) } else { (None, words) };
    let tool = args.tool.unwrap_or_else(|| "bash".to_owned());
    let scope = if args.project { RuleScope::Project } else { RuleScope::User };
    let rule = Rule { action: args.action, tool, command, path };
    Ok(ChangeRuleParams { rule, scope: Some(scope), session_id: None, cwd: Some(cwd(console)?) })
}

fn cwd(console: &Console) -> Result<String> {
    let cwd = &console.cwd;
    Ok(cwd.to_str().with_context(|| format!("{} is not valid UTF-8", cwd.display()))?.to_owned())
}

/// Returns a rule in the words with which it is added.
fn shown(rule: &Rule) -> String {
    let what = rule.command.as_deref().or(rule.path.as_deref()).unwrap_or_default();
    let tool = if rule.tool == "bash" { String::new() } else { format!("--tool {} ", rule.tool) };
    one_line(format!("{} {tool}{what}", rule.action.word()).trim_end())
}

#[cfg(test)]
mod tests {
    use agentd_protocol::methods::RuleAction;

    use super::*;

    #[test]
    fn rules_are_shown_in_the_words_that_add_them() {
        let rule = |tool: &str, command: Option<&str>, path: Option<&str>| Rule {
            action: RuleAction::Deny,
            tool: tool.into(),
            command: command.map(Into::into),
            path: path.map(Into::into),
        };
        for (rule, expected) in [
            (rule("bash", Some("git push"), None), "deny git push"),
            (rule("bash", None, None), "deny"),
            (rule("write", None, Some("~/.ssh")), "deny --tool write ~/.ssh"),
        ] {
            assert_eq!(shown(&rule), expected);
        }
    }
}

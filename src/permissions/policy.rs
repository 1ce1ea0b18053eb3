//! The gate that each tool call passes: rules and the session's mode say whether it runs, is refused or is asked about.
//!
//! Pure. Canonical places need the disk: the actor finds them while it checks a call. The sandbox is not built yet, and
//! the daemon says so (`confinement: "none"` in `get_state`, in `initialize` and in the README).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_protocol::methods::Mode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rules::judge_line;
pub use super::rules::{Judgement, Meant, Prepared, Rule, RuleAction, Rules};
use crate::constants::PROJECT_DIR;

/// How tools are confined, in the word that clients are told.
pub const CONFINEMENT: &str = "none";

/// Folders in a working directory that mode `auto-edit` does not let tools write to: what stands there decides what is
/// run later.
const ASKED_FOLDERS: [&str; 2] = [".git", PROJECT_DIR];

/// What a tool can do to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EffectClass {
    /// Looks at files.
    Read,
    /// Changes files.
    Write,
    /// Runs commands: anything. Also the class of tools that nothing is known of.
    Exec,
    /// Talks to the network.
    Net,
}

/// What becomes of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow,
    /// It does not run, and the model is told why.
    Deny(Reason),
    /// A person decides.
    Ask(Ask),
}

/// Why a call is refused, in a sentence for the model and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(pub String);

/// Why a person decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// In a sentence.
    pub reason: String,
    /// The rules that the answer "always" would save; without any it is not offered.
    pub always: Vec<Rule>,
}

/// How a tool uses a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Looks at it, and at what is below.
    Read,
    /// Changes or makes it.
    Write,
}

/// A file or folder that a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Absolute, without links as far as it exists.
    pub path: PathBuf,
    /// How it is used.
    pub access: Access,
}

/// What the gate looks at of a tool call.
#[derive(Clone, Copy, Debug)]
pub struct ToolCallView<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// What it can do.
    pub effect: EffectClass,
    /// Its arguments, as it will get them.
    pub args: &'a Value,
    /// The command line that it runs, if it runs one.
    pub command: Option<&'a str>,
    /// The places that it names.
    pub places: &'a [Place],
    /// Working directory of the session, canonical.
    pub cwd: &'a Path,
}

/// A call that was checked: its tool exists, and its arguments fit.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedCall {
    /// What the tool can do.
    pub effect: EffectClass,
    /// The arguments, as the tool will get them.
    pub args: Value,
    /// The places that it names.
    pub places: Vec<Place>,
    /// Working directory of the session, canonical.
    pub cwd: PathBuf,
}

impl CheckedCall {
    /// Returns what the gate looks at.
    pub fn view<'a>(&'a self, tool: &'a str) -> ToolCallView<'a> {
        let is_command = self.effect == EffectClass::Exec;
        ToolCallView {
            tool,
            effect: self.effect,
            args: &self.args,
            command: self.args.get("command").filter(|_| is_command).and_then(Value::as_str),
            places: &self.places,
            cwd: &self.cwd,
        }
    }
}

/// Everything that decides about the calls of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The session's mode.
    pub mode: Mode,
    /// The rules of its user and its project.
    pub rules: Arc<Rules>,
    /// What people have granted for this session.
    pub grants: Vec<Rule>,
    /// Folders of agentd's own settings and records, canonical.
    pub own_folders: Arc<[PathBuf]>,
}

/// What was found about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What becomes of it.
    pub verdict: Verdict,
    /// The rules that say so; none where the mode does.
    pub rules: Vec<Rule>,
}

/// Decides about a call.
pub fn decide(policy: &Policy, call: &ToolCallView<'_>) -> Verdict {
    judge(policy, call).verdict
}

/// Decides about a call and tells by which rules: deny wins over ask, ask over the mode's limits, those over allow.
pub fn judge(policy: &Policy, call: &ToolCallView<'_>) -> Finding {
    let by_rules = by_rules(policy, call);
    match by_rules {
        Judgement::Denied(rule) => {
            let reason = Reason(format!("a rule denies it: {}", described(&rule)));
            return Finding { verdict: Verdict::Deny(reason), rules: vec![rule] };
        }
        _ if is_beyond_reading(policy, call) => return Finding::of_mode(by_mode(policy.mode, call)),
        Judgement::Asked { reason, rule } => return Finding { verdict: ask(reason), rules: vec![rule] },
        Judgement::Allowed(_) | Judgement::Open { .. } => {}
    }
    if let Some(fault) = policy.rules.fault_for(call.tool) {
        return Finding::of_mode(ask(format!("a rule that may forbid it cannot be followed: {fault}")));
    }
    if policy.mode != Mode::Full && changes_own_files(policy, call) {
        return Finding::of_mode(ask("it changes agentd's own files, which say what tools may do".to_owned()));
    }
    match by_rules {
        Judgement::Allowed(rules) => Finding { verdict: Verdict::Allow, rules },
        Judgement::Open { reason, always } => Finding::of_mode(explained(by_mode(policy.mode, call), &reason, always)),
        Judgement::Denied(_) | Judgement::Asked { .. } => Finding::of_mode(by_mode(policy.mode, call)),
    }
}

impl Finding {
    fn of_mode(verdict: Verdict) -> Self {
        Self { verdict, rules: Vec::new() }
    }
}

fn by_rules(policy: &Policy, call: &ToolCallView<'_>) -> Judgement {
    // One that is no rule grants nothing.
    let grants: Vec<Prepared> =
        policy.grants.iter().filter_map(|rule| Prepared::new(rule.clone(), None, None, None).ok()).collect();
    let of_tool = |rule: &&Prepared| rule.rule.tool == call.tool;
    let rules: Vec<&Prepared> = policy.rules.rules.iter().chain(&grants).filter(of_tool).collect();
    match call.command {
        Some(command) => judge_line(&rules, command, call.cwd),
        None => judge_places(&rules, call),
    }
}

/// Adds to a question why rules do not answer it, and which ones would.
fn explained(verdict: Verdict, reason: &str, always: Vec<Rule>) -> Verdict {
    match verdict {
        Verdict::Ask(ask) if !reason.is_empty() => {
            Verdict::Ask(Ask { reason: format!("{}: {reason}", ask.reason), always })
        }
        Verdict::Ask(ask) => Verdict::Ask(Ask { always, ..ask }),
        other => other,
    }
}

fn described(rule: &Rule) -> String {
    let what = rule.command.as_deref().or(rule.path.as_deref()).map(|what| format!(" `{what}`")).unwrap_or_default();
    format!("{} {}{what}", rule.action.word(), rule.tool)
}

/// Whether the mode refuses a call, whatever rules allow.
fn is_beyond_reading(policy: &Policy, call: &ToolCallView<'_>) -> bool {
    policy.mode == Mode::ReadOnly && call.effect != EffectClass::Read
}

/// What rules say of a call that runs no command line.
fn judge_places(rules: &[&Prepared], call: &ToolCallView<'_>) -> Judgement {
    let with = |action| rules.iter().filter(move |rule| rule.rule.action == action);
    // All but `read` and those that write look at what is below as well.
    let goes_below = call.effect == EffectClass::Read && call.tool != "read";
    let touches = |rule: &Prepared| match call.places {
        [] if rule.rule.path.is_none() => Meant::Yes,
        [] => Meant::Maybe,
        places => places.iter().map(|place| rule.touches(&place.path, call.cwd, goes_below)).max().unwrap_or(Meant::No),
    };
    for action in [RuleAction::Deny, RuleAction::Ask] {
        let found = with(action).map(|rule| (touches(rule), rule)).max_by_key(|(meant, _)| *meant);
        match found {
            Some((Meant::Yes, rule)) if action == RuleAction::Deny => return Judgement::Denied(rule.rule.clone()),
            Some((Meant::Yes, rule)) => return asked("a rule has it asked about", rule),
            Some((Meant::Maybe, rule)) => return asked("it may reach what a rule forbids", rule),
            _ => {}
        }
    }
    // What decides about what is run later is covered only by a rule that names it.
    let names = |rule: &Prepared, place: &Path| {
        is_plain(place)
            || rule.rule.path.as_deref().is_some_and(|path| ASKED_FOLDERS.iter().any(|name| path.contains(name)))
    };
    let covers = |rule: &&&Prepared| match call.places {
        [] => rule.rule.path.is_none(),
        places => places.iter().all(|place| rule.covers(&place.path, call.cwd) && names(rule, &place.path)),
    };
    match with(RuleAction::Allow).find(covers) {
        Some(rule) => Judgement::Allowed(vec![rule.rule.clone()]),
        None => Judgement::Open { reason: String::new(), always: always(call) },
    }
}

fn asked(reason: &str, rule: &Prepared) -> Judgement {
    Judgement::Asked { reason: reason.to_owned(), rule: rule.rule.clone() }
}

/// Returns the narrowest rule that would allow a call: its file, or its tool where that has no files.
fn always(call: &ToolCallView<'_>) -> Vec<Rule> {
    let rule = |path| Rule { action: RuleAction::Allow, tool: call.tool.to_owned(), command: None, path };
    match call.places {
        [place] if is_plain(&place.path) => {
            let path = place.path.strip_prefix(call.cwd).ok().filter(|path| !path.as_os_str().is_empty());
            match path.unwrap_or(&place.path).to_str() {
                // What would be read as a pattern.
                Some(path) if !path.contains(['*', '?', '[', ']', '{', '}', '\\', '~']) => {
                    vec![rule(Some(path.to_owned()))]
                }
                _ => Vec::new(),
            }
        }
        [] if call.effect != EffectClass::Read && call.tool != "bash" => vec![rule(None)],
        _ => Vec::new(),
    }
}

/// What a mode says of a call that no rule fits.
fn by_mode(mode: Mode, call: &ToolCallView<'_>) -> Verdict {
    let does = match call.effect {
        EffectClass::Read => return Verdict::Allow,
        EffectClass::Write => "changes files",
        EffectClass::Exec => "can do anything that you can",
        EffectClass::Net => "talks to the network",
    };
    match mode {
        Mode::Full => Verdict::Allow,
        Mode::ReadOnly => Verdict::Deny(Reason(format!("the session is read-only, and {} {does}", call.tool))),
        Mode::AutoEdit if stays_in_work(call) => Verdict::Allow,
        Mode::AutoEdit if call.effect == EffectClass::Write => {
            ask(format!("{} changes a file that is not simply one of the working directory", call.tool))
        }
        Mode::Ask | Mode::AutoEdit => ask(format!("{} {does}", call.tool)),
    }
}

/// Whether a call changes only files of the working directory, none of which decides what is run later.
fn stays_in_work(call: &ToolCallView<'_>) -> bool {
    let stays = |place: &Place| place.path.strip_prefix(call.cwd).is_ok_and(is_plain);
    call.effect == EffectClass::Write && !call.places.is_empty() && call.places.iter().all(stays)
}

/// Whether a path goes through none of the folders in which stands what is run later.
fn is_plain(path: &Path) -> bool {
    !path.components().any(|part| ASKED_FOLDERS.iter().any(|name| part.as_os_str() == *name))
}

fn changes_own_files(policy: &Policy, call: &ToolCallView<'_>) -> bool {
    let is_own = |place: &Place| {
        // A project's settings and rules as well.
        place.path.iter().any(|part| part == PROJECT_DIR)
            || policy.own_folders.iter().any(|folder| place.path.starts_with(folder))
    };
    call.places.iter().any(|place| place.access == Access::Write && is_own(place))
}

fn ask(reason: String) -> Verdict {
    Verdict::Ask(Ask { reason, always: Vec::new() })
}

#[cfg(test)]
mod tests;

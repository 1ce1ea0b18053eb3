//! The gate that each tool call passes: rules and the session's mode say whether it runs, is refused or is asked about.
//!
//! Pure. Canonical places need the disk: the actor finds them while it checks a call. The sandbox is not built yet, and
//! the daemon says so (`confinement: "none"` in `get_state`, in `initialize` and in the README).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_protocol::methods::Mode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How tools are confined, in the word that clients are told.
pub const CONFINEMENT: &str = "none";

/// Folders in a working directory that mode `auto-edit` does not let tools write to: what stands there decides what is
/// run later.
const ASKED_FOLDERS: [&str; 2] = [".git", ".agentd"];

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

/// What a rule does with the calls that it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// They run.
    Allow,
    /// A person decides.
    Ask,
    /// They do not run.
    Deny,
}

/// Says what becomes of calls of a tool, whatever the mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// What it does with them.
    pub action: Action,
    /// Name of the tool.
    pub tool: String,
}

impl Rule {
    fn fits(&self, call: &ToolCallView<'_>) -> bool {
        self.tool == call.tool
    }
}

/// The rules that hold for a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Makes a set of rules. Their order says nothing: deny wins over allow, allow over ask.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self(rules)
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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

impl Policy {
    /// Tells whether the places of a call matter; they are not looked for in vain.
    pub fn needs_places(&self) -> bool {
        self.mode != Mode::Full || !self.rules.is_empty()
    }
}

/// Decides about a call.
pub fn decide(policy: &Policy, call: &ToolCallView<'_>) -> Verdict {
    let by_rule = |action| policy.rules.0.iter().any(|rule| rule.action == action && rule.fits(call));
    if by_rule(Action::Deny) {
        return Verdict::Deny(Reason(format!("a rule denies {}", call.tool)));
    }
    if policy.mode != Mode::Full && changes_own_files(policy, call) {
        return of_own_files(policy.mode);
    }
    if by_rule(Action::Allow) || policy.grants.iter().any(|grant| grant.fits(call)) {
        return Verdict::Allow;
    }
    if by_rule(Action::Ask) {
        return ask(format!("a rule has {} asked about", call.tool));
    }
    by_mode(policy.mode, call)
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
    let is_plain = |place: &Place| {
        place.path.strip_prefix(call.cwd).is_ok_and(|inside| {
            !inside.components().any(|part| ASKED_FOLDERS.iter().any(|name| part.as_os_str() == *name))
        })
    };
    call.effect == EffectClass::Write && !call.places.is_empty() && call.places.iter().all(is_plain)
}

fn changes_own_files(policy: &Policy, call: &ToolCallView<'_>) -> bool {
    let is_own = |place: &Place| policy.own_folders.iter().any(|folder| place.path.starts_with(folder));
    call.places.iter().any(|place| place.access == Access::Write && is_own(place))
}

/// No rule lets a tool change what rules, trust and settings are made of.
fn of_own_files(mode: Mode) -> Verdict {
    let reason = "it changes agentd's own files, which say what tools may do";
    match mode {
        Mode::ReadOnly => Verdict::Deny(Reason(format!("the session is read-only, and {reason}"))),
        Mode::Ask | Mode::AutoEdit | Mode::Full => ask(reason.to_owned()),
    }
}

fn ask(reason: String) -> Verdict {
    Verdict::Ask(Ask { reason, always: Vec::new() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What becomes of a call, in the first letter: allow, ask (`?`) or deny.
    fn outcome(policy: &Policy, tool: &str, path: Option<&str>) -> char {
        let (effect, access) = match tool {
            "read" => (EffectClass::Read, Access::Read),
            "write" | "edit" => (EffectClass::Write, Access::Write),
            "fetch" => (EffectClass::Net, Access::Read),
            _ => (EffectClass::Exec, Access::Write),
        };
        let places: Vec<Place> = path.into_iter().map(|path| Place { path: path.into(), access }).collect();
        let call = CheckedCall { effect, args: json!({"command": "ls"}), places, cwd: "/w".into() };
        match decide(policy, &call.view(tool)) {
            Verdict::Allow => 'a',
            Verdict::Deny(_) => 'd',
            Verdict::Ask(_) => '?',
        }
    }

    #[test]
    fn modes_decide_by_effect() {
        for (tool, path, expected) in [
            // read-only, ask, auto-edit, full
            ("read", "/etc/passwd", "aaaa"),
            ("bash", "/w/a", "d??a"),
            ("fetch", "/w/a", "d??a"),
            ("write", "/w/a", "d?aa"),
            ("edit", "/w/deep/a", "d?aa"),
            ("write", "/w", "d?aa"),
            ("write", "/wide/a", "d??a"),
            ("write", "/etc/a", "d??a"),
            ("write", "/w/.git/hooks/pre-commit", "d??a"),
            ("write", "/w/sub/.git/config", "d??a"),
            ("write", "/w/.agentd/rules.toml", "d??a"),
            ("write", "/w/.gitignore", "d?aa"),
        ] {
            let of = |mode| outcome(&Policy { mode, ..Policy::default() }, tool, Some(path));
            assert_eq!(Mode::ALL.map(of).iter().collect::<String>(), expected, "{tool} {path}");
        }
        let auto = Policy { mode: Mode::AutoEdit, ..Policy::default() };
        assert_eq!(outcome(&auto, "write", None), '?', "a change of a place that nobody knows");
    }

    #[test]
    fn deny_wins_over_allow_and_allow_over_ask() {
        let rule = |action, tool: &str| Rule { action, tool: tool.into() };
        let rules = Arc::new(Rules::new(vec![
            rule(Action::Allow, "bash"),
            rule(Action::Deny, "edit"),
            rule(Action::Allow, "edit"),
            rule(Action::Ask, "read"),
        ]));
        let policy = Policy { mode: Mode::Full, rules, ..Policy::default() };
        for (tool, expected) in [("bash", 'a'), ("edit", 'd'), ("read", '?'), ("write", 'a')] {
            assert_eq!(outcome(&policy, tool, Some("/w/a")), expected, "{tool}");
        }
        let asking = Policy { mode: Mode::Ask, ..policy };
        assert_eq!(outcome(&asking, "write", Some("/w/a")), '?');
        let granted = Policy { grants: vec![rule(Action::Allow, "write"), rule(Action::Allow, "edit")], ..asking };
        assert_eq!(outcome(&granted, "write", Some("/w/a")), 'a');
        assert_eq!(outcome(&granted, "edit", Some("/w/a")), 'd');
    }

    #[test]
    fn no_rule_and_no_grant_gives_away_the_daemons_own_files() {
        let rule = Rule { action: Action::Allow, tool: "write".into() };
        let rules = Arc::new(Rules::new(vec![rule.clone()]));
        let own_folders = [PathBuf::from("/w/state")].into();
        for (mode, expected) in Mode::ALL.into_iter().zip(['d', '?', '?', 'a']) {
            let (rules, grants, own_folders) = (Arc::clone(&rules), vec![rule.clone()], Arc::clone(&own_folders));
            let policy = Policy { mode, rules, grants, own_folders };
            assert_eq!(outcome(&policy, "write", Some("/w/state/trust.json")), expected, "{mode:?}");
        }
    }
}

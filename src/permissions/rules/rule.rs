//! Rules as they are used: checked, and their patterns made ready.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_protocol::methods::{Rule, RuleAction, RuleScope};
use thiserror::Error;

use super::named::{RUN_ANYTHING, SHELL_CHANGERS};
use super::place::PathPattern;
use crate::permissions::shell::{Word, read_line};

/// A rule that says nothing that could be followed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WrongRule {
    /// It has a command, and is for another tool.
    #[error("only a rule for bash names a command")]
    CommandOfOther,
    /// It has a path, and is for bash.
    #[error("a rule for bash names no path")]
    PathOfBash,
    /// It would allow all commands.
    #[error("a rule that allows all of bash is what the mode full is for")]
    AllOfBash,
    /// Its command is not a few plain words.
    #[error(
        "{0:?} is not the beginning of one plain command; write its first words, such as `git status`: further arguments \
         are covered"
    )]
    NotPlain(String),
    /// It would allow whatever somebody wants to run.
    #[error("{0} runs what it is told, so a rule that allows it would allow everything")]
    TooWide(String),
    /// Its path is no pattern.
    #[error("{pattern:?} is no pattern of paths: {why}")]
    NoPattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// It has no tool.
    #[error("a rule names a tool")]
    NoTool,
}

/// A rule that is ready for use.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// As it was written.
    pub rule: Rule,
    /// Where it comes from; `None`: granted for the session.
    pub scope: Option<RuleScope>,
    /// The words of its command.
    pub(super) words: Vec<String>,
    /// Its pattern of paths.
    pub(super) path: Option<PathPattern>,
}

impl PartialEq for Prepared {
    fn eq(&self, other: &Self) -> bool {
        (&self.rule, &self.scope) == (&other.rule, &other.scope)
    }
}

impl Prepared {
    /// Checks a rule and makes it ready. Patterns that are not absolute begin at `base`, or at the session's working
    /// directory where that is `None`; `~` is `home`.
    ///
    /// # Errors
    /// It says nothing that could be followed.
    pub fn new(
        rule: Rule,
        scope: Option<RuleScope>,
        base: Option<&Path>,
        home: Option<&Path>,
    ) -> Result<Self, WrongRule> {
        let is_bash = rule.tool == BASH;
        if rule.tool.is_empty() {
            return Err(WrongRule::NoTool);
        }
        if rule.command.is_some() && !is_bash {
            return Err(WrongRule::CommandOfOther);
        }
        if rule.path.is_some() && is_bash {
            return Err(WrongRule::PathOfBash);
        }
        let words = rule.command.as_deref().map(plain_words).transpose()?.unwrap_or_default();
        if is_bash && rule.action == RuleAction::Allow {
            refuse_wide(&words)?;
        }
        let path = rule.path.as_deref().map(|path| PathPattern::new(path, base, home)).transpose()?;
        Ok(Self { rule, scope, words, path })
    }

    /// Tells whether a place is covered by its path; without one all are. `cwd` is the session's working directory.
    pub fn covers(&self, place: &Path, cwd: &Path) -> bool {
        self.path.as_ref().is_none_or(|path| path.covers(place, cwd))
    }

    /// Tells whether its path is meant by a call for `place`; what is below may be, if the call goes there.
    pub fn touches(&self, place: &Path, cwd: &Path, goes_below: bool) -> Meant {
        let reaches = |path: &PathPattern| goes_below && path.reaches_below(place, cwd);
        match self.covers(place, cwd) {
            true => Meant::Yes,
            false if self.path.as_ref().is_some_and(reaches) => Meant::Maybe,
            false => Meant::No,
        }
    }
}

impl Eq for Prepared {}

/// Whether a rule is meant by a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meant {
    /// It is not.
    No,
    /// That cannot be told.
    Maybe,
    /// It is.
    Yes,
}

/// The tool that runs command lines.
pub(super) const BASH: &str = "bash";

fn plain_words(command: &str) -> Result<Vec<String>, WrongRule> {
    let wrong = || WrongRule::NotPlain(command.to_owned());
    let line = read_line(command).map_err(|_| wrong())?;
    let [simple] = line.commands.as_slice() else { return Err(wrong()) };
    let words: Option<Vec<String>> = simple.words.iter().map(|word| Word::literal(word).map(str::to_owned)).collect();
    let is_plain = line.doubts.is_empty() && simple.assignments.is_empty() && simple.redirects.is_empty();
    words.filter(|words| is_plain && !words.is_empty()).ok_or_else(wrong)
}

fn refuse_wide(words: &[String]) -> Result<(), WrongRule> {
    let Some(name) = words.first() else { return Err(WrongRule::AllOfBash) };
    let base = super::wrapper::base_name(name);
    let is_wide = SHELL_CHANGERS.contains(&base) || words.len() == 1 && RUN_ANYTHING.contains(&base);
    if is_wide { Err(WrongRule::TooWide(name.clone())) } else { Ok(()) }
}

/// Something in a file of rules that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFault {
    /// The file.
    pub file: PathBuf,
    /// Its line, from 1; `None` when the whole file cannot be read.
    pub line: Option<usize>,
    /// What is wrong, in a sentence.
    pub message: String,
    /// The tool that the rule may have been for; `None`: any.
    pub tool: Option<String>,
    /// The rule would only have allowed something, so that nothing is more allowed without it.
    pub is_harmless: bool,
}

impl std::fmt::Display for RuleFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}: {}", self.file.display(), self.message),
            None => write!(f, "{}: {}", self.file.display(), self.message),
        }
    }
}

/// The rules that hold for a session. Their order says nothing: deny wins over ask, ask over allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Those that can be followed.
    pub rules: Vec<Prepared>,
    /// What in their files cannot.
    pub faults: Vec<RuleFault>,
}

impl Rules {
    /// Returns what holds while the rules are not known: everything is asked about.
    pub fn unknown() -> Arc<Self> {
        let message = "the rules cannot be read".to_owned();
        let fault = RuleFault { file: PathBuf::new(), line: None, message, tool: None, is_harmless: false };
        Arc::new(Self { rules: Vec::new(), faults: vec![fault] })
    }

    /// Tells whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.faults.is_empty()
    }

    /// Returns what is wrong in a file where a rule for a tool may be that does more than allow.
    pub fn fault_for(&self, tool: &str) -> Option<&RuleFault> {
        self.faults.iter().find(|fault| !fault.is_harmless && fault.tool.as_deref().is_none_or(|of| of == tool))
    }
}

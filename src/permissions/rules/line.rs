//! What rules say of a command line.

use std::path::Path;

use agentd_protocol::methods::{Rule, RuleAction};

use super::arguments::exceeds;
use super::harmless::{
    Destination, destination, is_harmless, is_plain_environment, is_plain_redirect, is_plain_variable,
};
use super::named::RUN_ANYTHING;
use super::rule::{Meant, Prepared};
use super::suggest;
use super::wrapper::{Inner, Wrapped, base_name, is_wrapper, unwrap};
use crate::constants::SHELL_NESTING;
use crate::permissions::shell::{Line, Simple, Unreadable, Word, read_line, read_nested_line};

/// What rules say of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// A rule denies one of its commands.
    Denied(Rule),
    /// A rule has one of its commands asked about, or may be meant by something that is not known.
    Asked {
        /// In half a sentence.
        reason: String,
        /// The rule.
        rule: Rule,
    },
    /// Rules allow each of its commands.
    Allowed(Vec<Rule>),
    /// Nothing is said.
    Open {
        /// Why it is not allowed, in half a sentence.
        reason: String,
        /// The rules with which it would be; empty when there are no such rules.
        always: Vec<Rule>,
    },
}

/// Says what rules for `bash` mean for a command line that runs in `cwd`, a canonical path.
pub fn judge_line(rules: &[&Prepared], command: &str, cwd: &Path) -> Judgement {
    let line = read_line(command);
    let read = line.as_ref().map_err(|why| *why);
    if let Some(judgement) = forbids(rules, RuleAction::Deny, read).or_else(|| forbids(rules, RuleAction::Ask, read)) {
        return judgement;
    }
    let line = match line {
        Ok(line) => line,
        Err(why) => return Judgement::Open { reason: format!("it cannot be read: {why}"), always: Vec::new() },
    };
    let allowing: Vec<&Prepared> = rules.iter().copied().filter(|rule| rule.rule.action == RuleAction::Allow).collect();
    match Allowing::new(&allowing, &line, cwd).line(&line, 0) {
        Ok(rules) => Judgement::Allowed(rules),
        Err(reason) => Judgement::Open { reason, always: suggest::rules_for(&allowing, &line, cwd) },
    }
}

/// Looks for a command that a rule denies or has asked about.
fn forbids(rules: &[&Prepared], action: RuleAction, line: Result<&Line, Unreadable>) -> Option<Judgement> {
    let mut doubted = None;
    for rule in rules.iter().filter(|rule| rule.rule.action == action) {
        let of_line = || line.map_or(Meant::Maybe, |line| meant_by_line(rule, line, 0));
        match if rule.words.is_empty() { Meant::Yes } else { of_line() } {
            Meant::Yes if action == RuleAction::Deny => return Some(Judgement::Denied(rule.rule.clone())),
            Meant::Yes => {
                let reason = "it runs a command that a rule has asked about".to_owned();
                return Some(Judgement::Asked { reason, rule: rule.rule.clone() });
            }
            Meant::Maybe => doubted = doubted.or(Some(rule.rule.clone())),
            Meant::No => {}
        }
    }
    let reason = match line {
        Ok(_) => "it may run a command that a rule forbids: not all of its words are known".to_owned(),
        Err(why) => format!("it may run a command that a rule forbids, and cannot be read: {why}"),
    };
    doubted.map(|rule| Judgement::Asked { reason, rule })
}

fn meant_by_line(rule: &Prepared, line: &Line, depth: usize) -> Meant {
    let each = line.commands.iter().filter(|simple| !simple.words.is_empty());
    each.map(|simple| meant_by_words(rule, &simple.words, depth)).max().unwrap_or(Meant::No)
}

fn meant_by_words(rule: &Prepared, words: &[Word], depth: usize) -> Meant {
    let own = meant(&rule.words, words);
    if own == Meant::Yes || depth > SHELL_NESTING {
        return own.max(Meant::Maybe);
    }
    let inner = unwrap(words).map(|wrapped| wrapped.inner).unwrap_or_default();
    let of_inner = |inner: Inner| match inner {
        Inner::Command(words) if words.is_empty() => Meant::No,
        Inner::Command(words) => meant_by_words(rule, &words, depth + 1),
        Inner::Script(text) => {
            read_nested_line(&text, depth + 1).map_or(Meant::Maybe, |line| meant_by_line(rule, &line, depth + 1))
        }
        Inner::Unknown => Meant::Maybe,
    };
    inner.into_iter().map(of_inner).fold(own, Meant::max)
}

/// Whether the words of a command are those of a rule: the name with any folder before it, options anywhere, and between
/// the others nothing but options.
fn meant(rule: &[String], words: &[Word]) -> Meant {
    let Some((name, rest)) = rule.split_first() else { return Meant::Yes };
    let Some(called) = words[0].literal() else { return Meant::Maybe };
    if called != name && base_name(called) != name {
        return Meant::No;
    }
    let (options, operands): (Vec<&String>, Vec<&String>) = rest.iter().partition(|word| word.starts_with('-'));
    let arguments = &words[1..];
    of_options(&options, arguments).min(of_operands(&operands, arguments))
}

fn of_options(wanted: &[&String], arguments: &[Word]) -> Meant {
    let has = |option: &str| match option.strip_prefix("--") {
        Some(_) => arguments.iter().any(|word| word.text.split('=').next() == Some(option)),
        None => option[1..].chars().all(|letter| {
            arguments.iter().any(|word| {
                word.text == option
                    || word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains(letter)
            })
        }),
    };
    let is_known = arguments.iter().all(|word| word.literal().is_some());
    match wanted.iter().all(|option| has(option)) {
        true => Meant::Yes,
        false if is_known => Meant::No,
        false => Meant::Maybe,
    }
}

fn of_operands(wanted: &[&String], arguments: &[Word]) -> Meant {
    let mut wanted = wanted.iter();
    let Some(mut next) = wanted.next() else { return Meant::Yes };
    let mut certain = Meant::Yes;
    let mut after_option = false;
    for word in arguments {
        let Some(text) = word.literal() else { return Meant::Maybe };
        if text == next.as_str() {
            match wanted.next() {
                Some(another) => next = another,
                None => return certain,
            }
            after_option = false;
        } else if text.starts_with('-') {
            after_option = true;
        } else if after_option {
            // The option's value, or not.
            after_option = false;
            certain = if matches!(arguments[0].text.as_str(), "-C" | "-c") { Meant::Yes } else { Meant::Maybe };
        } else {
            return Meant::No;
        }
    }
    Meant::No
}

/// The rules that allow, and where a line runs.
pub(super) struct Allowing<'a> {
    rules: &'a [&'a Prepared],
    cwd: &'a Path,
    /// The line goes to another folder first.
    moves: bool,
}

impl<'a> Allowing<'a> {
    pub(super) fn new(rules: &'a [&'a Prepared], line: &Line, cwd: &'a Path) -> Self {
        let goes =
            |simple: &Simple| simple.name() == Some("cd") && destination(&simple.words, cwd) != Destination::Here;
        Self { rules, cwd, moves: line.commands.iter().any(goes) }
    }

    /// Returns the rules that allow a line, or why it is not allowed.
    pub(super) fn line(&self, line: &Line, depth: usize) -> Result<Vec<Rule>, String> {
        if let Some(doubt) = line.doubts.first() {
            return Err(format!("it {doubt}"));
        }
        let mut used = Vec::new();
        for simple in &line.commands {
            for rule in self.simple(simple, depth)? {
                if !used.contains(&rule) {
                    used.push(rule);
                }
            }
        }
        Ok(used)
    }

    /// Returns the rules that allow a simple command, or why it is not allowed.
    pub(super) fn simple(&self, simple: &Simple, depth: usize) -> Result<Vec<Rule>, String> {
        if let Some(redirect) = simple.redirects.iter().find(|redirect| !is_plain_redirect(redirect)) {
            return Err(format!("it opens {}", shown(&redirect.target.text)));
        }
        let alone = simple.words.is_empty();
        let is_plain = |name: &str| alone && is_plain_variable(name);
        let strange = |a: &&_| !is_plain_environment(a) && !is_plain(&a.name);
        if let Some(assignment) = simple.assignments.iter().find(strange) {
            return Err(format!("it sets {}", shown(&assignment.name)));
        }
        if alone { Ok(Vec::new()) } else { self.words(&simple.words, depth) }
    }

    fn words(&self, words: &[Word], depth: usize) -> Result<Vec<Rule>, String> {
        let name = words[0].literal().ok_or("it runs a command whose name is not known")?;
        if name == "cd" {
            return match destination(words, self.cwd) {
                Destination::Here | Destination::Inside => Ok(Vec::new()),
                Destination::Elsewhere => Err("it leaves the working directory".to_owned()),
            };
        }
        if is_harmless(words) {
            return Ok(Vec::new());
        }
        match self.by_rule(name, words) {
            Some(allowed) => allowed,
            None => self.wrapped(words, depth),
        }
    }

    /// Returns what rules whose words the command begins with say; `None` without any.
    fn by_rule(&self, name: &str, words: &[Word]) -> Option<Result<Vec<Rule>, String>> {
        let mut reason = None;
        for rule in self.rules.iter().filter(|rule| begins_with(words, &rule.words)) {
            let why = match exceeds(words, rule.words.len()) {
                _ if is_wrapper(name) && words.len() != rule.words.len() => {
                    Some("has more arguments than a rule names")
                }
                // A folder may hold what git takes for a repository, with settings that run programs.
                None if self.moves && is_about_its_folder(rule) => {
                    Some("is about a file of another folder than the rule's")
                }
                None if name == "git" && self.moves => {
                    Some("runs git in another folder, whose settings may run programs")
                }
                why => why,
            };
            match why {
                None => return Some(Ok(vec![rule.rule.clone()])),
                Some(why) => reason = reason.or(Some(format!("{} {why}", shown(name)))),
            }
        }
        reason.map(Err)
    }

    /// Looks through a program that does what another one does alone.
    fn wrapped(&self, words: &[Word], depth: usize) -> Result<Vec<Rule>, String> {
        let unknown = || Err(format!("no rule allows {}", shown_words(words)));
        let Some(Wrapped { inner, is_clear: true, assignments }) = unwrap(words) else { return unknown() };
        if let Some(assignment) = assignments.iter().find(|a| !is_plain_environment(a)) {
            return Err(format!("it sets {}", shown(&assignment.name)));
        }
        match inner.as_slice() {
            _ if depth > SHELL_NESTING => unknown(),
            [Inner::Command(words)] if !words.is_empty() => self.words(words, depth + 1),
            [Inner::Script(text)] => {
                let line = read_nested_line(text, depth + 1).map_err(|why| format!("it cannot be read: {why}"))?;
                let inside =
                    Allowing { moves: self.moves || Allowing::new(self.rules, &line, self.cwd).moves, ..*self };
                inside.line(&line, depth + 1)
            }
            _ => unknown(),
        }
    }
}

/// Whether what a rule names depends on the folder: a script by its relative path.
fn is_about_its_folder(rule: &Prepared) -> bool {
    let is_relative = |word: &String| word.contains('/') && !word.starts_with('/');
    rule.words.first().is_some_and(|name| RUN_ANYTHING.contains(&name.as_str())) || rule.words.iter().any(is_relative)
}

fn begins_with(words: &[Word], rule: &[String]) -> bool {
    !rule.is_empty() && words.len() >= rule.len() && rule.iter().zip(words).all(|(a, b)| b.literal() == Some(a))
}

/// Most characters of a command that are shown in a reason: the whole is shown elsewhere.
const SHOWN_CHARACTERS: usize = 60;

/// Returns text from a command line such that it shows what it is.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(SHOWN_CHARACTERS).collect();
    format!("`{}`{}", short.escape_debug(), if short.len() < text.len() { "…" } else { "" })
}

fn shown_words(words: &[Word]) -> String {
    let known = words.iter().map_while(Word::literal).take(3).collect::<Vec<_>>();
    shown(&known.join(" "))
}

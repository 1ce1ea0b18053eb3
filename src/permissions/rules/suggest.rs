//! The rules that "always" would save for a command line.

use std::path::Path;

use agentd_protocol::methods::{Rule, RuleAction};

use super::line::Allowing;
use super::named::{GIT_COMMANDS, HAVE_SUBCOMMANDS, ONLY_LOOK, RUN_ANYTHING, SHELL_CHANGERS, WORTH_A_LOOK};
use super::rule::{BASH, Prepared};
use super::wrapper::{Inner, Wrapped, unwrap};
use crate::permissions::shell::{Line, Simple, Word};

/// Most rules that one answer saves: with more, people do not see what they allow.
const MOST_RULES: usize = 3;
/// Most words of a command of which nothing is known.
const MOST_WORDS: usize = 8;

/// Further programs whose options in `programs` are all that is to be feared of them.
const MOSTLY_LOOK: &[&str] = &["fd", "fdfind", "file", "find", "rg", "sort", "tree"];

/// Returns the narrowest rules that would allow all of a line; none when there are no such rules, or too many.
pub(super) fn rules_for(allowing: &[&Prepared], line: &Line, cwd: &Path) -> Vec<Rule> {
    let allowed = Allowing::new(allowing, line, cwd);
    let open = line.commands.iter().filter(|simple| allowed.simple(simple, 0).is_err());
    let Some(mut rules) = open.map(rule_for).collect::<Option<Vec<Rule>>>() else { return Vec::new() };
    rules.dedup();
    let prepared: Vec<Prepared> =
        rules.iter().filter_map(|rule| Prepared::new(rule.clone(), None, None, None).ok()).collect();
    let all: Vec<&Prepared> = allowing.iter().copied().chain(&prepared).collect();
    // What it would not allow would be a promise that is not kept.
    let holds = rules.len() <= MOST_RULES && Allowing::new(&all, line, cwd).line(line, 0).is_ok();
    if holds { rules } else { Vec::new() }
}

fn rule_for(simple: &Simple) -> Option<Rule> {
    let mut words = simple.words.clone();
    // The rule is for the program that is run in the end.
    while let Some(Wrapped { inner, is_clear: true, .. }) = unwrap(&words) {
        match <[Inner; 1]>::try_from(inner) {
            Ok([Inner::Command(inner)]) => words = inner,
            _ => return None,
        }
    }
    let command = beginning(&plain_words(&words)?, &words)?.join(" ");
    Some(Rule { action: RuleAction::Allow, tool: BASH.to_owned(), command: Some(command), path: None })
}

/// Returns the words up to the first that would have to be quoted.
fn plain_words(words: &[Word]) -> Option<Vec<&str>> {
    let is_plain =
        |text: &&str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_./:=@%+,-".contains(c));
    let plain: Vec<&str> = words.iter().map_while(Word::literal).take_while(is_plain).collect();
    (!plain.is_empty()).then_some(plain)
}

/// Returns the first words of a command that say what it does.
fn beginning<'a>(plain: &[&'a str], words: &[Word]) -> Option<Vec<&'a str>> {
    let name = *plain.first()?;
    let is_never = [SHELL_CHANGERS, WORTH_A_LOOK].iter().any(|names| names.contains(&name));
    if is_never || name.contains('/') || unwrap(words).is_some() {
        return None;
    }
    if ONLY_LOOK.contains(&name) || MOSTLY_LOOK.contains(&name) {
        return Some(vec![name]);
    }
    if HAVE_SUBCOMMANDS.contains(&name) {
        return subcommand(plain);
    }
    if RUN_ANYTHING.contains(&name) {
        // A program of the language's own that tests.
        return matches!(plain, [_, "-m", "pytest" | "unittest", ..]).then(|| plain[..3].to_vec());
    }
    // Nothing is known of it, and so its rule names all there is.
    (plain.len() == words.len() && plain.len() <= MOST_WORDS).then(|| plain.to_vec())
}

fn subcommand<'a>(plain: &[&'a str]) -> Option<Vec<&'a str>> {
    let is_name = |word: &str| word.starts_with(|c: char| c.is_ascii_alphabetic()) && !word.contains(['/', '.', '=']);
    let second = *plain.get(1).filter(|word| is_name(word))?;
    match (plain[0], second) {
        ("git", command) => GIT_COMMANDS.contains(&command).then(|| plain[..2].to_vec()),
        // These run what comes next, whatever it is.
        (_, "exec" | "x" | "dlx" | "eval" | "config") | ("docker" | "podman" | "uv" | "poetry" | "bundle", "run") => {
            None
        }
        ("npm" | "pnpm" | "yarn", "run" | "run-script") => {
            plain.get(2).filter(|word| is_name(word)).map(|_| plain[..3].to_vec())
        }
        _ => Some(plain[..2].to_vec()),
    }
}

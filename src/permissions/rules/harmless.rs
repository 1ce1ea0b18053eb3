//! What needs no rule: builtins that do no harm, variables that change nothing, places that may be written.

use std::path::{Component, Path};

use crate::permissions::shell::{Access, Assignment, Redirect, Word, WordKind};

/// Variables of the environment that change only how programs write what they write.
const PLAIN_ENVIRONMENT: &[&str] = &[
    "CARGO_TERM_COLOR",
    "CI",
    "CLICOLOR",
    "COLUMNS",
    "DEBIAN_FRONTEND",
    "FORCE_COLOR",
    "GIT_OPTIONAL_LOCKS",
    "GIT_TERMINAL_PROMPT",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LINES",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
];

/// Variables that may be the name of a pager, if that is `cat`.
const PAGERS: &[&str] = &["GIT_PAGER", "MANPAGER", "PAGER", "SYSTEMD_PAGER"];

/// Names of variables for use within a line. Others may be known to some program.
const PLAIN_VARIABLES: &[&str] =
    &["arg", "branch", "commit", "count", "crate", "dir", "file", "idx", "item", "line", "name", "num", "pkg", "word"];

/// What may be written by a redirection.
const WRITABLE: &[&str] = &["/dev/null", "/dev/stdout", "/dev/stderr"];

/// Tells whether a variable may be set for one command.
pub(super) fn is_plain_environment(assignment: &Assignment) -> bool {
    let Some(value) = assignment.value.literal() else { return false };
    let name = assignment.name.as_str();
    let is_plain_value = value.chars().all(|c| c.is_ascii_alphanumeric() || "_.,:=@%+-".contains(c));
    is_plain_value && (PLAIN_ENVIRONMENT.contains(&name) || PAGERS.contains(&name) && value == "cat")
}

/// Tells whether a variable may be set for the rest of the line. Its value does not matter: words that hold it are not
/// taken as known.
pub(super) fn is_plain_variable(name: &str) -> bool {
    let is_letter = name.len() == 1 && name.chars().all(|c| c.is_ascii_lowercase());
    is_letter || PLAIN_VARIABLES.contains(&name)
}

/// Tells whether a redirection opens nothing that a rule would have to allow.
pub(super) fn is_plain_redirect(redirect: &Redirect) -> bool {
    let Some(target) = redirect.target.literal() else { return false };
    match redirect.access {
        // These are connections. Spelled otherwise they are files, which are not there.
        Access::Read => !target.starts_with("/dev/tcp") && !target.starts_with("/dev/udp"),
        Access::Write => WRITABLE.contains(&target),
    }
}

/// Tells whether a command is a builtin that does no harm with these arguments.
pub(super) fn is_harmless(words: &[Word]) -> bool {
    let Some(name) = words.first().and_then(Word::literal) else { return false };
    let arguments = &words[1..];
    let literal = || arguments.iter().all(|word| word.kind == WordKind::Literal);
    let is_option = |word: &Word| word.text.starts_with('-');
    match name {
        ":" | "true" | "false" | "pwd" | "echo" => true,
        // Its option -v sets a variable, and reckons with the name.
        "printf" => arguments.first().is_some_and(|word| word.kind != WordKind::Free && !is_option(word)),
        "test" | "[" => literal() && !arguments.iter().any(|word| matches!(word.text.as_str(), "-v" | "-R")),
        "type" | "which" => literal(),
        "command" => literal() && arguments.first().is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V")),
        "break" | "continue" | "exit" | "return" | "wait" => arguments.iter().all(is_number),
        "sleep" => arguments.len() == 1 && arguments.iter().all(is_number),
        _ => false,
    }
}

fn is_number(word: &Word) -> bool {
    word.literal().is_some_and(|text| text.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Where `cd` goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// To where it is.
    Here,
    /// Deeper into the working directory.
    Inside,
    /// Elsewhere, or nobody knows where.
    Elsewhere,
}

/// Tells where `cd` goes by its words; links are not followed.
pub(super) fn destination(words: &[Word], cwd: &Path) -> Destination {
    let [_, to] = words else { return Destination::Elsewhere };
    let Some(to) = to.literal().filter(|to| !to.is_empty() && !to.starts_with('-')) else {
        return Destination::Elsewhere;
    };
    let to = Path::new(to);
    let inside = if to.is_absolute() { to.strip_prefix(cwd).ok() } else { Some(to) };
    let Some(inside) = inside else { return Destination::Elsewhere };
    let mut destination = Destination::Here;
    for part in inside.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(_) => destination = Destination::Inside,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Destination::Elsewhere,
        }
    }
    destination
}

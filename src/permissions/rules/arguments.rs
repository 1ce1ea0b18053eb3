//! Whether the arguments after a rule's words keep to what the rule means.

use super::named::{GIT_COMMANDS, ONLY_LOOK};
use super::programs::{OF_OTHERS, PROGRAMS, Program};
use crate::permissions::shell::{Word, WordKind};

/// Short options of commands of git that run or write what they are told.
const OF_GIT: &[(&str, &str)] =
    &[("archive", "o"), ("clone", "cu"), ("difftool", "x"), ("format-patch", "o"), ("grep", "O"), ("rebase", "x")];

/// Shortest form of a long option that counts as one of [`OF_OTHERS`].
const SHORTEST_FORM: usize = 4;

/// Tells why a command does more than its first `known` words say; `None` if it does not.
pub(super) fn exceeds(words: &[Word], known: usize) -> Option<&'static str> {
    let name = words.first()?.literal()?;
    let rest = words.get(known..).unwrap_or_default();
    if rest.iter().any(|word| word.kind == WordKind::Free) {
        return Some("has arguments that are not known");
    }
    let is_unknown = |word: &Word| word.kind != WordKind::Literal;
    // What begins like a path stays one.
    let is_unknown_name = |word: &Word| is_unknown(word) && !word.text.starts_with(['.', '/', '~']);
    let finds = match name {
        "git" => rest.iter().any(is_unknown_name) || git(words, known),
        "sed" => !rest.is_empty() && !is_plain_sed(&words[1..]),
        "awk" | "gawk" | "mawk" | "nawk" => rest.iter().any(|word| is_unknown(word) || is_strange_awk(word)),
        // The second file is written.
        "uniq" | "xxd" => {
            let is_reverse = |word: &Word| is_in_cluster(&word.text, "r");
            operands(&words[1..]) > 1 || rest.iter().any(|word| is_unknown(word) || is_reverse(word))
        }
        "make" | "gmake" | "just" => rest.iter().any(|word| is_unknown_name(word) || word.text.contains('=')),
        "cargo" | "less" | "more" => rest.iter().any(|word| word.text.starts_with('+')),
        // Its first argument is a bundle of options without a dash.
        "tar" | "bsdtar" | "gtar" if known == 1 => {
            rest.first().is_some_and(|word| is_unknown(word) || word.text.contains(['I', 'F']))
        }
        // What the script gets is not known to be harmless.
        "npm" | "pnpm" | "yarn" => rest.iter().any(|word| is_strange_to_others(&word.text)),
        _ => false,
    };
    (finds || rest.iter().any(|word| is_strange(name, word))).then_some("has arguments that make it do more")
}

fn operands(words: &[Word]) -> usize {
    words.iter().filter(|word| word.is_operand()).count()
}

/// Whether an argument is an option that runs or writes what it is told.
fn is_strange(name: &str, word: &Word) -> bool {
    match PROGRAMS.iter().find(|program| program.names.contains(&name)) {
        Some(program) => has(program, &word.text),
        None if ONLY_LOOK.contains(&name) => false,
        None => is_strange_to_others(&word.text),
    }
}

fn has(program: &Program, text: &str) -> bool {
    let bare = text.trim_start_matches('-');
    let bare = bare.split('=').next().unwrap_or(bare);
    if program.words.contains(&bare) {
        return true;
    }
    match long_option(text) {
        Some(option) => program.long.iter().any(|long| long.starts_with(option)),
        None => is_in_cluster(text, program.short),
    }
}

fn is_strange_to_others(text: &str) -> bool {
    let Some(option) = long_option(text) else { return false };
    OF_OTHERS.iter().any(|other| *other == option || option.len() >= SHORTEST_FORM && other.starts_with(option))
}

/// Returns the name of a long option without its value. Two dashes alone are none.
fn long_option(text: &str) -> Option<&str> {
    let option = text.strip_prefix("--")?.split('=').next()?;
    (!option.is_empty()).then_some(option)
}

/// Whether a word with short options has one of `letters`; what may be their values counts as well.
fn is_in_cluster(text: &str, letters: &str) -> bool {
    let options = text.strip_prefix('-').filter(|options| !options.starts_with('-'));
    options.is_some_and(|options| options.contains(|c| letters.contains(c)))
}

/// Whether a command of git does more than its rule says.
fn git(words: &[Word], known: usize) -> bool {
    let rest = &words[known.min(words.len())..];
    // Only its first words could be options that hold for all of git.
    let is_known = |command: &Word| command.literal().is_some_and(|command| GIT_COMMANDS.contains(&command));
    if known == 1 && !rest.first().is_none_or(is_known) {
        return true;
    }
    let command = words.get(1).and_then(Word::literal).unwrap_or_default();
    let short = OF_GIT.iter().find(|(name, _)| *name == command).map_or("", |(_, short)| short);
    let is_strange = |word: &Word| {
        // `ext::` and the like name programs that talk for git.
        word.text.contains("::") || is_in_cluster(&word.text, short)
    };
    command == "bisect" && rest.iter().any(|word| word.text == "run") || rest.iter().any(is_strange)
}

/// Whether `sed` only prints: its script is a list of addresses with `p`, `d`, `q`, `=`, or one `s` without flags that run
/// or write.
fn is_plain_sed(words: &[Word]) -> bool {
    let mut scripts = 0;
    for word in words {
        let Some(text) = word.literal() else {
            // A file.
            if scripts > 0 {
                continue;
            } else {
                return false;
            };
        };
        match text {
            "-n" | "-E" | "-r" | "-s" | "-u" | "--quiet" | "--silent" => {}
            _ if text.starts_with('-') => return false,
            _ if scripts == 0 => {
                if !is_plain_script(text) {
                    return false;
                }
                scripts = 1;
            }
            _ => {}
        }
    }
    true
}

fn is_plain_script(script: &str) -> bool {
    script.chars().all(|c| c.is_ascii_digit() || " ,;$!pdq=".contains(c)) || is_plain_substitution(script)
}

fn is_plain_substitution(script: &str) -> bool {
    let mut chars = script.chars();
    let (Some('s'), Some(delimiter)) = (chars.next(), chars.next()) else { return false };
    if delimiter.is_alphanumeric() || matches!(delimiter, '\\' | '\n' | ' ') {
        return false;
    }
    let mut parts = 1;
    let mut flags = String::new();
    while let Some(c) = chars.next() {
        match c {
            '\n' => return false,
            '\\' => drop(chars.next().filter(|c| *c != '\n')),
            c if c == delimiter => parts += 1,
            c if parts == 3 => flags.push(c),
            // In a class a delimiter does not end the part: which is meant is not looked into.
            '[' => return false,
            _ => {}
        }
    }
    parts == 3 && flags.chars().all(|c| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'I' | 'i'))
}

/// Whether an argument of `awk` may run or write: a program that calls others, or a file with one.
fn is_strange_awk(word: &Word) -> bool {
    let text = &word.text;
    let is_option = text.starts_with('-') && !text.starts_with("-F") && !text.starts_with("-v");
    is_option || ["system", "|", ">", "getline", "@", "ARGV", "ENVIRON", "\\"].iter().any(|part| text.contains(part))
}

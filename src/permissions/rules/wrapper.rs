//! Programs that run the program in their arguments.

use crate::permissions::shell::{Assignment, Word};

/// A program that runs another one.
struct Wrapper {
    name: &'static str,
    /// Short options that take a value.
    values: &'static str,
    /// Words between the options and the program.
    operands: usize,
    /// The other program does what it would do alone, so that its rule holds.
    is_clear: bool,
}

const fn wrapper(name: &'static str, values: &'static str, operands: usize, is_clear: bool) -> Wrapper {
    Wrapper { name, values, operands, is_clear }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("builtin", "", 0, false),
    wrapper("busybox", "", 0, false),
    wrapper("chroot", "", 1, false),
    wrapper("command", "", 0, true),
    wrapper("coproc", "", 0, false),
    wrapper("doas", "uC", 0, false),
    wrapper("env", "uCS", 0, true),
    wrapper("exec", "a", 0, true),
    wrapper("flock", "wE", 1, false),
    wrapper("ionice", "cnpPu", 0, true),
    wrapper("nice", "n", 0, true),
    wrapper("nohup", "", 0, true),
    wrapper("parallel", "jSIN", 0, false),
    wrapper("pkexec", "", 0, false),
    wrapper("runuser", "ucg", 0, false),
    wrapper("setsid", "", 0, false),
    wrapper("stdbuf", "ioe", 0, true),
    wrapper("strace", "aebopsSuEPOI", 0, false),
    wrapper("sudo", "ugCDhpRrtTU", 0, false),
    wrapper("time", "fo", 0, true),
    wrapper("timeout", "ks", 1, true),
    wrapper("toybox", "", 0, false),
    wrapper("unshare", "", 0, false),
    wrapper("watch", "n", 0, false),
    wrapper("xargs", "aEIiLlnPsd", 0, false),
];

const SHELLS: &[&str] = &["ash", "bash", "dash", "ksh", "sh", "zsh"];

/// What a command runs besides itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// A command.
    Command(Vec<Word>),
    /// A command line.
    Script(String),
    /// Something that is not known.
    Unknown,
}

/// A command that runs something else.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrapped {
    pub(super) inner: Vec<Inner>,
    /// Nothing else is done than what the inner command does alone.
    pub(super) is_clear: bool,
    /// Variables that are set for it.
    pub(super) assignments: Vec<Assignment>,
}

impl Wrapped {
    fn opaque(inner: Vec<Inner>) -> Option<Self> {
        Some(Self { inner, is_clear: false, assignments: Vec::new() })
    }
}

/// Looks for what a command runs besides itself. `None`: nothing that is known here.
pub(super) fn unwrap(words: &[Word]) -> Option<Wrapped> {
    let name = words.first()?.literal()?;
    let base = base_name(name);
    if SHELLS.contains(&base) {
        return shell(words, matches!(name, "bash" | "/bin/bash" | "/usr/bin/bash"));
    }
    match base {
        "eval" => Wrapped::opaque(vec![script(&words[1..])]),
        "trap" => Wrapped::opaque(vec![script(words.get(1..2).unwrap_or_default())]),
        "find" => Wrapped::opaque(executed_by_find(words)).filter(|found| !found.inner.is_empty()),
        _ => {
            let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == base)?;
            Some(wrapped(wrapper, words, name == base))
        }
    }
}

/// Tells whether a program of this name runs the program in its arguments.
pub(super) fn is_wrapper(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.name == name)
}

/// Returns the name of a program without its folder.
pub(super) fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn script(words: &[Word]) -> Inner {
    let texts: Option<Vec<&str>> = words.iter().map(Word::literal).collect();
    texts.map_or(Inner::Unknown, |texts| Inner::Script(texts.join(" ")))
}

/// A shell: `-c` and a line; otherwise a file, or what is piped in.
fn shell(words: &[Word], is_bash: bool) -> Option<Wrapped> {
    let mut is_plain = true;
    let mut rest = words[1..].iter();
    while let Some(word) = rest.next() {
        let Some(options) = word.literal().and_then(|text| text.strip_prefix('-')) else { break };
        is_plain &= options.chars().all(|c| matches!(c, 'c' | 'e' | 'l' | 'u'));
        if !options.starts_with('-') && options.contains('c') {
            let line = rest.next().map_or(Inner::Unknown, |line| script(std::slice::from_ref(line)));
            return Some(Wrapped { inner: vec![line], is_clear: is_bash && is_plain, assignments: Vec::new() });
        }
        if matches!(options, "o" | "O" | "-rcfile" | "-init-file") {
            rest.next();
        }
    }
    Wrapped::opaque(Vec::new())
}

fn executed_by_find(words: &[Word]) -> Vec<Inner> {
    let is_start = |word: &Word| matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let starts = words.iter().enumerate().filter(|(_, word)| is_start(word));
    let until_end =
        |start: usize| words[start + 1..].iter().take_while(|word| !matches!(word.text.as_str(), ";" | "+"));
    starts.map(|(start, _)| Inner::Command(until_end(start).cloned().collect())).collect()
}

fn wrapped(wrapper: &Wrapper, words: &[Word], is_plain_name: bool) -> Wrapped {
    let mut found = Wrapped { inner: Vec::new(), is_clear: wrapper.is_clear && is_plain_name, assignments: Vec::new() };
    let mut at = 1;
    while let Some(text) = words.get(at).and_then(Word::literal) {
        at += 1;
        if text == "--" {
            break;
        }
        if let Some(options) = text.strip_prefix('-').filter(|options| !options.is_empty()) {
            if takes_line(wrapper.name, options) {
                found.is_clear = false;
                found.inner.push(script(&words[at.min(words.len())..]));
                return found;
            }
            at += usize::from(takes_next(options, wrapper.values));
            found.is_clear &= is_known_option(wrapper.name, options);
        } else if let Some((name, value)) = text.split_once('=').filter(|_| wrapper.name == "env") {
            found.assignments.push(Assignment { name: name.to_owned(), value: Word::new(value) });
        } else {
            at -= 1;
            break;
        }
    }
    at = (at + wrapper.operands).min(words.len());
    // One that is not known may be several words, the last of them another program.
    if words[..at].iter().any(|word| word.literal().is_none()) {
        found.is_clear = false;
        found.inner.push(Inner::Unknown);
    }
    found.inner.extend((at < words.len()).then(|| command(&words[at..])));
    found
}

/// Some, such as `watch`, take a whole line as one word.
fn command(words: &[Word]) -> Inner {
    match words {
        [only] if only.text.contains(char::is_whitespace) => script(words),
        _ => Inner::Command(words.to_vec()),
    }
}

/// Whether a line comes after these options.
fn takes_line(wrapper: &str, options: &str) -> bool {
    matches!((wrapper, options), ("env", "S" | "-split-string") | ("flock" | "runuser", "c" | "-command"))
}

/// Whether the value of the last of these options is the next word.
fn takes_next(options: &str, values: &str) -> bool {
    let mut chars = options.chars();
    !options.starts_with('-') && chars.find(|c| values.contains(*c)).is_some() && chars.next().is_none()
}

/// Options with which a clear wrapper stays so.
fn is_known_option(wrapper: &str, options: &str) -> bool {
    match wrapper {
        "nice" | "ionice" | "stdbuf" => true,
        "time" => matches!(options, "p" | "v"),
        "timeout" => options.starts_with(['k', 's']) || matches!(options, "-foreground" | "-preserve-status" | "v"),
        _ => false,
    }
}

//! Reads Rust source just well enough for the rules: comments and tests cut out, paths of `crate::` and `super::` found.

use std::path::Path;

/// Returns the module path of a file below `src/`: `agent::machine` for `src/agent/machine/mod.rs`.
pub(super) fn module_of(file: &Path) -> String {
    let inner = file.strip_prefix("src").unwrap().with_extension("");
    let mut parts: Vec<&str> = inner.iter().map(|part| part.to_str().unwrap()).collect();
    if matches!(parts.last(), Some(&"mod" | &"lib" | &"main")) {
        parts.pop();
    }
    parts.join("::")
}

/// Tells whether a file holds only tests.
pub(super) fn is_test_file(file: &Path) -> bool {
    file.iter().any(|part| part == "tests" || part == "tests.rs")
}

/// Returns the code of a file without comments, text in quotes and its test module.
pub(super) fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" && lines.peek().is_some_and(|next| next.trim_start().starts_with("mod tests"))
        {
            break;
        }
        code.push_str(&without_quotes(line));
        code.push('\n');
    }
    code
}

/// Cuts a line at its comment and empties its string literals. Literals over several lines are not understood; they
/// would have to hold a Rust path to matter.
fn without_quotes(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if quoted => drop(chars.next()),
            '"' => {
                quoted = !quoted;
                out.push(c);
            }
            '/' if !quoted && chars.peek() == Some(&'/') => break,
            // A quote as a character literal opens no text.
            '\'' if !quoted && chars.peek() == Some(&'"') => drop(chars.next()),
            c if !quoted => out.push(c),
            _ => {}
        }
    }
    out
}

/// Returns every path that `code`, which stands in `module`, uses of the daemon's own crate, without `crate::`.
pub(super) fn used_paths(code: &str, module: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("crate::") {
        if is_path_start(code, start) {
            expand(&code[start + "crate::".len()..], "", &mut found);
        }
    }
    for (start, _) in code.match_indices("super::") {
        if !is_path_start(code, start) {
            continue;
        }
        let mut rest = &code[start..];
        let mut base: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
        while let Some(after) = rest.strip_prefix("super::") {
            base.pop();
            rest = after;
        }
        expand(rest, &base.join("::"), &mut found);
    }
    found
}

fn is_path_start(code: &str, at: usize) -> bool {
    !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
}

/// Follows a use tree: `a::{b, c::d}` gives `a::b` and `a::c::d`. Returns how much of `text` it took.
fn expand(text: &str, base: &str, found: &mut Vec<String>) -> usize {
    let mut path = base.to_owned();
    let mut at = 0;
    loop {
        let name: String = text[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        at += name.len();
        if !name.is_empty() {
            path = if path.is_empty() { name } else { format!("{path}::{name}") };
        }
        if text[at..].starts_with("::") {
            at += 2;
        } else if text[at..].starts_with('{') {
            return expand_group(text, at + 1, &path, found);
        } else {
            found.push(path);
            return at;
        }
    }
}

fn expand_group(text: &str, mut at: usize, base: &str, found: &mut Vec<String>) -> usize {
    loop {
        at += text[at..].len() - text[at..].trim_start_matches(|c: char| c.is_whitespace() || c == ',').len();
        match text[at..].chars().next() {
            None => return at,
            Some('}') => return at + 1,
            Some(c) if c.is_alphanumeric() || c == '_' || c == '{' => at += expand(&text[at..], base, found),
            // `*`, or a rename.
            Some(c) => {
                found.push(base.to_owned());
                at += c.len_utf8();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &str, expected: &[&str]) {
        assert_eq!(used_paths(&code_of(code), "agent::machine"), expected, "{code}");
    }

    #[test]
    fn paths_are_found() {
        check("use crate::ring::Ring;", &["ring::Ring"]);
        check("use crate::{ring::{Ring, wake::Wake}, store};", &["ring::Ring", "ring::wake::Wake", "store"]);
        check("fn f() -> crate::rpc::Answer<u8> {}", &["rpc::Answer"]);
        check("use super::event::Event;", &["agent::event::Event"]);
        check("use super::super::store;", &["store"]);
        check("use crate::ring::*;", &["ring"]);
    }

    #[test]
    fn comments_text_and_tests_are_not_code() {
        check("// crate::rpc::X\n/// [`crate::rpc`]\nlet a = \"crate::rpc\"; // super::x", &[]);
        check("let c = '\"'; use crate::ring::Ring;", &["ring::Ring"]);
        check("use crate::ring;\n#[cfg(test)]\nmod tests {\n use crate::rpc;\n}", &["ring"]);
        check("use agentd_protocol::methods; use my_crate::x;", &[]);
    }

    #[test]
    fn files_are_modules() {
        assert_eq!(module_of(Path::new("src/agent/machine/mod.rs")), "agent::machine");
        assert_eq!(module_of(Path::new("src/clock.rs")), "clock");
        assert_eq!(module_of(Path::new("src/lib.rs")), "");
    }
}

//! Names of files in a result: one line each, whatever bytes they hold.
//!
//! Pure. Most names are shown as they are. One with control characters, characters that turn the direction of text
//! around, or bytes that are not UTF-8 is quoted as `$'…'`, which bash reads back as the exact name.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns a path for a result.
pub(crate) fn shown(path: &Path) -> Cow<'_, str> {
    match path.to_str() {
        Some(text) if !text.contains(is_unsafe) => Cow::Borrowed(text),
        _ => Cow::Owned(quoted(path.as_os_str().as_bytes())),
    }
}

/// Whether a character could break a line, move a terminal's cursor or show other characters in another order.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

fn quoted(bytes: &[u8]) -> String {
    let mut out = "$'".to_owned();
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_char(c, &mut out));
        chunk.invalid().iter().for_each(|byte| push_byte(*byte, &mut out));
    }
    out.push('\'');
    out
}

fn push_char(c: char, out: &mut String) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\'' | '\\' => out.extend(['\\', c]),
        c if !is_unsafe(c) => out.push(c),
        c => match u8::try_from(c) {
            Ok(byte) if byte.is_ascii() => push_byte(byte, out),
            // All of them have four digits.
            _ => push_format(out, format_args!("\\u{:04x}", u32::from(c))),
        },
    }
}

fn push_byte(byte: u8, out: &mut String) {
    push_format(out, format_args!("\\x{byte:02x}"));
}

fn push_format(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[track_caller]
    fn check(name: &[u8], expected: &str) {
        assert_eq!(shown(Path::new(OsStr::from_bytes(name))), expected);
    }

    #[test]
    fn plain_names_stay() {
        for name in ["a b", "-rf", "ä界🌍", "it's", "back\\slash", "$x", ""] {
            check(name.as_bytes(), name);
        }
    }

    #[test]
    fn b137_odd_names_are_quoted_on_one_line() {
        check(b"a\nb", "$'a\\nb'");
        check(b"\x1b[31mred", "$'\\x1b[31mred'");
        check(b"caf\xe9's", "$'caf\\xe9\\'s'");
        check("a\u{202e}b\\".as_bytes(), "$'a\\u202eb\\\\'");
        check("\u{85}".as_bytes(), "$'\\u0085'");
        check(b"t\tr\r\x7f", "$'t\\tr\\r\\x7f'");
    }
}

//! The text of a tool call's arguments, as models really write it, to a JSON object.
//!
//! Pure. Mended is only what has one reading: backslashes that begin no escape (`"\usepackage"` from a model that
//! writes LaTeX) and raw control characters inside strings both keep the text they stand for. Everything else that
//! is not JSON is refused with the place of the fault: guessing the missing half of a cut call would run something
//! that the model never said.

use serde_json::{Map, Value};

use super::json_error;

/// Parses the arguments of a tool call. The value is always an object: nothing at all and `null` mean no arguments.
///
/// # Errors
/// What is wrong and where, in V8's words, as pi shows it (the caller adds the raw text):
/// `Unterminated string in JSON at position 56 (line 1 column 57)`.
pub fn parse(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(text) {
        Ok(value) => object(value, text),
        Err(error) => match serde_json::from_str(&mend(text)) {
            Ok(value) => object(value, text),
            Err(_) => Err(json_error::explain(text).unwrap_or_else(|| format!("{error}"))),
        },
    }
}

/// Accepts objects, `null`, and an object that was encoded twice.
fn object(value: Value, text: &str) -> Result<Value, String> {
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(Value::Object(Map::new())),
        Value::String(inner) => match serde_json::from_str(&inner) {
            Ok(Value::Object(map)) => Ok(Value::Object(map)),
            _ => Err(not_an_object(text)),
        },
        _ => Err(not_an_object(text)),
    }
}

fn not_an_object(text: &str) -> String {
    let shown: String = text.trim().chars().take(20).collect();
    format!("Expected an object, got {shown}")
}

/// Rewrites string literals so that stray backslashes and control characters stand for themselves.
pub(super) fn mend(text: &str) -> String {
    let mut mended = String::with_capacity(text.len() + 16);
    let mut rest = text.chars();
    let mut in_string = false;
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                in_string = !in_string;
                mended.push(c);
            }
            '\\' if in_string => mend_escape(&mut rest, &mut mended),
            c if in_string && c < ' ' => mended.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => mended.push(c),
        }
    }
    mended
}

/// Handles what follows a backslash inside a string.
fn mend_escape(rest: &mut std::str::Chars<'_>, mended: &mut String) {
    let mut ahead = rest.clone();
    match ahead.next() {
        Some(c @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't')) => {
            mended.push('\\');
            mended.push(c);
            *rest = ahead;
        }
        Some('u') => match four_hex(ahead.as_str()) {
            Some(unit) => mend_unicode(unit, ahead.as_str(), rest, mended),
            None => mended.push_str("\\\\"),
        },
        // The end of the text: still an error, and still found at the same place.
        None => mended.push('\\'),
        Some(_) => mended.push_str("\\\\"),
    }
}

/// Copies a `\uXXXX` whose digits begin `after`; half of a surrogate pair becomes U+FFFD, which is what a file would
/// hold after JavaScript wrote it.
fn mend_unicode<'t>(unit: u16, after: &'t str, rest: &mut std::str::Chars<'t>, mended: &mut String) {
    let tail = &after[4..];
    let is_pair = (0xd800..0xdc00).contains(&unit)
        && tail.strip_prefix("\\u").and_then(four_hex).is_some_and(|low| (0xdc00..0xe000).contains(&low));
    if is_pair {
        mended.push_str("\\u");
        mended.push_str(&after[..10]);
        *rest = after[10..].chars();
    } else {
        let is_half = (0xd800..0xe000).contains(&unit);
        mended.push_str(if is_half { "\\ufffd" } else { "\\u" });
        if !is_half {
            mended.push_str(&after[..4]);
        }
        *rest = tail.chars();
    }
}

fn four_hex(text: &str) -> Option<u16> {
    let digits = text.get(..4)?;
    // `from_str_radix` alone would take a sign.
    if digits.bytes().all(|b| b.is_ascii_hexdigit()) { u16::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests;

//! Text of models, tools and files made harmless for a terminal.
//!
//! A terminal obeys what it is sent: escape sequences can hide text, change the title, answer on standard input.
//! Everything that others wrote passes through here before it is shown; control characters become visible signs.

use std::borrow::Cow;

/// Cleans text that arrives in pieces. Line ends stay, in the form LF.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    /// The last character was a carriage return, shown as a line end already.
    after_cr: bool,
}

impl Cleaner {
    /// Returns the next piece, cleaned.
    pub(crate) fn clean(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            let after_cr = std::mem::replace(&mut self.after_cr, c == '\r');
            match c {
                // Progress bars end with a lone CR: on a line of its own nothing can be overwritten.
                '\r' => out.push('\n'),
                '\n' if after_cr => {}
                '\n' | '\t' => out.push(c),
                _ => push_visible(&mut out, c),
            }
        }
        out
    }
}

/// Returns a whole text, cleaned.
pub(crate) fn clean(text: &str) -> String {
    Cleaner::default().clean(text)
}

/// Returns a text as one line: line ends and tabs become blanks, runs of blanks one.
pub(crate) fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() || c == '\u{85}').filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        word.chars().for_each(|c| push_visible(&mut out, c));
    }
    out
}

fn push_visible(out: &mut String, c: char) {
    match c {
        '\0'..='\u{1f}' => out.extend(char::from_u32(0x2400 + c as u32)),
        '\u{7f}' => out.push('\u{2421}'),
        '\u{2028}' | '\u{2029}' => out.push('\n'),
        _ if is_harmful(c) => out.push_str(&format!("<U+{:04X}>", c as u32)),
        _ => out.push(c),
    }
}

/// Returns JSON that means the same, with the characters escaped that `serde_json` leaves as they are and a terminal
/// may obey. They can only be within strings.
pub(crate) fn harmless_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_harmful) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if is_harmful(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Tells whether a character beyond ASCII's controls does something to a terminal, or hides or reorders text.
fn is_harmful(c: char) -> bool {
    matches!(
        c,
        '\u{7f}'..='\u{9f}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_becomes_visible() {
        for (text, expected) in [
            ("plain é 世界 👩‍👩‍👧", "plain é 世界 👩‍👩‍👧"),
            ("a\tb\nc", "a\tb\nc"),
            ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
            ("\x1b]0;title\x07", "␛]0;title␇"),
            ("\u{9b}31m", "<U+009B>31m"),
            ("a\x08b\x7f\0", "a␈b␡␀"),
            ("10%\r20%\r\ndone", "10%\n20%\ndone"),
            ("safe\u{202e}txet", "safe<U+202E>txet"),
            ("a\u{200b}b\u{e0041}", "a<U+200B>b<U+E0041>"),
            ("a\u{2028}b", "a\nb"),
        ] {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }

    #[test]
    fn json_is_escaped_and_means_the_same() {
        let texts =
            ["plain é 世界 👩‍👩‍👧", "\u{9b}31m", "\u{7f}", "safe\u{202e}txet", "a\u{2028}\u{e0041}\u{feff}\n\x1b\"\\"];
        for text in texts {
            let json = serde_json::to_string(&[text]).expect("JSON");
            let shown = harmless_json(&json);
            assert_eq!(clean(&shown), shown, "{text:?}");
            assert_eq!(serde_json::from_str::<[String; 1]>(&shown).expect("JSON"), [text]);
        }
        assert_eq!(harmless_json(r#"{"a":"\u001b"}"#), r#"{"a":"\u001b"}"#);
        assert_eq!(harmless_json("\"\u{9b}\u{e0041}\""), r#""\u009b\udb40\udc41""#);
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let whole = "a\r\nb\rc\x1b[0m\r\n\r\nd\n\re";
        let mut cleaner = Cleaner::default();
        let pieces: String = whole.chars().map(|c| cleaner.clean(&c.to_string())).collect();
        assert_eq!(pieces, clean(whole));
    }

    #[test]
    fn one_line_has_no_line_end() {
        assert_eq!(one_line(" a\n\tb \r\n c\u{2028}d\x1b "), "a b c d␛");
    }
}

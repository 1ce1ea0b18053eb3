//! Text that shows all of what it stands for, whatever it is shown on.

/// Longest run of blanks that is shown as it is, in characters: behind more, people do not look for anything.
const MAX_BLANKS: usize = 16;

/// A safe text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Safe {
    /// The text.
    pub(super) text: String,
    /// Whether nothing was left out.
    pub(super) is_whole: bool,
    /// Whether it is the original, letter for letter, as far as it goes.
    pub(super) is_exact: bool,
}

/// Writes out what a terminal obeys, what hides or reorders text, and long runs of blanks; leaves out what is over
/// `max_bytes`. Line ends and tabs stay. Indentation stays, too.
pub(super) fn safe(text: &str, max_bytes: usize) -> Safe {
    let mut safe = Safe { text: String::new(), is_whole: true, is_exact: true };
    let mut rest = text;
    let mut is_line_start = true;
    while let Some(c) = rest.chars().next() {
        let is_blank = matches!(c, ' ' | '\t' | '\n');
        let alike = if is_blank { rest.chars().take_while(|other| *other == c).count() } else { 1 };
        let (shown, taken) = match c {
            _ if alike > MAX_BLANKS && !(c == ' ' && is_line_start) => {
                (format!("\\u{{{:x}}}×{alike}", c as u32), alike)
            }
            ' ' if alike > MAX_BLANKS => (" ".repeat(alike), alike),
            '\n' | '\t' => (c.to_string(), 1),
            c if is_unsafe(c) => (format!("\\u{{{:x}}}", c as u32), 1),
            c => (c.to_string(), 1),
        };
        let (taken, after) = rest.split_at(taken * c.len_utf8());
        if safe.text.len() + shown.len() > max_bytes {
            safe.is_whole = false;
            break;
        }
        safe.is_exact &= shown == taken;
        safe.text.push_str(&shown);
        is_line_start = c == '\n';
        rest = after;
    }
    safe
}

/// Tells whether a character does something else than being seen at its place: controls, what has no width, what turns
/// the direction of text, blanks that are none of the usual, tags and private signs.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{2000}'..='\u{200f}'
                | '\u{2028}'..='\u{202f}'
                | '\u{205f}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{a0}'
                | '\u{1680}'
                | '\u{2800}'
                | '\u{3000}'
                | '\u{e000}'..='\u{f8ff}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn b181_what_hides_or_reorders_is_written_out() {
        let blanks = " ".repeat(5000);
        for (text, expected) in [
            ("git status".to_owned(), "git status".to_owned()),
            ("a\tb\n  c".to_owned(), "a\tb\n  c".to_owned()),
            ("echo \u{202e}fr- mr".to_owned(), "echo \\u{202e}fr- mr".to_owned()),
            ("l\u{200b}s".to_owned(), "l\\u{200b}s".to_owned()),
            ("rm -rf x\rls   ".to_owned(), "rm -rf x\\u{d}ls   ".to_owned()),
            ("\x1b[2K\x1b[1Gls".to_owned(), "\\u{1b}[2K\\u{1b}[1Gls".to_owned()),
            (format!("ls{blanks}; rm -rf x"), "ls\\u{20}×5000; rm -rf x".to_owned()),
            (format!("ls{}rm -rf x", "\n".repeat(300)), "ls\\u{a}×300rm -rf x".to_owned()),
            (format!("if x\n{}rm", " ".repeat(20)), format!("if x\n{}rm", " ".repeat(20))),
        ] {
            let found = safe(&text, 65536);
            assert_eq!(found.text, expected);
            assert_eq!((found.is_whole, found.is_exact), (true, text == expected), "{expected}");
        }
    }

    #[test]
    fn b181_a_text_that_is_too_long_says_so() {
        let found = safe(&"é".repeat(10), 11);
        assert_eq!(found, Safe { text: "é".repeat(5), is_whole: false, is_exact: true });
    }
}

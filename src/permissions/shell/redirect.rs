//! Redirections.

use super::line::{Access, Redirect, Simple, Unreadable, Word, WordKind};
use super::reader::{Read, Reader};

/// Operators, longest first.
const OPERATORS: &[(&str, Kind)] = &[
    ("&>>", Kind::Write),
    ("<<<", Kind::Text),
    ("&>", Kind::Write),
    (">>", Kind::Write),
    (">|", Kind::Write),
    (">&", Kind::Copy(Access::Write)),
    ("<&", Kind::Copy(Access::Read)),
    ("<<", Kind::Heredoc),
    ("<>", Kind::Write),
    (">", Kind::Write),
    ("<", Kind::Read),
];

/// Digits of a descriptor. To bash, too large a number is none but a word.
const LONGEST_DESCRIPTOR: usize = 3;

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
    /// A descriptor; where the word is none, a file.
    Copy(Access),
    Heredoc,
    Text,
}

impl Reader<'_> {
    /// Reads a redirection if one comes next.
    pub(super) fn redirect(&mut self, simple: &mut Simple) -> Read<bool> {
        let digits = (0..).take_while(|offset| self.peek_at(*offset).is_some_and(|c| c.is_ascii_digit())).count();
        if digits > 0 && !matches!(self.peek_at(digits), Some('<' | '>')) {
            return Ok(false);
        }
        // `<(` begins a word.
        if self.peek_at(digits + 1) == Some('(') && matches!(self.peek_at(digits), Some('<' | '>')) {
            return Ok(false);
        }
        if digits == 0 && !self.looks_at("<") && !self.looks_at(">") && !self.looks_at("&>") {
            return Ok(false);
        }
        if digits > LONGEST_DESCRIPTOR {
            return Err(Unreadable("a descriptor is too large"));
        }
        self.skip(digits);
        let Some((operator, kind)) = OPERATORS.iter().find(|(operator, _)| self.looks_at(operator)) else {
            return Ok(false);
        };
        self.skip(operator.len());
        self.refuse_hidden_line()?;
        self.target(*kind, simple)?;
        Ok(true)
    }

    fn target(&mut self, kind: Kind, simple: &mut Simple) -> Read<()> {
        if matches!(kind, Kind::Heredoc) {
            return self.heredoc_name();
        }
        self.skip_blanks();
        let mut target = self.word()?;
        let access = match kind {
            Kind::Heredoc | Kind::Text => return Ok(()),
            Kind::Copy(_) if is_descriptor(&target) => return Ok(()),
            Kind::Copy(Access::Read) => return Err(Unreadable("a descriptor is none")),
            Kind::Copy(Access::Write) => {
                // Bash takes the quotes of such a name away twice.
                target.kind = WordKind::Free;
                Access::Write
            }
            Kind::Write => Access::Write,
            Kind::Read => Access::Read,
        };
        simple.redirects.push(Redirect { access, target });
        Ok(())
    }
}

/// `2`, `-` or `2-`.
fn is_descriptor(word: &Word) -> bool {
    let number = word.text.strip_suffix('-').unwrap_or(&word.text);
    word.kind == WordKind::Literal && !word.text.is_empty() && number.chars().all(|c| c.is_ascii_digit())
}

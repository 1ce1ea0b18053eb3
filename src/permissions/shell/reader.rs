//! A place in the text of a line, and what all parts of the grammar share.

use super::heredoc::Pending;
use super::line::{Line, Unreadable};
use crate::constants::SHELL_NESTING;

pub(super) type Read<T> = Result<T, Unreadable>;

/// Reads one text. Substitutions in backquotes and here-documents have readers of their own, which add to the same
/// line.
pub(super) struct Reader<'l> {
    chars: Vec<char>,
    at: usize,
    /// How deep the text is nested in others.
    depth: usize,
    /// How many substitutions it stands in.
    pub(super) substitutions: usize,
    pub(super) line: &'l mut Line,
    /// Here-documents whose text begins after the next line feed.
    pub(super) pending: Vec<Pending>,
}

impl<'l> Reader<'l> {
    pub(super) fn new(text: &str, depth: usize, line: &'l mut Line) -> Self {
        Self { chars: text.chars().collect(), at: 0, depth, substitutions: 0, line, pending: Vec::new() }
    }

    /// Reads a text that stands inside of this one.
    pub(super) fn inside<T>(&mut self, text: &str, read: impl FnOnce(&mut Reader<'_>) -> Read<T>) -> Read<T> {
        self.refuse_pending()?;
        let depth = deeper(self.depth)?;
        read(&mut Reader::new(text, depth, self.line))
    }

    /// Reads a part that may hold others of its kind.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.depth = deeper(self.depth)?;
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// Where the text of a here-document begins is told differently by versions of bash when its line goes on inside
    /// of something.
    pub(super) fn refuse_pending(&self) -> Read<()> {
        if self.pending.is_empty() {
            Ok(())
        } else {
            Err(Unreadable("something nested follows a here-document's name"))
        }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, offset: usize) -> Option<char> {
        self.chars.get(self.at + offset).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.at = (self.at + count).min(self.chars.len());
    }

    pub(super) fn looks_at(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(offset, c)| self.peek_at(offset) == Some(c))
    }

    /// Takes `text` if it comes next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.looks_at(text);
        if found {
            self.skip(text.chars().count());
        }
        found
    }

    /// Takes all characters up to one that is not `wanted`.
    pub(super) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    /// Returns what comes next up to the first blank or operator, without taking it.
    pub(super) fn upcoming(&self) -> String {
        self.chars[self.at..].iter().take_while(|c| !ends_word(**c)).take(LONGEST_RESERVED + 1).collect()
    }

    /// Takes the reserved word `word` if it comes next as such: a quoted one is none.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        self.upcoming() == word && self.eat(word)
    }

    /// Takes the rest of the line, without the line feed. `None` at the end of the text.
    pub(super) fn take_line(&mut self) -> Option<String> {
        self.peek()?;
        let line = self.take_while(|c| c != '\n');
        self.skip(1);
        Some(line)
    }

    /// Takes blanks, and line feeds after a backslash, which are none. Refuses those that would glue an operator.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.skip(1),
                Some('\\') if self.peek_at(1) == Some('\n') => self.skip(2),
                _ => return,
            }
        }
    }

    /// Takes blanks, comments and line feeds, and after each of these the here-documents that begin there.
    pub(super) fn skip_lines(&mut self) -> Read<()> {
        loop {
            self.skip_blanks();
            match self.peek() {
                Some('\n') => {
                    self.skip(1);
                    self.take_pending()?;
                }
                Some('#') => drop(self.take_while(|c| c != '\n')),
                _ => return Ok(()),
            }
        }
    }

    /// An operator or `$` must not go on after a hidden line feed: that is never written by accident.
    pub(super) fn refuse_hidden_line(&self) -> Read<()> {
        if self.looks_at("\\\n") {
            Err(Unreadable("a line feed is hidden inside of a word or operator"))
        } else {
            Ok(())
        }
    }
}

/// Length of the longest reserved word.
const LONGEST_RESERVED: usize = 8;

fn deeper(depth: usize) -> Read<usize> {
    if depth < SHELL_NESTING { Ok(depth + 1) } else { Err(Unreadable("it is nested too deeply")) }
}

/// Tells whether an unquoted `c` ends a word.
pub(super) fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
}

/// Tells whether `text` is a name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_name_part)
}

/// Tells whether names of variables may hold `c`.
pub(super) fn is_name_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

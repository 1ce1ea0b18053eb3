//! Words: quotes, globs, braces, tildes.

use super::line::{Unreadable, Word, WordKind};
use super::reader::{Read, Reader, ends_word};

/// A word that is being read.
#[derive(Default)]
pub(super) struct Building {
    text: String,
    is_literal: bool,
    /// Text of the line comes first, so that it cannot become an option.
    is_bound: bool,
    /// It may become any number of words.
    is_free: bool,
    /// Something was quoted.
    pub(super) is_quoted: bool,
}

impl Building {
    pub(super) fn new() -> Self {
        Self { is_literal: true, ..Self::default() }
    }

    fn is_untouched(&self) -> bool {
        self.text.is_empty() && self.is_literal && !self.is_quoted
    }

    /// Adds a character that stands for itself.
    pub(super) fn push(&mut self, c: char) {
        self.is_bound |= self.is_literal && self.text.is_empty() && c != '-';
        self.text.push(c);
    }

    /// Adds what the shell puts several things for, each of which begins with what comes before.
    fn spread(&mut self, c: char) {
        self.is_literal = false;
        self.text.push(c);
    }

    /// Adds something unknown: inside of double quotes it stays within the word.
    pub(super) fn expand(&mut self, stays_within: bool) {
        self.is_literal = false;
        self.is_free |= !stays_within;
    }

    pub(super) fn finish(self) -> Word {
        let kind = match self {
            Self { is_literal: true, .. } => WordKind::Literal,
            Self { is_bound: true, is_free: false, .. } => WordKind::Bound,
            _ => WordKind::Free,
        };
        Word { text: self.text, kind }
    }
}

impl Reader<'_> {
    /// Reads a word, of which at least one character is there.
    pub(super) fn word(&mut self) -> Read<Word> {
        let start = self.peek();
        let mut word = Building::new();
        self.word_parts(&mut word)?;
        if word.is_untouched() {
            return Err(Unreadable(if start.is_some() {
                "an operator stands where a word must be"
            } else {
                "it ends early"
            }));
        }
        Ok(word.finish())
    }

    /// Reads on to the end of a word.
    pub(super) fn word_parts(&mut self, word: &mut Building) -> Read<()> {
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' if self.peek_at(1) == Some('(') => self.process(word)?,
                c if ends_word(c) => break,
                '\\' if self.peek_at(1) == Some('\n') => return self.end_at_hidden_line(),
                '\\' => self.backslash(word)?,
                _ => self.word_part(word, c)?,
            }
        }
        Ok(())
    }

    fn word_part(&mut self, word: &mut Building, c: char) -> Read<()> {
        match c {
            '\'' => self.single_quotes(word),
            '"' => self.double_quotes(word),
            '$' => self.dollar(word, false),
            '`' => self.backquotes(word, false),
            '*' | '?' | '[' if !self.is_bracket_command(word) => self.spread(word),
            '{' | '}' if !self.is_plain_braces(word) => self.spread(word),
            '~' if word.is_untouched() || word.text.ends_with(['=', ':']) => self.tilde(word),
            c => {
                self.skip(1);
                word.push(c);
                Ok(())
            }
        }
    }

    /// A word may end at a hidden line feed, but none goes on after it.
    fn end_at_hidden_line(&self) -> Read<()> {
        match self.peek_at(2) {
            Some(' ' | '\t') | None => Ok(()),
            Some(_) => self.refuse_hidden_line(),
        }
    }

    fn spread(&mut self, word: &mut Building) -> Read<()> {
        if let Some(c) = self.next() {
            word.spread(c);
        }
        Ok(())
    }

    /// The command `[` is no pattern.
    fn is_bracket_command(&self, word: &Building) -> bool {
        word.is_untouched() && self.peek() == Some('[') && self.peek_at(1).is_none_or(ends_word)
    }

    /// `{}`, `{` and `}` on their own are no list of words.
    fn is_plain_braces(&self, word: &Building) -> bool {
        let is_end = |offset| self.peek_at(offset).is_none_or(ends_word);
        word.is_untouched() && (is_end(1) || self.looks_at("{}") && is_end(2)) || word.text == "{" && is_end(1)
    }

    /// A home directory: an absolute path, or the text as it is.
    fn tilde(&mut self, word: &mut Building) -> Read<()> {
        self.skip(1);
        word.push('~');
        word.expand(true);
        Ok(())
    }

    fn backslash(&mut self, word: &mut Building) -> Read<()> {
        self.skip(1);
        let c = self.next().ok_or(Unreadable("it ends in a backslash"))?;
        word.is_quoted = true;
        word.push(c);
        Ok(())
    }

    pub(super) fn single_quotes(&mut self, word: &mut Building) -> Read<()> {
        self.skip(1);
        word.is_quoted = true;
        loop {
            match self.next().ok_or(Unreadable("a quote is not closed"))? {
                '\'' => return Ok(()),
                '\n' => {
                    self.refuse_pending()?;
                    word.push('\n');
                }
                c => word.push(c),
            }
        }
    }

    pub(super) fn double_quotes(&mut self, word: &mut Building) -> Read<()> {
        self.skip(1);
        word.is_quoted = true;
        loop {
            match self.peek().ok_or(Unreadable("a quote is not closed"))? {
                '"' => {
                    self.skip(1);
                    return Ok(());
                }
                '\n' => {
                    self.refuse_pending()?;
                    self.skip(1);
                    word.push('\n');
                }
                _ => self.quoted_part(word)?,
            }
        }
    }

    /// Reads one part of text in which only `$`, backquotes and backslashes are special.
    pub(super) fn quoted_part(&mut self, word: &mut Building) -> Read<()> {
        match self.peek() {
            Some('$') => self.dollar(word, true),
            Some('`') => self.backquotes(word, true),
            Some('\\') => {
                self.skip(1);
                match self.peek() {
                    Some('\n') => self.skip(1),
                    Some(c @ ('$' | '`' | '"' | '\\')) => {
                        self.skip(1);
                        word.push(c);
                    }
                    _ => word.push('\\'),
                }
                Ok(())
            }
            Some(c) => {
                self.skip(1);
                word.push(c);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

//! Simple commands.

use super::line::{Assignment, Simple, Unreadable, Word};
use super::reader::{Read, Reader, ends_word, is_name, is_name_part};
use super::word::Building;

/// Words that begin or go on with a compound command where a command may begin. (`time` is also a program.)
pub(super) const RESERVED: &[&str] = &[
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "until", "while", "{", "}",
];

impl Reader<'_> {
    /// Reads a simple command; a definition of a function begins like one.
    pub(super) fn simple(&mut self) -> Read<()> {
        let mut simple = Simple::default();
        let mut has_redirect = false;
        loop {
            self.skip_blanks();
            match self.peek() {
                Some('#') => drop(self.take_while(|c| c != '\n')),
                Some('(') if is_function_name(&simple) && self.closes_at_once() => return self.function_body(),
                _ if self.redirect(&mut simple)? => has_redirect = true,
                Some('<' | '>') => self.argument(&mut simple)?,
                None => break,
                Some(c) if ends_word(c) => break,
                Some(_) => self.assignment_or_argument(&mut simple)?,
            }
        }
        if simple == Simple::default() && !has_redirect {
            return Err(Unreadable("an operator stands where a command must be"));
        }
        self.line.commands.push(simple);
        Ok(())
    }

    fn assignment_or_argument(&mut self, simple: &mut Simple) -> Read<()> {
        if simple.words.is_empty()
            && let Some(name) = self.assigned_name()
        {
            let value = self.assigned_value()?;
            simple.assignments.push(Assignment { name, value });
            return Ok(());
        }
        self.argument(simple)
    }

    fn argument(&mut self, simple: &mut Simple) -> Read<()> {
        let mut building = Building::new();
        self.word_parts(&mut building)?;
        let is_quoted = building.is_quoted;
        let word = building.finish();
        let is_first = simple.words.is_empty();
        // Such a word was not seen as reserved above: a hidden line feed follows it, or something comes before it.
        if is_first && !is_quoted && RESERVED.contains(&word.text.as_str()) {
            return Err(Unreadable("a word of the shell's grammar stands in a strange place"));
        }
        // `{name}>file` sets a variable.
        if word.text.starts_with('{') && matches!(self.peek(), Some('<' | '>')) {
            return Err(Unreadable("a descriptor is kept in a variable"));
        }
        simple.words.push(word);
        Ok(())
    }

    /// Takes `name=` or `name+=` if that comes next.
    fn assigned_name(&mut self) -> Option<String> {
        let length = (0..).take_while(|offset| self.peek_at(*offset).is_some_and(is_name_part)).count();
        let name: String = (0..length).filter_map(|offset| self.peek_at(offset)).collect();
        let plus = usize::from(self.peek_at(length) == Some('+'));
        if !is_name(&name) || self.peek_at(length + plus) != Some('=') {
            return None;
        }
        self.skip(length + plus + 1);
        Some(name)
    }

    fn assigned_value(&mut self) -> Read<Word> {
        if self.looks_at("(") {
            return Err(Unreadable("it sets a list"));
        }
        let mut value = Building::new();
        // A tilde after the sign is a home directory.
        if self.looks_at("~") {
            value.expand(true);
        }
        self.word_parts(&mut value)?;
        Ok(value.finish())
    }

    fn closes_at_once(&mut self) -> bool {
        let blanks = (1..).take_while(|offset| matches!(self.peek_at(*offset), Some(' ' | '\t'))).count();
        let closes = self.peek_at(1 + blanks) == Some(')');
        if closes {
            self.skip(2 + blanks);
        }
        closes
    }
}

fn is_function_name(simple: &Simple) -> bool {
    simple.words.len() == 1 && simple.assignments.is_empty() && simple.redirects.is_empty()
}

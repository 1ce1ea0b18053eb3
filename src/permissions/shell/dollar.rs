//! What `$` and backquotes begin.

use super::line::Unreadable;
use super::list::Stop;
use super::reader::{Read, Reader, is_name_part};
use super::word::Building;

impl Reader<'_> {
    /// Reads what a `$` begins.
    pub(super) fn dollar(&mut self, word: &mut Building, in_quotes: bool) -> Read<()> {
        self.skip(1);
        self.refuse_hidden_line()?;
        match self.peek() {
            Some('(') if self.peek_at(1) == Some('(') => self.arithmetic_value(word, in_quotes),
            Some('(') => self.command(word, in_quotes),
            Some('{') => self.nested(|reader| reader.braced_parameter(word, in_quotes)),
            Some('[') => Err(Unreadable("it reckons with $[ ]")),
            Some('\'') if !in_quotes => self.escaped_quotes(word),
            Some('"') if !in_quotes => Err(Unreadable("a text is to be translated")),
            Some(c) if is_parameter(c) => {
                self.parameter(word, in_quotes);
                Ok(())
            }
            _ => {
                word.push('$');
                Ok(())
            }
        }
    }

    /// `$name`, or `$` and one character.
    fn parameter(&mut self, word: &mut Building, in_quotes: bool) {
        let name = self.take_while(is_name_part);
        // Of a number only the first digit counts.
        let is_positional = name.starts_with(|c: char| c.is_ascii_digit());
        let special = if name.is_empty() { self.next() } else { None };
        word.expand(in_quotes && special != Some('@'));
        if is_positional {
            name.chars().skip(1).for_each(|c| word.push(c));
        }
    }

    /// `$(…)`.
    fn command(&mut self, word: &mut Building, in_quotes: bool) -> Read<()> {
        self.skip(1);
        self.command_until_parenthesis()?;
        word.expand(in_quotes);
        Ok(())
    }

    fn command_until_parenthesis(&mut self) -> Read<()> {
        self.refuse_pending()?;
        self.substitutions += 1;
        self.nested(|reader| reader.list_until(Stop::Parenthesis))?;
        self.substitutions -= 1;
        Ok(())
    }

    /// `<(…)` or `>(…)`: becomes the path of a pipe.
    pub(super) fn process(&mut self, word: &mut Building) -> Read<()> {
        self.skip(2);
        self.command_until_parenthesis()?;
        word.push('/');
        word.expand(true);
        Ok(())
    }

    /// `` `…` ``, which is read once for its end and then as a text of its own.
    pub(super) fn backquotes(&mut self, word: &mut Building, in_quotes: bool) -> Read<()> {
        self.skip(1);
        let mut text = String::new();
        loop {
            match self.next().ok_or(Unreadable("a backquote is not closed"))? {
                '`' => break,
                // What these mean inside of both kinds of quotes is a riddle even to those who write them.
                '\\' | '"' if in_quotes => return Err(Unreadable("quotes stand inside of quoted backquotes")),
                '\\' => match self.next() {
                    Some(c @ ('$' | '`' | '\\')) => text.push(c),
                    Some(c) => text.extend(['\\', c]),
                    None => return Err(Unreadable("a backquote is not closed")),
                },
                c => text.push(c),
            }
        }
        word.expand(in_quotes);
        self.inside(&text, |reader| reader.list_until(Stop::End))
    }

    /// `$((…))`.
    fn arithmetic_value(&mut self, word: &mut Building, in_quotes: bool) -> Read<()> {
        self.arithmetic()?;
        word.expand(in_quotes);
        Ok(())
    }

    /// `((…))`: only what cannot be read as commands instead, and holds none.
    pub(super) fn arithmetic(&mut self) -> Read<()> {
        self.skip(2);
        let text = self.take_while(is_reckoning);
        if !self.eat("))") {
            return Err(Unreadable("it reckons with more than plain numbers"));
        }
        if text.contains(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$')) {
            // The value of a variable is reckoned in turn, and may run a command.
            self.line.doubt("reckons with variables");
        }
        Ok(())
    }

    /// `$'…'`.
    fn escaped_quotes(&mut self, word: &mut Building) -> Read<()> {
        self.skip(1);
        word.is_quoted = true;
        loop {
            match self.next().ok_or(Unreadable("a quote is not closed"))? {
                '\'' => return Ok(()),
                '\\' => word.push(self.escape()?),
                '\n' => {
                    self.refuse_pending()?;
                    word.push('\n');
                }
                c => word.push(c),
            }
        }
    }

    fn escape(&mut self) -> Read<char> {
        const STRANGE: Unreadable = Unreadable("a character is written in a strange way");
        let code = match self.next().ok_or(STRANGE)? {
            c @ ('\\' | '\'' | '"' | '?') => u32::from(c),
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            'x' => self.number(16, 2)?,
            'u' => self.number(16, 4)?,
            'U' => self.number(16, 8)?,
            c @ '0'..='7' => self.octal(c),
            _ => return Err(STRANGE),
        };
        // A zero ends the word early, and parts of characters may join with what follows.
        match char::from_u32(code) {
            Some(c @ '\u{1}'..='\u{7f}') => Ok(c),
            _ => Err(STRANGE),
        }
    }

    fn number(&mut self, radix: u32, most: usize) -> Read<u32> {
        let mut value = 0;
        let mut count = 0;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)).filter(|_| count < most) {
            value = value * radix + digit;
            count += 1;
            self.skip(1);
        }
        if count == 0 { Err(Unreadable("a character is written in a strange way")) } else { Ok(value) }
    }

    fn octal(&mut self, first: char) -> u32 {
        let mut value = first.to_digit(8).unwrap_or_default();
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else { break };
            value = value * 8 + digit;
            self.skip(1);
        }
        value
    }

    /// `${…}`.
    fn braced_parameter(&mut self, word: &mut Building, in_quotes: bool) -> Read<()> {
        self.skip(1);
        if self.looks_at("!") {
            return Err(Unreadable("a variable names another one"));
        }
        let is_length = self.looks_at("#") && self.peek_at(1) != Some('}') && self.eat("#");
        let name = self.take_while(is_name_part);
        let special = match name.is_empty() {
            true => Some(self.next().filter(|c| is_parameter(*c)).ok_or(Unreadable("a variable has no name"))?),
            false => None,
        };
        let is_list = special == Some('@') || self.subscript()?;
        word.expand(in_quotes && !is_list);
        if self.eat("}") {
            return Ok(());
        }
        if is_length { Err(Unreadable("a length is changed")) } else { self.operation(in_quotes) }
    }

    /// `[…]` after a name. Tells whether it makes several words.
    fn subscript(&mut self) -> Read<bool> {
        if !self.eat("[") {
            return Ok(false);
        }
        let index = self.take_while(|c| c.is_ascii_digit() || matches!(c, '@' | '*'));
        let is_list = matches!(index.as_str(), "@" | "*");
        if index.is_empty() || !self.eat("]") {
            return Err(Unreadable("it reckons in a subscript"));
        }
        Ok(is_list)
    }

    /// What is done to the value of a variable, up to the brace.
    fn operation(&mut self, in_quotes: bool) -> Read<()> {
        self.refuse_hidden_line()?;
        let is_default = self.eat(":-") || self.eat(":+") || self.eat(":?");
        let is_other = is_default || ["-", "+", "?", "#", "%", "/", "^", ","].iter().any(|operator| self.eat(operator));
        if self.eat(":=") || !is_other && self.eat("=") {
            self.line.doubt("sets a variable by the way");
        } else if !is_other {
            return self.part_of_value();
        }
        let mut ignored = Building::new();
        while !self.eat("}") {
            self.operand_part(&mut ignored, in_quotes)?;
        }
        Ok(())
    }

    /// `:offset` and `:offset:length`.
    fn part_of_value(&mut self) -> Read<()> {
        let is_part = self.eat(":");
        self.take_while(|c| c.is_ascii_digit() || matches!(c, ' ' | '-' | ':'));
        if is_part && self.eat("}") { Ok(()) } else { Err(Unreadable("a variable is changed in a strange way")) }
    }

    fn operand_part(&mut self, ignored: &mut Building, in_quotes: bool) -> Read<()> {
        match self.peek().ok_or(Unreadable("a brace is not closed"))? {
            '$' => self.dollar(ignored, in_quotes),
            '`' => self.backquotes(ignored, in_quotes),
            '\'' | '"' if in_quotes => Err(Unreadable("quotes stand inside of a quoted variable")),
            '\'' => self.single_quotes(ignored),
            '"' => self.double_quotes(ignored),
            '\\' if self.peek_at(1) != Some('\n') => {
                self.skip(2);
                Ok(())
            }
            '\n' | '{' | '<' | '>' | '\\' => Err(Unreadable("a variable is changed in a strange way")),
            _ => {
                self.skip(1);
                Ok(())
            }
        }
    }
}

/// Tells whether `c` after a `$` makes both a parameter.
fn is_parameter(c: char) -> bool {
    is_name_part(c) || matches!(c, '@' | '*' | '#' | '?' | '-' | '$' | '!')
}

/// Tells whether reckoning may hold `c`. Without quotes, brackets and parentheses it is never anything else.
fn is_reckoning(c: char) -> bool {
    is_name_part(c) || " \t+-*/%<>=!&|^~?:,$".contains(c)
}

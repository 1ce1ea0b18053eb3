//! Lists and pipelines of commands, and the way in.

use super::line::{Line, Unreadable};
use super::reader::{Read, Reader};
use crate::constants::SHELL_LINE_BYTES;

/// What ends a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The end of the text.
    End,
    /// `)`.
    Parenthesis,
    /// One of these reserved words.
    Words(&'static [&'static str]),
    /// What ends a branch of `case`, `esac` among it.
    Branch,
}

/// Reads a command line.
///
/// # Errors
/// It is none, or holds something that is not known here.
pub fn read_line(text: &str) -> Result<Line, Unreadable> {
    read_nested_line(text, 0)
}

/// Reads a command line that is the argument of a command, `depth` times over.
///
/// # Errors
/// As [`read_line`].
pub fn read_nested_line(text: &str, depth: usize) -> Result<Line, Unreadable> {
    if text.len() > SHELL_LINE_BYTES {
        return Err(Unreadable("it is too long"));
    }
    if text.contains('\0') {
        return Err(Unreadable("it holds a zero byte"));
    }
    let mut line = Line::default();
    doubt_characters(text, &mut line);
    Reader::new(text, depth, &mut line).list_until(Stop::End)?;
    Ok(line)
}

/// Doubts what people cannot see, or what a shell with another encoding reads otherwise.
fn doubt_characters(text: &str, line: &mut Line) {
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        line.doubt("holds control characters");
    }
    if text.chars().any(is_invisible) {
        line.doubt("holds characters that cannot be seen");
    }
    // In some encodings of East Asia these are the second byte of a character.
    let swallowed =
        |pair: (char, char)| !pair.0.is_ascii() && matches!(pair.1, '\\' | '`' | '|' | '{' | '}' | '[' | ']');
    if text.chars().zip(text.chars().skip(1)).any(swallowed) {
        line.doubt("is read otherwise where the encoding is not UTF-8");
    }
}

/// Blanks that are none to the shell, joiners, marks of direction, variation selectors, tags.
fn is_invisible(c: char) -> bool {
    (c.is_whitespace() && !c.is_ascii())
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
        || matches!(c, '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

impl Reader<'_> {
    /// Reads commands up to `stop`, which is taken, except for the end of a branch.
    pub(super) fn list_until(&mut self, stop: Stop) -> Read<()> {
        self.list(stop).map(drop)
    }

    /// As [`Reader::list_until`]; returns what ended the list.
    pub(super) fn list(&mut self, stop: Stop) -> Read<&'static str> {
        loop {
            self.skip_lines()?;
            if let Some(end) = self.stop(stop)? {
                self.refuse_pending()?;
                return Ok(end);
            }
            self.pipeline()?;
            self.separator(stop)?;
        }
    }

    fn stop(&mut self, stop: Stop) -> Read<Option<&'static str>> {
        match stop {
            Stop::End => Ok(self.peek().is_none().then_some("")),
            _ if self.peek().is_none() => Err(Unreadable("it ends early")),
            Stop::Parenthesis => Ok(self.eat(")").then_some(")")),
            Stop::Words(words) => Ok(words.iter().find(|word| self.eat_word(word)).copied()),
            Stop::Branch => Ok([";;", ";&"].into_iter().find(|end| self.looks_at(end)).or_else(|| self.at_esac())),
        }
    }

    fn at_esac(&self) -> Option<&'static str> {
        (self.upcoming() == "esac").then_some("esac")
    }

    /// Takes what stands between two commands of a list, or nothing before its end.
    fn separator(&mut self, stop: Stop) -> Read<()> {
        self.skip_blanks();
        if stop == Stop::Branch && (self.looks_at(";;") || self.looks_at(";&")) {
            return Ok(());
        }
        match self.peek() {
            None | Some('\n' | '#') => Ok(()),
            Some(')') if stop == Stop::Parenthesis => Ok(()),
            Some(';' | '&') => {
                // `&&` and `&` mean the same to who wants to know all commands, but for what may follow.
                let _ = self.eat("&&") || self.eat(";") || self.eat("&");
                self.refuse_hidden_line()
            }
            Some('|') if self.eat("||") => self.refuse_hidden_line(),
            _ => Err(Unreadable("something stands where an operator must be")),
        }
    }

    /// Reads commands that are joined by `|`.
    fn pipeline(&mut self) -> Read<()> {
        if self.begin_pipeline() {
            return Ok(());
        }
        loop {
            self.skip_lines()?;
            self.nested(Self::one_command)?;
            self.skip_blanks();
            if self.looks_at("||") || !(self.eat("|&") || self.eat("|")) {
                return Ok(());
            }
            self.refuse_hidden_line()?;
        }
    }

    /// Takes `!` and `time`, which only count at the beginning. Tells whether that is all.
    fn begin_pipeline(&mut self) -> bool {
        loop {
            self.skip_blanks();
            if self.eat_word("!") {
                continue;
            }
            if !self.eat_word("time") {
                break;
            }
            self.skip_blanks();
            if self.eat_word("-p") {
                self.skip_blanks();
            }
            // It may stand alone.
            if self.peek().is_none_or(|c| matches!(c, '\n' | ';' | '&' | '|' | ')')) {
                return true;
            }
        }
        false
    }
}

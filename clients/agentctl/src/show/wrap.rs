//! Pieces made into whole lines, for a terminal whose last line belongs to the input.
//!
//! Streaming text is given out as soon as it fills a line, so that a long paragraph is seen to grow.

use super::split::paint;
use super::style::{Style, width};
use super::transcript::Piece;

/// Collects pieces and gives out lines.
pub(crate) struct Wrap {
    style: Style,
    columns: usize,
    /// Streamed text that does not fill a line yet.
    pending: String,
    thinking: bool,
    in_text: bool,
    used: bool,
    out: String,
}

impl Wrap {
    /// Makes lines of at most `columns`.
    pub(crate) fn new(style: Style, columns: usize) -> Self {
        let columns = columns.max(20);
        Self {
            style,
            columns,
            pending: String::new(),
            thinking: false,
            in_text: false,
            used: false,
            out: String::new(),
        }
    }

    /// Takes the size that the terminal has now.
    pub(crate) fn resize(&mut self, columns: usize) {
        self.columns = columns.max(20);
    }

    /// Takes pieces.
    pub(crate) fn add(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.stream(text, false),
                Piece::Thinking(text) => self.stream(text, true),
                Piece::TextEnd | Piece::ThinkingEnd => self.end(),
                Piece::Line(tone, line) => {
                    self.end();
                    self.push(&paint(self.style, *tone, line));
                }
            }
        }
    }

    /// Returns the lines that are complete, each with its line end.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Ends the line that has begun.
    pub(crate) fn end(&mut self) {
        let rest = std::mem::take(&mut self.pending);
        if !rest.is_empty() {
            self.push_streamed(&rest);
        }
        self.in_text = false;
    }

    fn stream(&mut self, text: &str, thinking: bool) {
        if text.is_empty() {
            return;
        }
        if self.in_text && self.thinking != thinking {
            self.end();
        }
        if !self.in_text {
            if self.used && !thinking {
                self.push("");
            }
            (self.in_text, self.thinking) = (true, thinking);
        }
        self.pending.push_str(text);
        while let Some(line) = self.complete_line() {
            self.push_streamed(&line);
        }
    }

    /// Takes a line off the pending text: up to a line end, or up to the blank before the last column.
    fn complete_line(&mut self) -> Option<String> {
        if let Some(end) = self.pending.find('\n')
            && width(&self.pending[..end]) <= self.columns
        {
            let line = self.pending[..end].to_owned();
            self.pending.drain(..=end);
            return Some(line);
        }
        let (mut columns, mut blank, mut cut) = (0, None, None);
        for (index, c) in self.pending.char_indices() {
            columns += unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
            if c == ' ' {
                blank = Some(index);
            }
            if columns > self.columns {
                cut = Some(index);
                break;
            }
        }
        // A single character is taken in any case, so that this ends whatever the width.
        let cut = cut.map(|index| index.max(self.pending.chars().next().map_or(0, char::len_utf8)))?;
        let at = blank.filter(|at| *at > 0 && *at <= cut).unwrap_or(cut);
        let line: String = self.pending.drain(..at).collect();
        if self.pending.starts_with(' ') {
            self.pending.remove(0);
        }
        Some(line)
    }

    fn push_streamed(&mut self, line: &str) {
        let line = line.replace('\t', "    ");
        let line = if self.thinking { self.style.dim(&line) } else { line };
        self.push(&line);
    }

    fn push(&mut self, line: &str) {
        self.used = true;
        self.out.push_str(line);
        self.out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::transcript::Tone;
    use super::*;

    #[track_caller]
    fn check(pieces: &[Piece], expected: &str) {
        let mut wrap = Wrap::new(Style::default(), 20);
        wrap.add(pieces);
        assert_eq!(wrap.take(), expected);
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    #[test]
    fn lines_are_given_out_as_soon_as_they_are_full() {
        check(&[text("short")], "");
        check(&[text("short\nnext")], "short\n");
        check(&[text("one two three "), text("four five six")], "one two three four\n");
        check(&[text(&"x".repeat(45))], &format!("{0}\n{0}\n", "x".repeat(20)));
        check(&[text("世界世界世界世界世界世界")], "世界世界世界世界世界\n");
        check(&[text("a\n\nb"), Piece::TextEnd], "a\n\nb\n");
        check(&[text("exactly twenty chars\nx")], "exactly twenty chars\n");
    }

    #[test]
    fn blocks_are_set_apart_and_lines_stand_alone() {
        let pieces = [
            Piece::Thinking("hm".into()),
            Piece::ThinkingEnd,
            text("Hello"),
            Piece::TextEnd,
            Piece::Line(Tone::Tool, "[ls]".into()),
            text("Done"),
            Piece::Line(Tone::Note, "note".into()),
        ];
        check(&pieces, "hm\n\nHello\n[ls]\n\nDone\nnote\n");
    }
}

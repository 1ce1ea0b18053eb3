//! Pieces shown on two streams: the assistant's text on one, what leads to it on the other.

use std::io::{self, Write};

use super::style::Style;
use super::transcript::{Piece, Tone};

/// Writes text to `out` and everything else to `err`.
pub(crate) struct Split<'a> {
    out: &'a mut dyn Write,
    /// `out`, when there is none.
    err: Option<&'a mut dyn Write>,
    style: Style,
    /// Both are the same terminal, so a line on one must not begin in the middle of a line on the other.
    shared: bool,
    out_mid_line: bool,
    err_mid_line: bool,
    out_used: bool,
    in_text: bool,
}

impl<'a> Split<'a> {
    /// Wraps the two streams; `style` is that of `err`.
    pub(crate) fn new(out: &'a mut dyn Write, err: &'a mut dyn Write, style: Style, shared: bool) -> Self {
        let err = Some(err);
        Self { out, err, style, shared, out_mid_line: false, err_mid_line: false, out_used: false, in_text: false }
    }

    /// Shows everything on one stream.
    pub(crate) fn one(out: &'a mut dyn Write, style: Style) -> Self {
        Self {
            out,
            err: None,
            style,
            shared: true,
            out_mid_line: false,
            err_mid_line: false,
            out_used: false,
            in_text: false,
        }
    }

    /// Shows pieces.
    ///
    /// # Errors
    /// A stream cannot be written.
    pub(crate) fn show(&mut self, pieces: &[Piece]) -> io::Result<()> {
        for piece in pieces {
            match piece {
                Piece::Text(text) if text.is_empty() => {}
                Piece::Text(text) => self.text(text)?,
                Piece::TextEnd => self.end_text()?,
                Piece::Thinking(text) if text.is_empty() => {}
                Piece::Thinking(text) => self.thinking(text)?,
                Piece::ThinkingEnd => self.end_err_line()?,
                Piece::Line(tone, line) => self.line(*tone, line)?,
            }
        }
        self.out.flush()?;
        self.err().flush()
    }

    fn err(&mut self) -> &mut dyn Write {
        match &mut self.err {
            Some(err) => *err,
            None => self.out,
        }
    }

    /// Writes a line to `out` as it is.
    ///
    /// # Errors
    /// The stream cannot be written.
    pub(crate) fn raw_line(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }

    /// Ends open lines, so that whatever comes next begins on its own.
    ///
    /// # Errors
    /// A stream cannot be written.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.end_text()?;
        self.end_err_line()?;
        self.out.flush()
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        if self.shared {
            self.end_err_line()?;
        }
        if !self.in_text {
            if self.out_used {
                self.out.write_all(b"\n")?;
            }
            self.in_text = true;
        }
        self.out.write_all(text.as_bytes())?;
        self.out_used = true;
        self.out_mid_line = !text.ends_with('\n');
        Ok(())
    }

    fn end_text(&mut self) -> io::Result<()> {
        self.in_text = false;
        if std::mem::take(&mut self.out_mid_line) { self.out.write_all(b"\n") } else { Ok(()) }
    }

    fn thinking(&mut self, text: &str) -> io::Result<()> {
        self.leave_out_line()?;
        let text_shown = self.style.dim(text);
        self.err().write_all(text_shown.as_bytes())?;
        self.err_mid_line = !text.ends_with('\n');
        Ok(())
    }

    fn line(&mut self, tone: Tone, line: &str) -> io::Result<()> {
        self.leave_out_line()?;
        self.end_err_line()?;
        let line = paint(self.style, tone, line);
        self.out_used |= self.err.is_none();
        writeln!(self.err(), "{line}")
    }

    /// Makes room for something on `err`. What was written to `out` before must be seen before it.
    fn leave_out_line(&mut self) -> io::Result<()> {
        if self.shared && std::mem::take(&mut self.out_mid_line) {
            self.out.write_all(b"\n")?;
        }
        self.out.flush()
    }

    fn end_err_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.err_mid_line) { self.err().write_all(b"\n") } else { Ok(()) }
    }
}

/// Paints a line by what it is about.
pub(crate) fn paint(style: Style, tone: Tone, line: &str) -> String {
    match tone {
        Tone::User => style.cyan(line),
        Tone::Tool => style.bold(line),
        Tone::Output | Tone::Note => style.dim(line),
        Tone::Failure => style.red(line),
        Tone::Waiting => style.yellow(line),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn pieces() -> Vec<Piece> {
        vec![
            Piece::Thinking("let me".into()),
            Piece::Thinking(" see".into()),
            Piece::ThinkingEnd,
            Piece::Text("I look".into()),
            Piece::Text(" first".into()),
            Piece::TextEnd,
            Piece::Line(Tone::Tool, "[ls]".into()),
            Piece::Line(Tone::Output, "  2 lines".into()),
            Piece::Text("It is".into()),
            Piece::Line(Tone::Note, "model m".into()),
            Piece::Text(" empty.\n".into()),
            Piece::TextEnd,
        ]
    }

    #[test]
    fn text_and_activity_go_apart() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut split = Split::new(&mut out, &mut err, Style::default(), false);
        split.show(&pieces()).expect("writes");
        split.finish().expect("writes");
        assert_eq!(String::from_utf8_lossy(&out), "I look first\n\nIt is empty.\n");
        assert_eq!(String::from_utf8_lossy(&err), "let me see\n[ls]\n  2 lines\nmodel m\n");
    }

    /// A terminal: both streams write into it.
    #[derive(Clone, Default)]
    struct Screen(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn on_one_terminal_no_line_begins_within_another() {
        let screen = Screen::default();
        let (mut out, mut err) = (screen.clone(), screen.clone());
        let mut split = Split::new(&mut out, &mut err, Style::default(), true);
        split.show(&pieces()).expect("writes");
        split.show(&[Piece::Text("cut".into())]).expect("writes");
        split.finish().expect("writes");
        let seen = String::from_utf8(screen.0.take()).expect("UTF-8");
        let expected = "let me see\nI look first\n[ls]\n  2 lines\n\nIt is\nmodel m\n empty.\n\ncut\n";
        assert_eq!(seen, expected);
    }
}

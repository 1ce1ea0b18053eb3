//! Where output goes: the two streams of the process, and what they can show.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use serde::Serialize;

use crate::show::clean::harmless_json;
use crate::show::style::Style;

/// Columns assumed where a terminal does not tell.
const DEFAULT_COLUMNS: usize = 80;
/// Lines assumed where a terminal does not tell.
const DEFAULT_ROWS: usize = 24;

/// The streams of the process and the user's wishes about them.
pub(crate) struct Console {
    /// Standard output: results and answers.
    pub(crate) out: Box<dyn Write>,
    /// Standard error: everything else.
    pub(crate) err: Box<dyn Write>,
    /// How `out` is painted.
    pub(crate) out_style: Style,
    /// How `err` is painted.
    pub(crate) err_style: Style,
    /// Whether standard input is a terminal.
    pub(crate) in_is_terminal: bool,
    /// Whether `out` is a terminal.
    pub(crate) out_is_terminal: bool,
    /// Whether both streams are terminals (then they are the same one).
    pub(crate) shared: bool,
    /// Whether the terminal can move its cursor, as an input line needs.
    pub(crate) can_edit: bool,
    /// Whether JSON is wanted.
    pub(crate) json: bool,
    /// Working directory.
    pub(crate) cwd: PathBuf,
}

impl Console {
    /// Looks at the streams and the environment of the process.
    ///
    /// # Errors
    /// The working directory is gone.
    pub(crate) fn of_process(json: bool) -> io::Result<Self> {
        let env = |name: &str| std::env::var(name).ok();
        let (out, err) = (io::stdout(), io::stderr());
        let (out_is_terminal, in_is_terminal) = (out.is_terminal(), io::stdin().is_terminal());
        let dumb = env("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        Ok(Self {
            out_style: Style::of(&out, &env),
            err_style: Style::of(&err, &env),
            in_is_terminal,
            out_is_terminal,
            shared: out_is_terminal && err.is_terminal(),
            can_edit: in_is_terminal && out_is_terminal && !dumb,
            json,
            cwd: std::env::current_dir()?,
            out: Box::new(io::BufWriter::new(out)),
            err: Box::new(err),
        })
    }

    /// Returns the columns that output may take; `None` where it goes to a program or a file.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.out_is_terminal.then(terminal_columns)
    }

    /// Prints a line of the result.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")
    }

    /// Prints a result as one line of JSON.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn json_line(&mut self, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
        self.raw_json_line(&serde_json::to_string(value)?)
    }

    /// Prints JSON that came as a line. It says the same, with nothing in it that a terminal obeys.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn raw_json_line(&mut self, json: &str) -> io::Result<()> {
        writeln!(self.out, "{}", harmless_json(json))?;
        self.out.flush()
    }

    /// Tells the user something beside the result.
    ///
    /// # Errors
    /// Standard error cannot be written.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        self.out.flush()?;
        writeln!(self.err, "{}", self.err_style.dim(text))
    }
}

/// Returns the columns of the terminal.
pub(crate) fn terminal_columns() -> usize {
    terminal_size::terminal_size().map_or(DEFAULT_COLUMNS, |(width, _)| usize::from(width.0))
}

/// Returns the lines of the terminal.
pub(crate) fn terminal_rows() -> usize {
    terminal_size::terminal_size().map_or(DEFAULT_ROWS, |(_, height)| usize::from(height.0))
}

#[cfg(test)]
pub(crate) mod test {
    //! A console that tests can read.

    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// What was written to one stream.
    #[derive(Clone, Default)]
    pub(crate) struct Written(Rc<RefCell<Vec<u8>>>);

    impl Written {
        /// Returns all of it.
        pub(crate) fn text(&self) -> String {
            String::from_utf8_lossy(&self.0.borrow()).into_owned()
        }
    }

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns a console of pipes, and what is written to them.
    pub(crate) fn console(json: bool) -> (Console, Written, Written) {
        let (out, err) = (Written::default(), Written::default());
        let console = Console {
            out: Box::new(out.clone()),
            err: Box::new(err.clone()),
            out_style: Style::default(),
            err_style: Style::default(),
            in_is_terminal: false,
            out_is_terminal: false,
            shared: false,
            can_edit: false,
            json,
            cwd: PathBuf::from("/srv/code"),
        };
        (console, out, err)
    }
}

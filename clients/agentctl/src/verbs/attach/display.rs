//! Where an attached session is shown: above an input line, as plain text, or as JSON.

use std::io;

use anyhow::Result;
use rustyline::ExternalPrinter;

use crate::console::{Console, terminal_columns};
use crate::show::split::Split;
use crate::show::transcript::Piece;
use crate::show::wrap::Wrap;

/// What prints above the input line.
pub(super) type Printer = Box<dyn ExternalPrinter + Send>;

/// One way to show a session.
pub(super) enum Display<'a> {
    /// Whole lines above an input line.
    Lines {
        /// Makes lines.
        wrap: Wrap,
        /// Prints them.
        printer: Printer,
    },
    /// Text as it comes, all on standard output.
    Plain(Split<'a>),
    /// The notifications as they come.
    Json(Split<'a>),
}

impl<'a> Display<'a> {
    /// Chooses by what there is.
    pub(super) fn new(console: &'a mut Console, printer: Option<Printer>) -> Self {
        let Console { out, err, out_style, json, .. } = console;
        match printer {
            Some(printer) => Self::Lines { wrap: Wrap::new(*out_style, terminal_columns()), printer },
            None if *json => Self::Json(Split::new(out, err, *out_style, false)),
            None => Self::Plain(Split::one(out, *out_style)),
        }
    }

    /// Shows pieces.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub(super) fn show(&mut self, pieces: &[Piece]) -> Result<()> {
        match self {
            Self::Lines { wrap, printer } => {
                wrap.resize(terminal_columns());
                wrap.add(pieces);
                print(printer, wrap.take())
            }
            Self::Plain(split) => Ok(split.show(pieces)?),
            Self::Json(_) => Ok(()),
        }
    }

    /// Shows the parameters of a notification, where those are wanted.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn raw(&mut self, params: &str) -> Result<()> {
        match self {
            Self::Json(split) => Ok(split.raw_line(params)?),
            Self::Lines { .. } | Self::Plain(_) => Ok(()),
        }
    }

    /// Ends the line that has begun.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub(super) fn finish(&mut self) -> Result<()> {
        match self {
            Self::Lines { wrap, printer } => {
                wrap.end();
                print(printer, wrap.take())
            }
            Self::Plain(split) | Self::Json(split) => Ok(split.finish()?),
        }
    }
}

fn print(printer: &mut Printer, lines: String) -> Result<()> {
    if !lines.is_empty() {
        printer.print(lines).map_err(|error| io::Error::other(error.to_string()))?;
    }
    Ok(())
}

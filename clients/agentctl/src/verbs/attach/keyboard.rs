//! What the user types while a session is shown, read in a thread of its own.

use std::io::{self, BufRead, Write};

use anyhow::{Result, anyhow};
use nix::sys::termios::{self, SetArg, Termios};
use rustyline::{
    Cmd, ConditionalEventHandler, Config, DefaultEditor, Event, EventContext, EventHandler, KeyEvent, RepeatCount,
};
use tokio::sync::mpsc;

use super::display::Printer;
use crate::console::Console;

/// Lines typed ahead; the thread waits when the program does not take them.
const TYPED_AHEAD: usize = 16;
/// What stands before the input.
const PROMPT: &str = "> ";
/// Turns off the marking of pasted text, which the editor turned on.
const PASTE_OFF: &str = "\x1b[?2004l";

/// Something that was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A line.
    Line(String),
    /// The key that aborts.
    Abort,
    /// A key that leaves.
    Detach,
    /// Piped input has ended.
    End,
}

/// The user's input.
pub(super) struct Keyboard {
    inputs: mpsc::Receiver<Input>,
    kind: Kind,
    read_only: bool,
    /// How the terminal was, for when the program ends while a line is being edited.
    before: Option<Termios>,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A line with editing at the bottom of the terminal.
    Editor,
    /// A terminal without editing.
    Lines,
    /// A pipe or a file.
    Pipe,
    /// Nothing is read.
    None,
}

impl Keyboard {
    /// Begins to read in the way that the terminal allows. Returns the printer for what is shown above an input line.
    ///
    /// # Errors
    /// The terminal refuses.
    pub(super) fn start(console: &Console, read_only: bool) -> Result<(Self, Option<Printer>)> {
        let (sender, inputs) = mpsc::channel(TYPED_AHEAD);
        let kind = match (console.in_is_terminal, read_only) {
            (true, false) if console.can_edit && !console.json => Kind::Editor,
            (true, _) => Kind::Lines,
            (false, true) => Kind::None,
            (false, false) => Kind::Pipe,
        };
        let mut keyboard = Self { inputs, kind, read_only, before: None, ended: false };
        let printer = match kind {
            Kind::Editor => {
                keyboard.before = termios::tcgetattr(io::stdin()).ok();
                Some(start_editor(sender)?)
            }
            Kind::Lines | Kind::Pipe => {
                std::thread::spawn(move || read_lines(io::stdin().lock(), kind, &sender));
                None
            }
            Kind::None => None,
        };
        Ok((keyboard, printer))
    }

    /// Wraps inputs that a test sends, as if they came from a pipe.
    #[cfg(test)]
    pub(super) fn of_test(inputs: mpsc::Receiver<Input>) -> Self {
        Self { inputs, kind: Kind::Pipe, read_only: false, before: None, ended: false }
    }

    /// Tells whether what is typed is seen without being printed.
    pub(super) fn echoes(&self) -> bool {
        matches!(self.kind, Kind::Editor | Kind::Lines)
    }

    /// Names the keys.
    pub(super) fn keys(&self) -> &'static str {
        match self.kind {
            _ if self.read_only => "read-only; Ctrl-C or Ctrl-D detaches (the run goes on)",
            Kind::Editor => "Ctrl-X aborts the run, Ctrl-C or Ctrl-D detaches (the run goes on), /help",
            Kind::Lines | Kind::Pipe => "/abort aborts the run, Ctrl-C or Ctrl-D detaches (the run goes on), /help",
            Kind::None => "Ctrl-C detaches (the run goes on)",
        }
    }

    /// Waits for the next input; for ever when nothing more can be typed. Cancel safe.
    pub(super) async fn next(&mut self) -> Input {
        if self.ended {
            return std::future::pending().await;
        }
        let input = self.inputs.recv().await;
        self.ended = !matches!(input, Some(Input::Line(_) | Input::Abort));
        match input {
            Some(input) => input,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // The editor gives the terminal back itself, unless the program ends while it waits for a key.
        if let (Some(before), false) = (&self.before, self.ended) {
            // Nothing can be done about a terminal that is gone.
            let _ = termios::tcsetattr(io::stdin(), SetArg::TCSADRAIN, before);
            let _ = writeln!(io::stdout(), "{PASTE_OFF}");
        }
    }
}

fn read_lines(input: impl BufRead, kind: Kind, sender: &mpsc::Sender<Input>) {
    for line in input.lines() {
        let Ok(line) = line else { break };
        if sender.blocking_send(Input::Line(line)).is_err() {
            return;
        }
    }
    // The program may have ended meanwhile.
    let _ = sender.blocking_send(if kind == Kind::Pipe { Input::End } else { Input::Detach });
}

fn start_editor(sender: mpsc::Sender<Input>) -> Result<Printer> {
    let config = Config::builder().auto_add_history(true).build();
    let mut editor = DefaultEditor::with_config(config).map_err(|error| anyhow!("the terminal: {error}"))?;
    let abort = EventHandler::Conditional(Box::new(AbortKey(sender.clone())));
    editor.bind_sequence(KeyEvent::ctrl('X'), abort);
    let printer = editor.create_external_printer().map_err(|error| anyhow!("the terminal: {error}"))?;
    std::thread::spawn(move || {
        loop {
            let input = match editor.readline(PROMPT) {
                Ok(line) => Input::Line(line),
                // Ctrl-C, Ctrl-D, or a terminal that is gone.
                Err(_) => Input::Detach,
            };
            let last = input == Input::Detach;
            if sender.blocking_send(input).is_err() || last {
                return;
            }
        }
    });
    Ok(Box::new(printer))
}

/// Tells the program that the run is to be aborted, and leaves the line as it is.
struct AbortKey(mpsc::Sender<Input>);

impl ConditionalEventHandler for AbortKey {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, _: &EventContext<'_>) -> Option<Cmd> {
        // Waiting here could block the printer. A full queue holds an abort or a line that is dealt with first; the
        // user sees that nothing happened and presses again.
        let _ = self.0.try_send(Input::Abort);
        Some(Cmd::Noop)
    }
}

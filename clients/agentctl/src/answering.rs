//! Answers that the user types while a run is followed.

use std::io::BufRead;

use agentd_protocol::methods::{Decision, Question};
use tokio::sync::mpsc;

use crate::console::Console;
use crate::show::question::short_approval;
use crate::show::transcript::{Piece, Tone};

/// Lines typed ahead; the thread waits when the program does not take them.
const TYPED_AHEAD: usize = 4;

/// Who answers questions.
pub(crate) enum Answering {
    /// Nobody here.
    Nobody,
    /// The user, who has not been asked yet: nothing is read from the terminal before that.
    User,
    /// The user, whose lines come here.
    Asked(mpsc::Receiver<String>),
}

/// Tells whether somebody sits at the terminal who can answer.
pub(crate) fn can_answer(console: &Console) -> bool {
    console.in_is_terminal && console.shared && !console.json
}

impl Answering {
    /// Chooses by what there is.
    pub(crate) fn of(console: &Console) -> Self {
        if can_answer(console) { Self::User } else { Self::Nobody }
    }

    /// Begins to read answers, and returns the line that says what can be typed, or what else can be done.
    pub(crate) fn begin(&mut self, question: &Question) -> Piece {
        if matches!(self, Self::User) {
            let (sender, lines) = mpsc::channel(TYPED_AHEAD);
            std::thread::spawn(move || read_lines(std::io::stdin().lock(), &sender));
            *self = Self::Asked(lines);
        }
        let text = match self {
            Self::Asked(_) => options(question),
            Self::Nobody | Self::User => format!(
                "  waiting for: agentctl approve {0}, or agentctl deny {0}",
                short_approval(&question.approval_id)
            ),
        };
        Piece::Line(Tone::Note, text)
    }

    /// Waits for the next line; for ever when nobody answers here. Cancel safe.
    pub(crate) async fn line(&mut self) -> String {
        match self {
            Self::Asked(lines) => match lines.recv().await {
                Some(line) => line,
                None => std::future::pending().await,
            },
            Self::Nobody | Self::User => std::future::pending().await,
        }
    }
}

/// Says what can be typed.
pub(crate) fn options(question: &Question) -> String {
    let word = |option: &Decision| match option {
        Decision::Once => "yes",
        Decision::Session => "session (yes, and do not ask again here)",
        Decision::Always => "always",
        Decision::Deny => "no",
    };
    let words: Vec<&str> = question.options.iter().map(word).collect();
    format!("  type {}", words.join(", "))
}

/// Reads an answer as people type it.
pub(crate) fn decision(line: &str) -> Option<Decision> {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" | "once" => Some(Decision::Once),
        "s" | "session" => Some(Decision::Session),
        "always" => Some(Decision::Always),
        "n" | "no" | "deny" => Some(Decision::Deny),
        _ => None,
    }
}

fn read_lines(input: impl BufRead, sender: &mpsc::Sender<String>) {
    for line in input.lines() {
        let Ok(line) = line else { return };
        if sender.blocking_send(line).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_as_people_type_them() {
        for (line, expected) in [
            ("y", Some(Decision::Once)),
            (" YES\n", Some(Decision::Once)),
            ("session", Some(Decision::Session)),
            ("N", Some(Decision::Deny)),
            ("", None),
            ("perhaps", None),
        ] {
            assert_eq!(decision(line), expected, "{line:?}");
        }
    }
}

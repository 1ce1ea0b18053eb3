//! Following a run to its end, for `run` and `send --wait`.

use agentd_protocol::client::ClientError;
use agentd_protocol::event::Event;
use agentd_protocol::message::Message;
use agentd_protocol::methods::{Abort, RespondApproval, RespondApprovalParams, SessionParams, SessionStatus, Wait};
use agentd_protocol::session_view::{Applied, Ended, SessionView, ViewError, text_of};
use agentd_protocol::{EntryId, Seq};
use anyhow::{Context, Result};

use crate::answering::{Answering, decision, options};
use crate::console::Console;
use crate::exit::Exit;
use crate::link::{Heard, Link, tell};
use crate::session_ref::short_id;
use crate::show::clean::{clean, harmless_json, one_line};
use crate::show::split::Split;
use crate::show::transcript::{Options, Piece, Tone, Transcript, settled_line};

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Text as it comes, and what leads to it.
    Live,
    /// The last answer only.
    Answer,
    /// Every event as a line of JSON.
    Json,
}

/// What is followed.
pub(crate) struct Followed {
    /// The session as it was when the message was accepted, or before.
    pub(crate) view: SessionView,
    /// The run's end is the first one after this event.
    pub(crate) after: Seq,
    /// The entry of the user's message, if it has one yet: what comes after it is the answer.
    pub(crate) asked: Option<EntryId>,
}

/// Shows a run until the session has settled, and lets the user answer its questions. The first interruption aborts the
/// run, the second leaves it.
///
/// # Errors
/// The connection closed, or output cannot be written.
pub(crate) async fn follow(link: &mut Link, console: &mut Console, show: Show, followed: Followed) -> Result<Exit> {
    let answering = if show == Show::Live { Answering::of(console) } else { Answering::Nobody };
    follow_answering(link, console, show, followed, answering).await
}

/// As [`follow`], with answers from elsewhere than the terminal.
///
/// # Errors
/// As [`follow`].
pub(crate) async fn follow_answering(
    link: &mut Link,
    console: &mut Console,
    show: Show,
    mut followed: Followed,
    mut answering: Answering,
) -> Result<Exit> {
    link.interrupts.listen()?;
    let mut transcript = Transcript::new(Options::default(), followed.asked.clone());
    let mut interrupted = false;
    let mut hinted = None;
    let outcome = {
        let mut split = Split::new(&mut console.out, &mut console.err, console.err_style, console.shared);
        loop {
            let heard = tokio::select! {
                heard = link.next_or_interrupt() => heard?,
                line = answering.line() => {
                    let said = followed.answer_question(link, &line).await?;
                    split.show(said.as_slice())?;
                    continue;
                }
            };
            let mut pieces = Vec::new();
            let outcome = match heard {
                Heard::Notification(notification) => {
                    let mut next = Some(notification);
                    let mut outcome = None;
                    // Whatever has come already is shown in one go.
                    while let (Some(notification), None) = (next.take(), &outcome) {
                        if show == Show::Json {
                            split.raw_line(&harmless_json(notification.params.get()))?;
                        }
                        outcome = followed.take(&notification, &mut transcript, &mut pieces)?;
                        next = if outcome.is_none() { link.try_next() } else { None };
                    }
                    if let Some(question) = followed.view.questions.first()
                        && hinted.as_ref() != Some(&question.approval_id)
                    {
                        hinted = Some(question.approval_id.clone());
                        pieces.push(answering.begin(question));
                    }
                    outcome
                }
                Heard::Interrupt if interrupted => Some(Outcome::Left),
                Heard::Interrupt => {
                    interrupted = true;
                    let session_id = Some(followed.view.session_id.clone());
                    tell::<Abort>(&link.client, &SessionParams { session_id }).await?;
                    if show == Show::Live {
                        pieces.push(Piece::Line(Tone::Note, "aborting; Ctrl-C again leaves at once".to_owned()));
                    }
                    None
                }
            };
            if show == Show::Live {
                split.show(&pieces)?;
            }
            if let Some(outcome) = outcome {
                split.finish()?;
                break outcome;
            }
        }
    };
    finish(link, console, show, &followed, outcome).await
}

enum Outcome {
    /// The run has ended.
    Ended(Ended),
    /// The run ended while this client had fallen behind.
    EndedUnseen,
    /// The user left.
    Left,
}

impl Followed {
    fn take(
        &mut self,
        notification: &agentd_protocol::client::Notification,
        transcript: &mut Transcript,
        pieces: &mut Vec<Piece>,
    ) -> Result<Option<Outcome>> {
        let Some(params) = notification.event() else { return Ok(None) };
        let epoch = self.view.epoch.clone();
        match self.view.apply(&params) {
            Ok(Applied::Event) => pieces.extend(transcript.event(&params.event)),
            Ok(Applied::Snapshot) => {
                pieces.extend(transcript.snapshot(&self.view));
                if self.view.epoch != epoch {
                    // The session was loaded anew, and its events are counted from the beginning.
                    self.after = 0;
                }
                let idle = matches!(self.view.state.status, SessionStatus::Idle | SessionStatus::Unloaded);
                return Ok((idle && self.view.seq >= self.after).then_some(Outcome::EndedUnseen));
            }
            Ok(Applied::Detached) => anyhow::bail!("{}", detached_message(&params.event)),
            Ok(Applied::Seen) | Err(ViewError::OtherSession(_)) => {}
            Err(error) => return Err(anyhow::Error::new(error).context("the daemon's events do not fit together")),
        }
        match params.event {
            Event::AgentSettled { reason, error_message, .. } if params.seq > self.after => {
                Ok(Some(Outcome::Ended(Ended { reason, error_message })))
            }
            _ => Ok(None),
        }
    }

    /// Answers the oldest question with what was typed. That it counts is seen by the event.
    async fn answer_question(&self, link: &mut Link, line: &str) -> Result<Option<Piece>> {
        let Some(question) = self.view.questions.first() else { return Ok(None) };
        let Some(decision) = decision(line).filter(|decision| question.options.contains(decision)) else {
            return Ok(Some(Piece::Line(Tone::Note, options(question))));
        };
        let approval_id = question.approval_id.clone();
        let params = RespondApprovalParams { approval_id, decision, message: None };
        match link.call::<RespondApproval>(&params).await {
            Ok(_) => Ok(None),
            Err(ClientError::Rpc(error)) => Ok(Some(Piece::Line(Tone::Failure, one_line(&error.message)))),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the last text that the assistant said after the question.
    fn answer(&self) -> Option<String> {
        let after = |id: &EntryId| self.view.entries.iter().rposition(|entry| entry.id == *id);
        let from = self.asked.as_ref().and_then(after).map_or(0, |index| index + 1);
        let texts = self.view.entries[from..].iter().rev().filter_map(|entry| match entry.message()? {
            Message::Assistant(message) => Some(text_of(&message.content)),
            _ => None,
        });
        texts.into_iter().find(|text| !text.trim().is_empty())
    }
}

/// Returns what the daemon says about the end of an attachment.
pub(crate) fn detached_message(event: &Event) -> String {
    match event {
        Event::Detached { message } => clean(message),
        _ => String::new(),
    }
}

async fn finish(
    link: &mut Link,
    console: &mut Console,
    show: Show,
    followed: &Followed,
    outcome: Outcome,
) -> Result<Exit> {
    let session_id = &followed.view.session_id;
    let ended = match outcome {
        Outcome::Left => {
            if show != Show::Json {
                console
                    .note(&format!("left; see what becomes of it with: agentctl attach {}", short_id(session_id)))?;
            }
            return Ok(Exit::Aborted);
        }
        Outcome::Ended(ended) => ended,
        Outcome::EndedUnseen => {
            let answer = link.call::<Wait>(&SessionParams { session_id: Some(session_id.clone()) }).await?;
            let reason = answer.reason.context("the run has ended, but the daemon does not know how")?;
            let ended = Ended { reason, error_message: answer.error_message };
            if let (Show::Live, Some(Piece::Line(_, line))) =
                (show, settled_line(ended.reason, ended.error_message.as_deref()))
            {
                console.note(&line)?;
            }
            ended
        }
    };
    if show == Show::Answer {
        if let Some(answer) = followed.answer() {
            let answer = clean(&answer);
            console.line(answer.trim_end_matches('\n'))?;
        }
        if let Some(Piece::Line(_, line)) = settled_line(ended.reason, ended.error_message.as_deref()) {
            console.out.flush()?;
            writeln!(console.err, "agentctl: {line}")?;
        }
    }
    console.out.flush()?;
    Ok(Exit::of_run(ended.reason))
}

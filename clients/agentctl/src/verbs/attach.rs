//! `attach`: a live terminal that any number of clients can share.

use agentd_protocol::client::{ClientError, Notification};
use agentd_protocol::event::Event;
use agentd_protocol::methods::{
    Abort, Attach, AttachParams, Continue, Decision, Detach, Empty, GetDaemonStatus, IfBusy, Prompt, PromptParams,
    PromptResult, RespondApproval, RespondApprovalParams, SessionParams, Steer, SteerParams, SteerWhen, View,
};
use agentd_protocol::session_view::{Applied, SessionView, ViewError};
use agentd_protocol::{Seq, SessionId};
use anyhow::Result;

use crate::cli::AttachArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::follow::detached_message;
use crate::link::{Heard, Link, NAME, tell};
use crate::now::now_ms;
use crate::show::clean::{clean, one_line};
use crate::show::transcript::{Options, Piece, Tone, Transcript};

mod display;
mod header;
mod keyboard;
#[cfg(test)]
mod tests;

use display::Display;
use keyboard::{Input, Keyboard};

/// Lines that begin with a slash and are not sent.
const COMMANDS: &str = "/abort stops the run, /continue goes on with an interrupted one, /now TEXT cuts the answer short and \
                        goes on with the text, /yes, /session and /no [why] answer the oldest question, /detach \
                        leaves, /help";
/// What can be done about a question.
const ANSWERS: &str = "  /yes answers for once, /session also for later in this session, /no [why] refuses";

/// Runs the verb. Leaving it changes nothing for the session.
///
/// # Errors
/// There is no such session, or the connection closes.
pub(crate) async fn run(link: &mut Link, console: &mut Console, args: &AttachArgs) -> Result<Exit> {
    let session_id = args.session.resolve(&link.client, &console.cwd).await?;
    if !args.read_only {
        link.lend_environment(&session_id).await?;
    }
    link.interrupts.listen_to_all()?;
    let kind = if console.json { View::Full } else { View::Coalesced };
    let params = AttachParams { session_id: Some(session_id), view: Some(kind), ..AttachParams::default() };
    let attached = link.call::<Attach>(&params).await?;
    let view = SessionView::new(attached, kind);
    // Who else is here is good to know, and no more.
    let others = match link.call::<GetDaemonStatus>(&Empty {}).await {
        Ok(status) => header::others(&status, &view.session_id),
        Err(_) => Vec::new(),
    };
    let (mut keyboard, printer) = Keyboard::start(console, args.read_only)?;
    let display = Display::new(console, printer);
    let mut terminal = Attached::new(view, display, args.read_only, keyboard.echoes());
    terminal.begin(&others, keyboard.keys(), args.history)?;
    let outcome = terminal.serve(link, &mut keyboard).await;
    // Before the keyboard gives the terminal back.
    terminal.display.finish()?;
    outcome
}

/// A session on a terminal.
struct Attached<'a> {
    view: SessionView,
    transcript: Transcript,
    display: Display<'a>,
    read_only: bool,
    /// What is typed is seen already.
    echoes: bool,
    /// Input has ended; the terminal is left when nothing is awaited any more.
    leaving: bool,
    /// A message of this terminal was accepted at this event and its run has not settled yet.
    awaited: Option<Seq>,
}

impl<'a> Attached<'a> {
    fn new(view: SessionView, display: Display<'a>, read_only: bool, echoes: bool) -> Self {
        let mut transcript = Transcript::new(Options { people: true, outputs: true }, None);
        transcript.joins(NAME);
        Self { view, transcript, display, read_only, echoes, leaving: false, awaited: None }
    }

    fn begin(&mut self, others: &[String], keys: &str, history: usize) -> Result<()> {
        let mut pieces: Vec<_> = header::lines(&self.view, others, keys, now_ms())
            .into_iter()
            .map(|line| Piece::Line(Tone::Note, line))
            .collect();
        pieces.extend(self.transcript.history(&self.view, history));
        pieces.extend(self.hint());
        self.display.show(&pieces)
    }

    async fn serve(&mut self, link: &mut Link, keyboard: &mut Keyboard) -> Result<Exit> {
        loop {
            tokio::select! {
                heard = link.next_or_interrupt() => match heard? {
                    Heard::Interrupt => break,
                    Heard::Notification(notification) => self.hear(link, notification)?,
                },
                input = keyboard.next() => {
                    if self.input(link, input).await? {
                        break;
                    }
                }
            }
            if self.leaving && self.awaited.is_none() && !self.view.state.is_streaming {
                break;
            }
        }
        let session_id = Some(self.view.session_id.clone());
        tell::<Detach>(&link.client, &SessionParams { session_id }).await?;
        link.client.close().await;
        if self.view.state.is_streaming {
            self.display.show(&[Piece::Line(Tone::Note, "detached; the run goes on".to_owned())])?;
        }
        Ok(Exit::Done)
    }

    /// Shows a notification and all that have come already.
    fn hear(&mut self, link: &mut Link, notification: Notification) -> Result<()> {
        let mut pieces = Vec::new();
        let mut next = Some(notification);
        while let Some(notification) = next {
            self.display.raw(notification.params.get())?;
            self.apply(&notification, &mut pieces)?;
            next = link.try_next();
        }
        self.display.show(&pieces)
    }

    fn apply(&mut self, notification: &Notification, pieces: &mut Vec<Piece>) -> Result<()> {
        let Some(params) = notification.event() else { return Ok(()) };
        match self.view.apply(&params) {
            Ok(Applied::Event) => {
                pieces.extend(self.transcript.event(&params.event));
                if matches!(params.event, Event::ApprovalRequested(_)) {
                    pieces.extend(self.hint());
                }
            }
            Ok(Applied::Snapshot) => {
                pieces.extend(self.transcript.snapshot(&self.view));
                pieces.extend(self.hint());
            }
            Ok(Applied::Detached) => anyhow::bail!("{}", detached_message(&params.event)),
            Ok(Applied::Seen) | Err(ViewError::OtherSession(_)) => {}
            Err(error) => return Err(anyhow::Error::new(error).context("the daemon's events do not fit together")),
        }
        let settled = matches!(params.event, Event::AgentSettled { .. } | Event::Lagged(_));
        if settled && self.awaited.is_some_and(|after| params.seq > after) && !self.view.state.is_streaming {
            self.awaited = None;
        }
        Ok(())
    }

    /// Says how to answer, while there is something to answer.
    fn hint(&self) -> Option<Piece> {
        let can_answer = !self.read_only && !self.view.questions.is_empty();
        can_answer.then(|| Piece::Line(Tone::Note, ANSWERS.to_owned()))
    }

    /// Does what was typed; true when the terminal is to be left.
    async fn input(&mut self, link: &mut Link, input: Input) -> Result<bool> {
        match input {
            Input::Detach => return Ok(true),
            Input::End => self.leaving = true,
            Input::Abort if self.read_only => {}
            Input::Abort => self.abort(link).await?,
            Input::Line(_) if self.read_only => {}
            Input::Line(line) => return self.line(link, line.trim()).await,
        }
        Ok(false)
    }

    async fn line(&mut self, link: &mut Link, line: &str) -> Result<bool> {
        if let Some((decision, why)) = answer(line) {
            self.answer(link, decision, why).await?;
            return Ok(false);
        }
        if let Some(text) = line.strip_prefix("/now ").filter(|_| self.view.state.is_streaming) {
            self.steer_now(link, text.trim()).await?;
            return Ok(false);
        }
        match line.strip_prefix("/now ").map_or(line, str::trim) {
            "" => {}
            "/detach" | "/quit" | "/exit" => return Ok(true),
            "/abort" => self.abort(link).await?,
            "/help" => self.note(Tone::Note, COMMANDS)?,
            "/continue" => {
                let params = SessionParams { session_id: Some(self.view.session_id.clone()) };
                let call = link.client.request::<Continue>(&params).await?;
                let answer = link.keeping_events(call.answer_with_seq()).await;
                self.accepted(answer)?;
            }
            text => {
                if self.echoes {
                    self.transcript.sent(text);
                }
                let call = link.client.request::<Prompt>(&prompt(&self.view.session_id, text)).await?;
                let answer = link.keeping_events(call.answer_with_seq()).await;
                self.accepted(answer)?;
            }
        }
        Ok(false)
    }

    async fn steer_now(&mut self, link: &mut Link, text: &str) -> Result<()> {
        if self.echoes {
            self.transcript.sent(text);
        }
        let params = SteerParams {
            session_id: Some(self.view.session_id.clone()),
            message: text.to_owned(),
            when: Some(SteerWhen::Now),
            ..SteerParams::default()
        };
        let call = link.client.request::<Steer>(&params).await?;
        let answer = link.keeping_events(call.answer_with_seq()).await;
        self.accepted(answer)
    }

    /// Answers the oldest question. That it counts is seen by the event.
    async fn answer(&mut self, link: &mut Link, decision: Decision, why: Option<&str>) -> Result<()> {
        let Some(question) = self.view.questions.first() else {
            return self.note(Tone::Failure, "no question waits for an answer");
        };
        let approval_id = question.approval_id.clone();
        let params = RespondApprovalParams { approval_id, decision, message: why.map(str::to_owned) };
        match link.call::<RespondApproval>(&params).await {
            Ok(_) => Ok(()),
            Err(ClientError::Rpc(error)) => self.note(Tone::Failure, &one_line(&error.message)),
            Err(error) => Err(error.into()),
        }
    }

    fn accepted(&mut self, answer: Result<(PromptResult, Seq), ClientError>) -> Result<()> {
        match answer {
            Ok((_, seq)) => {
                self.awaited = Some(seq);
                Ok(())
            }
            Err(ClientError::Rpc(error)) => self.note(Tone::Failure, &one_line(&error.message)),
            Err(error) => Err(error.into()),
        }
    }

    async fn abort(&mut self, link: &Link) -> Result<()> {
        let session_id = Some(self.view.session_id.clone());
        // It is seen to have worked by the events of the end.
        Ok(tell::<Abort>(&link.client, &SessionParams { session_id }).await?)
    }

    fn note(&mut self, tone: Tone, text: &str) -> Result<()> {
        self.display.show(&[Piece::Line(tone, clean(text))])
    }
}

/// Reads a command that answers a question.
fn answer(line: &str) -> Option<(Decision, Option<&str>)> {
    let (command, why) = line.split_once(' ').map_or((line, None), |(command, why)| (command, Some(why.trim())));
    match (command, why) {
        ("/yes", None) => Some((Decision::Once, None)),
        ("/session", None) => Some((Decision::Session, None)),
        ("/no", why) => Some((Decision::Deny, why)),
        _ => None,
    }
}

/// A line typed while a run goes on steers it; whether one does is for the daemon to say.
fn prompt(session_id: &SessionId, text: &str) -> PromptParams {
    PromptParams {
        session_id: Some(session_id.clone()),
        message: text.to_owned(),
        if_busy: Some(IfBusy::Steer),
        ..PromptParams::default()
    }
}

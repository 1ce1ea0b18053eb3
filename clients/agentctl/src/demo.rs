//! `agentd demo`: what a newcomer runs first.
//!
//! Two clients attach to one session of the built-in demo model. Each prompts it once, and the first stops the run of
//! the second. Every event is taken from both connections and compared before it is shown, so that what is said about
//! them is true.

mod rows;

use std::time::Duration;

use agentd_protocol::SessionId;
use agentd_protocol::connect;
use agentd_protocol::event::{Event, EventParams};
use agentd_protocol::methods::{
    Abort, Attach, AttachParams, DaemonStatus, Empty, GetDaemonStatus, ListSessions, ListSessionsParams, Mode,
    NewSession, NewSessionParams, Prompt, PromptParams, RunEnd, SessionParams,
};
use anyhow::{Context, Result, bail};

use crate::console::Console;
use crate::exit::Exit;
use crate::link::{Heard, Link, Start, tell};
use crate::session_ref::short_id;
use crate::show::style::{pad, width};
use crate::verbs::ls;
use rows::Rows;

/// The model that needs no key and no network.
const MODEL: &str = "demo/demo";
/// Longest wait for one event: the demo's tools take milliseconds, a busy machine a little more.
const EVENT_LIMIT: Duration = Duration::from_secs(30);
/// What the first client asks.
const FIRST_PROMPT: &str = "Show me what you can do here.";
/// What the second client asks: the session remembers the first.
const SECOND_PROMPT: &str = "And what did I ask first?";

/// Which of the two clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    A,
    B,
}

/// Runs the demo.
///
/// # Errors
/// There is no daemon and none can be started, or the two clients were not told the same.
pub(crate) async fn run(console: &mut Console) -> Result<Exit> {
    let was_running = connect::connect(&connect::socket_path()?).is_ok();
    let a = Link::open_as("demo A", Start::IfNeeded, false, console).await?;
    let b = Link::open_as("demo B", Start::Never, false, console).await?;
    let (mut pair, status) = meet(a, b, console).await?;
    introduce(console, &status, was_running)?;
    let end = pair.prompt(Who::A, FIRST_PROMPT, None, console).await?;
    if end != RunEnd::Done {
        bail!("the demo's run ended with {end:?}");
    }
    pair.prompt(Who::B, SECOND_PROMPT, Some(Who::A), console).await?;
    console.line("")?;
    console.line(&format!(
        "Both clients were told the same {} events, number for number and byte for byte.",
        pair.compared
    ))?;
    show_listing(&mut pair, console).await?;
    say_how_to_go_on(console, &pair.session)?;
    Ok(Exit::Done)
}

/// Makes a session through one client and attaches the other.
async fn meet(mut a: Link, mut b: Link, console: &Console) -> Result<(Pair, DaemonStatus)> {
    let status = a.call::<GetDaemonStatus>(&Empty {}).await?;
    let cwd = console.cwd.to_str().context("the working directory's name is not UTF-8")?.to_owned();
    let params = NewSessionParams {
        cwd: Some(cwd),
        model: Some(MODEL.to_owned()),
        name: Some("demo".to_owned()),
        mode: Some(Mode::Full),
        ..NewSessionParams::default()
    };
    let session = a.call::<NewSession>(&params).await?.session_id;
    let params = AttachParams { session_id: Some(session.clone()), ..AttachParams::default() };
    let attached = b.call::<Attach>(&params).await?;
    let mut pair = Pair { a, b, session, compared: 0, rows: Rows::after(attached.seq) };
    // The first client was there before: what it was told until then is not for comparing.
    let mut seen = 0;
    while seen < attached.seq {
        seen = next(&mut pair.a, &pair.session).await?.0.seq;
    }
    Ok((pair, status))
}

fn introduce(console: &mut Console, status: &DaemonStatus, was_running: bool) -> Result<()> {
    let daemon = if was_running { "The daemon runs already" } else { "A daemon was started" };
    let lines = [
        "agentd demo: a built-in script plays the model, so no key and no network are needed.".to_owned(),
        format!(
            "The tools are real: they run in {}, with your rights, unconfined and unasked (mode full).",
            console.cwd.display()
        ),
        format!("{daemon}: pid {}, socket {}.", status.pid, status.socket),
        "Two clients, A and B, are attached to one session. Each row is shown once both were told of it.".to_owned(),
        String::new(),
    ];
    for line in lines {
        console.line(&line)?;
    }
    Ok(console.line(&console.out_style.bold(&rows::head()))?)
}

/// Two clients of one session.
struct Pair {
    a: Link,
    b: Link,
    session: SessionId,
    /// Events that both were told in the same words.
    compared: u64,
    rows: Rows,
}

impl Pair {
    /// Prompts through one client and shows what both are told, until the session has settled. With a `stopper`, that
    /// client aborts the run once the model has said something.
    async fn prompt(
        &mut self,
        who: Who,
        text: &str,
        mut stopper: Option<Who>,
        console: &mut Console,
    ) -> Result<RunEnd> {
        let session_id = Some(self.session.clone());
        let params =
            PromptParams { session_id: session_id.clone(), message: text.to_owned(), ..PromptParams::default() };
        self.client(who).call::<Prompt>(&params).await?;
        loop {
            let event = self.next().await?;
            for row in self.rows.add(&event, who) {
                console.line(&row)?;
            }
            if let Event::AgentSettled { reason, .. } = event.event {
                return Ok(reason);
            }
            if Rows::ends_text(&event.event)
                && let Some(stopper) = stopper.take()
            {
                console.line(&Rows::act(&format!("{stopper:?} aborts the run of {who:?}")))?;
                tell::<Abort>(&self.client(stopper).client, &SessionParams { session_id: session_id.clone() }).await?;
            }
            console.out.flush()?;
        }
    }

    fn client(&mut self, who: Who) -> &mut Link {
        match who {
            Who::A => &mut self.a,
            Who::B => &mut self.b,
        }
    }

    /// Takes the next event of both and compares them.
    async fn next(&mut self) -> Result<EventParams> {
        let (event, raw) = next(&mut self.a, &self.session).await?;
        let (_, raw_b) = next(&mut self.b, &self.session).await?;
        if raw != raw_b {
            bail!("the two clients were told different things:\n  A: {raw}\n  B: {raw_b}");
        }
        self.compared += 1;
        Ok(event)
    }
}

/// Takes a client's next event, also in the words that it came in.
async fn next(link: &mut Link, session: &SessionId) -> Result<(EventParams, String)> {
    loop {
        let heard = tokio::time::timeout(EVENT_LIMIT, link.next_or_interrupt()).await;
        let Heard::Notification(notification) = heard.context("the daemon tells nothing any more")?? else { continue };
        if let Some(event) = notification.event()
            && event.session_id == *session
        {
            return Ok((event, notification.params.get().to_owned()));
        }
    }
}

async fn show_listing(pair: &mut Pair, console: &mut Console) -> Result<()> {
    let params = ListSessionsParams { limit: Some(ls::DEFAULT_LIMIT), ..ListSessionsParams::default() };
    let list = pair.a.call::<ListSessions>(&params).await?;
    let ours: Vec<_> = list.sessions.into_iter().filter(|row| row.session_id == pair.session).collect();
    if ours.is_empty() {
        bail!("the session is not listed");
    }
    console.line("The session is kept; `agentctl ls` lists it:")?;
    console.line("")?;
    console.line(&format!("    {}", ls::table_of(&ours, console).trim_end()))?;
    Ok(())
}

fn say_how_to_go_on(console: &mut Console, session: &SessionId) -> Result<()> {
    let id = short_id(session);
    let program = program_hint();
    let hints = [
        (format!("{program} attach {id}"), "watch it and talk to it; from two terminals, if you like"),
        (format!("{program} run \"…\""), "ask a real model; README.md says how to give it a key"),
        (format!("{program} daemon stop"), "stop the daemon"),
    ];
    let columns = hints.iter().map(|(command, _)| width(command)).max().unwrap_or(0);
    console.line("\nIt goes on living in the daemon. Next:\n")?;
    for (command, what) in hints {
        console.line(&format!("    {}   {what}", pad(&command, columns)))?;
    }
    if program != INSTALLED {
        console.line(&format!("\nOnce installed, `{program}` is `{INSTALLED}`: {INSTALLED} attach {id}"))?;
    }
    Ok(console.out.flush()?)
}

/// The client's name once it is installed.
const INSTALLED: &str = "agentctl";

/// Returns what to type for the client: a program that was just built is not in the search path.
fn program_hint() -> &'static str {
    let exe = std::env::current_exe().unwrap_or_default();
    let built = exe.iter().any(|part| part == "debug" || part == "release") && exe.iter().any(|part| part == "target");
    if built { "cargo run -q -- ctl" } else { INSTALLED }
}

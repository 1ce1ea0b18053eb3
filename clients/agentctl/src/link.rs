//! The connection that a verb works with.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream as StdStream;

use agentd_protocol::client::{Call, Client, ClientError, Events, Notification};
use agentd_protocol::connect::{self, ConnectError};
use agentd_protocol::methods::{
    ClientCapabilities, EnvSource, GetState, Initialize, InitializeParams, Method, SessionParams, SetEnv, SetEnvParams,
};
use agentd_protocol::{PROTOCOL_VERSION, SessionId, version};
use anyhow::Result;
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::console::Console;

/// Name by which the daemon and other clients know this program.
pub(crate) const NAME: &str = "agentctl";

/// Whether a daemon is started when none runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Start one.
    IfNeeded,
    /// Fail.
    Never,
}

/// A connection, with the events that came while an answer was awaited.
pub(crate) struct Link {
    /// Sends requests.
    pub(crate) client: Client,
    events: Events,
    backlog: VecDeque<Notification>,
    /// The user's Ctrl-C.
    pub(crate) interrupts: Interrupts,
}

impl Link {
    /// Connects to the daemon, tells it where this program runs and that it answers no questions, and warns when it is of
    /// another build.
    ///
    /// # Errors
    /// There is no daemon, or it does not answer.
    pub(crate) async fn open(start: Start, console: &mut Console) -> Result<Self> {
        Self::open_as(NAME, start, false, console).await
    }

    /// As [`Link::open`], under another name, or as one that lets somebody answer questions.
    ///
    /// # Errors
    /// As [`Link::open`].
    pub(crate) async fn open_as(name: &str, start: Start, answers: bool, console: &mut Console) -> Result<Self> {
        let stream = reach(name, start)?;
        stream.set_nonblocking(true)?;
        let (client, events) = Client::spawn(UnixStream::from_std(stream)?);
        let mut link = Self::new(client, events, Interrupts::Default);
        let params = InitializeParams {
            client_info: Some(version::own_info(name)),
            protocol_version: Some(PROTOCOL_VERSION.into()),
            capabilities: Some(ClientCapabilities { answers: Some(answers) }),
        };
        let answer = link.call::<Initialize>(&params).await?;
        if let Some(mismatch) = answer.build_mismatch {
            writeln!(console.err, "agentctl: {}", crate::show::clean::one_line(&mismatch))?;
        }
        Ok(link)
    }

    /// Wraps a connection.
    pub(crate) fn new(client: Client, events: Events, interrupts: Interrupts) -> Self {
        Self { client, events, backlog: VecDeque::new(), interrupts }
    }

    /// Sends a request and waits for its answer. Events that come meanwhile are kept for later.
    ///
    /// # Errors
    /// The daemon's error answer, or the end of the connection.
    pub(crate) async fn call<M: Method>(&mut self, params: &M::Params) -> Result<M::Result, ClientError> {
        let client = self.client.clone();
        self.keeping_events(client.call::<M>(params)).await
    }

    /// Gives this program's environment to a session that has no client's, because the daemon was restarted: without it
    /// the session's tools and its model may miss what they had.
    ///
    /// # Errors
    /// There is no such session, or the connection has ended.
    pub(crate) async fn lend_environment(&mut self, session_id: &SessionId) -> Result<(), ClientError> {
        let session_id = Some(session_id.clone());
        let state = self.call::<GetState>(&SessionParams { session_id: session_id.clone() }).await?;
        if state.env_source == EnvSource::LoginShell {
            self.call::<SetEnv>(&SetEnvParams { session_id, env: connect::environment() }).await?;
        }
        Ok(())
    }

    /// Like [`Link::call`], for a call that was sent before.
    pub(crate) async fn keeping_events<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                output = &mut work => return output,
                Some(notification) = self.events.recv_raw() => self.backlog.push_back(notification),
            }
        }
    }

    /// Takes the next notification if one has come already.
    pub(crate) fn try_next(&mut self) -> Option<Notification> {
        self.backlog.pop_front().or_else(|| self.events.try_recv_raw())
    }

    /// Waits for the next notification or the user's interruption, whichever comes first.
    ///
    /// # Errors
    /// The connection has closed.
    pub(crate) async fn next_or_interrupt(&mut self) -> Result<Heard> {
        if let Some(notification) = self.backlog.pop_front() {
            return Ok(Heard::Notification(notification));
        }
        tokio::select! {
            biased;
            () = self.interrupts.recv() => Ok(Heard::Interrupt),
            notification = self.events.recv_raw() => {
                Ok(Heard::Notification(notification.ok_or(ClientError::Closed(None))?))
            }
        }
    }
}

/// What a verb that follows a session hears.
pub(crate) enum Heard {
    /// Something from the daemon.
    Notification(Notification),
    /// The user pressed Ctrl-C.
    Interrupt,
}

/// Sends a request without waiting for its answer, which is dropped.
///
/// # Errors
/// The connection has closed.
pub(crate) async fn tell<M: Method>(client: &Client, params: &M::Params) -> Result<(), ClientError> {
    let call: Call<M::Result> = client.request::<M>(params).await?;
    drop(call);
    Ok(())
}

/// Connects, starting the daemon if that is wanted and needed, and tells it where this program runs.
///
/// # Errors
/// There is no daemon.
fn reach(name: &str, start: Start) -> Result<StdStream, ConnectError> {
    let socket = connect::socket_path()?;
    let front = connect::front_params(name, version::VERSION);
    // A daemon that runs is met also where the program to start one cannot be found.
    match connect::open(&socket, None, &front) {
        Err(ConnectError::NoDaemon { .. }) if start == Start::IfNeeded => {
            connect::open(&socket, Some(&connect::agentd_program()?), &front)
        }
        other => other,
    }
}

/// Where interruptions come from.
pub(crate) enum Interrupts {
    /// From nowhere: the signal ends the program.
    Default,
    /// From signals.
    Signals {
        /// Ctrl-C.
        interrupt: Signal,
        /// The wish of the system or of another program that this one ends.
        terminate: Option<Signal>,
    },
    /// From a test.
    #[cfg(test)]
    Test(tokio::sync::mpsc::Receiver<()>),
}

impl Interrupts {
    /// From now on Ctrl-C is heard instead of ending the program.
    ///
    /// # Errors
    /// The system refuses the handler.
    pub(crate) fn listen(&mut self) -> std::io::Result<()> {
        if matches!(self, Self::Default) {
            *self = Self::Signals { interrupt: signal(SignalKind::interrupt())?, terminate: None };
        }
        Ok(())
    }

    /// From now on nothing ends the program before it has given back what it holds, such as the terminal.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub(crate) fn listen_to_all(&mut self) -> std::io::Result<()> {
        if matches!(self, Self::Default) {
            let terminate = Some(signal(SignalKind::terminate())?);
            *self = Self::Signals { interrupt: signal(SignalKind::interrupt())?, terminate };
        }
        Ok(())
    }

    /// Waits for the next interruption. Cancel safe.
    pub(crate) async fn recv(&mut self) {
        let heard = match self {
            Self::Default => None,
            Self::Signals { interrupt, terminate: None } => interrupt.recv().await,
            Self::Signals { interrupt, terminate: Some(terminate) } => tokio::select! {
                heard = interrupt.recv() => heard,
                heard = terminate.recv() => heard,
            },
            #[cfg(test)]
            Self::Test(receiver) => receiver.recv().await,
        };
        if heard.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

//! The cloneable handle of a session actor, and the messages it sends.
//!
//! Each method returns in two steps, so that a connection can apply its requests in order without waiting for
//! slow ones: awaiting the method hands the request to the actor's mailbox (and waits while that is full); awaiting
//! the returned [`Pending`] waits for the answer.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use agentd_protocol::message::ContentBlock;
use agentd_protocol::message::ThinkingLevel;
use agentd_protocol::methods::{
    AttachResult, ClientRef, CycleModelResult, CycleThinkingLevelResult, Decision, Empty,
    GetAvailableThinkingLevelsResult, GetEntriesParams, GetEntriesResult, GetLastAssistantTextResult,
    GetMessagesResult, IfBusy, Mode, PromptResult, Queue, QueueMode, Resolution, SessionState, SessionStats, SteerWhen,
    View, WaitResult,
};
use agentd_protocol::model::Model;
use agentd_protocol::{ApprovalId, Cursor, EntryId, Seq, SessionId};
use tokio::sync::{mpsc, oneshot};

use crate::config::SessionPlace;
use crate::permissions::questions::Answer as Decided;
use crate::ring::{Ring, Subscription, Wake};

/// An answer of the session together with the cursor that it reflects.
#[derive(Debug)]
pub struct Answer<T> {
    /// The answer.
    pub value: T,
    /// Number of the last event it reflects; the connection writes events up to it before the answer.
    pub seq: Seq,
}

/// What a session can answer instead of a result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SessionError {
    /// A run is going on.
    #[error("a run is going on; wait for agent_settled, or send ifBusy \"steer\" or \"followUp\"")]
    Busy,
    /// The session is in another state than the request needs.
    #[error("{0}")]
    WrongState(&'static str),
    /// A parameter is out of range.
    #[error("{message}")]
    InvalidParam {
        /// The parameter.
        param: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// No such entry.
    #[error("no entry {0} in this session; get_entries lists them")]
    UnknownEntry(EntryId),
    /// No such model.
    #[error("{0}")]
    UnknownModel(String),
    /// No model can be used.
    #[error("{0}")]
    NoModel(String),
    /// The session's file could not be read or written.
    #[error("{0}")]
    Storage(String),
    /// Another process writes the session.
    #[error("{path} is being written by {owner}; attach there, or fork the session")]
    Locked {
        /// The session file.
        path: String,
        /// Who holds it.
        owner: String,
    },
    /// The working directory cannot be entered.
    #[error("working directory {path}: {message}")]
    WorkingDirectory {
        /// The directory.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// There is no such question.
    #[error("no question {0}; list_approvals shows those that wait for an answer")]
    UnknownApproval(ApprovalId),
    /// The question has ended.
    #[error("the question was answered before: {}", ending_text(.0))]
    AlreadyResolved(Decided),
    /// The session's actor has ended, and nothing of the request was done.
    #[error("the session has closed; open it again")]
    Closed,
    /// The session's actor failed.
    #[error("the session stopped because of a fault of the daemon; open it again, its file is whole")]
    Failed,
}

/// Says how a question ended, and by whom.
fn ending_text(answer: &Decided) -> String {
    match (&answer.by, answer.decision) {
        (_, Resolution::Cancelled) => "it was cancelled, because what it was about has ended".to_owned(),
        (Some(by), decision) => format!("{:?} by {by:?}", decision.as_str()),
        (None, decision) => format!("{:?}", decision.as_str()),
    }
}

/// Result of a request to a session.
pub type SessionResult<T> = Result<Answer<T>, SessionError>;

/// Number of a connection, unique within the daemon's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// Who sends a request.
#[derive(Clone, Debug)]
pub struct Client {
    /// The connection.
    pub id: ClientId,
    /// As others are told of it.
    pub who: Arc<ClientRef>,
    /// Whether it lets somebody answer questions.
    pub answers: bool,
}

/// An answer to a question on its way into a session.
#[derive(Clone, Debug)]
pub struct UserAnswer {
    /// The question.
    pub approval: ApprovalId,
    /// The answer.
    pub decision: Decision,
    /// What the client remarks.
    pub message: Option<String>,
    /// Who sends it.
    pub client: Client,
}

/// A user message on its way into a session.
#[derive(Clone, Debug)]
pub struct UserInput {
    /// The text.
    pub message: String,
    /// Images that go with it.
    pub images: Vec<ContentBlock>,
    /// The client's own id of it.
    pub client_message_id: Option<String>,
    /// Who sent it.
    pub client: Client,
}

/// A wish to read a session's events.
pub struct AttachRequest {
    /// Last event seen before.
    pub since: Option<Cursor>,
    /// How to read.
    pub view: View,
    /// Whether a snapshot carries entries.
    pub history: bool,
    /// Who attaches.
    pub client: Client,
    /// Woken when there are events to pull.
    pub wake: Arc<Wake>,
}

/// A new attachment.
pub struct Attached {
    /// What the client is answered.
    pub result: AttachResult,
    /// Where the connection pulls the events from.
    pub subscription: Subscription,
}

/// One request in a session's mailbox.
pub(crate) enum Command {
    /// A user message that starts a run.
    Prompt(UserInput, IfBusy, Reply<PromptResult>),
    /// A user message to be injected after the current turn, or at once.
    Steer(UserInput, SteerWhen, Reply<PromptResult>),
    /// A user message to be sent when the run would end.
    FollowUp(UserInput, Reply<PromptResult>),
    /// Ends the run.
    Abort(Reply<Empty>),
    /// Ends the pause before a retry.
    AbortRetry(Reply<Empty>),
    /// Answers a question.
    Respond(UserAnswer, Reply<Empty>),
    /// Empties the queues.
    ClearQueue(Reply<Queue>),
    /// Goes on with an interrupted run.
    Continue(Reply<PromptResult>),
    /// Waits until idle.
    Wait(Reply<WaitResult>),
    /// Reads the state.
    GetState(Reply<SessionState>),
    /// Reads the model context.
    GetMessages(Reply<GetMessagesResult>),
    /// Reads entries.
    GetEntries(GetEntriesParams, Reply<GetEntriesResult>),
    /// Reads the last answer.
    GetLastAssistantText(Reply<GetLastAssistantTextResult>),
    /// Counts.
    GetStats(Reply<SessionStats>),
    /// Tells what decides which settings hold.
    GetPlace(Reply<SessionPlace>),
    /// Names the session.
    SetName(String, Reply<Empty>),
    /// Chooses the model (`provider/id[:level]`).
    SetModel(String, Reply<Model>),
    /// Chooses the thinking level.
    SetThinkingLevel(ThinkingLevel, Reply<Empty>),
    /// Chooses the next thinking level.
    CycleThinkingLevel(Reply<CycleThinkingLevelResult>),
    /// Reads the thinking levels of the model.
    GetThinkingLevels(Reply<GetAvailableThinkingLevelsResult>),
    /// Chooses the next model.
    CycleModel(Reply<CycleModelResult>),
    /// Chooses what tools may do without a question.
    SetMode(Mode, Reply<Empty>),
    /// Chooses whether failed requests are tried again.
    SetAutoRetry(bool, Reply<Empty>),
    /// Chooses how steering is taken out of its queue.
    SetSteeringMode(QueueMode, Reply<Empty>),
    /// Chooses how follow-ups are taken out of their queue.
    SetFollowUpMode(QueueMode, Reply<Empty>),
    /// Replaces the environment.
    SetEnv(BTreeMap<String, String>, Reply<Empty>),
    /// Subscribes a connection.
    Attach(Box<AttachRequest>, Reply<Attached>),
    /// A connection no longer reads.
    Detach(Client, Reply<Empty>),
    /// Ends the actor if the session is idle, unattached and has nothing queued.
    Unload(Reply<Empty>),
    /// Stops the run and ends the actor; the answer comes when all is on disk.
    Close(Reply<Empty>),
    /// Fails, for tests of what becomes of a session then.
    #[cfg(test)]
    Panic(Reply<Empty>),
}

/// Where an answer goes.
pub(crate) type Reply<T> = oneshot::Sender<SessionResult<T>>;

/// An answer that is on its way.
pub struct Pending<T> {
    answer: oneshot::Receiver<SessionResult<T>>,
    ending: Ending,
}

/// How a session's actor ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending(Arc<AtomicBool>);

impl Ending {
    /// Says that the actor ends in order, with nothing under way: requests that it finds no time for are not begun.
    pub(crate) fn set_in_order(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn error(&self) -> SessionError {
        if self.0.load(Ordering::Acquire) { SessionError::Closed } else { SessionError::Failed }
    }
}

impl<T> Future for Pending<T> {
    type Output = SessionResult<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A dropped sender means that the actor panicked, or had ended before it came to the request.
        let answer = std::task::ready!(Pin::new(&mut self.answer).poll(cx));
        Poll::Ready(answer.unwrap_or_else(|_| Err(self.ending.error())))
    }
}

/// Talks to one session's actor. Cheap to clone.
#[derive(Clone)]
pub struct SessionHandle {
    id: SessionId,
    ring: Ring,
    // Boxed: a channel holds room for dozens of messages, in every session.
    commands: mpsc::Sender<Box<Command>>,
    ending: Ending,
}

macro_rules! requests {
    ($($(#[doc = $doc:literal])* $name:ident($($arg:ident: $ty:ty),*) -> $result:ty = $variant:ident;)*) => {
        $(
            $(#[doc = $doc])*
            ///
            /// Returns once the request is in the mailbox.
            ///
            /// # Errors
            /// [`SessionError::Closed`] when the actor has ended.
            pub async fn $name(&self, $($arg: $ty),*) -> Result<Pending<$result>, SessionError> {
                let (reply, answer) = oneshot::channel();
                let command = Box::new(Command::$variant($($arg,)* reply));
                self.commands.send(command).await.map_err(|_| SessionError::Closed)?;
                Ok(Pending { answer, ending: self.ending.clone() })
            }
        )*
    };
}

impl SessionHandle {
    /// Makes the handle of an actor that reads from the other end of `commands` and publishes to `ring`.
    pub(crate) fn new(id: SessionId, ring: Ring, commands: mpsc::Sender<Box<Command>>) -> Self {
        Self { id, ring, commands, ending: Ending::default() }
    }

    /// Returns where the actor says how it ends.
    pub(crate) fn ending(&self) -> Ending {
        self.ending.clone()
    }

    /// Returns the session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the session's events.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Tells whether the actor has ended.
    pub fn is_closed(&self) -> bool {
        self.commands.is_closed()
    }

    /// Makes the actor panic.
    #[cfg(test)]
    pub(crate) async fn panic(&self) -> Pending<Empty> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Box::new(Command::Panic(reply))).await.expect("a living actor");
        Pending { answer, ending: self.ending.clone() }
    }

    requests! {
        /// Starts a run with a user message, or does with it what `if_busy` says.
        prompt(input: UserInput, if_busy: IfBusy) -> PromptResult = Prompt;
        /// Queues a message to be injected after the current turn, or at once.
        steer(input: UserInput, when: SteerWhen) -> PromptResult = Steer;
        /// Queues a message to be sent when the run would end.
        follow_up(input: UserInput) -> PromptResult = FollowUp;
        /// Ends the run; answered when it has settled.
        abort() -> Empty = Abort;
        /// Ends the pause before a retry, and with it the run.
        abort_retry() -> Empty = AbortRetry;
        /// Answers a question.
        respond(answer: UserAnswer) -> Empty = Respond;
        /// Empties both queues.
        clear_queue() -> Queue = ClearQueue;
        /// Goes on with an interrupted run.
        continue_run() -> PromptResult = Continue;
        /// Waits until the session is idle.
        wait() -> WaitResult = Wait;
        /// Reads the state.
        state() -> SessionState = GetState;
        /// Reads the model context.
        messages() -> GetMessagesResult = GetMessages;
        /// Reads entries.
        entries(params: GetEntriesParams) -> GetEntriesResult = GetEntries;
        /// Reads the last answer's text.
        last_assistant_text() -> GetLastAssistantTextResult = GetLastAssistantText;
        /// Counts messages, tokens and cost.
        stats() -> SessionStats = GetStats;
        /// Tells what decides which settings hold.
        place() -> SessionPlace = GetPlace;
        /// Names the session.
        set_name(name: String) -> Empty = SetName;
        /// Chooses the model, `provider/id[:thinkingLevel]`.
        set_model(name: String) -> Model = SetModel;
        /// Chooses the thinking level.
        set_thinking_level(level: ThinkingLevel) -> Empty = SetThinkingLevel;
        /// Chooses the next thinking level that the model supports.
        cycle_thinking_level() -> CycleThinkingLevelResult = CycleThinkingLevel;
        /// Reads the thinking levels that the model supports.
        thinking_levels() -> GetAvailableThinkingLevelsResult = GetThinkingLevels;
        /// Chooses the next model that can be used.
        cycle_model() -> CycleModelResult = CycleModel;
        /// Chooses what tools may do without a question.
        set_mode(mode: Mode) -> Empty = SetMode;
        /// Chooses whether failed requests are tried again.
        set_auto_retry(enabled: bool) -> Empty = SetAutoRetry;
        /// Chooses how steering is taken out of its queue.
        set_steering_mode(mode: QueueMode) -> Empty = SetSteeringMode;
        /// Chooses how follow-ups are taken out of their queue.
        set_follow_up_mode(mode: QueueMode) -> Empty = SetFollowUpMode;
        /// Replaces the environment of tools and key look-up.
        set_env(env: BTreeMap<String, String>) -> Empty = SetEnv;
        /// Subscribes a connection to the events.
        attach(request: Box<AttachRequest>) -> Attached = Attach;
        /// Tells that a connection no longer reads.
        detach(client: Client) -> Empty = Detach;
        /// Ends the actor if the session is idle, unattached and has nothing queued; else does nothing.
        unload() -> Empty = Unload;
        /// Stops the run and ends the actor; answered when all is on disk.
        close() -> Empty = Close;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks an actor that ends with the request in its mailbox.
    async fn ask(ends_in_order: bool) -> SessionError {
        let (sender, commands) = mpsc::channel(1);
        let ring = Ring::new("s".into(), "e".into(), crate::ring::RingBudget::new(1024));
        let handle = SessionHandle::new("s".into(), ring, sender);
        let pending = handle.state().await.unwrap();
        if ends_in_order {
            handle.ending().set_in_order();
        }
        drop(commands);
        assert!(matches!(handle.state().await, Err(SessionError::Closed)), "a later request finds nobody");
        pending.await.unwrap_err()
    }

    #[tokio::test]
    async fn a_request_that_an_ended_actor_did_not_come_to_can_be_sent_again() {
        assert!(matches!(ask(true).await, SessionError::Closed));
        assert!(matches!(ask(false).await, SessionError::Failed));
    }
}

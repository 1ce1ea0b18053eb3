//! The machine's state, and which function takes which input.

use std::path::PathBuf;
use std::sync::Arc;

use agentd_protocol::message::ThinkingLevel;
use agentd_protocol::methods::{
    Decision, Headless, Mode, Question, QueueMode, RetryState, RunEnd, SessionStatus, WaitResult,
};
use agentd_protocol::{EntryId, SessionId};

use super::consent::LeftBatch;
use super::effect::{Cut, Effect, NewEntry, Outcome};
use super::input::{Input, Refusal, ReplyId, RequestId, RetryId, Stop};
use super::queue::{Line, QueuedMessage, Queues};
use super::tools::ToolBatch;
use crate::agent::event::{Event, MessageEntry};
use crate::config::RetrySettings;
use crate::permissions::policy::{Policy, Rule, Rules};
use crate::permissions::questions::QuestionBook;
use crate::session::entry::EntryBody;
use crate::session::settings::StoredSettings;
use crate::session::tree::SessionTree;

/// Settings of a session that its machine obeys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSettings {
    /// What tools may do without a question.
    pub mode: Mode,
    /// What becomes of questions when nobody is there to answer.
    pub headless: Headless,
    /// How long questions wait, in milliseconds; 0: for ever.
    pub ask_timeout_ms: u64,
    /// Most turns of one run.
    pub max_turns: u32,
    /// When failed requests are tried again.
    pub retry: RetrySettings,
    /// How steering is taken out of its queue.
    pub steering_mode: QueueMode,
    /// How follow-ups are taken out of their queue.
    pub follow_up_mode: QueueMode,
}

/// When and on what an input comes.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// Milliseconds since the epoch.
    pub now: i64,
    /// The session's entries.
    pub tree: &'a SessionTree,
    /// The session's id, which that of a copied file is not.
    pub session: &'a SessionId,
    /// Whether a client is attached that lets somebody answer questions.
    pub is_attended: bool,
}

/// A session's control flow.
pub struct Machine {
    pub(super) settings: MachineSettings,
    pub(super) phase: Phase,
    pub(super) queues: Queues,
    /// How many messages at the front of the steering queue go to the model at the next chance, whatever the mode.
    pub(super) urgent: usize,
    pub(super) questions: QuestionBook,
    rules: Arc<Rules>,
    /// What people have granted for this session.
    pub(super) grants: Vec<Rule>,
    own_folders: Arc<[PathBuf]>,
    pub(super) run: Option<Run>,
    pub(super) effects: Vec<Effect>,
    waiting: Vec<ReplyId>,
    last_end: Option<WaitResult>,
    interrupted: bool,
    pub(super) model: ModelFacts,
    numbers: u64,
    random: u64,
    /// See [`Machine::take_accepted`].
    pub(super) accepted: Option<EntryId>,
}

/// What assistant messages say of the model that made them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// Dialect.
    pub api: String,
    /// Provider id.
    pub provider: String,
    /// Model id.
    pub model: String,
    /// Thinking level of the requests.
    pub thinking_level: ThinkingLevel,
    /// Most tokens of one response.
    pub max_tokens: u64,
}

/// What the session waits for.
#[derive(Debug)]
pub(super) enum Phase {
    Idle,
    Starting(Starting),
    Streaming(Streaming),
    Tools(ToolBatch),
    /// The turn is over; the next step is decided when its writes are done.
    Between(Next),
    RetryWait(Pause),
    /// Somebody decides whether the run goes on.
    Asking {
        /// The question was asked by a daemon before this one.
        is_from_before: bool,
    },
}

/// A pause before a failed request is tried again.
#[derive(Debug)]
pub(super) struct Pause {
    pub id: RetryId,
    /// What clients are told of it.
    pub state: RetryState,
}

/// A run that is being prepared.
#[derive(Debug)]
pub(super) struct Starting {
    /// The prompt; `None` for `continue`.
    pub user: Option<QueuedMessage>,
    /// Who is answered; nobody when an answer to a question has started it.
    pub reply: Option<ReplyId>,
}

/// A response that is being read.
#[derive(Debug)]
pub(super) struct Streaming {
    pub request: RequestId,
    pub entry_id: EntryId,
    /// Whether `message_start` was sent.
    pub started: bool,
    /// Whether it is being cut short for a steering message.
    pub is_cut: bool,
}

/// What follows once a turn's writes are done.
#[derive(Debug)]
pub(super) enum Next {
    /// The response wants tool results to be sent back.
    Answer,
    /// The same, for a response to a daemon before this one.
    AnswerAgain,
    /// The model had said all, or a queued message may follow.
    Stop(RunEnd),
    /// The context window left no room for the rest of this answer: a queued message may follow, else the answer is
    /// hidden and the run ends.
    Cut(EntryId),
    /// The question has been answered.
    Answered {
        /// How.
        decision: Decision,
        /// The question was asked by a daemon before this one.
        is_from_before: bool,
    },
    /// The run has been told to be over, and nothing but its last event is due.
    Settle(RunEnd),
    /// The request failed.
    Failed(super::input::Failure, String),
}

/// A run: from its first turn until the session is idle again.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Turns taken.
    pub turns: u32,
    /// Messages since the last `agent_start`.
    pub messages: Vec<MessageEntry>,
    /// Retries of the current request.
    pub retries: u32,
    /// Set when the run is being stopped.
    pub stop: Option<Stop>,
    /// Who is answered when it has stopped.
    pub stop_replies: Vec<ReplyId>,
    /// What went wrong last.
    pub error: Option<String>,
    /// Whether clients are sure to have been told of the run: a step is taken only after that.
    pub is_announced: bool,
}

/// What a daemon has left of a session when it ended.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// Messages that wait to be sent.
    pub queues: Queues,
    /// Questions that wait for answers.
    pub questions: Vec<Question>,
    /// The calls that they are about, for questions about tool calls.
    pub batch: Option<LeftBatch>,
    /// Whether its run was cut short.
    pub interrupted: bool,
}

impl Machine {
    /// Returns a machine that is idle, or waits for answers. What was `left` comes from the crash journal; `seed` is any
    /// random number.
    pub fn new(settings: MachineSettings, left: Left, seed: u64) -> Self {
        let Left { queues, questions, batch, interrupted } = left;
        let mut machine = Self {
            settings,
            phase: Phase::Idle,
            queues,
            urgent: 0,
            questions: QuestionBook::default(),
            rules: Arc::default(),
            grants: Vec::new(),
            own_folders: Arc::default(),
            run: None,
            effects: Vec::new(),
            waiting: Vec::new(),
            last_end: None,
            interrupted,
            model: ModelFacts::default(),
            numbers: 0,
            random: seed,
            accepted: None,
        };
        machine.ask_again(questions, batch);
        machine
    }

    /// Returns the entry that the user message of the last input is or will be; nothing when it was refused, or a repeat.
    pub fn take_accepted(&mut self) -> Option<EntryId> {
        self.accepted.take()
    }

    /// Takes one input and returns what is to be done about it.
    pub fn handle(&mut self, moment: Moment<'_>, input: Input) -> Vec<Effect> {
        match input {
            Input::Prompt { user, if_busy, reply } => self.on_prompt(moment, user, if_busy, reply),
            Input::Steer { user, when, reply } => self.on_steer(moment, user, when, reply),
            Input::FollowUp { user, reply } => self.enqueue(moment, user, reply, Line::FollowUp),
            Input::Continue { reply } => self.on_continue(moment, reply),
            Input::Stop { why, reply } => self.on_stop(moment, why, reply),
            Input::AbortRetry { reply } => self.on_abort_retry(reply),
            Input::Respond { response, reply } => self.on_respond(moment, *response, reply),
            Input::ClearQueue { reply } => self.on_clear_queue(reply),
            Input::Wait { reply } => self.on_wait(reply),
            Input::Prepared(prepared) => self.on_prepared(moment, prepared),
            Input::StreamStarted { request, message } => self.on_stream_started(request, message),
            Input::StreamFinished { request, message, failure } => {
                self.on_stream_finished(moment, request, *message, failure);
            }
            Input::ToolValidated { call, verdict } => self.on_tool_validated(moment, &call, verdict),
            Input::ToolDescribed { call, preview } => self.on_tool_described(moment, &call, *preview),
            Input::DeadlineReached => self.on_deadline(moment),
            Input::ToolFinished { call, end } => self.on_tool_finished(moment, &call, end),
            Input::RetryDue(retry) => self.on_retry_due(moment, retry),
            Input::Step => self.on_step(moment),
            Input::AppendFailed { message, untold, saved } => {
                self.on_append_failed(moment, message, untold, saved);
            }
        }
        std::mem::take(&mut self.effects)
    }

    /// Says which model the next requests go to.
    pub fn set_model(&mut self, model: ModelFacts) {
        self.model = model;
    }

    /// Says which folders hold agentd's own files (see [`Policy::own_folders`]).
    pub fn set_own_folders(&mut self, folders: Arc<[PathBuf]>) {
        self.own_folders = folders;
    }

    /// Says which rules hold from now on.
    pub fn set_rules(&mut self, rules: Arc<Rules>) {
        self.rules = rules;
    }

    /// Returns what decides about tool calls from now on.
    pub fn policy(&self) -> Policy {
        Policy {
            mode: self.settings.mode,
            rules: Arc::clone(&self.rules),
            grants: self.grants.clone(),
            own_folders: Arc::clone(&self.own_folders),
        }
    }

    /// Follows what the user's settings say of runs, from now on.
    pub fn follow_settings(&mut self, max_turns: u32, retry: RetrySettings) {
        self.settings.max_turns = max_turns;
        self.settings.retry = retry;
    }

    /// Obeys settings from now on.
    pub fn configure(&mut self, set: &StoredSettings) {
        if let Some(grants) = &set.grants {
            // A rule of a later version says nothing here.
            self.grants = grants.iter().filter_map(|rule| serde_json::from_value(rule.clone()).ok()).collect();
        }
        self.settings = self.settings_with(set);
    }

    /// Tells whether settings would change anything.
    pub fn would_change(&self, set: &StoredSettings) -> bool {
        self.settings_with(set) != self.settings
    }

    fn settings_with(&self, set: &StoredSettings) -> MachineSettings {
        let mut settings = self.settings.clone();
        settings.mode = set.mode.unwrap_or(settings.mode);
        settings.headless = set.headless.unwrap_or(settings.headless);
        settings.ask_timeout_ms = set.ask_timeout_ms.unwrap_or(settings.ask_timeout_ms);
        settings.max_turns = set.max_turns.unwrap_or(settings.max_turns);
        settings.retry.enabled = set.auto_retry.unwrap_or(settings.retry.enabled);
        settings.steering_mode = set.steering_mode.unwrap_or(settings.steering_mode);
        settings.follow_up_mode = set.follow_up_mode.unwrap_or(settings.follow_up_mode);
        settings
    }

    /// Returns what is known of the pause before a retry, in retry wait.
    pub fn retry(&self) -> Option<&RetryState> {
        match &self.phase {
            Phase::RetryWait(pause) => Some(&pause.state),
            _ => None,
        }
    }

    /// Tells what the session is doing.
    pub fn status(&self) -> SessionStatus {
        match (&self.phase, &self.run) {
            (Phase::Idle, _) => SessionStatus::Idle,
            (_, Some(Run { stop: Some(_), .. })) => SessionStatus::Stopping,
            (Phase::RetryWait(_), _) => SessionStatus::RetryWait,
            (Phase::Asking { .. }, _) => SessionStatus::Asking,
            (Phase::Tools(batch), _) if batch.is_asking() => SessionStatus::Asking,
            _ => SessionStatus::Running,
        }
    }

    /// Tells whether nothing is going on.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Tells whether a run is being prepared.
    pub fn is_starting(&self) -> bool {
        matches!(self.phase, Phase::Starting(_))
    }

    /// Returns the messages waiting to be sent.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Returns the settings.
    pub fn settings(&self) -> &MachineSettings {
        &self.settings
    }

    /// Tells whether the last run was cut short by the end of the daemon.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted && self.is_idle()
    }

    /// Tells whether a request is still wanted; one that was cancelled before it began is not.
    pub fn wants_request(&self, request: RequestId) -> bool {
        matches!(&self.phase, Phase::Streaming(streaming) if streaming.request == request && !streaming.is_cut)
            && !self.is_stopping()
    }

    /// Tells why a request that is not wanted any more is not.
    pub fn why_unwanted(&self) -> Cut {
        let is_cut = matches!(&self.phase, Phase::Streaming(streaming) if streaming.is_cut);
        if is_cut && !self.is_stopping() { Cut::Steered } else { Cut::Stopped }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.stop.is_some())
    }

    pub(super) fn run_mut(&mut self) -> &mut Run {
        self.run.get_or_insert_with(Run::default)
    }

    pub(super) fn emit(&mut self, event: Event) {
        self.effects.push(Effect::Emit(event));
    }

    pub(super) fn reply(&mut self, to: ReplyId, outcome: Outcome) {
        self.effects.push(Effect::Reply(to, outcome));
    }

    pub(super) fn refuse(&mut self, to: ReplyId, refusal: Refusal) {
        self.reply(to, Outcome::Refused(refusal));
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Returns a random number (splitmix64; the seed comes from the actor).
    pub(super) fn next_random(&mut self) -> u32 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 32) as u32
    }

    pub(super) fn new_entry_id(&mut self, moment: Moment<'_>) -> EntryId {
        moment.tree.new_entry_id(|| self.next_random())
    }

    pub(super) fn new_entry(&mut self, moment: Moment<'_>, body: EntryBody) -> NewEntry {
        NewEntry { id: self.new_entry_id(moment), body }
    }

    /// Tells of a message that is complete as it begins, and counts it to the run.
    pub(super) fn announce(&mut self, message: MessageEntry) {
        self.emit(Event::MessageStart(message.clone()));
        self.emit(Event::MessageEnd(message.clone()));
        self.run_mut().messages.push(message);
    }

    /// Takes the phase out, leaving idle, if it is the one that an input is meant for; a late input must not touch it.
    pub(super) fn take_phase(&mut self, is_meant: impl FnOnce(&Phase) -> bool) -> Option<Phase> {
        is_meant(&self.phase).then(|| std::mem::replace(&mut self.phase, Phase::Idle))
    }

    fn on_wait(&mut self, reply: ReplyId) {
        if self.is_idle() {
            let end = self.last_end.clone().unwrap_or(WaitResult { reason: None, error_message: None });
            self.reply(reply, Outcome::Wait(end));
        } else {
            self.waiting.push(reply);
        }
    }

    fn on_stop(&mut self, moment: Moment<'_>, why: Stop, reply: ReplyId) {
        if self.is_idle() {
            return self.reply(reply, Outcome::Done);
        }
        let run = self.run_mut();
        run.stop_replies.push(reply);
        if run.stop.is_some() {
            // The run is being stopped already; this request waits for the same end.
            return;
        }
        run.stop = Some(why);
        match &self.phase {
            Phase::Streaming(streaming) => {
                let request = streaming.request;
                self.effects.push(Effect::CancelRequest(request, Cut::Stopped));
            }
            Phase::Tools(_) if why == Stop::Shutdown => self.leave_tools(moment),
            Phase::Tools(_) => self.cancel_tools(moment),
            Phase::RetryWait(pause) => {
                let retry = pause.id;
                self.effects.push(Effect::CancelRetry(retry));
                self.end_retry_wait();
            }
            Phase::Asking { .. } if why == Stop::Abort => {
                self.cancel_questions(moment);
                self.phase = Phase::Between(Next::Answer);
                self.effects.push(Effect::Step);
            }
            // The question stays open: it is asked again when the session is loaded.
            Phase::Asking { .. } => self.end_run(RunEnd::Interrupted),
            Phase::Idle | Phase::Starting(_) | Phase::Between(_) => {}
        }
    }

    /// Makes the session idle: the last events of a run, and the answers that waited for its end.
    pub(super) fn settle(&mut self, reason: RunEnd) {
        let run = self.run.take().unwrap_or_default();
        let is_whole = reason != RunEnd::Storage && self.questions.is_empty();
        let (aborted, reason) = match run.stop {
            Some(Stop::Abort) => (true, RunEnd::Aborted),
            Some(Stop::Shutdown) => (true, RunEnd::Interrupted),
            // A steering message cut the answer short, and was then taken out of its queue.
            None => (reason == RunEnd::Aborted, reason),
        };
        let tells_error = matches!(reason, RunEnd::Error | RunEnd::Storage | RunEnd::Length);
        let error_message = tells_error.then_some(run.error).flatten();
        self.phase = Phase::Idle;
        self.questions = QuestionBook::default();
        self.urgent = 0;
        self.interrupted = reason == RunEnd::Interrupted;
        self.emit(Event::AgentSettled { aborted, reason, error_message: error_message.clone() });
        self.effects.push(Effect::Settled { is_whole });
        let end = WaitResult { reason: Some(reason), error_message };
        self.last_end = Some(end.clone());
        for reply in run.stop_replies {
            self.reply(reply, Outcome::Done);
        }
        for reply in std::mem::take(&mut self.waiting) {
            self.reply(reply, Outcome::Wait(end.clone()));
        }
    }

    /// Ends a run of which no client was told.
    pub(super) fn settle_unannounced(&mut self) {
        let run = self.run.take().unwrap_or_default();
        self.phase = Phase::Idle;
        self.effects.push(Effect::Settled { is_whole: true });
        let end = WaitResult { reason: None, error_message: None };
        for reply in run.stop_replies {
            self.reply(reply, Outcome::Done);
        }
        let end = self.last_end.clone().unwrap_or(end);
        for reply in std::mem::take(&mut self.waiting) {
            self.reply(reply, Outcome::Wait(end.clone()));
        }
    }
}

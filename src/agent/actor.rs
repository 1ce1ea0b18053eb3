//! The session actor: it owns a session's tree, file, ring and machine, performs the machine's effects in order and
//! feeds results back.
//!
//! **Invariant**: nothing is published about an entry before it is on disk. A write is a barrier in the job queue:
//! jobs behind it wait, while requests are still read (but see [`SessionActor::takes_requests`]). What streams (model deltas, tool output) is not even received
//! while jobs wait, so the message and the outputs that the actor holds are always exactly those it has published,
//! and a snapshot taken between two jobs has neither more nor less than the events up to its cursor.

mod append;
mod attach;
mod commands;
mod hide_keys;
mod images;
mod journal;
mod model;
mod perform;
mod prepare;
mod published;
mod read;
mod request;
mod senders;
mod tool_calls;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::message::ThinkingLevel;
use agentd_protocol::methods::{ClientRef, View};
use agentd_protocol::{EntryId, SessionId};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::append::Write;
use self::images::Fitting;
use self::journal::Journal;
use self::perform::{Job, Replies};
use self::prepare::PrepareResult;
use self::published::Published;
use self::request::ActiveRequest;
use self::senders::Senders;
use self::tool_calls::{LiveTool, ToolMessage};
use crate::agent::facts::LiveFacts;
use crate::agent::handle::{ClientId, Command, Ending};
use crate::agent::machine::{Input, Machine, Moment, RetryId};
use crate::agent::services::Services;
use crate::clock;
use crate::config::env::SessionEnv;
use crate::config::settings::Layer;
use crate::config::{RequireRead, Settings};
use crate::constants::LONGEST_SLEEP;
use crate::provider::ModelSpec;
use crate::resources::Project;
use crate::ring::{Doing, Ring};
use crate::session::entry::Entry;
use crate::session::rows::{SessionFacts, summarize};
use crate::session::tree::SessionTree;
use crate::store::session_file::SessionFile;
use crate::tools::KnownFiles;

/// One live session.
pub(crate) struct SessionActor {
    id: SessionId,
    services: Arc<Services>,
    commands: mpsc::Receiver<Box<Command>>,
    ending: Ending,
    ring: Ring,
    machine: Machine,
    tree: SessionTree,
    /// The session's row in lists.
    row: SessionFacts,
    /// `None` while a write has it.
    file: Option<SessionFile>,
    /// Entries that are in the tree but in no file yet: the file appears with the first message.
    unsaved: Vec<Entry>,
    journal: Journal,
    settings: SessionSettings,
    jobs: VecDeque<Job>,
    write: Option<Write>,
    replies: Replies,
    prepare: Option<JoinHandle<PrepareResult>>,
    /// The user message whose images are being made fit. Boxed: most sessions never have one.
    fitting: Option<Box<Fitting>>,
    request: Option<ActiveRequest>,
    tools: HashMap<EntryId, LiveTool>,
    published: Published,
    /// What the tools know of files; `None` when nobody wants to know.
    known_files: Option<KnownFiles>,
    tool_messages: (mpsc::Sender<ToolMessage>, mpsc::Receiver<ToolMessage>),
    retry: Option<(RetryId, Instant)>,
    retry_at: Option<i64>,
    merge_flush: Option<Instant>,
    /// When deltas of the last run leave the ring.
    delta_drop: Option<Instant>,
    clients: BTreeMap<ClientId, AttachedClient>,
    /// Who sent the user messages since the session was loaded, by their entries.
    senders: Senders,
    /// Where the session's file is or will be.
    path: PathBuf,
    facts: Arc<LiveFacts>,
    last_used: i64,
    /// The actor ends as soon as nothing is going on.
    closing: bool,
    /// Every handle is gone.
    is_abandoned: bool,
    /// What was noticed while the session was loaded; told when the first client attaches.
    notices: Vec<(&'static str, String)>,
    unrecovered: Option<String>,
}

/// A client that reads the session's events.
struct AttachedClient {
    /// As others are told of it.
    who: Arc<ClientRef>,
    /// How it reads.
    view: View,
    /// Whether it lets somebody answer questions.
    answers: bool,
}

/// What of a session can be set from outside.
#[derive(Clone)]
pub(crate) struct SessionSettings {
    /// Working directory.
    pub(crate) cwd: PathBuf,
    /// Environment of tools and key look-up.
    pub(crate) env: SessionEnv,
    /// The model; `None` when none can be used yet.
    pub(crate) model: Option<Arc<ModelSpec>>,
    /// How much it is asked to think.
    pub(crate) thinking: ThinkingLevel,
    /// Names of the tools the model may call.
    pub(crate) tools: Vec<String>,
    /// What the working directory brings along, as it was last seen.
    pub(crate) project: Project,
    /// Settings that it was given when it was made.
    pub(crate) given: Layer,
    /// What holds for the run, or held for the last one.
    pub(crate) config: Arc<Settings>,
}

/// Everything an actor begins with.
pub(crate) struct Opening {
    /// The session.
    pub(crate) id: SessionId,
    /// Its entries, those not in the file yet included.
    pub(crate) tree: SessionTree,
    /// Its file.
    pub(crate) file: SessionFile,
    /// Entries not in the file yet.
    pub(crate) unsaved: Vec<Entry>,
    /// Its control flow.
    pub(crate) machine: Machine,
    /// Its crash journal.
    pub(crate) journal: Journal,
    /// Its settings.
    pub(crate) settings: SessionSettings,
    /// Its events.
    pub(crate) ring: Ring,
    /// Things to tell the first client that attaches.
    pub(crate) notices: Vec<(&'static str, String)>,
    /// Why what the crash journal holds is not in the file yet. No run may begin before it is.
    pub(crate) unrecovered: Option<String>,
}

pub(crate) use self::journal::{Journal as SessionJournal, left_records};
pub(crate) use self::prepare::survey;

impl SessionActor {
    /// Makes the actor; nothing happens before [`SessionActor::run`].
    pub(crate) fn new(
        services: Arc<Services>,
        opening: Opening,
        facts: Arc<LiveFacts>,
        commands: mpsc::Receiver<Box<Command>>,
        ending: Ending,
    ) -> Self {
        let known_files = (opening.settings.config.require_read == RequireRead::Changed).then(KnownFiles::default);
        let machine = &opening.machine;
        let mut published =
            Published::new(machine.queues().texts(), machine.is_interrupted(), machine.open_questions());
        machine.told_of_calls().iter().for_each(|event| published.note(event));
        let mut actor = Self {
            id: opening.id,
            services,
            commands,
            ending,
            ring: opening.ring,
            machine: opening.machine,
            row: summarize(&opening.tree, opening.file.path(), opening.file.len()),
            tree: opening.tree,
            path: opening.file.path().to_owned(),
            file: Some(opening.file),
            unsaved: opening.unsaved,
            journal: opening.journal,
            settings: opening.settings,
            jobs: VecDeque::new(),
            write: None,
            replies: Replies::default(),
            prepare: None,
            fitting: None,
            request: None,
            tools: HashMap::new(),
            published,
            known_files,
            tool_messages: mpsc::channel(crate::constants::TOOL_MESSAGES),
            retry: None,
            retry_at: None,
            merge_flush: None,
            delta_drop: None,
            clients: BTreeMap::new(),
            senders: Senders::default(),
            facts,
            last_used: clock::now_ms(),
            closing: false,
            is_abandoned: false,
            notices: opening.notices,
            unrecovered: opening.unrecovered,
        };
        actor.machine.set_own_folders(Arc::clone(&actor.services.own_folders));
        actor.tell_machine_model();
        actor.facts.set_questions(actor.published.questions.clone());
        actor
    }

    /// Lives until it is closed or its last handle is gone, and leaves no run behind.
    pub(crate) async fn run(mut self) {
        loop {
            self.advance();
            let doing = Doing { status: self.machine.status(), retry_at: self.retry_at };
            self.facts.set(doing, self.has_file(), self.can_unload(), self.last_used);
            if self.closing && self.is_quiet() {
                break;
            }
            self.wait_for_something().await;
        }
        // The mailbox goes last: who finds it closed loads the session anew, and needs its file and journal for that.
        self.journal.close();
        self.file = None;
        self.ending.set_in_order();
    }

    /// Tells whether nothing is under way.
    fn is_quiet(&self) -> bool {
        self.machine.is_idle() && self.jobs.is_empty() && !self.is_waiting()
    }

    /// Takes exactly one thing that has happened. Each branch is cancel-safe: channels, timers, and join handles
    /// that are polled by reference.
    async fn wait_for_something(&mut self) {
        // What streams is left where it is while jobs wait behind a write (see the invariant above).
        let may_stream = !self.is_waiting() && self.jobs.is_empty();
        let deadline = self.next_deadline(may_stream);
        tokio::select! {
            written = append::finished(&mut self.write) => self.on_written(written),
            fitted = images::finished(&mut self.fitting) => self.on_fitted(fitted),
            command = self.commands.recv(), if self.takes_requests() => match command {
                Some(command) => {
                    self.last_used = clock::now_ms();
                    self.on_command(*command);
                }
                None => self.on_abandoned(),
            },
            prepared = prepare::finished(&mut self.prepare) => self.on_prepared(prepared),
            step = request::next(&mut self.request), if may_stream => self.on_stream(step),
            message = self.tool_messages.1.recv(), if may_stream => {
                if let Some(message) = message {
                    self.on_tool_message(message);
                }
            }
            () = sleep_until(deadline) => self.on_deadline(),
        }
    }

    /// Tells whether the next request may be taken. While a message is being made fit, or its run is being prepared, what
    /// comes after it is left in the mailbox: it is to find that message in the session, and to be answered after it.
    fn takes_requests(&self) -> bool {
        !self.is_abandoned && self.fitting.is_none() && !self.machine.is_starting()
    }

    fn next_deadline(&self, may_stream: bool) -> Option<Instant> {
        let retry = self.retry.map(|(_, at)| at);
        let tools = self.tools.values().filter(|_| may_stream).filter_map(LiveTool::flush_at).min();
        let question = self.machine.deadline().filter(|_| may_stream).map(|at| {
            let wait = u64::try_from(at.saturating_sub(clock::now_ms())).unwrap_or(0);
            Instant::now() + Duration::from_millis(wait).min(LONGEST_SLEEP)
        });
        [retry, tools, question, self.merge_flush, self.delta_drop, self.journal.flush_at()].into_iter().flatten().min()
    }

    fn on_deadline(&mut self) {
        let now = Instant::now();
        if self.merge_flush.is_some_and(|at| at <= now) {
            self.end_merge();
        }
        if self.delta_drop.is_some_and(|at| at <= now) {
            self.ring.drop_deltas();
            self.delta_drop = self.ring.next_drop();
        }
        if !self.is_waiting() && self.jobs.is_empty() {
            self.flush_tool_output(now);
        }
        self.journal.flush_due(now);
        if self.machine.deadline().is_some_and(|at| at <= clock::now_ms()) {
            self.feed(Input::DeadlineReached);
        }
        if let Some((retry, at)) = self.retry
            && at <= now
        {
            self.retry = None;
            self.retry_at = None;
            self.feed(Input::RetryDue(retry));
        }
    }

    /// Gives the machine an input and queues what it wants done.
    fn feed(&mut self, input: Input) {
        let input = self.without_keys(input);
        let is_attended = self.clients.values().any(|client| client.answers);
        let moment = Moment { now: clock::now_ms(), tree: &self.tree, session: &self.id, is_attended };
        let effects = self.machine.handle(moment, input);
        self.jobs.extend(effects.into_iter().map(Job::Effect));
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

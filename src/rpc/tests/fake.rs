//! Sessions without an agent: they publish what a test tells them to, and log what they are asked.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use agentd_protocol::message::{AssistantMessage, ContentBlock, StopReason, ThinkingLevel, Usage};
use agentd_protocol::methods::{
    Approval, AttachResult, ChangeRuleResult, CycleModelResult, CycleThinkingLevelResult, Disposition, Empty,
    EnvSource, FolderTrust, GetAvailableModelsResult, GetAvailableThinkingLevelsResult, GetEntriesResult,
    GetLastAssistantTextResult, GetMessagesResult, KeyStatus, ListRulesResult, ListSessionsParams, ListSessionsResult,
    ListTrustResult, ListedRule, Mode, OpenMessage, PeerInfo, ProjectTrust, PromptResult, Question, Queue, QueueMode,
    Replay, RuleAction, RuleFileInfo, RuleScope, RunEnd, SessionState, SessionStats, SessionStatus, Snapshot,
    TestRuleParams, TestRuleResult, TrustDecision, TrustResult, UntrustResult, WaitResult,
};
use agentd_protocol::model::{Model, ModelCost};
use agentd_protocol::{Epoch, Seq, SessionId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::mpsc;

use crate::agent::event::{AssistantUpdate, BlockKind, DeltaKind, Event, MessageEntry};
use crate::agent::handle::{Answer, AttachRequest, Attached, Command, Reply, SessionError, SessionHandle, UserAnswer};
use crate::config::env::SessionEnv;
use crate::config::settings::{Key, Layer, Value};
use crate::config::{ConfigTarget, Effective, LiveSettings, SessionPlace};
use crate::exec::MetProcess;
use crate::permissions::policy::{Ask, CheckedCall, EffectClass, Policy, Reason, Verdict, judge};
use crate::permissions::questions::Answer as Decided;
use crate::permissions::rule_files::RuleEdit;
use crate::permissions::rules::{Prepared, Rules};
use crate::ring::{ListLog, Ring, RingBudget};
use crate::rpc::{Counts, DaemonInfo, Server, Sessions, Supervised};
use crate::supervisor::{NewSession, RuleChange, SupervisorError};
use crate::tasks::Tasks;
use crate::trust::TrustStore;

/// The sessions of a made-up daemon.
pub(super) struct Fake {
    pub(super) budget: Arc<RingBudget>,
    pub(super) list_log: Arc<ListLog>,
    sessions: Mutex<HashMap<SessionId, FakeSession>>,
    pub(super) tasks: Tasks,
    pub(super) stopped: Arc<Mutex<Vec<String>>>,
    /// Found instead of the session that is opened next: one that has just left memory.
    leaving: Mutex<Option<SessionHandle>>,
    trust: Mutex<Vec<FolderTrust>>,
    rules: Mutex<Vec<ListedRule>>,
    /// Id of the next new session, which then begins without events.
    pub(super) next_new: Mutex<Option<String>>,
    live: Arc<LiveSettings>,
}

/// One of them, as a test holds it.
#[derive(Clone)]
pub(super) struct FakeSession {
    pub(super) handle: SessionHandle,
    shared: Arc<Shared>,
}

struct Shared {
    id: SessionId,
    ring: Ring,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Text of the open message.
    text: String,
    log: Vec<String>,
    waiting: Vec<Reply<WaitResult>>,
    aborting: Vec<Reply<Empty>>,
    /// Prompts with the text `slow`, answered when the session settles.
    slow: Vec<Reply<PromptResult>>,
    /// Published after the answer of the next prompt.
    script: Vec<Event>,
    /// The question that waits.
    asked: Option<Approval>,
    /// The first answer to a question.
    answered: Option<Decided>,
}

impl Fake {
    pub(super) fn new(ring_bytes: usize) -> Arc<Self> {
        let list_log = ListLog::new(1_796_000_000_000_000);
        list_log.begin(0);
        Arc::new(Self {
            budget: RingBudget::new(ring_bytes),
            list_log,
            sessions: Mutex::default(),
            tasks: Tasks::default(),
            stopped: Arc::default(),
            leaving: Mutex::default(),
            trust: Mutex::default(),
            rules: Mutex::default(),
            next_new: Mutex::default(),
            live: Arc::new(LiveSettings::start(
                "/config/agentd/config.toml".into(),
                None,
                TrustStore::new("/state".as_ref()),
                Layer::default(),
                Layer::default(),
            )),
        })
    }

    pub(super) fn server(self: &Arc<Self>) -> Server {
        let stopped = self.stopped.clone();
        let info = DaemonInfo {
            server_info: PeerInfo { name: "agentd".into(), version: "1.2.3".into(), build: Some("b".into()) },
            socket: "/run/agentd/socket".into(),
            sessions_dir: "/state/sessions".into(),
            confinement: "none".into(),
            stop: Box::new(move |reason| stopped.lock().unwrap().push(reason.to_owned())),
        };
        Server::new(self.clone(), info)
    }

    /// Makes a session in whose first message text streams, or loads it anew.
    pub(super) fn load(&self, id: &str, epoch: &str) -> FakeSession {
        let session = self.load_idle(id, epoch);
        session.push([message_start(), block_start()]);
        session
    }

    /// Makes a session without events.
    pub(super) fn load_idle(&self, id: &str, epoch: &str) -> FakeSession {
        let id = SessionId::new(id);
        let ring = Ring::new(id.clone(), Epoch::new(epoch), self.budget.clone());
        let (commands, mailbox) = mpsc::channel(4);
        let handle = SessionHandle::new(id.clone(), ring.clone(), commands);
        let shared = Arc::new(Shared { id: id.clone(), ring, state: Mutex::default() });
        drop(self.tasks.spawn("fake session", run(shared.clone(), mailbox)));
        let session = FakeSession { handle, shared };
        self.sessions.lock().unwrap().insert(id, session.clone());
        session
    }

    /// Lets a session leave memory just after it was found for the next request; with `is_in_mailbox`, that request is
    /// handed over before.
    pub(super) fn leave_when_found(&self, id: &str, is_in_mailbox: bool) {
        let ring = Ring::new(id.into(), Epoch::new("left"), self.budget.clone());
        let (commands, mut mailbox) = mpsc::channel(1);
        let handle = SessionHandle::new(id.into(), ring, commands);
        *self.leaving.lock().unwrap() = Some(handle.clone());
        handle.ending().set_in_order();
        if is_in_mailbox {
            drop(self.tasks.spawn("leaving session", async move { drop(mailbox.recv().await) }));
        }
    }

    /// Makes a session unknown.
    pub(super) fn remove(&self, id: &str) {
        self.sessions.lock().unwrap().remove(&SessionId::new(id));
    }

    /// Returns a session.
    pub(super) fn session(&self, id: &str) -> FakeSession {
        self.sessions.lock().unwrap()[&SessionId::new(id)].clone()
    }

    fn find(&self, id: &SessionId) -> Result<SessionHandle, SupervisorError> {
        let sessions = self.sessions.lock().unwrap();
        let found = sessions.values().find(|session| session.shared.id.as_str().ends_with(id.as_str()));
        found.map(|session| session.handle.clone()).ok_or_else(|| SupervisorError::UnknownSession(id.clone()))
    }
}

impl FakeSession {
    /// Publishes events; returns the number of the last.
    pub(super) fn push(&self, events: impl IntoIterator<Item = Event>) -> Seq {
        let _state = self.shared.state.lock().unwrap();
        self.shared.ring.push(events)
    }

    /// Publishes text deltas.
    pub(super) fn stream<'a>(&self, deltas: impl IntoIterator<Item = &'a str>) -> Seq {
        let mut state = self.shared.state.lock().unwrap();
        let events: Vec<Event> = deltas
            .into_iter()
            .map(|text| {
                state.text += text;
                delta(text)
            })
            .collect();
        self.shared.ring.push(events)
    }

    /// Publishes these events after the answer of the next prompt, and nothing else.
    pub(super) fn script(&self, events: Vec<Event>) {
        self.shared.state.lock().unwrap().script = events;
    }

    /// Asks.
    pub(super) fn ask(&self, question: Question) {
        let mut state = self.shared.state.lock().unwrap();
        state.asked = Some(Approval { session_id: self.shared.id.clone(), question: question.clone() });
        self.shared.ring.push([Event::ApprovalRequested(question)]);
    }

    /// Returns the text that was streamed.
    pub(super) fn text(&self) -> String {
        self.shared.state.lock().unwrap().text.clone()
    }

    /// Returns what the session was asked.
    pub(super) fn log(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().log.clone()
    }

    /// Answers those who wait.
    pub(super) fn settle(&self) {
        let mut state = self.shared.state.lock().unwrap();
        let seq = self.shared.ring.push([settled()]);
        for reply in std::mem::take(&mut state.waiting) {
            let value = WaitResult { reason: Some(RunEnd::Done), error_message: None };
            drop(reply.send(Ok(Answer { value, seq })));
        }
        for reply in std::mem::take(&mut state.slow) {
            answer(reply, PromptResult { disposition: Disposition::Started, entry_id: None }, seq);
        }
        for reply in std::mem::take(&mut state.aborting) {
            drop(reply.send(Ok(Answer { value: Empty {}, seq })));
        }
    }

    /// Ends the session as a crash does.
    pub(super) fn crash(&self) {
        self.shared.ring.close();
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.shared.ring
    }
}

async fn run(shared: Arc<Shared>, mut mailbox: mpsc::Receiver<Box<Command>>) {
    while let Some(command) = mailbox.recv().await {
        let mut state = shared.state.lock().unwrap();
        let seq = shared.ring.last_seq();
        state.log.push(name(&command));
        match *command {
            Command::Prompt(input, _, reply) if input.message == "busy" => drop(reply.send(Err(SessionError::Busy))),
            Command::Prompt(input, _, reply) if input.message == "slow" => state.slow.push(reply),
            Command::Prompt(_, _, reply) if !state.script.is_empty() => {
                answer(
                    reply,
                    PromptResult { disposition: Disposition::Started, entry_id: Some("5f0c8e21".into()) },
                    seq,
                );
                shared.ring.push(std::mem::take(&mut state.script));
            }
            Command::Prompt(_, _, reply) | Command::Continue(reply) => {
                let seq = shared.ring.push([Event::AgentStart]);
                answer(reply, PromptResult { disposition: Disposition::Started, entry_id: None }, seq);
            }
            Command::Steer(_, _, reply) | Command::FollowUp(_, reply) => {
                answer(reply, PromptResult { disposition: Disposition::Queued, entry_id: None }, seq);
            }
            Command::Abort(reply) => state.aborting.push(reply),
            Command::Wait(reply) => state.waiting.push(reply),
            Command::ClearQueue(reply) => answer(reply, Queue::default(), seq),
            Command::GetState(reply) => answer(reply, session_state(&shared.id, seq > 0), seq),
            Command::GetMessages(reply) => answer(reply, GetMessagesResult { messages: Vec::new() }, seq),
            Command::GetEntries(_, reply) => answer(reply, GetEntriesResult { entries: vec![], leaf_id: None }, seq),
            Command::GetLastAssistantText(reply) => {
                answer(reply, GetLastAssistantTextResult { text: Some(state.text.clone()) }, seq);
            }
            Command::GetStats(reply) => answer(reply, stats(&shared.id), seq),
            Command::SetModel(name, reply) => answer(reply, model(&name), seq),
            Command::GetPlace(reply) => answer(reply, place(), seq),
            Command::SetName(_, reply) | Command::Close(reply) | Command::Unload(reply) => answer(reply, Empty {}, seq),
            Command::SetThinkingLevel(_, reply) | Command::SetEnv(_, reply) => answer(reply, Empty {}, seq),
            Command::CycleThinkingLevel(reply) => answer(reply, CycleThinkingLevelResult::default(), seq),
            Command::GetThinkingLevels(reply) => {
                answer(reply, GetAvailableThinkingLevelsResult { levels: vec![ThinkingLevel::Off] }, seq);
            }
            Command::CycleModel(reply) => answer(reply, CycleModelResult::default(), seq),
            Command::SetMode(_, reply) | Command::SetAutoRetry(_, reply) | Command::AbortRetry(reply) => {
                answer(reply, Empty {}, seq)
            }
            Command::Respond(given, reply) => respond(&shared, &mut state, given, reply),
            Command::SetSteeringMode(_, reply) | Command::SetFollowUpMode(_, reply) => answer(reply, Empty {}, seq),
            Command::Detach(_, reply) => answer(reply, Empty {}, seq),
            Command::Attach(request, reply) => attach(&shared, &state.text, *request, reply),
            Command::Panic(_) => panic!("nobody asks made-up sessions for that"),
        }
    }
}

/// Answers one question: a second answer is late.
fn respond(shared: &Shared, state: &mut State, given: UserAnswer, reply: Reply<Empty>) {
    if let Some(first) = &state.answered {
        return drop(reply.send(Err(SessionError::AlreadyResolved(first.clone()))));
    }
    let UserAnswer { approval, decision, message, client } = given;
    let first = Decided { decision: decision.into(), by: Some(client.who.name.clone()), pid: None, message };
    (state.asked, state.answered) = (None, Some(first.clone()));
    let seq = shared.ring.push([Event::ApprovalResolved { approval_id: approval, answer: first }]);
    answer(reply, Empty {}, seq);
}

fn answer<T>(reply: Reply<T>, value: T, seq: Seq) {
    drop(reply.send(Ok(Answer { value, seq })));
}

fn name(command: &Command) -> String {
    match command {
        Command::Prompt(input, if_busy, _) => {
            format!("prompt {} {if_busy:?} from {}", input.message, input.client.who.name)
        }
        Command::Steer(input, when, _) => format!("steer {} {when:?}", input.message),
        Command::FollowUp(input, _) => format!("follow_up {}", input.message),
        Command::Abort(_) => "abort".into(),
        Command::AbortRetry(_) => "abort_retry".into(),
        Command::Respond(answer, _) => format!("respond {} {:?}", answer.approval, answer.decision),
        Command::ClearQueue(_) => "clear_queue".into(),
        Command::Continue(_) => "continue".into(),
        Command::Wait(_) => "wait".into(),
        Command::GetState(_) => "get_state".into(),
        Command::GetMessages(_) => "get_messages".into(),
        Command::GetEntries(..) => "get_entries".into(),
        Command::GetLastAssistantText(_) => "get_last_assistant_text".into(),
        Command::GetStats(_) => "get_session_stats".into(),
        Command::GetPlace(_) => "get_place".into(),
        Command::Unload(_) => "unload".into(),
        Command::SetName(name, _) => format!("set_name {name}"),
        Command::SetModel(name, _) => format!("set_model {name}"),
        Command::SetThinkingLevel(level, _) => format!("set_thinking_level {}", level.as_str()),
        Command::CycleThinkingLevel(_) => "cycle_thinking_level".into(),
        Command::GetThinkingLevels(_) => "get_available_thinking_levels".into(),
        Command::CycleModel(_) => "cycle_model".into(),
        Command::SetMode(mode, _) => format!("set_mode {}", mode.as_str()),
        Command::SetAutoRetry(enabled, _) => format!("set_auto_retry {enabled}"),
        Command::SetSteeringMode(mode, _) => format!("set_steering_mode {mode:?}"),
        Command::SetFollowUpMode(mode, _) => format!("set_follow_up_mode {mode:?}"),
        Command::SetEnv(env, _) => format!("set_env {env:?}"),
        Command::Attach(..) => "attach".into(),
        Command::Detach(..) => "detach".into(),
        Command::Close(_) => "close".into(),
        Command::Panic(_) => "panic".into(),
    }
}

fn attach(shared: &Shared, text: &str, request: AttachRequest, reply: Reply<Attached>) {
    let ring = &shared.ring;
    ring.flush_merge();
    let exact = request.since.filter(|since| ring.can_replay(since, request.view));
    let (seq, replay) = exact.map_or((ring.last_seq(), Replay::Snapshot), |since| (since.seq, Replay::Exact));
    let message = OpenMessage { entry_id: "m".into(), message: assistant(text) };
    let snapshot = Snapshot { message: Some(message), ..Snapshot::default() };
    let result = AttachResult {
        session_id: shared.id.clone(),
        epoch: ring.epoch().clone(),
        seq,
        replay,
        state: session_state(&shared.id, ring.last_seq() > 0),
        snapshot: (replay == Replay::Snapshot).then_some(snapshot),
    };
    let subscription = ring.subscribe(request.view, seq, request.wake);
    answer(reply, Attached { result, subscription }, seq);
}

impl Sessions for Fake {
    fn new_session(&self, new: NewSession) -> Supervised<'_, SessionHandle> {
        async move {
            if new.cwd.ends_with("missing") {
                let path = new.cwd.display().to_string();
                return Err(SupervisorError::WorkingDirectory { path, message: "not found".into() });
            }
            if let Some(id) = self.next_new.lock().unwrap().take() {
                return Ok(self.load_idle(&id, "e1").handle);
            }
            let id = format!("new-{}", self.sessions.lock().unwrap().len());
            Ok(self.load(&id, "e1").handle)
        }
        .boxed()
    }

    fn open<'a>(&'a self, id: &'a SessionId) -> Supervised<'a, SessionHandle> {
        let leaving = self.leaving.lock().unwrap().take();
        async move { leaving.map_or_else(|| self.find(id), Ok) }.boxed()
    }

    fn list(&self, params: ListSessionsParams) -> Supervised<'_, ListSessionsResult> {
        async move {
            assert_ne!(params.text.as_deref(), Some("panic"), "as the test wishes");
            let list_seq = self.list_log.as_of(0, &mut []).await;
            Ok(ListSessionsResult { sessions: Vec::new(), next_cursor: None, total: 0, list_seq })
        }
        .boxed()
    }

    fn list_log(&self) -> &Arc<ListLog> {
        &self.list_log
    }

    fn approvals(&self, session: Option<SessionId>) -> BoxFuture<'_, Vec<Approval>> {
        async move {
            let sessions = self.sessions.lock().unwrap();
            let asked = sessions.values().filter_map(|one| one.shared.state.lock().unwrap().asked.clone());
            asked.filter(|asked| session.as_ref().is_none_or(|id| *id == asked.session_id)).collect()
        }
        .boxed()
    }

    fn may_be_from_tool(&self, _process: MetProcess) -> BoxFuture<'_, bool> {
        std::future::ready(false).boxed()
    }

    fn trust(&self, path: PathBuf, decision: TrustDecision, client: Option<String>) -> Supervised<'_, TrustResult> {
        let path = path.display().to_string();
        let row = FolderTrust { path: path.clone(), decision, decided_at: Some(1_796_000_000_000), client };
        self.trust.lock().unwrap().push(row);
        async move { Ok(TrustResult { path, decision }) }.boxed()
    }

    fn untrust(&self, path: PathBuf) -> Supervised<'_, UntrustResult> {
        let path = path.display().to_string();
        let mut folders = self.trust.lock().unwrap();
        let forgotten = folders.iter().find(|folder| folder.path == path).map(|folder| folder.decision);
        folders.retain(|folder| folder.path != path);
        async move { Ok(UntrustResult { path, forgotten }) }.boxed()
    }

    fn list_trust(&self) -> Supervised<'_, ListTrustResult> {
        let folders = self.trust.lock().unwrap().clone();
        async move { Ok(ListTrustResult { file: "/home/me/.local/state/agentd/trust.json".into(), folders }) }.boxed()
    }

    fn place_of<'a>(&'a self, id: &'a SessionId) -> Supervised<'a, SessionPlace> {
        async move { self.find(id).map(|_| place()) }.boxed()
    }

    fn effective(&self, place: SessionPlace) -> BoxFuture<'_, Effective> {
        async move { self.live.of_session(&place) }.boxed()
    }

    fn set_config(&self, target: ConfigTarget, key: &'static Key, value: Option<Value>) -> Supervised<'_, PathBuf> {
        let written = self.live.write(&target, key, value.as_ref());
        async move { Ok(written?) }.boxed()
    }

    fn set_key(&self, provider: String, key: Option<String>) -> Supervised<'_, (PathBuf, bool)> {
        let why = format!("{provider}: {}", if key.is_some() { "not kept" } else { "not forgotten" });
        async move { Err(SupervisorError::Storage(why)) }.boxed()
    }

    fn list_keys(&self, env: SessionEnv) -> BoxFuture<'_, (PathBuf, Vec<KeyStatus>)> {
        let keys =
            env.get("KEY").map(|_| KeyStatus { provider: "p".into(), place: "KEY".into(), ..KeyStatus::default() });
        async move { ("/config/agentd/auth.json".into(), keys.into_iter().collect()) }.boxed()
    }

    fn live(&self) -> &Arc<LiveSettings> {
        &self.live
    }

    fn list_rules(&self, cwd: PathBuf, _home: Option<PathBuf>) -> Supervised<'_, ListRulesResult> {
        let rules = self.rules.lock().unwrap().clone();
        let file = |scope, path: PathBuf| RuleFileInfo {
            scope,
            path: path.display().to_string(),
            is_read: scope == RuleScope::User,
        };
        let files = vec![
            file(RuleScope::User, "/home/me/.config/agentd/rules.toml".into()),
            file(RuleScope::Project, cwd.join(".agentd/rules.toml")),
        ];
        async move { Ok(ListRulesResult { files, rules, problems: Vec::new() }) }.boxed()
    }

    fn change_rule(&self, change: RuleChange) -> Supervised<'_, ChangeRuleResult> {
        let row = ListedRule { scope: change.scope, rule: change.rule };
        let mut rules = self.rules.lock().unwrap();
        let before = rules.len();
        rules.retain(|known| *known != row);
        if change.edit == RuleEdit::Add {
            rules.push(row);
        }
        let changed = rules.len() != before;
        async move { Ok(ChangeRuleResult { file: "/home/me/.config/agentd/rules.toml".into(), changed }) }.boxed()
    }

    fn test_rule(&self, params: TestRuleParams, cwd: PathBuf, _env: SessionEnv) -> Supervised<'_, TestRuleResult> {
        let rules: Vec<_> = self
            .rules
            .lock()
            .unwrap()
            .iter()
            .map(|row| Prepared::new(row.rule.clone(), Some(row.scope), None, None).unwrap())
            .collect();
        let policy =
            Policy { mode: Mode::Ask, rules: Arc::new(Rules { rules, faults: Vec::new() }), ..Policy::default() };
        let args = json!({"command": params.command});
        let call = CheckedCall { effect: EffectClass::Exec, args, places: Vec::new(), cwd };
        let found = judge(&policy, &call.view("bash"));
        let (verdict, reason, always) = match found.verdict {
            Verdict::Allow => (RuleAction::Allow, None, Vec::new()),
            Verdict::Deny(Reason(why)) => (RuleAction::Deny, Some(why), Vec::new()),
            Verdict::Ask(Ask { reason, always }) => (RuleAction::Ask, Some(reason), always),
        };
        async move { Ok(TestRuleResult { verdict, reason, rules: found.rules, always }) }.boxed()
    }

    fn available_models(&self, place: SessionPlace) -> BoxFuture<'_, GetAvailableModelsResult> {
        async move {
            let models = place.env.get("MODEL").map(model).into_iter().collect();
            GetAvailableModelsResult { models, default_model: None, notices: Vec::new() }
        }
        .boxed()
    }

    fn models_of_session<'a>(&'a self, id: &'a SessionId) -> Supervised<'a, GetAvailableModelsResult> {
        async move {
            self.find(id)?;
            Ok(GetAvailableModelsResult { models: vec![model("its/own")], default_model: None, notices: Vec::new() })
        }
        .boxed()
    }

    fn refresh_models<'a>(&'a self, _name: Option<&'a str>) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    fn login_env(&self) -> BoxFuture<'_, SessionEnv> {
        async { SessionEnv::new([("MODEL".to_owned(), "login/shell".to_owned())].into(), EnvSource::LoginShell) }
            .boxed()
    }

    fn counts(&self) -> Counts {
        let loaded = self.sessions.lock().unwrap().len();
        Counts { loaded, ring_bytes: self.budget.used(), index: "ready".into(), ..Counts::default() }
    }
}

pub(super) fn delta(text: &str) -> Event {
    let update = AssistantUpdate::Delta { index: 0, kind: DeltaKind::Text, delta: text.into() };
    Event::MessageUpdate { usage: None, update }
}

pub(super) fn message_start() -> Event {
    let message = Arc::new(agentd_protocol::message::Message::Assistant(AssistantMessage {
        content: Vec::new(),
        ..assistant("")
    }));
    Event::MessageStart(MessageEntry { id: "m".into(), message, client: None })
}

pub(super) fn block_start() -> Event {
    Event::MessageUpdate { usage: None, update: AssistantUpdate::Start { index: 0, block: BlockKind::Text } }
}

pub(super) fn settled() -> Event {
    Event::AgentSettled { aborted: false, reason: RunEnd::Done, error_message: None }
}

pub(super) fn assistant(text: &str) -> AssistantMessage {
    AssistantMessage {
        content: vec![ContentBlock::text(text)],
        api: "demo".into(),
        provider: "demo".into(),
        model: "demo".into(),
        usage: Usage::default(),
        stop_reason: StopReason::Pending,
        timestamp: 0,
        response_id: None,
        raw_stop_reason: None,
        response_model: None,
        error_message: None,
        duration_ms: None,
        thinking_level: None,
    }
}

fn model(name: &str) -> Model {
    let (provider, id) = name.split_once('/').unwrap_or(("", name));
    Model {
        id: id.to_owned(),
        name: id.to_owned(),
        api: "demo".into(),
        provider: provider.to_owned(),
        base_url: String::new(),
        reasoning: false,
        input: vec!["text".into()],
        cost: ModelCost::default(),
        context_window: 1,
        max_tokens: 1,
        thinking_level_map: None,
        prompt_cache: None,
        compat: None,
    }
}

fn place() -> SessionPlace {
    let env = SessionEnv::new([].into(), EnvSource::Client);
    SessionPlace { cwd: Some("/work".into()), env, given: Layer::default() }
}

fn session_state(id: &SessionId, is_running: bool) -> SessionState {
    SessionState {
        model: None,
        thinking_level: ThinkingLevel::Off,
        is_streaming: is_running,
        is_compacting: false,
        steering_mode: QueueMode::OneAtATime,
        follow_up_mode: QueueMode::OneAtATime,
        session_file: Some(format!("/state/sessions/{id}.jsonl")),
        session_id: id.clone(),
        session_name: None,
        auto_compaction_enabled: false,
        message_count: 0,
        pending_message_count: 0,
        cwd: "/work".into(),
        status: if is_running { SessionStatus::Running } else { SessionStatus::Idle },
        leaf_id: None,
        tools: ["read", "bash", "edit", "write"].map(str::to_owned).to_vec(),
        max_turns: 50,
        env_source: EnvSource::Client,
        confinement: "none".into(),
        interrupted: false,
        mode: Some(Mode::Full),
        auto_retry_enabled: true,
        retry_at: None,
        retry: None,
        clients: 0,
        trust: ProjectTrust::default(),
    }
}

fn stats(id: &SessionId) -> SessionStats {
    SessionStats {
        session_file: None,
        session_id: id.clone(),
        user_messages: 0,
        assistant_messages: 0,
        tool_calls: 0,
        tool_results: 0,
        total_messages: 0,
        tokens: agentd_protocol::methods::TokenTotals::default(),
        cost: 0.0,
        context_usage: None,
    }
}

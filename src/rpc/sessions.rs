//! What connections need of the supervisor.

use std::path::PathBuf;
use std::sync::Arc;

use agentd_protocol::SessionId;
use agentd_protocol::methods::{
    Approval, ChangeRuleResult, GetAvailableModelsResult, KeyStatus, ListRulesResult, ListSessionsParams,
    ListSessionsResult, ListTrustResult, TestRuleParams, TestRuleResult, TrustDecision, TrustResult, UntrustResult,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::agent::handle::SessionHandle;
use crate::config::env::SessionEnv;
use crate::config::settings::{Key, Value};
use crate::config::{ConfigTarget, Effective, LiveSettings, SessionPlace};
use crate::exec::MetProcess;
use crate::ring::ListLog;
use crate::supervisor::{NewSession, RuleChange, Supervisor, SupervisorError};

/// A future that gives a result of the supervisor.
pub type Supervised<'a, T> = BoxFuture<'a, Result<T, SupervisorError>>;

/// The sessions of the daemon, as connections see them. Tests put a made-up one in its place.
pub trait Sessions: Send + Sync + 'static {
    /// Makes a session.
    fn new_session(&self, new: NewSession) -> Supervised<'_, SessionHandle>;
    /// Returns a session by its id or a unique end of it, loading it if need be.
    fn open<'a>(&'a self, id: &'a SessionId) -> Supervised<'a, SessionHandle>;
    /// Lists sessions.
    fn list(&self, params: ListSessionsParams) -> Supervised<'_, ListSessionsResult>;
    /// Returns the changes of that list.
    fn list_log(&self) -> &Arc<ListLog>;
    /// Returns the questions that wait for an answer, of one session or of all, oldest first.
    fn approvals(&self, session: Option<SessionId>) -> BoxFuture<'_, Vec<Approval>>;
    /// Tells whether a process may come from a tool call of the daemon.
    fn may_be_from_tool(&self, process: MetProcess) -> BoxFuture<'_, bool>;
    /// Keeps a decision about a folder; `client` is who made it.
    fn trust(&self, path: PathBuf, decision: TrustDecision, client: Option<String>) -> Supervised<'_, TrustResult>;
    /// Forgets the decision about a folder.
    fn untrust(&self, path: PathBuf) -> Supervised<'_, UntrustResult>;
    /// Returns the decisions about folders.
    fn list_trust(&self) -> Supervised<'_, ListTrustResult>;
    /// Returns the rules that hold in a folder.
    fn list_rules(&self, cwd: PathBuf, home: Option<PathBuf>) -> Supervised<'_, ListRulesResult>;
    /// Adds a rule to a file, or takes it out.
    fn change_rule(&self, change: RuleChange) -> Supervised<'_, ChangeRuleResult>;
    /// Tells what would become of a tool call.
    fn test_rule(&self, params: TestRuleParams, cwd: PathBuf, env: SessionEnv) -> Supervised<'_, TestRuleResult>;
    /// Returns the models that an environment has keys for.
    fn available_models(&self, place: SessionPlace) -> BoxFuture<'_, GetAvailableModelsResult>;
    /// Returns what decides which settings hold for a session.
    fn place_of<'a>(&'a self, id: &'a SessionId) -> Supervised<'a, SessionPlace>;
    /// Returns what holds for a session at a place.
    fn effective(&self, place: SessionPlace) -> BoxFuture<'_, Effective>;
    /// Sets a key in a file of settings, or takes it out. Returns the file.
    fn set_config(&self, target: ConfigTarget, key: &'static Key, value: Option<Value>) -> Supervised<'_, PathBuf>;
    /// Keeps the key of a provider, or forgets it. Returns the file, and whether there was one.
    fn set_key(&self, provider: String, key: Option<String>) -> Supervised<'_, (PathBuf, bool)>;
    /// Tells where keys of providers come from, and where `set_key` keeps them.
    fn list_keys(&self, env: SessionEnv) -> BoxFuture<'_, (PathBuf, Vec<KeyStatus>)>;
    /// Returns the settings of the daemon.
    fn live(&self) -> &Arc<LiveSettings>;
    /// Returns the models that a session has keys for.
    fn models_of_session<'a>(&'a self, id: &'a SessionId) -> Supervised<'a, GetAvailableModelsResult>;
    /// Brings what is known of models up to date before a session looks one up, by name if it has one.
    fn refresh_models<'a>(&'a self, name: Option<&'a str>) -> BoxFuture<'a, ()>;
    /// Returns the environment that stands in where no client has sent one.
    fn login_env(&self) -> BoxFuture<'_, SessionEnv>;
    /// Returns what the daemon's status tells of sessions.
    fn counts(&self) -> Counts;
}

/// What the daemon's status tells of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions in memory.
    pub loaded: usize,
    /// Sessions with a run going on.
    pub running: usize,
    /// Bytes held for replay.
    pub ring_bytes: usize,
    /// Tools that did not stop when told.
    pub abandoned_tools: u64,
    /// State of the index.
    pub index: String,
}

impl Sessions for Supervisor {
    fn new_session(&self, new: NewSession) -> Supervised<'_, SessionHandle> {
        Supervisor::new_session(self, new).boxed()
    }

    fn open<'a>(&'a self, id: &'a SessionId) -> Supervised<'a, SessionHandle> {
        Supervisor::open(self, id).boxed()
    }

    fn list(&self, params: ListSessionsParams) -> Supervised<'_, ListSessionsResult> {
        Supervisor::list(self, params).boxed()
    }

    fn list_log(&self) -> &Arc<ListLog> {
        Supervisor::list_log(self)
    }

    fn approvals(&self, session: Option<SessionId>) -> BoxFuture<'_, Vec<Approval>> {
        Supervisor::approvals(self, session).boxed()
    }

    fn may_be_from_tool(&self, process: MetProcess) -> BoxFuture<'_, bool> {
        async move { self.services().spawner.may_have_started(process).await }.boxed()
    }

    fn trust(&self, path: PathBuf, decision: TrustDecision, client: Option<String>) -> Supervised<'_, TrustResult> {
        Supervisor::trust(self, path, decision, client).boxed()
    }

    fn untrust(&self, path: PathBuf) -> Supervised<'_, UntrustResult> {
        Supervisor::untrust(self, path).boxed()
    }

    fn list_trust(&self) -> Supervised<'_, ListTrustResult> {
        Supervisor::list_trust(self).boxed()
    }

    fn list_rules(&self, cwd: PathBuf, home: Option<PathBuf>) -> Supervised<'_, ListRulesResult> {
        Supervisor::list_rules(self, cwd, home).boxed()
    }

    fn change_rule(&self, change: RuleChange) -> Supervised<'_, ChangeRuleResult> {
        Supervisor::change_rule(self, change).boxed()
    }

    fn test_rule(&self, params: TestRuleParams, cwd: PathBuf, env: SessionEnv) -> Supervised<'_, TestRuleResult> {
        Supervisor::test_rule(self, params, cwd, env).boxed()
    }

    fn available_models(&self, place: SessionPlace) -> BoxFuture<'_, GetAvailableModelsResult> {
        Supervisor::available_models(self, place).boxed()
    }

    fn place_of<'a>(&'a self, id: &'a SessionId) -> Supervised<'a, SessionPlace> {
        Supervisor::place_of(self, id).boxed()
    }

    fn effective(&self, place: SessionPlace) -> BoxFuture<'_, Effective> {
        Supervisor::settings_for(self, place).boxed()
    }

    fn set_config(&self, target: ConfigTarget, key: &'static Key, value: Option<Value>) -> Supervised<'_, PathBuf> {
        Supervisor::set_config(self, target, key, value).boxed()
    }

    fn set_key(&self, provider: String, key: Option<String>) -> Supervised<'_, (PathBuf, bool)> {
        Supervisor::set_key(self, provider, key).boxed()
    }

    fn list_keys(&self, env: SessionEnv) -> BoxFuture<'_, (PathBuf, Vec<KeyStatus>)> {
        Supervisor::list_keys(self, env).boxed()
    }

    fn live(&self) -> &Arc<LiveSettings> {
        &self.services().config.live
    }

    fn models_of_session<'a>(&'a self, id: &'a SessionId) -> Supervised<'a, GetAvailableModelsResult> {
        Supervisor::models_of_session(self, id).boxed()
    }

    fn refresh_models<'a>(&'a self, name: Option<&'a str>) -> BoxFuture<'a, ()> {
        Supervisor::refresh_models(self, name).boxed()
    }

    fn login_env(&self) -> BoxFuture<'_, SessionEnv> {
        Supervisor::login_env(self).boxed()
    }

    fn counts(&self) -> Counts {
        Counts {
            loaded: self.loaded_count(),
            running: self.running_count(),
            ring_bytes: self.ring_bytes(),
            abandoned_tools: self.abandoned_tools(),
            index: self.services().index.status(),
        }
    }
}

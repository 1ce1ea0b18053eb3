//! Making a session.

use std::path::PathBuf;
use std::sync::Arc;

use agentd_protocol::message::ThinkingLevel;
use agentd_protocol::methods::{Headless, Mode};
use agentd_protocol::{Epoch, SessionId};
use uuid::Uuid;

use super::directory::Supervisor;
use super::error::SupervisorError;
use crate::agent::actor::{Opening, SessionJournal, SessionSettings, survey};
use crate::agent::handle::SessionHandle;
use crate::agent::machine::{Left, Machine, MachineSettings, Queues};
use crate::clock;
use crate::config::env::SessionEnv;
use crate::config::settings::{Layer, keys};
use crate::config::{Effective, SessionPlace, Settings};
use crate::provider::{ModelSpec, clamp_level};
use crate::resources::Project;
use crate::ring::Ring;
use crate::session::entry::{EntryBody, Header};
use crate::session::settings::StoredSettings;
use crate::session::tree::SessionTree;
use crate::store::session_file::SessionFile;
use crate::store::{names, record};
use crate::tools::ToolRegistry;

/// What a new session is made of.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Working directory, absolute.
    pub cwd: PathBuf,
    /// Environment of its tools and key look-up.
    pub env: SessionEnv,
    /// `provider/id[:thinkingLevel]`; the default model when `None`.
    pub model: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Names of the tools it may use; the default set when `None`.
    pub tools: Option<Vec<String>>,
    /// What its tools may do without a question; what the settings say when `None`.
    pub mode: Option<Mode>,
    /// Settings that it is given; they count more than those of all other places.
    pub given: Layer,
    /// What becomes of questions when nobody is there to answer; what the settings say when `None`.
    pub headless: Option<Headless>,
    /// How long questions wait, in milliseconds; 0: for ever. What the settings say when `None`.
    pub ask_timeout_ms: Option<u64>,
    /// Path of the session it comes from.
    pub parent_session: Option<String>,
}

impl NewSession {
    fn place(&self) -> SessionPlace {
        SessionPlace { cwd: Some(self.cwd.clone()), env: self.env.clone(), given: self.given.clone() }
    }
}

/// The model of a session, if there is one that can be used. Why there is none is the answer to its first prompt.
pub(super) type ModelChoice = Option<(Arc<ModelSpec>, ThinkingLevel)>;

impl Supervisor {
    /// Makes a session. Nothing of it is on disk before its first prompt.
    ///
    /// # Errors
    /// A parameter cannot be used, or the working directory cannot be entered.
    pub async fn new_session(&self, mut new: NewSession) -> Result<SessionHandle, SupervisorError> {
        self.refuse_when_closing()?;
        check(&new, &self.0.services.tools)?;
        let (cwd, env, services) = (new.cwd.clone(), new.env.clone(), Arc::clone(&self.0.services));
        let looked = self.0.services.tasks.spawn_blocking(move || {
            check_cwd(&cwd)?;
            services.trust.load_or_none();
            services.learn_keys(&env);
            Ok::<_, SupervisorError>(survey(&cwd, &env, &services))
        });
        let project = looked.await.map_err(|_| SupervisorError::Failed)??;
        new.name = new.name.map(|name| self.0.services.key_book.keys().redact(&name).into_owned());
        let config = self.settings_for(new.place()).await.settings;
        let model = self.choose_model(&new, &config).await?;
        let id = SessionId::new(Uuid::now_v7().to_string());
        let now = clock::now_ms();
        let path = names::session_path(&self.0.services.config.paths.sessions_dir, &new.cwd, now, &id);
        let header = Header {
            version: record::CURRENT_VERSION,
            id: id.clone(),
            timestamp: now,
            cwd: new.cwd.display().to_string(),
            parent_session: new.parent_session.clone(),
        };
        let mut tree = SessionTree::new(header);
        for body in first_entries(&new, &model) {
            let entry_id = tree.new_entry_id(random);
            let parent = tree.leaf().cloned();
            let entry = record::encode_entry(&entry_id, parent.as_ref(), now, &body);
            tree.push(entry.map_err(|error| SupervisorError::Storage(error.to_string()))?);
        }
        let opening = Opening {
            unsaved: tree.entries().to_vec(),
            file: SessionFile::create(&path, &self.0.services.writer),
            machine: self.machine(&config, &stored(&new), Left::default()),
            journal: SessionJournal::new(
                &names::journal_path(&self.0.services.config.paths.journal_dir, &id),
                path,
                Queues::default(),
                false,
            ),
            unrecovered: None,
            settings: settings(new, model, project, config),
            ring: self.ring(&id),
            notices: self.model_notices(),
            tree,
            id: id.clone(),
        };
        let live = self.start(opening);
        let handle = live.handle.clone();
        self.enter(&id, live);
        Ok(handle)
    }

    /// Returns what holds for a session at a place now.
    pub async fn settings_for(&self, place: SessionPlace) -> Effective {
        let live = Arc::clone(&self.0.services.config.live);
        // Without the files there are still the defaults.
        self.0.services.tasks.spawn_blocking(move || live.of_session(&place)).await.unwrap_or_default()
    }

    async fn choose_model(&self, new: &NewSession, config: &Settings) -> Result<ModelChoice, SupervisorError> {
        let found = match (&new.model, &config.model) {
            (Some(name), _) => Some(self.named_model(name, &new.env).await?),
            // Another one is not chosen silently: if it cannot be used, the first prompt is told so.
            (None, Some(name)) => self.named_model(name, &new.env).await.ok(),
            (None, None) => self.default_model(&new.env).await.ok(),
        };
        Ok(found.map(|(spec, level)| {
            let level = clamp_level(&spec.model, level.unwrap_or(default_level(&spec)));
            (spec, level)
        }))
    }

    pub(super) fn machine(&self, config: &Settings, stored: &StoredSettings, left: Left) -> Machine {
        let mut retry = config.retry;
        retry.enabled = stored.auto_retry.unwrap_or(retry.enabled);
        let settings = MachineSettings {
            mode: stored.mode.unwrap_or(config.mode),
            headless: stored.headless.unwrap_or(config.headless),
            ask_timeout_ms: stored.ask_timeout_ms.unwrap_or(config.ask_timeout_ms),
            max_turns: config.max_turns,
            retry,
            steering_mode: stored.steering_mode.unwrap_or_default(),
            follow_up_mode: stored.follow_up_mode.unwrap_or_default(),
        };
        let mut machine = Machine::new(settings, left, Uuid::new_v4().as_u64_pair().0);
        machine.configure(stored);
        machine
    }

    pub(super) fn ring(&self, id: &SessionId) -> Ring {
        let epoch = Epoch::new(Uuid::new_v4().simple().to_string());
        Ring::new(id.clone(), epoch, Arc::clone(&self.0.services.ring_budget))
    }
}

/// Models that think are asked for a medium amount unless told otherwise (pi's default).
pub(super) fn default_level(spec: &ModelSpec) -> ThinkingLevel {
    if spec.model.reasoning { ThinkingLevel::Medium } else { ThinkingLevel::Off }
}

pub(super) fn random() -> u32 {
    Uuid::new_v4().as_fields().0
}

fn check(new: &NewSession, tools: &ToolRegistry) -> Result<(), SupervisorError> {
    let invalid = |param, message: String| Err(SupervisorError::InvalidParam { param, message });
    if !new.cwd.is_absolute() {
        return invalid("cwd", format!("{} is not an absolute path", new.cwd.display()));
    }
    let known: Vec<&str> = tools.names().collect();
    for name in new.tools.iter().flatten() {
        if !known.contains(&name.as_str()) {
            return invalid("tools", format!("no tool {name:?}; there are {}", known.join(", ")));
        }
    }
    Ok(())
}

fn check_cwd(cwd: &std::path::Path) -> Result<(), SupervisorError> {
    let refuse = |message: String| SupervisorError::WorkingDirectory { path: cwd.display().to_string(), message };
    match std::fs::metadata(cwd) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(refuse("it is not a directory".to_owned())),
        Err(error) => Err(refuse(error.to_string())),
    }
}

/// Returns the entries that a session begins with, in pi's order.
fn first_entries(new: &NewSession, model: &ModelChoice) -> Vec<EntryBody> {
    let mut entries = Vec::new();
    if let Some(name) = new.name.as_deref().map(str::trim).filter(|name| !name.is_empty()) {
        entries.push(EntryBody::SessionInfo { name: name.to_owned() });
    }
    if let Some((spec, level)) = model {
        entries.push(EntryBody::ModelChange { provider: spec.model.provider.clone(), model_id: spec.model.id.clone() });
        entries.push(EntryBody::ThinkingLevelChange(*level));
    }
    let stored = stored(new);
    if stored != StoredSettings::default() {
        entries.push(stored.entry());
    }
    entries
}

/// Returns what the session's file keeps of what it was given.
fn stored(new: &NewSession) -> StoredSettings {
    let mut given = new.given.to_json();
    let max_turns = given.remove(keys::MAX_TURNS.name).and_then(|turns| u32::try_from(turns.as_u64()?).ok());
    let settings = Some(given).filter(|given| !given.is_empty());
    StoredSettings {
        tools: new.tools.clone(),
        max_turns,
        mode: new.mode,
        headless: new.headless,
        ask_timeout_ms: new.ask_timeout_ms,
        settings,
        ..StoredSettings::default()
    }
}

/// Returns what a session was given, from its file.
pub(super) fn given(stored: &StoredSettings) -> Layer {
    let mut given = stored.settings.clone().unwrap_or_default();
    if let Some(turns) = stored.max_turns {
        given.insert(keys::MAX_TURNS.name.to_owned(), turns.into());
    }
    Layer::of_stored(&given)
}

fn settings(new: NewSession, model: ModelChoice, project: Project, config: Arc<Settings>) -> SessionSettings {
    let (model, thinking) = match model {
        Some((spec, level)) => (Some(spec), level),
        None => (None, ThinkingLevel::Off),
    };
    let tools = new.tools.unwrap_or_else(default_tools);
    SessionSettings { cwd: new.cwd, env: new.env, model, thinking, tools, project, given: new.given, config }
}

pub(super) fn default_tools() -> Vec<String> {
    ToolRegistry::default_names().iter().map(|name| (*name).to_owned()).collect()
}

//! Preparing a run: the working directory, the model, and the system prompt as it must be now.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_protocol::message::{Message, SystemMessage, ThinkingLevel, ToolDefinition};
use serde_json::{Map, Value};
use tokio::task::JoinHandle;

use super::append::hold;
use super::{SessionActor, SessionSettings};
use crate::agent::machine::{Input, Prepared, Refusal};
use crate::agent::services::Services;
use crate::clock;
use crate::config::env::SessionEnv;
use crate::config::{SessionPlace, Settings};
use crate::provider::{ModelSpec, clamp_level};
use crate::resources::{self, Project, PromptFacts};
use crate::session::context::merge_system_messages;
use crate::session::entry::{Entry, EntryBody};
use crate::session::settings::StoredSettings;
use crate::session::tree::SessionTree;
use crate::store::error::StoreError;
use crate::store::session_file::SessionFile;
use crate::tools::ToolUsage;
use crate::trust::Trusted;

/// What the preparation gives back: the file it looked at, and what it found.
pub(super) struct PrepareResult {
    file: Option<SessionFile>,
    foreign: Vec<Entry>,
    found: Result<Found, Refusal>,
    /// What is in memory is no longer the session: its file is lost, or another one has taken its place.
    is_stale: bool,
}

impl PrepareResult {
    fn refused(file: Option<SessionFile>, refusal: Refusal, is_stale: bool) -> Self {
        Self { file, foreign: Vec::new(), found: Err(refusal), is_stale }
    }
}

struct Found {
    /// What the working directory brings along.
    project: Project,
    /// The model to ask, where it is not the one of the last run.
    model: Option<FoundModel>,
    /// The system prompt as it must be now.
    sections: Map<String, Value>,
    /// The settings that hold for the run.
    config: Arc<Settings>,
}

enum FoundModel {
    /// The present one, as the files describe it now: its key may have been replaced.
    Renewed(Arc<ModelSpec>),
    /// The one that the branch names can be used again.
    Again(Arc<ModelSpec>),
    /// The branch names none; this is the default, with the level that it is configured with.
    First(Arc<ModelSpec>, Option<ThinkingLevel>),
}

/// Waits for the preparation that is under way, for ever when there is none.
pub(super) async fn finished(prepare: &mut Option<JoinHandle<PrepareResult>>) -> PrepareResult {
    let Some(handle) = prepare else { return std::future::pending().await };
    let result = handle.await.unwrap_or_else(|panic| {
        tracing::error!(panicked = panic.is_panic(), "preparing a run failed");
        let why = "preparing the run failed because of a fault of the daemon; its log says more";
        PrepareResult::refused(None, Refusal::WrongState(why), true)
    });
    *prepare = None;
    result
}

impl SessionActor {
    pub(super) fn start_prepare(&mut self) {
        if let Some(problem) = self.unrecovered.clone() {
            // The next load tries again.
            self.closing = true;
            return self.feed(Input::Prepared(Err(Refusal::Storage(problem))));
        }
        let Some(file) = self.file.take() else {
            return self.feed(Input::Prepared(Err(Refusal::Storage("the session file is lost".to_owned()))));
        };
        let (cwd, env, place) = (self.settings.cwd.clone(), self.settings.env.clone(), self.place());
        let services = Arc::clone(&self.services);
        let (model, lost) = (self.settings.model.clone(), self.lost_model());
        let tools = self.services.tools.usages(&self.settings.tools);
        let journal = self.journal.path().to_owned();
        self.prepare = Some(self.services.tasks.spawn_blocking(move || {
            let mut file = file;
            let foreign = match hold(&mut file, &journal).and_then(|()| file.refresh()) {
                Ok(foreign) => foreign.entries,
                Err(error) => {
                    let is_stale = matches!(error, StoreError::Changed { .. });
                    return PrepareResult::refused(Some(file), error.into(), is_stale);
                }
            };
            let config = services.config.live.of_session(&place).settings;
            let found = check_cwd(&cwd).and_then(|()| {
                let model = match (model, lost) {
                    (Some(spec), _) => services.models.refresh().renewed(&spec).map(FoundModel::Renewed),
                    // Another one is not chosen silently.
                    (None, Some(name)) => Some(FoundModel::Again(services.models.refresh().resolve(&name, &env)?.0)),
                    (None, None) => {
                        let models = services.models.refresh();
                        let (spec, level) = match &config.model {
                            Some(name) => models.resolve(name, &env)?,
                            None => models.default_model(&env, None)?,
                        };
                        Some(FoundModel::First(spec, level))
                    }
                };
                let trusted = Trusted::new(services.trust.load_or_none(), None);
                let project = survey(&cwd, &env, &services);
                services.models.refresh();
                services.learn_keys(&env);
                let mut sections = current_sections(cwd.clone(), &env, tools, &services, &trusted);
                let keys = services.key_book.keys();
                sections.values_mut().for_each(|section| keys.redact_json(section));
                Ok(Found { model, project, sections, config })
            });
            PrepareResult { file: Some(file), foreign, found, is_stale: false }
        }));
    }

    pub(super) fn on_prepared(&mut self, result: PrepareResult) {
        self.file = result.file;
        self.closing |= result.is_stale;
        self.adopt_foreign(result.foreign);
        let prepared = result.found.map(|found| {
            self.obey(found.config);
            let mut entries = Vec::new();
            self.settings.project = found.project;
            match found.model {
                Some(FoundModel::Renewed(spec)) => self.use_model(spec, self.settings.thinking),
                Some(FoundModel::Again(spec)) => self.take_back_model(spec),
                Some(FoundModel::First(spec, level)) => entries.extend(self.use_first_model(spec, level)),
                None => {}
            }
            let tools = self.services.tools.definitions(&self.settings.tools);
            if let Some(system) = system_change(&self.tree, &found.sections, tools) {
                entries.push(EntryBody::Message(Arc::new(Message::System(system))));
            }
            Prepared { entries }
        });
        self.feed(Input::Prepared(prepared));
    }
}

impl SessionActor {
    /// Returns what decides which settings hold.
    pub(super) fn place(&self) -> SessionPlace {
        let SessionSettings { cwd, env, given, .. } = self.settings.clone();
        SessionPlace { cwd: Some(cwd), env, given }
    }

    /// Takes settings over for the run that begins.
    fn obey(&mut self, config: Arc<Settings>) {
        let mut retry = config.retry;
        retry.enabled = StoredSettings::of(&self.tree).auto_retry.unwrap_or(retry.enabled);
        self.machine.follow_settings(config.max_turns, retry);
        self.settings.config = config;
    }

    /// Asks a model from now on, and returns the entries that say so.
    fn use_first_model(&mut self, spec: Arc<ModelSpec>, level: Option<ThinkingLevel>) -> [EntryBody; 2] {
        let level = clamp_level(&spec.model, level.unwrap_or(self.settings.thinking));
        let (provider, model_id) = (spec.model.provider.clone(), spec.model.id.clone());
        self.use_model(spec, level);
        [EntryBody::ModelChange { provider, model_id }, EntryBody::ThinkingLevelChange(level)]
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Locked { path, owner } => {
                Self::Locked { path: path.display().to_string(), owner: owner.to_string() }
            }
            other => Self::Storage(other.report()),
        }
    }
}

fn check_cwd(cwd: &Path) -> Result<(), Refusal> {
    let refuse = |message: String| Refusal::WorkingDirectory { path: cwd.display().to_string(), message };
    match std::fs::metadata(cwd) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(refuse("it is not a directory".to_owned())),
        Err(error) => Err(refuse(error.to_string())),
    }
}

/// Looks at what a working directory brings along. Blocks.
pub(crate) fn survey(cwd: &Path, env: &SessionEnv, services: &Services) -> Project {
    Project::survey(cwd, env.get("HOME").map(Path::new), &services.config.paths.context_dirs())
}

fn current_sections(
    cwd: PathBuf,
    env: &SessionEnv,
    tools: Vec<ToolUsage>,
    services: &Services,
    trusted: &Trusted,
) -> Map<String, Value> {
    let context_files = resources::discover_context_files(&cwd, &services.config.paths.context_dirs(), trusted);
    let facts = PromptFacts {
        cwd,
        os: format!("{} ({})", std::env::consts::OS, std::env::consts::ARCH),
        shell: env.get("SHELL").unwrap_or("bash").to_owned(),
        date: clock::today(),
        tools,
        context_files,
    };
    resources::system_sections(&facts)
}

/// Returns the system message that must be added so that the branch says what holds now: all of it on a new branch,
/// later only what changed, so that what was sent before stays as it was, byte for byte.
fn system_change(
    tree: &SessionTree,
    now: &Map<String, Value>,
    tools: Vec<Arc<ToolDefinition>>,
) -> Option<SystemMessage> {
    let branch = tree.branch();
    let systems = branch.iter().filter_map(|entry| match &entry.body {
        EntryBody::Message(message) => match &**message {
            Message::System(system) => Some(system),
            _ => None,
        },
        _ => None,
    });
    let effective = merge_system_messages(systems);
    let is_first = effective.is_none();
    let SystemMessage { sections, tools_added: known, .. } = effective.unwrap_or_default();
    let changed = resources::diff_sections(&sections, now);
    let added: Vec<Arc<ToolDefinition>> = tools.iter().filter(|tool| !known.contains(tool)).cloned().collect();
    let is_gone = |known: &&Arc<ToolDefinition>| !tools.iter().any(|tool| tool.name == known.name);
    let removed: Vec<String> = known.iter().filter(is_gone).map(|tool| tool.name.clone()).collect();
    if !is_first && changed.is_none() && added.is_empty() && removed.is_empty() {
        return None;
    }
    Some(SystemMessage {
        content: String::new(),
        sections: changed.unwrap_or_default(),
        timestamp: clock::now_ms(),
        tools_added: added,
        tools_removed: removed,
    })
}

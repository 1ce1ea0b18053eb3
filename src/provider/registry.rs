//! Which models there are, and which of them a session can use with its keys.
//!
//! Definitions come from `models.json` files, then from the built-in table, then from servers of models on this
//! machine. The registry never looks at the daemon's environment: keys are looked up in that of a session.
//!
//! A name is tried in this order: as a whole name, as a whole id, without its last `:level`, and then as a part of
//! either ([`lookup`](super::lookup)).

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use agentd_protocol::message::ThinkingLevel;
use agentd_protocol::methods::EnvSource;

use super::builtin;
use super::definitions::{self, Definitions, KeyFiles, KeyPlace};
use super::demo;
use super::known_keys::{self, Named as NamedKeys};
use super::levels::{clamp_level, supported_levels};
use super::lookup::{Fit, Named, fitting};
use super::models_json::ProviderDef;
use super::spec::{ModelSpec, ValueSource};
use crate::config::env::SessionEnv;

/// Variables that are not hidden from tools even where a configured header uses them.
const HARMLESS: &[&str] = &["HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "USER"];

/// Most names in an error that lists them.
const MAX_CANDIDATES: usize = 10;

/// All known models, as they were when it was made. Immutable; [`Catalog`](super::Catalog) makes a new one when
/// something changes.
#[derive(Clone, Debug)]
pub struct ModelRegistry {
    /// The file that messages name.
    first_file: PathBuf,
    models: Vec<Arc<ModelSpec>>,
    unsupported: Vec<Unsupported>,
    demo: Arc<ModelSpec>,
    secret_names: HashSet<String>,
    pub(super) key_places: Vec<(String, Vec<(KeyPlace, ValueSource)>)>,
    /// Names and keys that stand in the files.
    keys: NamedKeys,
    notices: Vec<ConfigNotice>,
}

/// A configured model whose dialect this build does not speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Its `provider/id`.
    pub name: String,
    /// The dialect.
    pub api: String,
}

/// Something in a configuration file that was left aside, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigNotice {
    /// The file.
    pub path: PathBuf,
    /// Line and column, from 1, where they are known.
    pub place: Option<(usize, usize)>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ConfigNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.path.display(), self.message),
            None => write!(f, "{}: {}", self.path.display(), self.message),
        }
    }
}

/// Why a name gives no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// There is nothing to choose from.
    #[error(
        "no model can be used: set {variable} (or another provider's key) in your environment, describe a provider in {file}, or try --model demo, which needs neither"
    )]
    NoModel {
        /// The variable to set.
        variable: String,
        /// The file to write.
        file: String,
    },
    /// Nothing has this name.
    #[error("no model {name}; get_available_models lists those that can be used{}", did_you_mean(.similar))]
    Unknown {
        /// The name asked for.
        name: String,
        /// Names that look like it.
        similar: Vec<String>,
    },
    /// The name fits several models.
    #[error("model {name} is ambiguous: say {}", one_of(.candidates))]
    Ambiguous {
        /// The name asked for.
        name: String,
        /// The full names.
        candidates: Vec<String>,
    },
    /// The model is known, but there is no key for its provider.
    #[error("no key for model {name}: {remedy}")]
    NoKey {
        /// The model.
        name: String,
        /// What to set.
        remedy: String,
    },
    /// What stands after the colon is no thinking level.
    #[error("{name}: {word} is no thinking level; model {model} has {}", .levels.join(", "))]
    UnknownLevel {
        /// The name asked for.
        name: String,
        /// The word after its last colon.
        word: String,
        /// The model that is named before it.
        model: String,
        /// The levels that the model supports.
        levels: Vec<&'static str>,
    },
    /// The model is configured with a dialect that this build does not speak.
    #[error(
        "model {name} speaks {api}, which this version of agentd does not; it speaks openai-completions and anthropic-messages"
    )]
    UnsupportedApi {
        /// The model.
        name: String,
        /// Its dialect.
        api: String,
    },
}

fn did_you_mean(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" (did you mean {}?)", names.join(", ")) }
}

fn one_of(names: &[String]) -> String {
    let shown = names[..names.len().min(MAX_CANDIDATES)].join(" or ");
    match names.len().checked_sub(MAX_CANDIDATES) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} (or one of {more} more)"),
    }
}

impl Named for ModelSpec {
    fn provider(&self) -> &str {
        &self.model.provider
    }

    fn id(&self) -> &str {
        &self.model.id
    }
}

impl ModelRegistry {
    /// Makes a registry of the definitions of files, the first of which wins where two define the same, of keys by
    /// provider, and of providers found on this machine. `notices` are kept for people to read.
    pub(super) fn build(
        files: Vec<(PathBuf, Vec<ProviderDef>)>,
        keys: KeyFiles,
        local: &[ProviderDef],
        mut notices: Vec<ConfigNotice>,
    ) -> Self {
        let first_file = files.first().map_or_else(|| PathBuf::from("models.json"), |(path, _)| path.clone());
        let mut definitions = Definitions::default();
        for (path, providers) in files {
            definitions.add_file(&path, providers);
        }
        definitions.add_builtin(builtin::providers());
        definitions.add_local(local);
        let built = definitions::build(definitions, &keys);
        notices.extend(built.notices);
        Self {
            first_file,
            secret_names: secret_names(&built.models),
            models: built.models,
            unsupported: built.unsupported,
            key_places: built.key_places,
            demo: Arc::new(demo::spec()),
            keys: Vec::new(),
            notices,
        }
    }

    /// Adds the keys that stand in the files.
    pub(super) fn with_keys(self, keys: NamedKeys) -> Self {
        Self { keys, ..self }
    }

    /// Returns all keys that can be known without running a command, each with a name for people: those of the files,
    /// and those of an environment.
    pub fn known_keys(&self, env: &SessionEnv) -> Vec<(String, String)> {
        // What the variable is called tells people more.
        let mut keys = known_keys::in_environment(env, &self.secret_names);
        keys.extend(self.keys.iter().cloned());
        keys
    }

    /// Returns what in the files was left aside.
    pub fn notices(&self) -> &[ConfigNotice] {
        &self.notices
    }

    /// Returns the models that can be used with the keys in `env`: configured ones in the order of the files, then
    /// built-in ones, `demo/demo` last.
    pub fn available(&self, env: &SessionEnv) -> Vec<Arc<ModelSpec>> {
        self.usable(env).chain([&self.demo]).cloned().collect()
    }

    /// Returns the model that `name` means: `provider/id`, an id, or a part of either that fits only one model, each
    /// with `:level` or without; or `demo`. Of several, those that can be used with the keys in `env` are meant, and
    /// of versions of one model the newest. The level is clamped to what the model supports.
    ///
    /// # Errors
    /// Says what is wrong and what to do.
    pub fn resolve(&self, name: &str, env: &SessionEnv) -> Result<(Arc<ModelSpec>, Option<ThinkingLevel>), ModelError> {
        let name = name.trim();
        // A model's own id may hold a colon, so the whole name is tried first.
        if let Some(found) = self.exact(name, env) {
            return found.map(|spec| (spec, None));
        }
        let Some((base, word)) = name.rsplit_once(':') else {
            return self.partial(name, env).unwrap_or_else(|| Err(self.unknown(name, env))).map(|spec| (spec, None));
        };
        let found = || self.exact(base, env).or_else(|| self.partial(base, env));
        if let Some(level) = ThinkingLevel::parse(&word.to_ascii_lowercase()) {
            let spec = found().unwrap_or_else(|| Err(self.unknown(base, env)))?;
            let level = clamp_level(&spec.model, level);
            return Ok((spec, Some(level)));
        }
        if let Some(found) = self.partial(name, env) {
            return found.map(|spec| (spec, None));
        }
        match found() {
            Some(Ok(spec)) => Err(ModelError::UnknownLevel {
                name: name.to_owned(),
                word: word.to_owned(),
                model: spec.name(),
                levels: supported_levels(&spec.model).into_iter().map(ThinkingLevel::as_str).collect(),
            }),
            Some(Err(error)) => Err(error),
            None => Err(self.unknown(name, env)),
        }
    }

    /// Returns the model of the same name as it is known now, whatever keys there are; `None` when it is not (any more).
    pub fn renewed(&self, spec: &ModelSpec) -> Option<Arc<ModelSpec>> {
        let found = self.models.iter().find(|found| found.id() == spec.id() && found.provider() == spec.provider());
        found.cloned()
    }

    /// Tells whether a name means something, whatever keys there are.
    pub fn knows(&self, name: &str) -> bool {
        let no_keys = SessionEnv::new(BTreeMap::new(), EnvSource::Client);
        !matches!(self.resolve(name, &no_keys), Err(ModelError::Unknown { .. }))
    }

    /// Returns the model that a new session gets: the one used last, else the first with a key.
    ///
    /// The demo model is chosen only if it was used last and there is nothing real to choose: someone who has set a
    /// key since wants to use it.
    ///
    /// # Errors
    /// [`ModelError::NoModel`] says how to get one.
    pub fn default_model(
        &self,
        env: &SessionEnv,
        last_used: Option<&str>,
    ) -> Result<(Arc<ModelSpec>, Option<ThinkingLevel>), ModelError> {
        let last = last_used.and_then(|name| self.resolve(name, env).ok());
        if let Some((spec, level)) = &last
            && !spec.is_demo()
        {
            return Ok((Arc::clone(spec), *level));
        }
        if let Some(spec) = self.usable(env).next() {
            return Ok((Arc::clone(spec), None));
        }
        last.ok_or_else(|| self.no_model())
    }

    /// Returns the names of environment variables that hold keys, which tools must not see: the usual ones and those
    /// that configuration files read.
    pub fn secret_names(&self) -> HashSet<String> {
        self.secret_names.clone()
    }

    fn usable(&self, env: &SessionEnv) -> impl Iterator<Item = &Arc<ModelSpec>> {
        self.models.iter().filter(|spec| has_key(spec, env))
    }

    /// Finds a model by its whole name or id; `None` when nothing has it.
    fn exact(&self, name: &str, env: &SessionEnv) -> Option<Result<Arc<ModelSpec>, ModelError>> {
        if name == self.demo.model.id || name == self.demo.name() {
            return Some(Ok(Arc::clone(&self.demo)));
        }
        if let Some(spec) = self.models.iter().find(|spec| is_full_name(spec, name)) {
            return Some(if has_key(spec, env) { Ok(Arc::clone(spec)) } else { Err(self.no_key(spec)) });
        }
        let with_id: Vec<_> = self.models.iter().filter(|spec| spec.model.id == name).collect();
        let is_meant = |full: &str| full == name || full.split_once('/').is_some_and(|(_, id)| id == name);
        if with_id.is_empty() {
            let found = self.unsupported.iter().find(|model| is_meant(&model.name))?;
            return Some(Err(ModelError::UnsupportedApi { name: found.name.clone(), api: found.api.clone() }));
        }
        let usable: Vec<_> = with_id.iter().copied().filter(|spec| has_key(spec, env)).collect();
        if !usable.is_empty() {
            return Some(self.only(name, &usable));
        }
        // Another provider may have it under a longer id, as OpenRouter does.
        let elsewhere: Vec<&ModelSpec> = self.usable(env).map(Arc::as_ref).collect();
        let elsewhere = fitting(&elsewhere, name, Fit::End);
        Some(if elsewhere.is_empty() { Err(self.no_key(with_id[0])) } else { self.one(name, &elsewhere) })
    }

    /// Finds a model by a part of its name; `None` when none fits.
    fn partial(&self, name: &str, env: &SessionEnv) -> Option<Result<Arc<ModelSpec>, ModelError>> {
        let usable: Vec<&ModelSpec> = self.usable(env).map(Arc::as_ref).collect();
        let found = fitting(&usable, name, Fit::Inside);
        if !found.is_empty() {
            return Some(self.one(name, &found));
        }
        let all: Vec<&ModelSpec> = self.models.iter().map(Arc::as_ref).collect();
        fitting(&all, name, Fit::Inside).first().map(|spec| Err(self.no_key(spec)))
    }

    fn one(&self, name: &str, found: &[&ModelSpec]) -> Result<Arc<ModelSpec>, ModelError> {
        let is_found = |spec: &&Arc<ModelSpec>| found.iter().any(|found| std::ptr::eq(*found, Arc::as_ptr(spec)));
        self.only(name, &self.models.iter().filter(is_found).collect::<Vec<_>>())
    }

    fn only(&self, name: &str, found: &[&Arc<ModelSpec>]) -> Result<Arc<ModelSpec>, ModelError> {
        match found {
            [spec] => Ok(Arc::clone(spec)),
            [] => Err(ModelError::Unknown { name: name.to_owned(), similar: Vec::new() }),
            several => Err(ModelError::Ambiguous {
                name: name.to_owned(),
                candidates: several.iter().map(|spec| spec.name()).collect(),
            }),
        }
    }

    fn unknown(&self, name: &str, env: &SessionEnv) -> ModelError {
        let wanted = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        let similar = self
            .usable(env)
            .map(|spec| spec.name())
            .filter(|full| wanted.len() >= 3 && full.to_ascii_lowercase().contains(&wanted))
            .take(5)
            .collect();
        ModelError::Unknown { name: name.to_owned(), similar }
    }

    fn no_key(&self, spec: &ModelSpec) -> ModelError {
        let mut variables: Vec<&str> = spec.provider.keys.iter().flat_map(ValueSource::variables).collect();
        variables.dedup();
        let file = self.first_file();
        let provider = &spec.provider.id;
        let remedy = if variables.is_empty() {
            format!("give provider {provider} an apiKey in {file}")
        } else {
            format!(
                "set {} in your environment, or give provider {provider} an apiKey in {file}",
                variables.join(" or ")
            )
        };
        ModelError::NoKey { name: spec.name(), remedy }
    }

    fn no_model(&self) -> ModelError {
        let variable = builtin::KEY_VARIABLES.first().map_or("OPENAI_API_KEY", |(_, variable)| variable);
        ModelError::NoModel { variable: variable.to_owned(), file: self.first_file() }
    }

    fn first_file(&self) -> String {
        self.first_file.display().to_string()
    }
}

fn has_key(spec: &ModelSpec, env: &SessionEnv) -> bool {
    spec.provider.is_keyless || spec.provider.keys.iter().any(|source| source.is_usable(env))
}

fn is_full_name(spec: &ModelSpec, name: &str) -> bool {
    name.strip_prefix(spec.model.provider.as_str()).and_then(|rest| rest.strip_prefix('/')) == Some(&spec.model.id)
}

fn secret_names(models: &[Arc<ModelSpec>]) -> HashSet<String> {
    let usual = builtin::KEY_VARIABLES.iter().map(|(_, variable)| *variable);
    let configured = models.iter().flat_map(|spec| {
        let headers = spec.headers.iter().map(|(_, source)| source);
        spec.provider.keys.iter().chain(headers).flat_map(ValueSource::variables)
    });
    usual.chain(configured).filter(|name| !HARMLESS.contains(name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;

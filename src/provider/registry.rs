//! Which models there are, and which of them a session can use with its keys.
//!
//! Definitions come from `models.json` files, then from the built-in table; a fault in a file costs only what it
//! stands in. The registry never looks at the daemon's environment: keys are looked up in that of a session.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_protocol::message::ThinkingLevel;

use super::builtin;
use super::definitions::{self, Definitions};
use super::demo;
use super::levels::clamp_level;
use super::models_json::{self, OrderedMap};
use super::spec::{ModelSpec, ValueSource};
use crate::config::env::SessionEnv;

/// Largest configuration file that is read, in bytes; a real one has a few kilobytes.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;
/// Variables that are not hidden from tools even where a configured header uses them.
const HARMLESS: &[&str] = &["HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "USER"];

/// All known models. Immutable; [`ModelRegistry::reload`] makes a new one.
#[derive(Clone, Debug)]
pub struct ModelRegistry {
    files: Vec<PathBuf>,
    auth: Option<PathBuf>,
    models: Vec<Arc<ModelSpec>>,
    unsupported: Vec<Unsupported>,
    demo: Arc<ModelSpec>,
    secret_names: HashSet<String>,
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
    /// Several models have this id.
    #[error("model {name} is ambiguous: say {}", .candidates.join(" or "))]
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
    /// The model is configured with a dialect that this build does not speak.
    #[error("model {name} speaks {api}, which this version of agentd does not; it speaks openai-completions")]
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

impl ModelRegistry {
    /// Reads model files, the first of which wins where two define the same, and pi's key file. Blocking.
    ///
    /// Missing files are no fault. Everything that was left aside is told.
    pub fn load(files: &[PathBuf], auth: Option<&Path>) -> (Self, Vec<ConfigNotice>) {
        let mut notices = Vec::new();
        let mut definitions = Definitions::default();
        for file in files {
            let Some(text) = read(file, &mut notices) else { continue };
            let (providers, faults) = models_json::parse(&text);
            notices.extend(faults.into_iter().map(|fault| ConfigNotice {
                path: file.clone(),
                place: Some((fault.line, fault.column)),
                message: fault.message,
            }));
            definitions.add_file(file, providers);
        }
        definitions.add_builtin(builtin::providers());
        let keys = auth.map(|path| read_auth(path, &mut notices)).unwrap_or_default();
        let built = definitions::build(definitions, &keys);
        notices.extend(built.notices);
        let registry = Self {
            files: files.to_vec(),
            auth: auth.map(Path::to_path_buf),
            secret_names: secret_names(&built.models),
            models: built.models,
            unsupported: built.unsupported,
            demo: Arc::new(demo::spec()),
        };
        (registry, notices)
    }

    /// Reads the same files again. Blocking.
    pub fn reload(&self) -> (Self, Vec<ConfigNotice>) {
        Self::load(&self.files, self.auth.as_deref())
    }

    /// Returns the models that can be used with the keys in `env`: configured ones in the order of the files, then
    /// built-in ones, `demo/demo` last.
    pub fn available(&self, env: &SessionEnv) -> Vec<Arc<ModelSpec>> {
        self.usable(env).chain([&self.demo]).cloned().collect()
    }

    /// Returns the model that `name` means: `provider/id`, an id that only one usable model has, either with
    /// `:level`, or `demo`.
    ///
    /// # Errors
    /// Says what is wrong and what to do.
    pub fn resolve(&self, name: &str, env: &SessionEnv) -> Result<(Arc<ModelSpec>, Option<ThinkingLevel>), ModelError> {
        let name = name.trim();
        // A model's own id may hold a colon, so the whole name is tried first.
        let whole = self.find(name, env);
        if let Ok(spec) = whole {
            return Ok((spec, None));
        }
        if let Some((base, level)) = name.rsplit_once(':')
            && let Some(level) = ThinkingLevel::parse(level)
        {
            let spec = self.find(base, env)?;
            let level = clamp_level(&spec.model, level);
            return Ok((spec, Some(level)));
        }
        whole.map(|spec| (spec, None))
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

    fn find(&self, name: &str, env: &SessionEnv) -> Result<Arc<ModelSpec>, ModelError> {
        if name == self.demo.model.id || name == self.demo.name() {
            return Ok(Arc::clone(&self.demo));
        }
        if let Some(spec) = self.models.iter().find(|spec| is_full_name(spec, name)) {
            return if has_key(spec, env) { Ok(Arc::clone(spec)) } else { Err(self.no_key(spec)) };
        }
        let with_id: Vec<_> = self.models.iter().filter(|spec| spec.model.id == name).collect();
        let usable: Vec<_> = with_id.iter().filter(|spec| has_key(spec, env)).collect();
        match (usable.as_slice(), with_id.as_slice()) {
            ([spec], _) => Ok(Arc::clone(spec)),
            ([], [spec, ..]) => Err(self.no_key(spec)),
            ([], []) => Err(self.unknown(name, env)),
            (several, _) => Err(ModelError::Ambiguous {
                name: name.to_owned(),
                candidates: several.iter().map(|spec| spec.name()).collect(),
            }),
        }
    }

    fn unknown(&self, name: &str, env: &SessionEnv) -> ModelError {
        let is_meant = |full: &str| full == name || full.split_once('/').is_some_and(|(_, id)| id == name);
        if let Some(found) = self.unsupported.iter().find(|model| is_meant(&model.name)) {
            return ModelError::UnsupportedApi { name: found.name.clone(), api: found.api.clone() };
        }
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
        self.files.first().map_or_else(|| "models.json".to_owned(), |path| path.display().to_string())
    }
}

fn has_key(spec: &ModelSpec, env: &SessionEnv) -> bool {
    spec.provider.keys.iter().any(|source| source.is_usable(env))
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

/// Reads a file that may be missing; anything else that is wrong becomes a notice.
fn read(path: &Path, notices: &mut Vec<ConfigNotice>) -> Option<String> {
    let mut tell = |message: String| notices.push(ConfigNotice { path: path.to_path_buf(), place: None, message });
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            tell("is not a file".to_owned());
            return None;
        }
        Ok(metadata) if metadata.len() > MAX_FILE_BYTES => {
            tell(format!("is larger than {MAX_FILE_BYTES} bytes"));
            return None;
        }
        _ => {}
    }
    match std::fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            tell(format!("cannot be read: {error}"));
            None
        }
    }
}

/// Reads the `api_key` entries of pi's `auth.json`; other kinds belong to log-ins that only pi can renew.
fn read_auth(path: &Path, notices: &mut Vec<ConfigNotice>) -> Vec<(String, ValueSource)> {
    let Some(text) = read(path, notices) else { return Vec::new() };
    match serde_json::from_str::<OrderedMap<serde_json::Value>>(&text) {
        Ok(entries) => entries
            .0
            .into_iter()
            .filter(|(_, entry)| entry.get("type").and_then(serde_json::Value::as_str) == Some("api_key"))
            .filter_map(|(provider, entry)| Some((provider, ValueSource::parse(entry.get("key")?.as_str()?))))
            .collect(),
        Err(error) => {
            // The text of a key file is never quoted; serde_json's messages for broken syntax do not quote either.
            let message = "is not valid JSON; its keys are not used".to_owned();
            notices.push(ConfigNotice {
                path: path.to_path_buf(),
                place: Some((error.line(), error.column())),
                message,
            });
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests;

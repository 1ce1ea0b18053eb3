//! What holds now: the files are read anew each time somebody asks, so that nothing has to watch them and no change is
//! missed. They are small; reading and parsing them takes some tens of microseconds, once for a run.
//!
//! Blocking.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use agentd_protocol::methods::{ConfigFault, ConfigFile, ConfigSource, Origin};

use super::env::SessionEnv;
use super::project::project_dir;
use super::settings::{Layer, Resolved, Scope, Settings, admit_project, parse_file, pi_layer, resolve};
use crate::constants::{CONFIG_FILE, MAX_SETTINGS_BYTES, PROJECT_DIR};
use crate::own_file::{self, Version};
use crate::trust::TrustStore;

/// The settings of the daemon and of all sessions. Shared by the whole daemon.
#[derive(Debug)]
pub struct LiveSettings {
    user_file: PathBuf,
    pi_file: Option<PathBuf>,
    trust: TrustStore,
    command_line: Layer,
    daemon_env: Layer,
    started: Resolved,
    /// Faults that were logged; each is logged once.
    told: Mutex<BTreeSet<String>>,
    /// Faults of the daemon's own places, when these were last read.
    known: Mutex<Vec<ConfigFault>>,
}

/// Whose settings are asked for.
#[derive(Clone, Debug)]
pub struct SessionPlace {
    /// Working directory; its project counts.
    pub cwd: Option<PathBuf>,
    /// Environment.
    pub env: SessionEnv,
    /// What the session was given when it was made.
    pub given: Layer,
}

/// What holds, and why.
#[derive(Clone, Debug, Default)]
pub struct Effective {
    /// In types.
    pub settings: Arc<Settings>,
    /// Key by key.
    pub resolved: Resolved,
    /// What cannot be used.
    pub faults: Vec<ConfigFault>,
    /// The files that were looked at.
    pub files: Vec<ConfigFile>,
}

impl LiveSettings {
    /// Reads what holds for the daemon, which keeps it for the keys that are read only at start.
    pub fn start(
        user_file: PathBuf,
        pi_file: Option<PathBuf>,
        trust: TrustStore,
        command_line: Layer,
        daemon_env: Layer,
    ) -> Self {
        let started = Resolved::default();
        let mut live = Self {
            user_file,
            pi_file,
            trust,
            command_line,
            daemon_env,
            started,
            told: Mutex::default(),
            known: Mutex::default(),
        };
        live.started = live.read(None).resolved;
        live
    }

    /// Returns what holds for the daemon.
    pub fn of_daemon(&self) -> Effective {
        self.told(self.read(None))
    }

    /// Returns what holds for a session.
    pub fn of_session(&self, place: &SessionPlace) -> Effective {
        self.told(self.read(Some(place)))
    }

    /// Returns what was wrong in the daemon's own places when they were last read. Does not block.
    pub fn known_faults(&self) -> Vec<ConfigFault> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns what held for the daemon when it started.
    pub fn started(&self) -> &Resolved {
        &self.started
    }

    /// Returns the user's file.
    pub fn user_file(&self) -> &Path {
        &self.user_file
    }

    fn read(&self, place: Option<&SessionPlace>) -> Effective {
        let (user, user_file) = read_layer(ConfigSource::User, &self.user_file);
        let (pi, pi_file) = match &self.pi_file {
            Some(path) => read_layer(ConfigSource::Pi, path),
            None => (Layer::default(), None),
        };
        let without = resolve(&[&user, &pi]);
        let home = place.and_then(|place| place.env.get("HOME")).map(Path::new);
        let (project, project_file) = match place.and_then(|place| place.cwd.as_deref()) {
            Some(cwd) => self.read_project(cwd, home),
            None => (Layer::default(), None),
        };
        let project = admit_project(&project, &without);
        let session_env = match place {
            Some(place) => Layer::of_env(&|name| place.env.get(name).map(str::to_owned), Scope::Session),
            None => Layer::default(),
        };
        let nothing = Layer::default();
        let given = place.map_or(&nothing, |place| &place.given);
        let layers = [given, &self.command_line, &session_env, &self.daemon_env, &project, &user, &pi];
        let resolved = resolve(&layers);
        let own = [&self.daemon_env, &user, &pi];
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) =
            own.iter().flat_map(|layer| layer.faults.iter().cloned()).collect();
        Effective {
            settings: Arc::new(Settings::of(&resolved)),
            faults: layers.iter().flat_map(|layer| layer.faults.iter().cloned()).collect(),
            files: [project_file, user_file, pi_file].into_iter().flatten().collect(),
            resolved,
        }
    }

    fn read_project(&self, cwd: &Path, home: Option<&Path>) -> (Layer, Option<ConfigFile>) {
        let Some(dir) = project_dir(cwd, home) else { return (Layer::default(), None) };
        let path = dir.join(PROJECT_DIR).join(CONFIG_FILE);
        if !path.exists() {
            return (Layer::default(), None);
        }
        if self.trust.is_trusted(&dir) {
            return read_layer(ConfigSource::Project, &path);
        }
        let ignored = format!("{} is not trusted, so nothing in it is read", dir.display());
        let file = ConfigFile {
            source: ConfigSource::Project,
            path: path.display().to_string(),
            exists: true,
            ignored: Some(ignored),
        };
        (Layer::default(), Some(file))
    }

    /// Logs each fault once.
    fn told(&self, effective: Effective) -> Effective {
        if effective.faults.is_empty() {
            return effective;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for text in effective.faults.iter().map(ToString::to_string) {
            if !told.contains(&text) {
                tracing::warn!("{text}");
                if told.len() >= MAX_TOLD {
                    told.clear();
                }
                told.insert(text);
            }
        }
        drop(told);
        effective
    }
}

/// Most faults that are remembered as logged.
const MAX_TOLD: usize = 1024;

/// Reads a file of settings; a missing one says nothing.
fn read_layer(source: ConfigSource, path: &Path) -> (Layer, Option<ConfigFile>) {
    let shown = path.display().to_string();
    let file = |exists| Some(ConfigFile { source, path: shown.clone(), exists, ignored: None });
    match read_text(path) {
        Ok(Some((text, _))) if source == ConfigSource::Pi => (pi_layer(&shown, &text), file(true)),
        Ok(Some((text, _))) => (parse_file(source, &shown, &text), file(true)),
        Ok(None) => (Layer::default(), file(false)),
        Err(error) => {
            let origin = Origin { source, file: Some(shown.clone()), ..Origin::default() };
            let fault = ConfigFault { origin, key: None, message: format!("cannot be read: {error}") };
            (Layer { set: Vec::new(), faults: vec![fault] }, file(true))
        }
    }
}

/// Reads the text of a file of moderate size.
pub(super) fn read_text(path: &Path) -> io::Result<Option<(String, Version)>> {
    let Some((bytes, version)) = own_file::read_any(path, MAX_SETTINGS_BYTES)? else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("it is not valid UTF-8"))?;
    Ok(Some((text, version)))
}

#[cfg(test)]
mod tests;

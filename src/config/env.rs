//! The environment of a session: what its tools see and where its keys are looked up.
//!
//! Pure: it is handed over by clients (or read from the login shell elsewhere), never taken from the daemon.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use agentd_protocol::methods::EnvSource;

/// Environment variables of one session. Cheap to clone; held in memory only.
#[derive(Clone)]
pub struct SessionEnv {
    vars: Arc<BTreeMap<String, String>>,
    source: EnvSource,
}

impl SessionEnv {
    /// Wraps variables that came from `source`.
    pub fn new(vars: BTreeMap<String, String>, source: EnvSource) -> Self {
        Self { vars: Arc::new(vars), source }
    }

    /// Returns one variable. An empty value counts as unset, as shells' `${X:-}` does.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns all variables.
    pub fn vars(&self) -> &BTreeMap<String, String> {
        &self.vars
    }

    /// Tells where the variables came from.
    pub fn source(&self) -> EnvSource {
        self.source
    }

    /// Returns the variables that tools may see: all but those named in `secrets`.
    pub fn for_tools(&self, secrets: &HashSet<String>) -> Vec<(String, String)> {
        self.vars
            .iter()
            .filter(|(name, _)| !secrets.contains(*name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

impl std::fmt::Debug for SessionEnv {
    /// Shows names only: values may be keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionEnv")
            .field("names", &self.vars.keys().collect::<Vec<_>>())
            .field("source", &self.source)
            .finish()
    }
}

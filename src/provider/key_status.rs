//! Of which providers there are keys, and where each comes from.

use agentd_protocol::methods::{KeySource, KeyStatus};

use super::auth_file::AuthError;
use super::builtin;
use super::definitions::KeyPlace;
use super::registry::ModelRegistry;
use crate::config::env::SessionEnv;

impl ModelRegistry {
    /// Tells of which providers there are keys in `env`, and where each comes from; in the order of their ids.
    pub fn key_status(&self, env: &SessionEnv) -> Vec<KeyStatus> {
        let found = self.key_places.iter().filter_map(|(provider, places)| {
            let (place, _) = places.iter().find(|(_, source)| source.is_usable(env))?;
            let (source, place) = match place {
                KeyPlace::AuthFile(file) => (KeySource::AuthFile, file.display().to_string()),
                KeyPlace::ModelsFile(file) => (KeySource::ModelsFile, file.display().to_string()),
                KeyPlace::Variable(name) => (KeySource::Variable, (*name).to_owned()),
            };
            Some(KeyStatus { provider: provider.clone(), source, place })
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by(|a, b| a.provider.cmp(&b.provider));
        found
    }

    /// Tells whether a provider is known, with models or by its variable.
    ///
    /// # Errors
    /// It is not; the error names one that looks like it.
    pub fn check_provider(&self, id: &str) -> Result<(), AuthError> {
        let named = self.key_places.iter().map(|(provider, _)| provider.as_str());
        let known: Vec<&str> = named.chain(builtin::KEY_VARIABLES.iter().map(|(provider, _)| *provider)).collect();
        if known.contains(&id) {
            return Ok(());
        }
        let distance = |name: &&&str| strsim::damerau_levenshtein(name, id);
        let similar = known.iter().min_by_key(distance).filter(|name| distance(name) <= 2);
        Err(AuthError::UnknownProvider { id: id.to_owned(), similar: similar.map(|name| (*name).to_owned()) })
    }
}

//! Changes of settings and keys.

use std::path::PathBuf;
use std::sync::Arc;

use agentd_protocol::methods::KeyStatus;

use super::directory::Supervisor;
use super::error::SupervisorError;
use crate::config::env::SessionEnv;
use crate::config::settings::{Key, Value};
use crate::config::{ConfigTarget, WriteError};
use crate::provider::{AuthError, AuthFile};

impl Supervisor {
    /// Sets a key in a file, or takes it out. Returns the file.
    ///
    /// # Errors
    /// The file cannot be changed, and is as it was.
    pub async fn set_config(
        &self,
        target: ConfigTarget,
        key: &'static Key,
        value: Option<Value>,
    ) -> Result<PathBuf, SupervisorError> {
        let live = Arc::clone(&self.0.services.config.live);
        let written = self.0.services.tasks.spawn_blocking(move || live.write(&target, key, value.as_ref())).await;
        let path = written.map_err(|_| SupervisorError::Failed)??;
        tracing::info!(key = key.name, file = %path.display(), "a setting was changed");
        Ok(path)
    }

    /// Keeps the key of a provider, or forgets it. Returns the file, and whether there was one.
    ///
    /// # Errors
    /// There is no such provider, the key can be none, or the file cannot be changed.
    pub async fn set_key(&self, provider: String, key: Option<String>) -> Result<(PathBuf, bool), SupervisorError> {
        let file = AuthFile::new(self.0.services.config.auth_files[0].clone());
        let (models, path) = (Arc::clone(&self.0.services.models), file.path().to_owned());
        let known = key.is_some();
        let changed = self.0.services.tasks.spawn_blocking(move || {
            if known {
                models.refresh().check_provider(&provider)?;
            }
            let had_one = file.set(&provider, key.as_deref())?;
            tracing::info!(provider, kept = known, "the key of a provider was changed");
            models.refresh();
            Ok::<_, AuthError>(had_one)
        });
        let had_one = changed.await.map_err(|_| SupervisorError::Failed)??;
        Ok((path, had_one))
    }

    /// Tells where the keys of providers come from, and where `set_key` keeps them.
    pub async fn list_keys(&self, env: SessionEnv) -> (PathBuf, Vec<KeyStatus>) {
        let models = Arc::clone(&self.0.services.models);
        let listed = self.0.services.tasks.spawn_blocking(move || models.refresh().key_status(&env)).await;
        (self.0.services.config.auth_files[0].clone(), listed.unwrap_or_default())
    }
}

impl From<WriteError> for SupervisorError {
    fn from(error: WriteError) -> Self {
        Self::Storage(error.to_string())
    }
}

impl From<AuthError> for SupervisorError {
    fn from(error: AuthError) -> Self {
        let message = error.to_string();
        match error {
            AuthError::UnknownProvider { .. } => Self::InvalidParam { param: "provider", message },
            AuthError::NoKey(_) => Self::InvalidParam { param: "key", message },
            AuthError::Broken { .. } | AuthError::Io { .. } => Self::Storage(message),
        }
    }
}

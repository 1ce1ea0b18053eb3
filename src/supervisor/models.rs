//! Looking models up: in the files as they are now, and with the servers that run now.

use std::sync::Arc;

use agentd_protocol::SessionId;
use agentd_protocol::message::ThinkingLevel;
use agentd_protocol::methods::GetAvailableModelsResult;

use super::directory::Supervisor;
use super::error::SupervisorError;
use crate::config::SessionPlace;
use crate::config::env::SessionEnv;
use crate::constants::{LOCAL_MODELS_MAX_AGE, LOCAL_MODELS_MISS_AGE};
use crate::provider::{ModelError, ModelRegistry, ModelSpec};

/// A model, and the thinking level if one was named.
type Chosen = Result<(Arc<ModelSpec>, Option<ThinkingLevel>), ModelError>;

impl Supervisor {
    /// Returns the models that this environment has keys for, and the one that a new session would get. What servers
    /// on this machine have is told as it was known last, and asked for in the background.
    pub async fn available_models(&self, place: SessionPlace) -> GetAvailableModelsResult {
        let env = &place.env.clone();
        let catalog = Arc::clone(&self.0.services.models);
        let asking = async move { catalog.ask_local(LOCAL_MODELS_MAX_AGE).await };
        drop(self.0.services.tasks.spawn("ask local models", asking));
        let config = self.settings_for(place).await.settings;
        let last_used = self.last_used_model().await;
        let models = self.models().await;
        let default = match &config.model {
            Some(name) => models.resolve(name, env),
            None => models.default_model(env, last_used.as_deref()),
        };
        GetAvailableModelsResult {
            models: models.available(env).iter().map(|spec| spec.shown()).collect(),
            default_model: default.ok().map(|(spec, _)| spec.name()),
            notices: models.notices().iter().map(ToString::to_string).collect(),
        }
    }

    /// Returns the models that a session has keys for.
    ///
    /// # Errors
    /// The session cannot be opened.
    pub async fn models_of_session(&self, id: &SessionId) -> Result<GetAvailableModelsResult, SupervisorError> {
        Ok(self.available_models(self.place_of(id).await?).await)
    }

    /// Returns where a session is, with which environment, and what it was given.
    ///
    /// # Errors
    /// The session cannot be opened.
    pub async fn place_of(&self, id: &SessionId) -> Result<SessionPlace, SupervisorError> {
        let handle = self.open(id).await?;
        let pending = handle.place().await.map_err(|_| SupervisorError::Failed)?;
        Ok(pending.await.map_err(|_| SupervisorError::Failed)?.value)
    }

    /// Brings what is known of models up to date before a session looks one up: the files, and the servers on this
    /// machine if nothing else has the `name`.
    pub async fn refresh_models(&self, name: Option<&str>) {
        let models = self.models().await;
        if name.is_some_and(|name| !models.knows(name)) {
            self.0.services.models.ask_local(LOCAL_MODELS_MISS_AGE).await;
        }
    }

    /// Returns the model of a name.
    pub(super) async fn named_model(&self, name: &str, env: &SessionEnv) -> Chosen {
        self.refresh_models(Some(name)).await;
        self.0.services.models.registry().resolve(name, env)
    }

    /// Returns the model that a new session gets.
    pub(super) async fn default_model(&self, env: &SessionEnv) -> Chosen {
        let last_used = self.last_used_model().await;
        self.refresh_models(last_used.as_deref()).await;
        let catalog = &self.0.services.models;
        match catalog.registry().default_model(env, last_used.as_deref()) {
            Err(ModelError::NoModel { .. }) => {
                catalog.ask_local(LOCAL_MODELS_MISS_AGE).await;
                catalog.registry().default_model(env, last_used.as_deref())
            }
            found => found,
        }
    }

    /// Returns the models as the user's files define them now.
    async fn models(&self) -> Arc<ModelRegistry> {
        let catalog = Arc::clone(&self.0.services.models);
        let refreshed = self.0.services.tasks.spawn_blocking(move || catalog.refresh()).await;
        refreshed.unwrap_or_else(|_| self.0.services.models.registry())
    }

    /// Returns what is wrong in the user's files of models, as notices for a session.
    pub(super) fn model_notices(&self) -> Vec<(&'static str, String)> {
        let models = self.0.services.models.registry();
        models.notices().iter().map(|notice| ("models_file", notice.to_string())).collect()
    }

    async fn last_used_model(&self) -> Option<String> {
        let latest = self.0.services.index.latest(None).await.ok().flatten()?;
        latest.model
    }
}

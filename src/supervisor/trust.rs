//! Decisions about which folders are trusted.

use std::path::{Path, PathBuf};

use agentd_protocol::methods::{FolderTrust, ListTrustResult, TrustDecision, TrustResult, UntrustResult};

use super::directory::Supervisor;
use super::error::SupervisorError;
use crate::clock;
use crate::trust::{Decided, TrustError, TrustStore};

impl Supervisor {
    /// Keeps a decision about a folder.
    ///
    /// # Errors
    /// There is no such folder, or the decisions cannot be read or written.
    pub async fn trust(
        &self,
        path: PathBuf,
        decision: TrustDecision,
        client: Option<String>,
    ) -> Result<TrustResult, SupervisorError> {
        let decided = Decided::new(decision, clock::now_ms(), client);
        let place = self.with_trust(move |store| store.decide(&path, decided)).await?;
        tracing::info!(folder = %place.display(), decision = decision.as_str(), "a folder was decided about");
        Ok(TrustResult { path: text(&place), decision })
    }

    /// Forgets the decision about a folder.
    ///
    /// # Errors
    /// The path cannot be followed, or the decisions cannot be read or written.
    pub async fn untrust(&self, path: PathBuf) -> Result<UntrustResult, SupervisorError> {
        let (place, known) = self.with_trust(move |store| store.forget(&path)).await?;
        Ok(UntrustResult { path: text(&place), forgotten: known.map(|decided| decided.decision) })
    }

    /// Returns all decisions.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn list_trust(&self) -> Result<ListTrustResult, SupervisorError> {
        let decisions = self.with_trust(TrustStore::load).await?;
        let row = |(path, decided): (&Path, &Decided)| FolderTrust {
            path: text(path),
            decision: decided.decision,
            decided_at: decided.decided_at,
            client: decided.client.clone(),
        };
        Ok(ListTrustResult { file: text(self.0.services.trust.path()), folders: decisions.all().map(row).collect() })
    }

    async fn with_trust<T: Send + 'static>(
        &self,
        work: impl FnOnce(&TrustStore) -> Result<T, TrustError> + Send + 'static,
    ) -> Result<T, SupervisorError> {
        let store = self.0.services.trust.clone();
        let done = self.0.services.tasks.spawn_blocking(move || work(&store)).await;
        Ok(done.map_err(|_| SupervisorError::Failed)??)
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

impl From<TrustError> for SupervisorError {
    fn from(error: TrustError) -> Self {
        let message = error.to_string();
        match error {
            TrustError::Relative(_) | TrustError::NotAFolder(_) | TrustError::NotText(_) | TrustError::Place { .. } => {
                Self::InvalidParam { param: "path", message }
            }
            TrustError::Unreadable { .. } | TrustError::Write { .. } => Self::Storage(message),
        }
    }
}

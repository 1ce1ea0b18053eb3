//! The questions of all sessions that wait for an answer.

use std::future::ready;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use agentd_protocol::SessionId;
use agentd_protocol::methods::Approval;
use futures_util::stream::{self, StreamExt};

use super::directory::Supervisor;
use crate::constants::LOADS_AT_ONCE;
use crate::permissions::questions::session_of;
use crate::store::crash_journal::{CrashJournal, JournalRecord};

impl Supervisor {
    /// Returns the questions that wait for an answer, of one session or of all, oldest first. Sessions whose questions
    /// a daemon before this one had asked are loaded first.
    pub async fn approvals(&self, session: Option<SessionId>) -> Vec<Approval> {
        self.load_asking().await;
        let live = self.all_live().into_iter().filter(|(id, _)| session.as_ref().is_none_or(|wanted| wanted == id));
        let mut approvals: Vec<Approval> = live
            .flat_map(|(session_id, live)| {
                let questions = live.facts.questions().into_iter();
                questions.map(move |question| Approval { session_id: session_id.clone(), question })
            })
            .collect();
        approvals.sort_by(|a, b| {
            let order = |approval: &Approval| (approval.question.asked_at, approval.question.approval_id.clone());
            order(a).cmp(&order(b))
        });
        approvals
    }

    /// Loads the sessions that ask and are not in memory: those whose questions a daemon before this one had asked, and
    /// those whose files could not be written. One that cannot be loaded is tried again with the next call.
    pub async fn load_asking(&self) {
        let asking = self.0.asking.get_or_init(|| self.find_asking()).await;
        let ids = asking.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Side by side, since each may wait for the same login shell. Whoever asks meanwhile waits for the same loads.
        let loads = stream::iter(ids.into_iter().map(|id| self.try_load(id))).buffer_unordered(LOADS_AT_ONCE);
        let loaded: Vec<SessionId> = loads.filter_map(ready).collect().await;
        asking.lock().unwrap_or_else(PoisonError::into_inner).retain(|id| !loaded.contains(id));
    }

    async fn try_load(&self, id: SessionId) -> Option<SessionId> {
        match self.open(&id).await {
            Ok(_) => Some(id),
            Err(error) => {
                tracing::warn!(session = %id, %error, "cannot load a session that waits for an answer");
                None
            }
        }
    }

    /// Takes note of a session that leaves memory with open questions.
    pub(super) fn note_asking(&self, id: &SessionId) {
        // Before the journals are looked through nothing is to be noted: they say it.
        if let Some(asking) = self.0.asking.get() {
            asking.lock().unwrap_or_else(PoisonError::into_inner).push(id.clone());
        }
    }

    async fn find_asking(&self) -> Mutex<Vec<SessionId>> {
        let dir = self.0.services.config.paths.journal_dir.clone();
        // A panic there was logged by the panic hook.
        Mutex::new(self.0.services.tasks.spawn_blocking(move || sessions_that_may_ask(&dir)).await.unwrap_or_default())
    }
}

/// Returns the sessions whose crash journals in `dir` hold questions. Whether these were answered is in their files.
fn sessions_that_may_ask(dir: &Path) -> Vec<SessionId> {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|file| file.path());
    let journals = files.filter(|path| path.extension().is_some_and(|extension| extension == "journal"));
    let mut found: Vec<SessionId> = journals
        .filter_map(|path| {
            let records = CrashJournal::read(&path).ok()?;
            records.iter().rev().find_map(|record| match record {
                JournalRecord::Questions { questions, .. } => session_of(&questions.first()?.approval_id),
                _ => None,
            })
        })
        .collect();
    found.sort();
    found
}

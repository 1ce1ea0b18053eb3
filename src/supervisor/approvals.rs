//! The questions of all sessions that wait for an answer.

use std::path::Path;

use agentd_protocol::SessionId;
use agentd_protocol::methods::Approval;

use super::directory::Supervisor;
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

    /// Loads the sessions in whose crash journals open questions are: once in a daemon's life, since later ones belong
    /// to sessions in memory.
    pub async fn load_asking(&self) {
        self.0.asking_loaded.get_or_init(|| self.load_all_asking()).await;
    }

    async fn load_all_asking(&self) {
        let dir = self.0.services.config.paths.journal_dir.clone();
        let found = self.0.services.tasks.spawn_blocking(move || asking_sessions(&dir)).await.unwrap_or_default();
        for id in found {
            if let Err(error) = self.open(&id).await {
                tracing::warn!(session = %id, %error, "cannot load a session that waits for an answer");
            }
        }
    }
}

/// Returns the sessions whose crash journals in `dir` end with open questions.
fn asking_sessions(dir: &Path) -> Vec<SessionId> {
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

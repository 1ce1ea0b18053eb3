//! What clients can read of a session.

use std::path::PathBuf;

use agentd_protocol::message::{ContentBlock, Message};
use agentd_protocol::methods::{
    ContextUsage, Entry as WireEntry, GetEntriesParams, GetEntriesResult, GetLastAssistantTextResult,
    GetMessagesResult, ProjectTrust, SessionState, SessionStats, SessionStatus,
};

use super::SessionActor;
use crate::agent::handle::SessionError;
use crate::compaction::estimate::context_tokens;
use crate::permissions::policy::CONFINEMENT;
use crate::session::context::build_context;
use crate::session::entry::{Entry, EntryBody};
use crate::trust::{Known, Trusted};

impl SessionActor {
    pub(super) fn state(&self) -> SessionState {
        let settings = self.machine.settings();
        SessionState {
            model: self.settings.model.as_ref().map(|spec| spec.shown()),
            thinking_level: self.settings.thinking,
            is_streaming: self.published.status != SessionStatus::Idle,
            is_compacting: false,
            steering_mode: settings.steering_mode,
            follow_up_mode: settings.follow_up_mode,
            session_file: Some(self.file_path()),
            session_id: self.id.clone(),
            session_name: self.tree.name().map(str::to_owned),
            auto_compaction_enabled: false,
            message_count: build_context(&self.tree).messages.len() as u64,
            pending_message_count: self.published.queue.len() as u64,
            cwd: self.settings.cwd.display().to_string(),
            status: self.status(),
            leaf_id: self.tree.leaf().cloned(),
            tools: self.settings.tools.clone(),
            max_turns: settings.max_turns,
            mode: Some(settings.mode),
            env_source: self.settings.env.source(),
            confinement: CONFINEMENT.to_owned(),
            interrupted: self.published.is_interrupted,
            auto_retry_enabled: settings.retry.enabled,
            retry_at: self.retry_at.filter(|_| self.published.retry.is_some()),
            retry: self.published.retry.clone(),
            clients: u32::try_from(self.clients.len()).unwrap_or(u32::MAX),
            trust: self.trust(),
        }
    }

    /// Returns what was decided about the working directory, as far as the daemon knows without a look at the disk.
    fn trust(&self) -> ProjectTrust {
        let Known { decisions, problem } = self.services.trust.known();
        let trusted = Trusted::new(decisions, None);
        let project = &self.settings.project;
        let standing = trusted.of(&project.place);
        let shown = |path: PathBuf| path.display().to_string();
        ProjectTrust {
            decision: standing.decision,
            folder: standing.folder.map(shown),
            withheld: project.withheld(&trusted).into_iter().map(shown).collect(),
            problem,
        }
    }

    /// Returns what the events up to now say; that a run is being stopped they do not say.
    fn status(&self) -> SessionStatus {
        match (self.published.status, self.machine.status()) {
            (SessionStatus::Idle, _) => SessionStatus::Idle,
            (_, SessionStatus::Stopping) => SessionStatus::Stopping,
            (status, _) => status,
        }
    }

    fn file_path(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn messages(&self) -> GetMessagesResult {
        let context = build_context(&self.tree);
        GetMessagesResult { messages: context.messages.into_iter().map(|entry| entry.message).collect() }
    }

    pub(super) fn entries(&self, params: &GetEntriesParams) -> Result<GetEntriesResult, SessionError> {
        let mut entries: Vec<&Entry> = match params.branch {
            Some(true) => self.tree.branch(),
            _ => self.tree.entries().iter().collect(),
        };
        let place = |id: &Option<agentd_protocol::EntryId>| match id {
            None => Ok(None),
            Some(id) => match entries.iter().position(|entry| entry.id == *id) {
                Some(place) => Ok(Some(place)),
                None => Err(SessionError::UnknownEntry(id.clone())),
            },
        };
        let (since, before) = (place(&params.since)?, place(&params.before)?);
        if let Some(before) = before {
            entries.truncate(before);
        }
        if let Some(since) = since {
            entries.drain(..(since + 1).min(entries.len()));
        }
        if let Some(limit) = params.limit.map(|limit| limit as usize) {
            if params.before.is_some() {
                entries.drain(..entries.len().saturating_sub(limit));
            } else {
                entries.truncate(limit);
            }
        }
        Ok(GetEntriesResult {
            entries: entries.into_iter().map(|entry| WireEntry(std::sync::Arc::clone(&entry.raw))).collect(),
            leaf_id: self.tree.leaf().cloned(),
        })
    }

    pub(super) fn last_assistant_text(&self) -> GetLastAssistantTextResult {
        let branch = self.tree.branch();
        let text = branch.into_iter().rev().find_map(|entry| match &entry.body {
            EntryBody::Message(message) => match &**message {
                Message::Assistant(assistant) => {
                    let texts: Vec<&str> = assistant.content.iter().filter_map(ContentBlock::as_text).collect();
                    (!texts.is_empty()).then(|| texts.concat())
                }
                _ => None,
            },
            _ => None,
        });
        GetLastAssistantTextResult { text }
    }

    pub(super) fn stats(&self) -> SessionStats {
        let counted = self.tree.stats();
        let context_usage = self.settings.model.as_ref().map(|spec| {
            let tokens = context_tokens(&self.messages().messages);
            let context_window = spec.model.context_window;
            #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
            let percent = tokens as f64 / context_window.max(1) as f64 * 100.0;
            ContextUsage { tokens: Some(tokens), context_window, percent: Some(percent) }
        });
        SessionStats {
            session_file: Some(self.file_path()),
            session_id: self.id.clone(),
            user_messages: counted.user_messages,
            assistant_messages: counted.assistant_messages,
            tool_calls: counted.tool_calls,
            tool_results: counted.tool_results,
            total_messages: counted.total_messages,
            tokens: counted.tokens,
            cost: counted.cost,
            context_usage,
        }
    }
}

//! Loading a session from its file, with what its crash journal still holds.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_protocol::SessionId;
use agentd_protocol::message::Message;

use super::directory::Supervisor;
use super::error::SupervisorError;
use super::live::Live;
use super::new::{ModelChoice, default_level, default_tools, given, random};
use crate::agent::actor::{Opening, SessionActor, SessionJournal, SessionSettings, left_records, survey};
use crate::agent::facts::LiveFacts;
use crate::agent::handle::SessionHandle;
use crate::agent::machine::{Left, Queues};
use crate::agent::services::Services;
use crate::clock;
use crate::config::SessionPlace;
use crate::config::env::SessionEnv;
use crate::constants::{INTERRUPTED_MESSAGE, LOGIN_ENV_NOTICE, MAX_AMBIGUOUS, SESSION_MAILBOX};
use crate::provider::clamp_level;
use crate::session::context::build_context;
use crate::session::entry::EntryBody;
use crate::session::settings::StoredSettings;
use crate::session::tree::SessionTree;
use crate::store::crash_journal::{CrashJournal, JournalRecord};
use crate::store::error::StoreError;
use crate::store::session_file::{SessionFile, SyncMode};
use crate::store::{names, record, recovery};

/// A session as it was found on disk.
struct Stored {
    tree: SessionTree,
    file: SessionFile,
    left: Left,
    notices: Vec<(&'static str, String)>,
    journal_path: PathBuf,
    /// Why the end of the last run is not in the file yet.
    unrecovered: Option<String>,
}

impl Stored {
    /// The session can be read all the same; the journal keeps the rest until the disk takes it.
    fn leave_unrecovered(&mut self, id: &SessionId, error: &StoreError) {
        let report = error.report();
        tracing::warn!(session = %id, error = report, "cannot write what a crash journal holds");
        self.unrecovered = Some(format!(
            "the end of the last run is not in the session file yet: {report}; nothing is lost, and prompt tries again"
        ));
    }
}

impl Supervisor {
    /// Finds the session that an id, or the end of one, names, and its file.
    pub(super) async fn locate(&self, id: &SessionId) -> Result<(SessionId, Option<PathBuf>), SupervisorError> {
        // Every id ends with nothing.
        if id.as_str().is_empty() {
            return Err(SupervisorError::UnknownSession(id.clone()));
        }
        let mut found: Vec<(SessionId, Option<PathBuf>)> =
            self.live_with_tail(id.as_str()).into_iter().map(|id| (id, None)).collect();
        // A broken index must not hide a session: the files themselves say which is which.
        let rows = match self.0.services.index.find(id.as_str()).await {
            Ok(rows) => rows.into_iter().map(|row| (row.session_id, row.path)).collect(),
            Err(error) => {
                tracing::warn!(%error, "the session index cannot be read");
                Vec::new()
            }
        };
        let (dir, tail) = (self.0.services.config.paths.sessions_dir.clone(), id.as_str().to_owned());
        let search = self.0.services.tasks.spawn_blocking(move || on_disk(&dir, &tail, rows));
        let (on_disk, is_stale) = search.await.map_err(|_| SupervisorError::Failed)?;
        if is_stale {
            self.0.services.index.reconcile();
        }
        found.extend(on_disk.into_iter().map(|(id, path)| (id, Some(path))));
        // Those with a file first, and of several files that which looks most like the session's own.
        found.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.is_none().cmp(&b.1.is_none())));
        found.dedup_by(|b, a| a.0 == b.0);
        if let Some(exact) = found.iter().find(|(found, _)| found == id) {
            return Ok(exact.clone());
        }
        match found.len() {
            0 => Err(SupervisorError::UnknownSession(id.clone())),
            1 => Ok(found.remove(0)),
            _ => Err(SupervisorError::Ambiguous {
                tail: id.to_string(),
                candidates: found.iter().take(MAX_AMBIGUOUS).map(|(id, _)| id.to_string()).collect(),
            }),
        }
    }

    /// Loads a session and starts its actor.
    pub(super) async fn load(&self, id: SessionId, path: PathBuf) -> Result<Live, SupervisorError> {
        let services = Arc::clone(&self.0.services);
        let journal_id = id.clone();
        let loaded = services.tasks.spawn_blocking({
            let services = Arc::clone(&services);
            move || read_stored(&services, &path, &journal_id)
        });
        let mut stored = loaded.await.map_err(|_| SupervisorError::Failed)??;
        let env = self.0.login_env.get().await;
        stored.notices.push((
            LOGIN_ENV_NOTICE,
            "no client has sent an environment since the daemon started: tools use the login shell's; \
             set_env replaces it"
                .to_owned(),
        ));
        let extra = StoredSettings::of(&stored.tree);
        let settings = self.stored_session_settings(&stored.tree, env, &extra).await?;
        stored.notices.extend(self.model_notices());
        let opening = Opening {
            unsaved: Vec::new(),
            machine: self.machine(&settings.config, &extra, stored.left.clone()),
            journal: SessionJournal::new(
                &stored.journal_path,
                stored.file.path().to_owned(),
                stored.left.queues,
                !stored.left.questions.is_empty(),
            ),
            unrecovered: stored.unrecovered,
            settings,
            ring: self.ring(&id),
            notices: stored.notices,
            tree: stored.tree,
            file: stored.file,
            id,
        };
        // Not beside those that the drain has closed meanwhile.
        self.refuse_when_closing()?;
        Ok(self.start(opening))
    }

    async fn stored_session_settings(
        &self,
        tree: &SessionTree,
        env: SessionEnv,
        stored: &StoredSettings,
    ) -> Result<SessionSettings, SupervisorError> {
        let (cwd, given) = (PathBuf::from(&tree.header.cwd), given(stored));
        let place = SessionPlace { cwd: Some(cwd.clone()), env: env.clone(), given: given.clone() };
        let config = self.settings_for(place).await.settings;
        let context = build_context(tree);
        let found = match &context.model {
            Some((provider, id)) => self.named_model(&format!("{provider}/{id}"), &env).await,
            None => match &config.model {
                Some(name) => self.named_model(name, &env).await,
                None => self.default_model(&env).await,
            },
        };
        let model: ModelChoice = found.ok().map(|(spec, level)| {
            let level = context.thinking_level.or(level).unwrap_or(default_level(&spec));
            let level = clamp_level(&spec.model, level);
            (spec, level)
        });
        let thinking = context.thinking_level.unwrap_or_default();
        let (model, thinking) = match model {
            Some((spec, level)) => (Some(spec), level),
            None => (None, thinking),
        };
        let looked = self.0.services.tasks.spawn_blocking({
            let (cwd, env, services) = (cwd.clone(), env.clone(), Arc::clone(&self.0.services));
            move || {
                services.trust.load_or_none();
                services.learn_keys(&env);
                survey(&cwd, &env, &services)
            }
        });
        let project = looked.await.map_err(|_| SupervisorError::Failed)?;
        let tools = stored.tools.clone().unwrap_or_else(default_tools);
        Ok(SessionSettings { cwd, env, model, thinking, tools, project, given, config })
    }

    /// Starts a session's actor and watches over it: a panic ends that session only.
    pub(super) fn start(&self, opening: Opening) -> Live {
        let services = Arc::clone(&self.0.services);
        let (sender, commands) = tokio::sync::mpsc::channel(SESSION_MAILBOX);
        let (id, ring) = (opening.id.clone(), opening.ring.clone());
        let facts = Arc::new(LiveFacts::new(id.clone(), Arc::clone(&services.list_log)));
        let handle = SessionHandle::new(id.clone(), ring.clone(), sender);
        let actor = SessionActor::new(Arc::clone(&services), opening, Arc::clone(&facts), commands, handle.ending());
        let task = services.tasks.spawn("session", actor.run());
        let supervisor = self.clone();
        drop(services.tasks.spawn("session watch", async move {
            if let Err(panic) = task.await {
                tracing::error!(session = %id, panicked = panic.is_panic(), "a session's actor failed");
                let message = "the session stopped because of a fault of the daemon; open it again, its file is whole";
                ring.push([crate::agent::event::Event::Notice { kind: "session_failed", message: message.to_owned() }]);
            }
            ring.close();
            supervisor.leave(&id);
        }));
        Live { handle, facts }
    }
}

/// Reads the file and, if a daemon died in the middle of a run, brings it into order first.
fn read_stored(services: &Services, path: &Path, id: &SessionId) -> Result<Stored, SupervisorError> {
    let (file, loaded) = SessionFile::open(path, &services.writer)?;
    let mut notices = Vec::new();
    if !loaded.damaged.is_empty() {
        let count = loaded.damaged.len();
        let message =
            format!("{count} lines of {} cannot be read; they are kept as they are and skipped", path.display());
        tracing::warn!(session = %id, count, "damaged lines in a session file");
        notices.push(("damaged_lines", message));
    }
    let tree = SessionTree::from_entries(loaded.header, loaded.entries);
    let mut stored =
        Stored { tree, file, left: Left::default(), notices, journal_path: PathBuf::new(), unrecovered: None };
    recover(services, &mut stored, id)?;
    let is_asking = !stored.left.questions.is_empty();
    stored.left.interrupted |= !is_asking && ends_interrupted(&stored.tree);
    Ok(stored)
}

fn recover(services: &Services, stored: &mut Stored, id: &SessionId) -> Result<(), SupervisorError> {
    let (journal_path, records) = find_journal(&services.config.paths.journal_dir, stored.file.path(), id)?;
    stored.journal_path.clone_from(&journal_path);
    if records.is_empty() {
        return Ok(());
    }
    match stored.file.lock() {
        Ok(()) => {}
        Err(error @ StoreError::Locked { .. }) => {
            // Another daemon has the session, and with it the journal; this one only reads.
            tracing::info!(session = %id, %error, "crash journal left to the session's writer");
            return Ok(());
        }
        Err(error @ StoreError::Io { .. }) => {
            stored.leave_unrecovered(id, &error);
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    }
    // The writer before may have gone on until it gave up the lock.
    stored.file.refresh()?.entries.into_iter().for_each(|entry| stored.tree.push(entry));
    let records = CrashJournal::read(&journal_path)?;
    let now = clock::now_ms();
    let recovered = recovery::recover(&stored.tree, &records, now, random);
    if !recovered.append.is_empty() {
        let mut lines = Vec::new();
        let mut entries = Vec::new();
        for new in &recovered.append {
            let entry = record::encode_entry(&new.id, new.parent.as_ref(), now, &new.body)
                .map_err(|error| SupervisorError::Storage(error.to_string()))?;
            lines.extend_from_slice(entry.raw.get().as_bytes());
            lines.push(b'\n');
            entries.push(entry);
        }
        match stored.file.append(&lines, SyncMode::Data) {
            Ok(appended) => {
                appended.foreign.into_iter().chain(entries).for_each(|entry| stored.tree.push(entry));
            }
            Err(error @ StoreError::Io { .. }) => {
                stored.leave_unrecovered(id, &error);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
    stored.left = Left {
        queues: Queues { steering: recovered.steering.into(), follow_up: recovered.follow_up.into() },
        questions: recovered.questions,
        batch: recovered.batch,
        interrupted: recovered.interrupted,
    };
    let leaf = stored.tree.leaf().cloned();
    let left = left_records(&stored.left, leaf, stored.file.path());
    CrashJournal::open(&journal_path).reset(&left, SyncMode::Data)?;
    Ok(())
}

/// Finds the journal of a session file and reads it. One that names another file under the same id is adopted when
/// that file is gone: the session was moved. Otherwise it is left to its file, and this one has a journal of its own.
fn find_journal(
    journal_dir: &Path,
    session_file: &Path,
    id: &SessionId,
) -> Result<(PathBuf, Vec<JournalRecord>), StoreError> {
    let path = names::journal_path(journal_dir, id);
    let records = CrashJournal::read(&path)?;
    match recovery::journal_of(&records) {
        Some(other) if is_another_file(other, session_file) => {
            let path = names::copy_journal_path(journal_dir, id, session_file);
            let records = CrashJournal::read(&path)?;
            Ok((path, records))
        }
        _ => Ok((path, records)),
    }
}

/// Tells whether `other` is there and is not the same file under another name.
fn is_another_file(other: &Path, file: &Path) -> bool {
    let place = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    other != file && place(other).is_some_and(|other| Some(other) != place(file))
}

/// Tells whether the daemon was stopped, in order, in the middle of the last run.
fn ends_interrupted(tree: &SessionTree) -> bool {
    let branch = tree.branch();
    let last = branch.into_iter().rev().find_map(|entry| match &entry.body {
        EntryBody::Message(message) => Some(message),
        _ => None,
    });
    last.is_some_and(|message| match &**message {
        Message::Assistant(last) => last.error_message.as_deref() == Some(INTERRUPTED_MESSAGE),
        _ => false,
    })
}

/// Returns the sessions on disk whose id ends so: those with a row, or, when no row has its file where it says, those
/// that a search of the folders finds. Tells also whether a row was wrong.
fn on_disk(sessions_dir: &Path, tail: &str, mut rows: Vec<(SessionId, PathBuf)>) -> (Vec<(SessionId, PathBuf)>, bool) {
    let count = rows.len();
    rows.retain(|(_, path)| path.symlink_metadata().is_ok());
    let is_stale = rows.len() < count;
    if rows.is_empty() { (search_names(sessions_dir, tail), is_stale) } else { (rows, is_stale) }
}

/// Finds session files by their names, which end in the session's id. The header has the last word: a copy under
/// another name is no session of its own name.
fn search_names(sessions_dir: &Path, tail: &str) -> Vec<(SessionId, PathBuf)> {
    let folders = std::fs::read_dir(sessions_dir).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    let mut found: Vec<(SessionId, PathBuf, u8)> = files
        .filter_map(|file| {
            let path = file.path();
            let stem = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
            let (_, id) = stem.split_once('_')?;
            let header = id.ends_with(tail).then(|| SessionFile::header(&path).ok())??;
            let likeness = names::likeness(&path, &header.id, &header.cwd, header.timestamp);
            header.id.as_str().ends_with(tail).then_some((header.id, path, likeness))
        })
        .collect();
    found.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.1.cmp(&b.1)));
    found.into_iter().map(|(id, path, _)| (id, path)).collect()
}

impl From<StoreError> for SupervisorError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotASession { .. } => Self::Damaged(error.report()),
            other => Self::Storage(other.report()),
        }
    }
}

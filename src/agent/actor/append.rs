//! Writes that other jobs wait for, to the session file and the crash journal: off the async threads, one at a time.

use std::path::Path;

use agentd_protocol::message::Message;
use agentd_protocol::methods::Question;
use tokio::task::JoinHandle;

use super::SessionActor;
use super::journal::{JournalWrite, QueueSave};
use crate::agent::event::Event;
use crate::agent::handle::SessionError;
use crate::agent::machine::{NewEntry, Queues};
use crate::clock;
use crate::config::Durability;
use crate::session::entry::{Entry, EntryBody};
use crate::store::crash_journal::CrashJournal;
use crate::store::error::{Change, StoreError};
use crate::store::record::{self, EncodeError};
use crate::store::session_file::{SessionFile, SyncMode};

/// The file, what was to be written, and what another writer had added before.
type EntriesWritten = (SessionFile, Vec<Entry>, Result<Vec<Entry>, StoreError>);

/// A write that is under way.
pub(super) enum Write {
    /// Entries to the session file.
    Entries(JoinHandle<EntriesWritten>),
    /// Something to the crash journal.
    Journal(JoinHandle<JournalWritten>),
}

/// A write to the crash journal that has ended.
pub(super) struct JournalWritten {
    file: SessionFile,
    /// Whether the session file was made for it.
    is_new_file: bool,
    write: JournalWrite,
    result: Result<(), StoreError>,
}

/// A write that has ended.
pub(super) enum Written {
    /// Entries: the file, what was to be written, and what another writer had added before.
    Entries(SessionFile, Vec<Entry>, Result<Vec<Entry>, StoreError>),
    /// Something to the crash journal.
    Journal(JournalWritten),
    /// The thread that wrote panicked; the file is gone with it.
    Lost,
}

/// Waits for the write that is under way, for ever when there is none.
pub(super) async fn finished(write: &mut Option<Write>) -> Written {
    let written = match write {
        Some(Write::Entries(handle)) => match handle.await {
            Ok((file, entries, result)) => Written::Entries(file, entries, result),
            Err(_) => Written::Lost,
        },
        Some(Write::Journal(handle)) => match handle.await {
            Ok(written) => Written::Journal(written),
            Err(_) => Written::Lost,
        },
        None => std::future::pending().await,
    };
    *write = None;
    written
}

impl SessionActor {
    pub(super) fn start_append(&mut self, entries: Vec<NewEntry>, sync: bool) {
        let encoded = match self.encode(entries) {
            Ok(encoded) => encoded,
            Err(error) => return self.fail_jobs(&SessionError::Storage(error.to_string())),
        };
        let Some(mut file) = self.file.take() else {
            return self.on_written(Written::Lost);
        };
        if file.is_empty() && !encoded.iter().any(is_conversation) {
            // Settings of a session in which nothing was said yet: no file for them alone, as in pi.
            self.file = Some(file);
            self.unsaved.extend(encoded.iter().cloned());
            encoded.into_iter().for_each(|entry| self.add_entry(entry));
            return;
        }
        let mut lines = if file.is_empty() { self.first_lines() } else { Vec::new() };
        for entry in &encoded {
            push_line(&mut lines, entry.raw.get().as_bytes());
        }
        let sync = self.sync_mode(sync);
        let journal = self.journal.path().to_owned();
        let handle = self.services.tasks.spawn_blocking(move || {
            let result = hold(&mut file, &journal).and_then(|()| file.append(&lines, sync));
            (file, encoded, result.map(|appended| appended.foreign))
        });
        self.write = Some(Write::Entries(handle));
    }

    /// Returns what a file begins with: the header, and the entries that waited for it.
    fn first_lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        push_line(&mut lines, record::encode_header(&self.tree.header).as_bytes());
        for entry in &self.unsaved {
            push_line(&mut lines, entry.raw.get().as_bytes());
        }
        lines
    }

    fn sync_mode(&self, wanted: bool) -> SyncMode {
        match self.settings.config.durability {
            Durability::Flush => SyncMode::Flush,
            Durability::Turn if wanted => SyncMode::Data,
            Durability::Turn => SyncMode::Flush,
            Durability::Entry => SyncMode::Data,
        }
    }

    /// Encodes entries as a chain below the leaf.
    fn encode(&self, entries: Vec<NewEntry>) -> Result<Vec<Entry>, EncodeError> {
        let mut parent = self.tree.leaf().cloned();
        let now = clock::now_ms();
        entries
            .into_iter()
            .map(|new| {
                let entry = record::encode_entry(&new.id, parent.as_ref(), now, &new.body)?;
                parent = Some(new.id);
                Ok(entry)
            })
            .collect()
    }

    pub(super) fn start_save_queue(&mut self, queues: Queues) {
        match self.journal.begin_queue_write(queues) {
            QueueSave::Write(write) => self.start_journal_write(write),
            QueueSave::AsSaved => {}
            QueueSave::Lost => self.on_written(Written::Lost),
        }
    }

    pub(super) fn start_save_questions(&mut self, questions: Vec<Question>) {
        match self.journal.begin_question_write(questions, self.tree.leaf().cloned()) {
            Some(write) => self.start_journal_write(write),
            None => self.on_written(Written::Lost),
        }
    }

    pub(super) fn start_journal_write(&mut self, mut write: JournalWrite) {
        let sync = self.sync_mode(true);
        let Some(mut file) = self.file.take() else { return self.on_written(Written::Lost) };
        // A session is found by its file: without one, what waits in it would be lost to everybody.
        let is_new_file = file.is_empty();
        let first_lines = if is_new_file { self.first_lines() } else { Vec::new() };
        let journal = self.journal.path().to_owned();
        let handle = self.services.tasks.spawn_blocking(move || {
            let held = match is_new_file {
                true => file.append(&first_lines, sync).map(drop),
                false => hold(&mut file, &journal),
            };
            let result = held.and_then(|()| write.perform(sync));
            JournalWritten { is_new_file: is_new_file && !file.is_empty(), file, write, result }
        });
        self.write = Some(Write::Journal(handle));
    }

    pub(super) fn on_written(&mut self, written: Written) {
        match written {
            Written::Entries(file, entries, Ok(foreign)) => {
                self.file = Some(file);
                self.unsaved = Vec::new();
                self.adopt_foreign(foreign);
                for entry in entries {
                    self.journal.note_written(&entry.id);
                    self.add_entry(entry);
                }
                self.update_index();
                if let Some(write) = self.journal.begin_shorten() {
                    self.start_journal_write(write);
                }
            }
            Written::Entries(file, _, Err(error)) => {
                self.file = Some(file);
                tracing::warn!(session = %self.id, error = %error.report(), "cannot write the session file");
                // Another file has taken the place of the one that was read: what is in memory is no longer the session.
                self.closing |= matches!(error, StoreError::Changed { .. });
                self.fail_jobs(&error.into());
            }
            Written::Journal(written) => self.on_journal_written(written),
            Written::Lost => {
                // Neither the file nor the journal can be used any more; the next load opens them anew.
                self.closing = true;
                self.fail_jobs(&SessionError::Failed);
            }
        }
    }

    fn on_journal_written(&mut self, written: JournalWritten) {
        let JournalWritten { file, is_new_file, write, result } = written;
        let is_promise = write.is_promise();
        self.file = Some(file);
        self.journal.end_write(write, result.is_ok());
        if is_new_file {
            self.unsaved = Vec::new();
            self.update_index();
        }
        if let Err(error) = result {
            tracing::warn!(session = %self.id, error = %error.report(), "cannot write the crash journal");
            self.closing |= matches!(error, StoreError::Changed { .. });
            if is_promise {
                self.fail_jobs(&error.into());
            }
        }
    }

    /// Takes in lines that another program has appended to the file.
    pub(super) fn adopt_foreign(&mut self, foreign: Vec<Entry>) {
        if foreign.is_empty() {
            return;
        }
        let count = foreign.len();
        foreign.into_iter().for_each(|entry| self.add_entry(entry));
        let message = format!("another program has added {count} entries to this session's file; they are kept");
        self.publish(Event::Notice { kind: "foreign_entries", message });
    }

    /// Takes an entry into the tree, and into the session's row in lists.
    fn add_entry(&mut self, entry: Entry) {
        self.row.add(&entry);
        self.tree.push(entry);
    }

    /// Tells the index what the session's row says now.
    fn update_index(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|file| !file.is_empty()) {
            self.row.len = file.len();
            self.services.index.record(self.row.clone());
        }
    }
}

/// Becomes the session's writer, if it is on disk. Only the writer may touch the crash journal. What is in the journal
/// of one that another daemon wrote until now is not in memory here; it has to be loaded anew.
pub(super) fn hold(file: &mut SessionFile, journal: &Path) -> Result<(), StoreError> {
    if file.is_empty() || file.is_locked() {
        return Ok(());
    }
    file.lock()?;
    if CrashJournal::read(journal)?.is_empty() {
        return Ok(());
    }
    Err(StoreError::Changed { path: file.path().to_owned(), change: Change::Continued })
}

fn is_conversation(entry: &Entry) -> bool {
    matches!(&entry.body, EntryBody::Message(message) if matches!(**message, Message::User(_) | Message::Assistant(_)))
}

fn push_line(lines: &mut Vec<u8>, line: &[u8]) {
    lines.extend_from_slice(line);
    lines.push(b'\n');
}

impl From<StoreError> for SessionError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Locked { path, owner } => {
                Self::Locked { path: path.display().to_string(), owner: owner.to_string() }
            }
            other => Self::Storage(other.report()),
        }
    }
}

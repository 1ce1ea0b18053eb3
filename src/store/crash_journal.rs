//! What a running session must not lose in a crash beside its file: the half-streamed response, finished tool results
//! whose turn to be written has not come, and the queues.
//!
//! One file per session in the daemon's state folder, one record a line, written only while there is something to
//! keep. The ids of the entries to come are assigned beforehand, so that [`recovery`](super::recovery) can tell what
//! the session file has already. Only the session's writer (the holder of its lock) may touch the journal.
//!
//! All functions block.

mod record;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

use super::error::StoreError;
use super::session_file::{SyncMode, create_dirs, create_private, write_whole};
pub use record::{JournalBlock, JournalQueues, JournalRecord, JournalUpdate, live_records};
use record::{decode_all, encode_into};

/// Length from which a journal is rewritten without what is no longer needed. Below, the rewriting costs more than
/// the room.
const COMPACT_FROM_BYTES: u64 = 256 * 1024;

/// A session's journal. Nothing is on disk before the first append.
#[derive(Debug)]
pub struct CrashJournal {
    path: PathBuf,
    file: Option<File>,
    len: u64,
    /// Length after the last rewriting.
    compacted_len: u64,
    /// Bytes that are said to be needed no longer.
    dead: u64,
    buffer: Vec<u8>,
}

impl CrashJournal {
    /// Returns the journal at a path. Neither reads nor writes; records left there by a crash should have been
    /// [read](CrashJournal::read) and recovered before.
    pub fn open(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None, len: 0, compacted_len: 0, dead: 0, buffer: Vec::new() }
    }

    /// Returns the journal's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its length in bytes as far as this process wrote it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Tells whether this process has nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads the records of a journal. One that does not exist has none; what follows a torn record is left out.
    ///
    /// # Errors
    /// The system's.
    pub fn read(path: &Path) -> Result<Vec<JournalRecord>, StoreError> {
        Ok(decode_all(&read_bytes(path)?).0)
    }

    /// Appends records in one write. Text that follows text of the same block is joined with it.
    ///
    /// # Errors
    /// The system's; nothing of the records is in the journal then.
    pub fn append(&mut self, records: &[JournalRecord], sync: SyncMode) -> Result<(), StoreError> {
        self.buffer.clear();
        encode_into(records, &mut self.buffer).map_err(StoreError::io(&self.path, "encode records for"))?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        let buffer = std::mem::take(&mut self.buffer);
        let written = self.write(&buffer, sync);
        self.buffer = buffer;
        // A burst of megabytes must not keep its room for the life of the session.
        self.buffer.shrink_to(64 * 1024);
        written
    }

    /// Tells whether it has grown so much that it is worth rewriting.
    pub fn is_long(&self) -> bool {
        let live = self.compacted_len.min(self.len.saturating_sub(self.dead));
        self.len > COMPACT_FROM_BYTES.max(2 * live)
    }

    /// Takes note that about as many bytes of the records are needed no longer, because of those appended next.
    pub fn note_dead(&mut self, bytes: u64) {
        self.dead = self.dead.saturating_add(bytes);
    }

    /// Rewrites it without what is no longer needed.
    ///
    /// # Errors
    /// The system's; all records are still there then.
    pub fn shorten(&mut self, sync: SyncMode) -> Result<(), StoreError> {
        let live = live_records(&Self::read(&self.path)?);
        self.reset(&live, sync)
    }

    fn write(&mut self, bytes: &[u8], sync: SyncMode) -> Result<(), StoreError> {
        if self.file.is_none() {
            (self.file, self.len) = self.create_or_continue(sync)?;
        }
        let Some(file) = &self.file else { unreachable!("just opened") };
        write_whole(file, self.len, bytes).map_err(StoreError::io(&self.path, "append to"))?;
        self.len += bytes.len() as u64;
        if sync == SyncMode::Data {
            file.sync_data().map_err(StoreError::io(&self.path, "sync"))?;
        }
        Ok(())
    }

    fn create_or_continue(&self, sync: SyncMode) -> Result<(Option<File>, u64), StoreError> {
        let mut dirs = create_dirs(self.path.parent().unwrap_or(Path::new(".")))?;
        match create_private(&self.path) {
            Ok(file) => {
                if sync == SyncMode::Data {
                    super::session_file::sync_dirs(&mut dirs)?;
                }
                Ok((Some(file), 0))
            }
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => self.continue_old(),
            Err(error) => Err(error),
        }
    }

    /// Goes on with a journal that is there; a torn record at its end would hide all that follows it.
    fn continue_old(&self) -> Result<(Option<File>, u64), StoreError> {
        let file = open_file(&self.path, true).map_err(StoreError::io(&self.path, "open"))?;
        let whole = decode_all(&read_bytes(&self.path)?).1;
        file.set_len(whole).map_err(StoreError::io(&self.path, "truncate"))?;
        Ok((Some(file), whole))
    }

    /// Replaces all records, as one step: after a crash either the old ones are there or the new ones.
    ///
    /// # Errors
    /// The system's; the old records are still there then.
    pub fn reset(&mut self, records: &[JournalRecord], sync: SyncMode) -> Result<(), StoreError> {
        if records.is_empty() {
            return self.remove();
        }
        let temporary = self.path.with_extension("journal-new");
        let _ = fs::remove_file(&temporary);
        create_dirs(self.path.parent().unwrap_or(Path::new(".")))?;
        let file = create_private(&temporary)?;
        let replaced = self.replace(&file, &temporary, records, sync);
        match replaced {
            Ok(len) => {
                self.file = Some(file);
                self.len = len;
                (self.compacted_len, self.dead) = (len, 0);
                Ok(())
            }
            Err(error) => {
                let _ = fs::remove_file(&temporary);
                Err(error)
            }
        }
    }

    fn replace(
        &self,
        file: &File,
        temporary: &Path,
        records: &[JournalRecord],
        sync: SyncMode,
    ) -> Result<u64, StoreError> {
        let mut bytes = Vec::new();
        encode_into(records, &mut bytes).map_err(StoreError::io(&self.path, "encode records for"))?;
        write_whole(file, 0, &bytes).map_err(StoreError::io(temporary, "write"))?;
        if sync == SyncMode::Data {
            file.sync_data().map_err(StoreError::io(temporary, "sync"))?;
        }
        fs::rename(temporary, &self.path).map_err(StoreError::io(&self.path, "replace"))?;
        Ok(bytes.len() as u64)
    }

    /// Deletes the journal: the session file has all of it. The next append begins a new one.
    ///
    /// # Errors
    /// The system's. A journal that does not exist is none.
    pub fn remove(&mut self) -> Result<(), StoreError> {
        self.file = None;
        (self.len, self.compacted_len, self.dead) = (0, 0, 0);
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io(&self.path, "remove")(error)),
            _ => Ok(()),
        }
    }
}

fn open_file(path: &Path, append: bool) -> io::Result<File> {
    OpenOptions::new().read(true).append(append).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path)
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    match open_file(path, false).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(bytes),
        Err(error) => Err(StoreError::io(path, "read")(error)),
    }
}

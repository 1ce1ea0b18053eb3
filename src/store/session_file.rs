//! One session's file: read once, then appended to by one writer.
//!
//! **Invariants**
//! - Opening reads only. The first append takes an OS lock (on the open file description, so that it ends with the
//!   process however that ends) and keeps it; a second writer is told who holds it.
//! - Each append checks that the file is still the one that was read. Lines that a program without locks (pi) added
//!   meanwhile are read and handed out before ours are written; a shrunk, replaced or deleted file is not written to.
//! - An append is one write. If it fails, what was written of it is cut off again: no partial line stays.
//! - Bytes that are in the file are never rewritten, with one exception: a file of an old version is replaced by its
//!   migration as a whole, and the original kept beside it as `.bak`.
//!
//! All methods block.

mod append;
mod create;
mod lock;
mod migrate;
mod read;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::session::{Entry, Header};

use super::error::{Owner, StoreError};
use super::record::{DamagedLine, Loaded, Loader};
pub(super) use append::write_whole;
pub(super) use create::{create_dirs, create_private, sync_dirs};
use lock::OwnerRecord;
use read::FileId;
pub(super) use read::{not_a_session, open_regular, read_header, read_line};

/// How far an append must have gone before it counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// In the kernel: survives the end of the daemon in whatever way, not a power cut.
    #[default]
    Flush,
    /// On the disk (`fdatasync`; for a new file also its folders).
    Data,
}

/// Who this process is as a writer of sessions, and where it says so. Shared by all sessions of a daemon.
#[derive(Clone, Debug)]
pub struct Writer {
    /// What a second writer is told.
    pub owner: Owner,
    /// Folder of the owner records (in the runtime folder, never beside the sessions).
    pub locks_dir: PathBuf,
}

impl Writer {
    /// Returns a writer for this process.
    pub fn new(locks_dir: PathBuf, program: impl Into<String>, socket: Option<PathBuf>) -> Arc<Self> {
        let owner = Owner { pid: std::process::id(), program: program.into(), socket };
        Arc::new(Self { owner, locks_dir })
    }
}

/// A session file and what is known of it.
#[derive(Debug)]
pub struct SessionFile {
    path: PathBuf,
    writer: Arc<Writer>,
    /// The file as it was last seen; `None` until it is created.
    known: Option<Known>,
    /// Open for appending, and locked.
    open: Option<Open>,
}

/// The file as it was last seen.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: FileId,
    len: u64,
    /// Where the last line begins if it has no line end; `len` otherwise.
    complete: u64,
    /// Whether that unfinished line was a whole entry.
    tail_is_entry: bool,
    version: u32,
}

#[derive(Debug)]
struct Open {
    /// Removed on drop. Stands before `file`, so that it goes while the lock is still held.
    _owner: OwnerRecord,
    file: File,
    /// Folders whose entry for a new file or folder is not on the disk yet.
    unsynced_dirs: Vec<PathBuf>,
}

/// What other programs added to the file.
#[derive(Debug, Default)]
pub struct Foreign {
    /// Their entries, in file order.
    pub entries: Vec<Entry>,
    /// Their lines that could not be read.
    pub damaged: Vec<DamagedLine>,
}

/// A successful append.
#[derive(Debug)]
pub struct Appended {
    /// Where our lines begin in the file.
    pub offset: u64,
    /// Entries of other programs that were found before them; they come first in the tree, too.
    pub foreign: Vec<Entry>,
    /// Lines of other programs that could not be read.
    pub damaged: Vec<DamagedLine>,
}

impl SessionFile {
    /// Returns a session that is not on disk. The first append, which begins with the header, creates it.
    pub fn create(path: &Path, writer: &Arc<Writer>) -> Self {
        Self { path: path.to_owned(), writer: Arc::clone(writer), known: None, open: None }
    }

    /// Reads a session. Takes no lock and writes nothing.
    ///
    /// # Errors
    /// The file cannot be read, or is no session.
    pub fn open(path: &Path, writer: &Arc<Writer>) -> Result<(Self, Loaded), StoreError> {
        let (id, loaded) = read::read_session(path)?;
        let known = Known {
            id,
            len: loaded.len,
            complete: loaded.complete_len,
            tail_is_entry: loaded.tail_is_entry,
            version: loaded.version,
        };
        let file = Self { path: path.to_owned(), writer: Arc::clone(writer), known: Some(known), open: None };
        Ok((file, loaded))
    }

    /// Reads what a session file says of the session as a whole, and none of its entries.
    ///
    /// # Errors
    /// The file cannot be read, or is no session.
    pub fn header(path: &Path) -> Result<Header, StoreError> {
        let (file, _) = open_regular(path, false)?;
        read_header(path, &mut BufReader::with_capacity(4096, file), &mut Loader::new())
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file's length as last seen, in bytes; 0 before it exists.
    pub fn len(&self) -> u64 {
        self.known.map_or(0, |known| known.len)
    }

    /// Tells whether nothing of the session is on disk.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells whether this is the session's writer.
    pub fn is_locked(&self) -> bool {
        self.open.is_some()
    }

    /// Writes what is in the kernel to the disk.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.file.sync_data().map_err(StoreError::io(&self.path, "sync"))?;
        create::sync_dirs(&mut open.unsynced_dirs)
    }
}

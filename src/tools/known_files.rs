//! What a session knows of files: how they were when it last read or changed them.
//!
//! A model works with what it has seen. If a file is another one by then, changing it could undo somebody else's work,
//! so that `edit` and `write` refuse a file that changed since. Files that the session never saw are no concern of it.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::digest::{Context, SHA256};

use super::open::open_regular;
use super::work::Gate;
use crate::constants::{KNOWN_FILES, KNOWN_HASH_BYTES};

/// The files that one session knows, by canonical path. Cheap to clone; clones share what is known. It lives as long as
/// the session is in memory.
#[derive(Clone, Debug, Default)]
pub struct KnownFiles(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    files: HashMap<PathBuf, Known>,
    /// Counts what was noted.
    notes: u64,
}

#[derive(Debug)]
struct Known {
    facts: Facts,
    /// `None` for a large file and for a picture: then the facts decide.
    hash: Option<Hash>,
    /// When it was noted, in notes.
    noted: u64,
}

/// Which file it is, and whether anything was done to it, as far as the system tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// The same of the last change of content, owner, mode or names.
    changed: (i64, i64),
}

/// SHA-256 of a whole content.
type Hash = [u8; 32];

/// Takes the hash of a content that comes in pieces, unless it is too large for one.
pub(crate) struct Hasher {
    context: Context,
    bytes: u64,
}

/// A point in a session's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(u64);

impl KnownFiles {
    /// Returns the present moment, to be told with what is read from now on.
    pub(crate) fn now(&self) -> Moment {
        Moment(self.table().notes)
    }

    /// Notes what a read found that began at `since`. What was noted meanwhile is newer and stays.
    pub(crate) fn note_read(&self, path: &Path, metadata: &Metadata, hash: Option<Hash>, since: Moment) {
        let Ok(target) = path.canonicalize() else { return };
        let mut table = self.table();
        if table.files.get(&target).is_none_or(|known| known.noted <= since.0) {
            table.note(target, metadata, hash);
        }
    }

    /// Notes the new content of a file that the session changed; `None` when it cannot be told what the file is now.
    pub(crate) fn note_change(&self, target: &Path, metadata: Option<&Metadata>, pieces: &[&[u8]]) {
        let mut table = self.table();
        match metadata {
            Some(metadata) => table.note(target.to_owned(), metadata, hash_of(pieces)),
            None => drop(table.files.remove(target)),
        }
    }

    /// Tells whether a file that was just read is another one than the session knows.
    pub(crate) fn is_other(&self, target: &Path, metadata: &Metadata, content: &[u8]) -> bool {
        self.differs(target, metadata, || hash_of(&[content]))
    }

    /// Tells whether the file that is there is another one than the session knows. One that is gone is not: there is
    /// nothing to read again, and nothing to lose.
    pub(crate) fn is_other_on_disk(&self, target: &Path, gate: &Gate) -> bool {
        match target.symlink_metadata() {
            Ok(metadata) if metadata.is_file() => self.differs(target, &metadata, || hash_of_file(target, gate)),
            // Writing it fails with better words.
            _ => false,
        }
    }

    fn differs(&self, target: &Path, metadata: &Metadata, hash: impl FnOnce() -> Option<Hash>) -> bool {
        let facts = Facts::of(metadata);
        let known_hash = match self.table().files.get(target) {
            None => return false,
            Some(known) if known.facts.bytes != facts.bytes => return true,
            Some(Known { hash: None, facts: known, .. }) => return *known != facts,
            Some(Known { hash: Some(hash), .. }) => *hash,
        };
        // Also when the facts are the same: two changes within a tick of the file system's clock have one time. Taken
        // without the lock, because it takes a while.
        hash() != Some(known_hash)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing can panic between two changes of the map, so that a poisoned one is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn note(&mut self, target: PathBuf, metadata: &Metadata, hash: Option<Hash>) {
        self.notes += 1;
        self.files.insert(target, Known { facts: Facts::of(metadata), hash, noted: self.notes });
        if self.files.len() > KNOWN_FILES
            && let Some(oldest) = self.files.iter().min_by_key(|(_, known)| known.noted).map(|(path, _)| path.clone())
        {
            self.files.remove(&oldest);
        }
    }
}

impl Facts {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Hasher {
    pub(crate) fn new() -> Self {
        Self { context: Context::new(&SHA256), bytes: 0 }
    }

    pub(crate) fn take(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        if self.bytes <= KNOWN_HASH_BYTES {
            self.context.update(piece);
        }
    }

    /// Returns the hash; `None` when there was more than is hashed.
    pub(crate) fn finish(self) -> Option<Hash> {
        if self.bytes > KNOWN_HASH_BYTES { None } else { self.context.finish().as_ref().try_into().ok() }
    }
}

/// Returns the hash of a content in pieces.
pub(crate) fn hash_of(pieces: &[&[u8]]) -> Option<Hash> {
    let total: usize = pieces.iter().map(|piece| piece.len()).sum();
    if total as u64 > KNOWN_HASH_BYTES {
        return None;
    }
    let mut hasher = Hasher::new();
    pieces.iter().for_each(|piece| hasher.take(piece));
    hasher.finish()
}

fn hash_of_file(path: &Path, gate: &Gate) -> Option<Hash> {
    let (file, _) = open_regular(path, Some(gate)).ok()?;
    let mut content = Vec::new();
    // One byte more shows that there is too much of it.
    file.take(KNOWN_HASH_BYTES + 1).read_to_end(&mut content).ok()?;
    hash_of(&[&content])
}

/// What the model is told instead of a change.
pub(crate) fn changed_text(path: &str) -> String {
    format!("{path} changed on disk since you last read or changed it; nothing was written. Read it again first.")
}

#[cfg(test)]
mod tests;

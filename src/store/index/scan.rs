//! Comparing the rows with the session folders.
//!
//! Runs on a thread of its own and hands its findings to the writer in small lots, waiting for each: what sessions
//! record in the meantime comes between.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::super::error::StoreError;
use super::super::names::fnv1a;
use super::read::{continue_facts, read_facts};
use super::rows::{Known, Stamp};
use crate::session::rows::SessionFacts;

/// Findings handed over together.
const LOT: usize = 64;
/// Rows asked for together.
const ROWS: u32 = 512;

/// What the comparison found out about one file.
#[derive(Debug)]
pub(super) enum Finding {
    /// Its row should say this.
    Changed(Box<SessionFacts>),
    /// It has no row: it is gone, or no session.
    Gone(PathBuf),
}

/// What the comparison needs of the database. An error or `false` ends it.
pub(super) trait Rows {
    /// Returns the row of a file.
    fn known(&mut self, file: &Path) -> rusqlite::Result<Option<Known>>;
    /// Returns the files of the next rows after a name.
    fn files_after(&mut self, after: &[u8], count: u32) -> rusqlite::Result<Vec<PathBuf>>;
    /// Takes findings; returns once they are written.
    fn take(&mut self, lot: Vec<Finding>) -> bool;
}

/// Compares everything below `roots`, and the rows of files elsewhere.
pub(super) fn compare(roots: &[PathBuf], rows: &mut impl Rows) -> rusqlite::Result<()> {
    let mut scan = Scan { rows, lot: Vec::new(), seen: HashSet::new(), unread: Vec::new(), is_stopped: false };
    for root in roots {
        scan.root(root)?;
    }
    scan.rest()?;
    scan.hand_over();
    Ok(())
}

struct Scan<'a, R> {
    rows: &'a mut R,
    lot: Vec<Finding>,
    /// Hashes of the files that were looked at.
    seen: HashSet<u64>,
    /// Folders that could not be read: nothing is known of the files below.
    unread: Vec<PathBuf>,
    is_stopped: bool,
}

impl<R: Rows> Scan<'_, R> {
    /// A root holds a folder for each working directory; pi with a folder of its own for sessions has none.
    fn root(&mut self, root: &Path) -> rusqlite::Result<()> {
        let mut folders = Vec::new();
        for entry in self.entries(root) {
            let path = entry.path();
            if is_session_name(&path) {
                self.file(path)?;
            } else if path.is_dir() {
                folders.push(path);
            }
        }
        folders.sort();
        for folder in folders {
            let mut files: Vec<OsString> = self.entries(&folder).into_iter().map(|entry| entry.file_name()).collect();
            // The names begin with the time: what was begun last comes first into a new index.
            files.sort_by(|a, b| b.cmp(a));
            for file in files {
                let path = folder.join(file);
                if is_session_name(&path) {
                    self.file(path)?;
                }
            }
        }
        Ok(())
    }

    fn entries(&mut self, dir: &Path) -> Vec<DirEntry> {
        match fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                tracing::warn!(path = %dir.display(), %error, "cannot look for sessions");
                self.unread.push(dir.to_owned());
                Vec::new()
            }
        }
    }

    fn file(&mut self, path: PathBuf) -> rusqlite::Result<()> {
        if self.is_stopped {
            return Ok(());
        }
        self.seen.insert(fnv1a(path.as_os_str().as_bytes()));
        let stamp = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() => Stamp::of(&metadata),
            Ok(_) => return self.gone(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.gone(path),
            Err(_) => return Ok(()),
        };
        let known = self.rows.known(&path)?;
        if known.as_ref().is_some_and(|known| known.stamp == stamp) {
            return Ok(());
        }
        match read(&path, known.as_ref(), stamp) {
            Ok(facts) => self.found(Finding::Changed(Box::new(facts))),
            Err(StoreError::NotASession { .. }) => return self.gone(path),
            Err(error) => {
                tracing::debug!(error = %error.report(), "cannot read a session for the index");
            }
        }
        Ok(())
    }

    fn gone(&mut self, path: PathBuf) -> rusqlite::Result<()> {
        if self.rows.known(&path)?.is_some() {
            self.found(Finding::Gone(path));
        }
        Ok(())
    }

    /// Looks at the rows whose files were not come across: deleted ones, and sessions opened from elsewhere.
    fn rest(&mut self) -> rusqlite::Result<()> {
        let mut after = Vec::new();
        while !self.is_stopped {
            let files = self.rows.files_after(&after, ROWS)?;
            let Some(last) = files.last() else { break };
            after = last.as_os_str().as_bytes().to_vec();
            for file in files {
                let is_known_missing = !self.unread.iter().any(|dir| file.starts_with(dir));
                if is_known_missing && !self.seen.contains(&fnv1a(file.as_os_str().as_bytes())) {
                    self.file(file)?;
                }
            }
        }
        Ok(())
    }

    fn found(&mut self, finding: Finding) {
        self.lot.push(finding);
        if self.lot.len() >= LOT {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if !self.lot.is_empty() && !self.is_stopped {
            self.is_stopped = !self.rows.take(std::mem::take(&mut self.lot));
        }
    }
}

fn read(path: &Path, known: Option<&Known>, stamp: Stamp) -> Result<SessionFacts, StoreError> {
    if let Some(known) = known
        && let Some(facts) = continue_facts(path, known, stamp)?
    {
        return Ok(facts);
    }
    read_facts(path)
}

fn is_session_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

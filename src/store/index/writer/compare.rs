//! The thread that compares the rows with the session files.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rusqlite::Connection;

use super::super::database::{Database, Place, open_for_reading};
use super::super::rows::{self, Known};
use super::super::scan::{Finding, Rows, compare};
use super::{Flags, Job, Thread};

impl Thread {
    /// Starts a comparison, or has one started when the present one ends.
    pub(super) fn compare(&mut self, database: &Database) {
        if self.is_comparing || self.flags.closing.load(Ordering::Acquire) {
            return;
        }
        self.has_to_compare = false;
        self.is_comparing = true;
        self.comparing.send_replace(true);
        self.show_status();
        let connection = match &database.place {
            Place::File { path, .. } => Access::File(path.clone()),
            Place::Memory => Access::Memory(database.shared()),
        };
        let (roots, generation) = (Arc::clone(&self.roots), self.generation);
        let (jobs, flags) = (self.jobs.clone(), Arc::clone(&self.flags));
        let started = thread::Builder::new().name("index-scan".to_owned()).spawn(move || {
            // However it ends, the writer must hear of it.
            let _end = End(jobs.clone());
            if let Err(error) = run(connection, &roots, generation, jobs, &flags) {
                tracing::warn!(%error, "the session files cannot be compared with the index");
            }
        });
        if let Err(error) = started {
            tracing::warn!(%error, "the session files cannot be compared with the index");
            self.is_comparing = false;
            self.comparing.send_replace(false);
        }
    }

    /// A comparison has ended.
    pub(super) fn compared(&mut self) {
        self.is_comparing = false;
        if !self.has_to_compare {
            // Before anybody who waited can ask for it.
            self.show_status();
            self.comparing.send_replace(false);
        }
    }
}

struct End(SyncSender<Job>);

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.0.send(Job::Compared);
    }
}

enum Access {
    File(PathBuf),
    Memory(Arc<Mutex<Connection>>),
}

fn run(
    access: Access,
    roots: &[PathBuf],
    generation: u64,
    jobs: SyncSender<Job>,
    flags: &Flags,
) -> rusqlite::Result<()> {
    let connection = match access {
        Access::File(path) => Arc::new(Mutex::new(open_for_reading(&path)?)),
        Access::Memory(shared) => shared,
    };
    compare(roots, &mut Findings { connection, generation, jobs, flags })
}

struct Findings<'a> {
    connection: Arc<Mutex<Connection>>,
    generation: u64,
    jobs: SyncSender<Job>,
    flags: &'a Flags,
}

impl Findings<'_> {
    fn with<T>(&self, question: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        question(&self.connection.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Rows for Findings<'_> {
    fn known(&mut self, file: &Path) -> rusqlite::Result<Option<Known>> {
        self.with(|connection| rows::known(connection, file))
    }

    fn files_after(&mut self, after: &[u8], count: u32) -> rusqlite::Result<Vec<PathBuf>> {
        self.with(|connection| rows::files_after(connection, after, count))
    }

    fn take(&mut self, lot: Vec<Finding>) -> bool {
        let (written, is_written) = sync_channel(1);
        let job = Job::Found { generation: self.generation, lot, written };
        self.jobs.send(job).is_ok() && is_written.recv() == Ok(true) && !self.flags.closing.load(Ordering::Acquire)
    }
}

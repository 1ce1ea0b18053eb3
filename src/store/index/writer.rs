//! The thread that writes.
//!
//! It sleeps while nothing comes. What comes is collected for a moment and committed as one transaction, unless
//! somebody waits for it. Some quiet time after the last commit it gives the write-ahead log back.

mod batch;
mod compare;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::TransactionBehavior;
use tokio::sync::{oneshot, watch};

use super::Status;
use super::database::{self, Database, Place, means_damage};
use super::query::Reader;
use super::rows::{self, Told};
use super::scan::Finding;
use crate::ring::{ListLog, RowChange};
use crate::session::rows::SessionFacts;
use batch::{Batch, Change};

/// Jobs that wait for the writer. When there are more, the files are compared again, so nothing is lost for good.
const QUEUE: usize = 1024;
/// How long the first of some jobs waits for others.
const COLLECT_FOR: Duration = Duration::from_millis(30);
/// Quiet time after which the log is given back, and between attempts to do so.
const CHECKPOINT_AFTER: Duration = Duration::from_secs(2);
/// Time until a disk that failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// Something for the writer to do.
#[derive(Debug)]
pub(super) enum Job {
    /// A session's row.
    Record(Box<SessionFacts>),
    /// What a comparison found. Answered when it is written; `false` ends the comparison.
    Found { generation: u64, lot: Vec<Finding>, written: SyncSender<bool> },
    /// A comparison has ended.
    Compared,
    /// Compare with the files.
    Reconcile,
    /// A reader met an error: see whether the database is still usable.
    Inspect,
    /// Answer when all before is written.
    Barrier(oneshot::Sender<()>),
    /// Write what came before, give the log back, end.
    Close(Option<oneshot::Sender<()>>),
}

#[derive(Debug, Default)]
struct Flags {
    /// A job found no room.
    overflowed: AtomicBool,
    /// Nothing is to be compared any more.
    closing: AtomicBool,
    /// Nobody is there to send jobs.
    abandoned: AtomicBool,
}

/// Talks to the thread. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: SyncSender<Job>,
    flags: Arc<Flags>,
    pub(super) status: Status,
    opened: watch::Receiver<bool>,
    comparing: watch::Receiver<bool>,
}

impl Writer {
    pub(super) fn start(path: Option<PathBuf>, roots: Vec<PathBuf>, reader: Arc<Reader>, log: Arc<ListLog>) -> Self {
        let (jobs, queue) = sync_channel(QUEUE);
        let (opened_tx, opened) = watch::channel(false);
        let (comparing_tx, comparing) = watch::channel(true);
        let flags = Arc::new(Flags::default());
        let status = Status::default();
        status.set("opening");
        let thread = Thread {
            path,
            roots: roots.into(),
            reader,
            log,
            jobs: jobs.clone(),
            flags: Arc::clone(&flags),
            status: status.clone(),
            opened: opened_tx,
            comparing: comparing_tx,
            generation: 0,
            amiss: None,
            is_log_dirty: false,
            has_to_compare: false,
            is_comparing: false,
            retry_at: None,
        };
        let started = thread::Builder::new().name("index-writer".to_owned()).spawn(move || thread.run(&queue));
        if let Err(error) = started {
            tracing::error!(%error, "the session index has no thread; lists are empty");
            status.set(format!("stopped: {error}"));
        }
        Self { jobs, flags, status, opened, comparing }
    }

    /// Hands a job over if there is room.
    pub(super) fn offer(&self, job: Job) {
        if let Err(TrySendError::Full(_)) = self.jobs.try_send(job) {
            self.flags.overflowed.store(true, Ordering::Release);
        }
    }

    /// Waits until what was offered before is written; not longer than `limit`, and not at all if the queue is full.
    pub(super) async fn barrier(&self, limit: Option<Duration>) {
        // Without a database there is nothing to read; opening always ends, if only with one in memory.
        let _ = self.opened.clone().wait_for(|is_opened| *is_opened).await;
        let (written, waiting) = oneshot::channel();
        match limit {
            Some(limit) => {
                if self.jobs.try_send(Job::Barrier(written)).is_ok() {
                    let _ = tokio::time::timeout(limit, waiting).await;
                }
            }
            None => {
                self.send(Job::Barrier(written)).await;
                let _ = waiting.await;
            }
        }
    }

    pub(super) async fn settled(&self) {
        self.barrier(None).await;
        let _ = self.comparing.clone().wait_for(|is_comparing| !*is_comparing).await;
    }

    pub(super) async fn close(&self) {
        self.flags.closing.store(true, Ordering::Release);
        let (closed, waiting) = oneshot::channel();
        self.send(Job::Close(Some(closed))).await;
        let _ = waiting.await;
    }

    /// Hands a job over, waiting for room.
    async fn send(&self, job: Job) {
        let jobs = self.jobs.clone();
        let _ = tokio::task::spawn_blocking(move || jobs.send(job)).await;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.flags.closing.store(true, Ordering::Release);
        self.flags.abandoned.store(true, Ordering::Release);
        // Wakes a thread that waits. One that has a full queue is awake, and ends when the queue is empty.
        let _ = self.jobs.try_send(Job::Close(None));
    }
}

struct Thread {
    path: Option<PathBuf>,
    roots: Arc<[PathBuf]>,
    reader: Arc<Reader>,
    /// Told what becomes of the rows.
    log: Arc<ListLog>,
    /// For the threads that compare.
    jobs: SyncSender<Job>,
    flags: Arc<Flags>,
    status: Status,
    opened: watch::Sender<bool>,
    comparing: watch::Sender<bool>,
    /// Grows with each database opened: what was compared with an earlier one is worth nothing.
    generation: u64,
    /// What is wrong, for people.
    amiss: Option<String>,
    is_log_dirty: bool,
    has_to_compare: bool,
    is_comparing: bool,
    retry_at: Option<Instant>,
}

impl Thread {
    fn run(mut self, queue: &Receiver<Job>) {
        let Some(mut database) = self.open(false) else { return };
        self.compare(&database);
        let closed = loop {
            match self.wait(queue) {
                Ok(job) => {
                    let mut batch = Batch::collect(job, queue, COLLECT_FOR, self.generation);
                    self.work(&mut database, &mut batch);
                    if let Some(closed) = batch.close {
                        break closed;
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.quiet(&mut database),
                Err(RecvTimeoutError::Disconnected) => break None,
            }
        };
        self.reader.clear();
        database.checkpoint();
        // The last connection takes its log along.
        drop(database);
        self.status.set("closed");
        if let Some(closed) = closed {
            let _ = closed.send(());
        }
    }

    /// Waits for a job, or until there is something to do without one.
    fn wait(&self, queue: &Receiver<Job>) -> Result<Job, RecvTimeoutError> {
        if self.flags.abandoned.load(Ordering::Acquire) {
            return queue.try_recv().map_err(|_| RecvTimeoutError::Disconnected);
        }
        let until_retry = self.retry_at.map(|at| at.saturating_duration_since(Instant::now()));
        let until_checkpoint = self.is_log_dirty.then_some(CHECKPOINT_AFTER);
        match until_retry.into_iter().chain(until_checkpoint).min() {
            Some(limit) => queue.recv_timeout(limit),
            None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Opens the database and tells the readers. `None`: not even memory can be had.
    fn open(&mut self, is_damaged: bool) -> Option<Database> {
        self.generation += 1;
        let opened = database::open(self.path.as_deref(), is_damaged);
        let _ = self.opened.send_replace(true);
        let (database, amiss) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                tracing::error!(%error, "there is no session index; lists are empty");
                self.status.set(format!("stopped: {error}"));
                self.comparing.send_replace(false);
                return None;
            }
        };
        match &database.place {
            Place::File { path, .. } => self.reader.use_file(path.clone()),
            Place::Memory => self.reader.use_memory(database.shared()),
        }
        match rows::revision(&database.lock()) {
            Ok(revision) => self.log.begin(revision),
            // Writing to it finds out what is wrong with it.
            Err(error) => tracing::warn!(%error, "the session index cannot be read"),
        }
        self.amiss = amiss;
        self.is_log_dirty = true;
        Some(database)
    }

    /// Opens another database in place of one that is damaged or gone, and fills it again.
    fn replace(&mut self, database: &mut Database, is_damaged: bool) {
        // Readers must not find the old one in the meantime.
        self.reader.clear();
        if let Some(new) = self.open(is_damaged) {
            *database = new;
            self.has_to_compare = true;
        }
    }

    fn work(&mut self, database: &mut Database, batch: &mut Batch) {
        if database.is_gone() {
            tracing::warn!("the session index was deleted; it is made again");
            self.replace(database, false);
        } else if batch.inspect && database.is_damaged() {
            self.replace(database, true);
        }
        self.write(database, &batch.changes);
        for (generation, written) in batch.found.drain(..) {
            let _ = written.send(generation == self.generation);
        }
        self.has_to_compare |= batch.reconcile || self.flags.overflowed.swap(false, Ordering::AcqRel);
        if batch.compared {
            self.compared();
        }
        if self.has_to_compare && self.retry_at.is_none() {
            self.compare(database);
        }
        self.show_status();
        for waiting in batch.waiting.drain(..) {
            let _ = waiting.send(());
        }
    }

    /// Writes changes; a damaged database is replaced first. On any other fault (a full disk) the files are compared
    /// again later.
    fn write(&mut self, database: &mut Database, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        let mut written = commit(database, changes);
        if written.as_ref().is_err_and(means_damage) {
            tracing::warn!("the session index is damaged; it is made again");
            self.replace(database, true);
            written = commit(database, changes);
        }
        match written {
            Ok(Committed { before, after, told }) => {
                self.is_log_dirty = true;
                self.log.rows_changed(before, after, told.into_iter().map(RowChange::from).collect());
            }
            Err(error) => {
                tracing::warn!(%error, "cannot write to the session index; it is brought up to date later");
                self.amiss = Some(format!("cannot be written: {error}"));
                self.has_to_compare = true;
                self.retry_at = Some(Instant::now() + RETRY_AFTER);
            }
        }
    }

    /// Nothing came for a while.
    fn quiet(&mut self, database: &mut Database) {
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            self.retry_at = None;
            self.amiss = None;
            if self.has_to_compare {
                self.compare(database);
            }
        }
        // A reader in the way is tried again after as long a time.
        if self.is_log_dirty && database.checkpoint() {
            self.is_log_dirty = false;
        }
        self.show_status();
    }

    fn show_status(&self) {
        let doing = if self.is_comparing { "comparing with the session files" } else { "ready" };
        match &self.amiss {
            Some(amiss) => self.status.set(format!("{doing}; {amiss}")),
            None => self.status.set(doing),
        }
    }
}

/// What was written: how many changes of the list were counted before and after, and what they are.
struct Committed {
    before: u64,
    after: u64,
    told: Vec<Told>,
}

fn commit(database: &Database, changes: &[Change]) -> rusqlite::Result<Committed> {
    let mut connection = database.lock();
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut told = Vec::new();
    for change in changes {
        match change {
            Change::Put(facts, source) => rows::put(&tx, facts, *source, &mut told)?,
            Change::Remove(file) => rows::remove(&tx, file, &mut told)?,
        }
    }
    let (before, after) = rows::count_changes(&tx, told.len())?;
    tx.commit()?;
    Ok(Committed { before, after, told })
}

impl From<Told> for RowChange {
    fn from(told: Told) -> Self {
        match told {
            Told::Put { row, is_new } => Self::Put { row: Box::new(row.into_listed()), is_new },
            Told::Gone(id) => Self::Gone(id),
        }
    }
}

//! Jobs that are done together.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::super::rows::Source;
use super::super::scan::Finding;
use super::{Job, QUEUE};
use crate::session::rows::SessionFacts;

/// A change of the rows.
#[derive(Debug)]
pub(super) enum Change {
    /// The row of a file.
    Put(Box<SessionFacts>, Source),
    /// The file has none.
    Remove(PathBuf),
}

/// Jobs that came together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// In the order in which they came.
    pub(super) changes: Vec<Change>,
    /// Where the last word of a session about itself is.
    records: HashMap<PathBuf, usize>,
    /// Whom to tell that they are written.
    pub(super) waiting: Vec<oneshot::Sender<()>>,
    pub(super) found: Vec<(u64, SyncSender<bool>)>,
    pub(super) compared: bool,
    pub(super) reconcile: bool,
    pub(super) inspect: bool,
    pub(super) close: Option<Option<oneshot::Sender<()>>>,
}

impl Batch {
    /// Takes a job and those that come soon after; as soon as somebody waits, only those that are there already.
    pub(super) fn collect(first: Job, queue: &Receiver<Job>, collect_for: Duration, generation: u64) -> Self {
        let until = Instant::now() + collect_for;
        let mut batch = Self::default();
        batch.take(first, generation);
        while batch.close.is_none() && batch.changes.len() < QUEUE {
            let next = if batch.is_awaited() {
                queue.try_recv().ok()
            } else {
                queue.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
            };
            let Some(job) = next else { break };
            batch.take(job, generation);
        }
        batch
    }

    fn is_awaited(&self) -> bool {
        !self.waiting.is_empty() || !self.found.is_empty() || self.inspect
    }

    fn take(&mut self, job: Job, generation: u64) {
        match job {
            Job::Record(facts) => self.record(facts),
            // Compared with a database that is no more.
            Job::Found { generation: of, written, .. } if of != generation => {
                let _ = written.send(false);
            }
            Job::Found { generation, lot, written } => {
                self.changes.extend(lot.into_iter().map(|finding| match finding {
                    Finding::Changed(facts) => Change::Put(facts, Source::Scan),
                    Finding::Gone(file) => Change::Remove(file),
                }));
                self.found.push((generation, written));
            }
            Job::Compared => self.compared = true,
            Job::Reconcile => self.reconcile = true,
            Job::Inspect => self.inspect = true,
            Job::Barrier(written) => self.waiting.push(written),
            Job::Close(closed) => self.close = Some(closed),
        }
    }

    /// Of what a session says of itself only the last counts.
    fn record(&mut self, facts: Box<SessionFacts>) {
        match self.records.get(&facts.file) {
            Some(&place) => self.changes[place] = Change::Put(facts, Source::Session),
            None => {
                self.records.insert(facts.file.clone(), self.changes.len());
                self.changes.push(Change::Put(facts, Source::Session));
            }
        }
    }
}

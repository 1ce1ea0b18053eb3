//! Goes through a tree with several threads.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Take};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::folder::{Entry, Folder, Interest, Kind};
use super::order::{Claim, Job, Order};
use super::rules::Rules;
use crate::constants::SEARCH_THREADS;
use crate::tools::work::Gate;

/// What is searched for.
pub(crate) trait Search: Sync {
    /// What is found in one entry.
    type Found: Send;
    /// What a thread keeps from one entry to the next.
    type Kit;

    /// Makes the kit of a thread.
    fn kit(&self) -> Self::Kit;

    /// Tells whether an entry is looked at.
    fn interest(&self, entry: Entry<'_>) -> Interest;

    /// Looks at an entry.
    ///
    /// # Errors
    /// It cannot be read.
    fn look(&self, kit: &mut Self::Kit, entry: Entry<'_>, halt: Halt<'_>) -> io::Result<Option<Self::Found>>;
}

/// Tells whether a search is to end at once: it was given up, or has all that was wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halt<'a> {
    gate: &'a Gate,
    ended: &'a AtomicBool,
}

impl<'a> Halt<'a> {
    /// Joins the two reasons.
    pub(crate) fn new(gate: &'a Gate, ended: &'a AtomicBool) -> Self {
        Self { gate, ended }
    }

    /// Whether it is.
    pub(crate) fn is_set(self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.gate.is_stopped()
    }
}

/// How often a thread that waits for another looks whether the search was given up.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Searches a folder and all below it; `take` gets what is found in the order of paths and says when it has enough.
/// Returns how many files and folders could not be read. When the gate is stopped, the search ends early and what it
/// gave is worth nothing.
///
/// # Errors
/// The folder itself cannot be read.
pub(crate) fn walk<S: Search>(
    root: PathBuf,
    rules: Rules,
    search: &S,
    gate: &Gate,
    take: impl FnMut(S::Found) -> ControlFlow<()> + Send,
) -> io::Result<usize> {
    let ended = AtomicBool::new(false);
    let halt = Halt::new(gate, &ended);
    let mut root = Folder::root(root, rules);
    root.read(|entry| search.interest(entry), || halt.is_set())?;
    let state = State { order: Order::new(root), take, unreadable: 0, waiting: 0 };
    let crew = Crew { search, halt, ended: &ended, state: Mutex::new(state), change: Condvar::new() };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(SEARCH_THREADS);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let helper = std::thread::Builder::new().name("agentd-search".into());
            // One that cannot be started is done without.
            let _ = helper.spawn_scoped(scope, || crew.work());
        }
        crew.work();
    });
    Ok(crew.state.into_inner().unwrap_or_else(PoisonError::into_inner).unreadable)
}

struct State<R, T> {
    order: Order<Vec<R>>,
    take: T,
    unreadable: usize,
    waiting: usize,
}

/// The threads of one search.
struct Crew<'a, S: Search, T> {
    search: &'a S,
    halt: Halt<'a>,
    ended: &'a AtomicBool,
    state: Mutex<State<S::Found, T>>,
    change: Condvar,
}

/// Ends the search when a thread fails, so that no other waits for it.
struct EndOnPanic<'a>(&'a AtomicBool);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl<S: Search, T: FnMut(S::Found) -> ControlFlow<()>> Crew<'_, S, T> {
    fn work(&self) {
        let _end = EndOnPanic(self.ended);
        let mut kit = self.search.kit();
        while let Some(job) = self.next_job() {
            self.perform(&mut kit, job);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<S::Found, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if self.halt.is_set() {
                return None;
            }
            match state.order.claim() {
                Claim::Job(job) => return Some(job),
                Claim::Done => {
                    self.change.notify_all();
                    return None;
                }
                Claim::Wait => {
                    state.waiting += 1;
                    state = self.change.wait_timeout(state, LOOK_UP).unwrap_or_else(PoisonError::into_inner).0;
                    state.waiting -= 1;
                }
            }
        }
    }

    fn perform(&self, kit: &mut S::Kit, job: Job) {
        let mut found = Vec::new();
        let mut unreadable = 0;
        for index in job.items.clone() {
            if self.halt.is_set() {
                return;
            }
            match job.folder.with_entry(index, |entry| self.search.look(kit, entry, self.halt)) {
                Ok(result) => found.extend(result),
                Err(_) => unreadable += 1,
            }
        }
        let inner = job.folder.inner(job.items.start).and_then(|mut folder| {
            match folder.read(|entry| self.search.interest(entry), || self.halt.is_set()) {
                Ok(()) => Some(folder),
                Err(error) => {
                    // One that is gone by now needs no mention.
                    unreadable += usize::from(error.kind() != io::ErrorKind::NotFound);
                    None
                }
            }
        });
        self.hand_in(job, Some(found).filter(|found| !found.is_empty()), inner, unreadable);
    }

    fn hand_in(&self, job: Job, found: Option<Vec<S::Found>>, inner: Option<Folder>, unreadable: usize) {
        let mut state = self.lock();
        state.unreadable += unreadable;
        state.order.finish(job, found, inner);
        while let Some(found) = state.order.next_result() {
            for found in found {
                if self.ended.load(Ordering::Relaxed) {
                    break;
                }
                if (state.take)(found).is_break() {
                    self.ended.store(true, Ordering::Relaxed);
                }
            }
        }
        if state.waiting > 0 {
            self.change.notify_all();
        }
    }
}

/// Opens a regular file that was found in a folder, to be read to the end that it has now; `None` when it is gone or
/// something else by now. Never blocks.
///
/// # Errors
/// It cannot be opened.
pub(crate) fn open_found(path: &Path, kind: Kind) -> io::Result<Option<Take<File>>> {
    if kind != Kind::File {
        return Ok(None);
    }
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ELOOP as i32) => {
            return Ok(None);
        }
        opened => opened?,
    };
    let metadata = file.metadata()?;
    // Files that the kernel makes up as they are read have no length.
    let length = if metadata.len() == 0 { u64::MAX } else { metadata.len() };
    // Knowing the length saves asking for more at the end, once for each file of a tree.
    Ok(metadata.is_file().then(|| file.take(length)))
}

//! The order of a search that several threads do: what is to be looked at next, and which result comes next.
//!
//! No disk, no threads: a data structure for the lock of [`super::walk`]. A place in the tree is the list of indices
//! that lead to it; places sort as their paths do, a folder before what is in it. What comes first is always handed
//! out first, so that the front is never waited for while others run far ahead.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::folder::Folder;
use crate::constants::{SEARCH_AHEAD, SEARCH_BATCH};

/// Where something is in the tree.
type Place = Vec<u32>;

/// Entries of one folder to be looked at together: one folder, or some that are none.
#[derive(Debug)]
pub(crate) struct Job {
    place: Place,
    /// The folder that they are in.
    pub(crate) folder: Arc<Folder>,
    /// Which of its entries.
    pub(crate) items: Range<usize>,
}

/// What a thread does next.
#[derive(Debug)]
pub(crate) enum Claim {
    /// This.
    Job(Job),
    /// Wait until another one has finished a job.
    Wait,
    /// Nothing: all is done.
    Done,
}

/// The state of a search whose jobs have results `R`.
#[derive(Debug)]
pub(crate) struct Order<R> {
    /// Folders of which entries are still to be handed out, from an index on; keyed by the place of that entry.
    todo: BTreeMap<Place, (Arc<Folder>, usize)>,
    /// Jobs that were handed out, with the results of those that are finished and have to wait for earlier ones.
    open: BTreeMap<Place, Option<R>>,
}

impl<R> Order<R> {
    /// Begins with a folder that was read.
    pub(crate) fn new(root: Folder) -> Self {
        let mut order = Self { todo: BTreeMap::new(), open: BTreeMap::new() };
        order.add(Vec::new(), root);
        order
    }

    fn add(&mut self, mut place: Place, folder: Folder) {
        if folder.len() > 0 {
            place.push(0);
            self.todo.insert(place, (Arc::new(folder), 0));
        }
    }

    /// Hands out what comes first.
    pub(crate) fn claim(&mut self) -> Claim {
        let Some(first) = self.todo.first_entry() else {
            return if self.open.is_empty() { Claim::Done } else { Claim::Wait };
        };
        let is_front = self.open.first_key_value().is_none_or(|(open, _)| open > first.key());
        if self.open.len() >= SEARCH_AHEAD && !is_front {
            return Claim::Wait;
        }
        let (place, (folder, start)) = first.remove_entry();
        let items = folder.next(start, SEARCH_BATCH);
        if items.end < folder.len() {
            let mut rest = place.clone();
            if let Some(index) = rest.last_mut() {
                *index = u32::try_from(items.end).unwrap_or(u32::MAX);
            }
            self.todo.insert(rest, (Arc::clone(&folder), items.end));
        }
        self.open.insert(place.clone(), None);
        Claim::Job(Job { place, folder, items })
    }

    /// Takes what came of a job: its result, and what is in the folder that it was.
    pub(crate) fn finish(&mut self, job: Job, result: Option<R>, inner: Option<Folder>) {
        match result {
            Some(result) => drop(self.open.insert(job.place.clone(), Some(result))),
            None => drop(self.open.remove(&job.place)),
        }
        if let Some(inner) = inner {
            self.add(job.place, inner);
        }
    }

    /// Returns the next result, if all that comes before it is done.
    pub(crate) fn next_result(&mut self) -> Option<R> {
        let first = self.open.first_entry()?;
        let is_next = self.todo.first_key_value().is_none_or(|(todo, _)| todo > first.key());
        if is_next && first.get().is_some() { first.remove() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tools::search::folder::{Interest, Kind};
    use crate::tools::search::rules::{Dialect, Rules};

    fn read(mut folder: Folder) -> Folder {
        folder.read(|_| Interest::Always, || false).unwrap();
        folder
    }

    fn root(path: &std::path::Path) -> Folder {
        read(Folder::root(path.to_owned(), Rules::inside(path, Dialect::find(&[]))))
    }

    /// Does one of the jobs that are handed out.
    fn finish(order: &mut Order<Vec<String>>, job: Job) {
        let names = job.items.clone().map(|index| {
            job.folder.with_entry(index, |entry| {
                (entry.kind != Kind::Folder || entry.below.ends_with("d")).then(|| entry.below.display().to_string())
            })
        });
        let names: Vec<_> = names.flatten().collect();
        let inner = job.folder.inner(job.items.start).map(read);
        order.finish(job, Some(names).filter(|names| !names.is_empty()), inner);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
        #[test]
        fn results_come_in_order_whatever_is_done_first(
            paths in prop::collection::btree_set("([abd]/){0,3}[efg]{1,3}", 1..60),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 1..50),
        ) {
            let dir = tempfile::tempdir().unwrap();
            for path in &paths {
                let path = dir.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "").unwrap();
            }
            let mut expected: Vec<std::path::PathBuf> = paths.iter().map(Into::into).collect();
            let folders = paths.iter().flat_map(|path| std::path::Path::new(path).ancestors().skip(1));
            expected.extend(folders.filter(|path| path.ends_with("d")).map(Into::into));
            // By parts, as the tree is.
            expected.sort();
            expected.dedup();
            let expected: Vec<_> = expected.iter().map(|path| path.display().to_string()).collect();

            let mut order = Order::new(root(dir.path()));
            let (mut running, mut found) = (Vec::new(), Vec::new());
            for turn in 0.. {
                match order.claim() {
                    Claim::Job(job) if running.len() < 4 => running.push(job),
                    Claim::Job(job) => finish(&mut order, job),
                    Claim::Wait if running.is_empty() => prop_assert!(false, "nobody would go on"),
                    Claim::Wait => {
                        let job = running.swap_remove(picks[turn % picks.len()].index(running.len()));
                        finish(&mut order, job);
                    }
                    Claim::Done => break,
                }
                while let Some(names) = order.next_result() {
                    found.extend(names);
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}

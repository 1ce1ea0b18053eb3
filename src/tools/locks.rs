//! One change of a file at a time, over all sessions of the daemon.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

type Table = Arc<Mutex<HashMap<PathBuf, Arc<AsyncMutex<()>>>>>;

/// Locks by canonical path. Cheap to clone; clones share the locks. A lock takes memory only while it is used.
#[derive(Clone, Debug, Default)]
pub struct FileLocks(Table);

/// The right to change one file; may be moved to the thread that does it.
#[derive(Debug)]
pub struct FileGuard {
    table: Table,
    path: PathBuf,
    held: Option<OwnedMutexGuard<()>>,
}

impl FileLocks {
    /// Waits until nobody else changes the file. First come, first served.
    ///
    /// Cancel safe: a dropped future only loses its place in the line.
    pub async fn lock(&self, path: &Path) -> FileGuard {
        let lock = entries(&self.0).entry(path.to_owned()).or_default().clone();
        let mut guard = FileGuard { table: self.0.clone(), path: path.to_owned(), held: None };
        guard.held = Some(lock.lock_owned().await);
        guard
    }
}

impl Drop for FileGuard {
    /// Frees the lock, and forgets it when nobody waits.
    fn drop(&mut self) {
        drop(self.held.take());
        let mut table = entries(&self.table);
        if table.get(&self.path).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            table.remove(&self.path);
        }
    }
}

fn entries(table: &Table) -> MutexGuard<'_, HashMap<PathBuf, Arc<AsyncMutex<()>>>> {
    // Nothing can panic between two changes of the map, so that a poisoned one is whole.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn one_at_a_time_and_nothing_left_behind() {
        let locks = FileLocks::default();
        let first = locks.lock(Path::new("/a")).await;
        let _other = locks.lock(Path::new("/b")).await;
        let second = locks.lock(Path::new("/a"));
        tokio::pin!(second);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut second).await.is_err());
        drop(first);
        drop(second.await);
        assert_eq!(entries(&locks.0).len(), 1);
    }

    #[tokio::test]
    async fn one_who_gave_up_waiting_leaves_nothing() {
        let locks = FileLocks::default();
        let first = locks.lock(Path::new("/a")).await;
        assert!(tokio::time::timeout(Duration::from_millis(5), locks.lock(Path::new("/a"))).await.is_err());
        drop(first);
        assert!(entries(&locks.0).is_empty());
    }
}

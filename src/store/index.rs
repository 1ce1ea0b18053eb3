//! The list of sessions, kept in SQLite so that a page of a hundred thousand sessions costs a millisecond.
//!
//! A cache and nothing more: every row can be made again from its session file, and the database can be deleted at
//! any time. Whatever is wrong with it (damaged, cut, of another program, read-only, with the log of another database
//! beside it), it is moved aside and filled again in the background, and no session notices. Where no file can be
//! had at all, the list is kept in memory.
//!
//! One thread writes, and commits what has come together; short read transactions run on the blocking pool.
//!
//! | part | job |
//! | --- | --- |
//! | `database` | opening, checking, moving aside |
//! | `rows` | writing rows; which of several copies of a session has its id |
//! | `query` | pages, search by id |
//! | `read` | one session file → its row |
//! | `scan` | session folders → what has changed |
//! | `writer` | the thread |

mod database;
mod query;
mod read;
mod rows;
mod scan;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentd_protocol::SessionId;
use agentd_protocol::methods::{SessionRow, SessionStatus};

use crate::constants::INDEX_SETTLE_LIMIT;
use crate::ring::ListLog;
use crate::session::rows::SessionFacts;
use query::Reader;
use writer::{Job, Writer};

/// Rows of a page when a query does not say.
const DEFAULT_PAGE: u32 = 50;
/// Most rows of a page.
const MAX_PAGE: u32 = 500;
/// Longest wait of a list for what was recorded before it. Only a disk that hardly answers takes that long; then the
/// list is a little older.
const LIST_WAITS_FOR_WRITES: Duration = Duration::from_millis(500);

/// The list of all sessions. Cheap to clone; clones share the database.
#[derive(Clone, Debug)]
pub struct Index(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    writer: Writer,
    reader: Arc<Reader>,
}

/// Why the index cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The cursor is not one of ours.
    #[error("the cursor is not one that list_sessions gave out")]
    BadCursor,
    /// The database cannot be read. It is being replaced; the same question can be answered soon.
    #[error("the session index cannot be read just now")]
    Unreadable(#[source] rusqlite::Error),
}

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only sessions of this working directory.
    pub cwd: Option<String>,
    /// Only sessions whose name or first message has this text, letter case aside.
    pub text: Option<String>,
    /// Rows of a page: 1 to 500, 50 when left out.
    pub limit: Option<u32>,
    /// Cursor of the page.
    pub cursor: Option<String>,
}

/// A session in the index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexRow {
    /// Its id; a derived one for a second file with the same id.
    pub session_id: SessionId,
    /// Its file.
    pub path: PathBuf,
    /// Working directory.
    pub cwd: String,
    /// Name.
    pub name: Option<String>,
    /// Beginning of the first message.
    pub first_message: Option<String>,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// Milliseconds since the epoch of the latest entry.
    pub modified: i64,
    /// Messages in the file.
    pub message_count: u64,
    /// `provider/id`.
    pub model: Option<String>,
    /// Dollars.
    pub cost: f64,
    /// The session of which it is a copy.
    pub duplicate_of: Option<SessionId>,
}

impl IndexRow {
    /// Returns the row as clients see it, but for what the session is doing, which the index does not know.
    pub fn into_listed(self) -> SessionRow {
        SessionRow {
            session_id: self.session_id,
            session_file: Some(self.path.display().to_string()),
            cwd: self.cwd,
            name: self.name,
            first_message: self.first_message,
            created: self.created,
            modified: self.modified,
            message_count: self.message_count,
            model: self.model,
            cost: self.cost,
            status: SessionStatus::Unloaded,
            retry_at: None,
            duplicate_of: self.duplicate_of,
        }
    }
}

/// A page.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPage {
    /// Rows, latest use first.
    pub rows: Vec<IndexRow>,
    /// Cursor of the next page.
    pub next_cursor: Option<String>,
    /// Rows over all pages.
    pub total: u64,
    /// How many changes of the list the index had counted; zero when there is no index. Grows over restarts, too.
    pub revision: u64,
}

/// What the index is doing, in words for people.
#[derive(Clone, Debug, Default)]
struct Status(Arc<Mutex<String>>);

impl Status {
    fn set(&self, status: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = status.into();
    }

    fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Default for Index {
    /// Returns an index in memory that looks into no folder.
    fn default() -> Self {
        Self::start(None, Vec::new(), ListLog::new(0))
    }
}

impl Index {
    /// Opens the index of the sessions below `roots` and begins to compare it with their files. Never fails and does
    /// not wait: opening, mending and filling happen on the index's own threads. `log` is told what becomes of the rows.
    pub fn open(path: &Path, roots: Vec<PathBuf>, log: Arc<ListLog>) -> Self {
        Self::start(Some(path.to_owned()), roots, log)
    }

    fn start(path: Option<PathBuf>, roots: Vec<PathBuf>, log: Arc<ListLog>) -> Self {
        let reader = Arc::new(Reader::default());
        let writer = Writer::start(path, roots, Arc::clone(&reader), log);
        Self(Arc::new(Shared { writer, reader }))
    }

    /// Takes in what a session's row says now. Never waits: when more has come than can be written, the session files
    /// are compared again later.
    pub fn record(&self, facts: SessionFacts) {
        self.0.writer.offer(Job::Record(Box::new(facts)));
    }

    /// Compares the rows with the session files, by size and time of change, in the background.
    pub fn reconcile(&self) {
        self.0.writer.offer(Job::Reconcile);
    }

    /// Returns a page of sessions, latest use first. It reflects what was recorded before.
    ///
    /// # Errors
    /// The cursor is not one of ours, or the database cannot be read.
    pub async fn list(&self, query: ListQuery) -> Result<ListPage, IndexError> {
        self.ask(move |reader| reader.list(&query)).await
    }

    /// Returns the session with an id, or those whose id ends so.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn find(&self, id_or_tail: &str) -> Result<Vec<IndexRow>, IndexError> {
        let id_or_tail = id_or_tail.to_owned();
        self.ask(move |reader| reader.find(&id_or_tail)).await
    }

    /// Returns the session used last, in all or in one working directory.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn latest(&self, cwd: Option<&Path>) -> Result<Option<IndexRow>, IndexError> {
        let cwd = cwd.map(|cwd| cwd.to_string_lossy().into_owned());
        let page = self.list(ListQuery { cwd, limit: Some(1), ..ListQuery::default() }).await?;
        Ok(page.rows.into_iter().next())
    }

    /// Returns in a few words what the index is doing.
    pub fn status(&self) -> String {
        self.0.writer.status.get()
    }

    /// Waits until everything recorded so far is written.
    #[cfg(test)]
    pub(crate) async fn flush(&self) {
        self.0.writer.barrier(None).await;
    }

    /// Waits until the comparison that goes on, if any, has ended. For tests and for `@last` right after the start.
    pub async fn settled(&self) {
        self.0.writer.settled().await;
    }

    /// Writes what is left, gives the write-ahead log back and ends the threads. What is recorded afterwards is lost
    /// until the next start compares the files.
    pub async fn close(&self) {
        self.0.writer.close().await;
        self.0.reader.clear();
    }

    /// Runs a question on the blocking pool, a second time if the database had to be mended first.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(&Reader) -> Result<T, IndexError> + Clone + Send + 'static,
    ) -> Result<T, IndexError> {
        let answer = self.ask_once(question.clone()).await;
        let Err(IndexError::Unreadable(error)) = &answer else { return answer };
        tracing::warn!(%error, "the session index cannot be read");
        if database::means_damage(error) {
            self.0.writer.offer(Job::Inspect);
            self.0.writer.barrier(Some(LIST_WAITS_FOR_WRITES)).await;
            // A list that is being filled again is better than an empty one, a whole one better still.
            drop(tokio::time::timeout(INDEX_SETTLE_LIMIT, self.settled()).await);
        }
        self.ask_once(question).await
    }

    async fn ask_once<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Reader) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, IndexError> {
        self.0.writer.barrier(Some(LIST_WAITS_FOR_WRITES)).await;
        let reader = Arc::clone(&self.0.reader);
        match tokio::task::spawn_blocking(move || question(&reader)).await {
            Ok(answer) => answer,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
}

//! The list of sessions, in memory only: it stands where the SQLite index goes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use agentd_protocol::SessionId;

use crate::session::rows::SessionFacts;

/// Rows of sessions that were written since the daemon started.
#[derive(Clone, Debug, Default)]
pub struct Index(Arc<Mutex<BTreeMap<PathBuf, SessionFacts>>>);

/// Why the index cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The cursor is not one of ours.
    #[error("the cursor is not one that list_sessions gave out")]
    BadCursor,
}

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only sessions of this working directory.
    pub cwd: Option<String>,
    /// Only sessions whose name or first message has this text.
    pub text: Option<String>,
    /// Rows of a page.
    pub limit: Option<u32>,
    /// Cursor of the page.
    pub cursor: Option<String>,
}

/// A session in the index.
#[derive(Clone, Debug)]
pub struct IndexRow {
    /// Its id.
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
    /// Milliseconds since the epoch.
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

/// A page.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// Rows, latest use first.
    pub rows: Vec<IndexRow>,
    /// Cursor of the next page.
    pub next_cursor: Option<String>,
    /// Rows over all pages.
    pub total: u64,
    /// Number of the last change.
    pub list_seq: u64,
}

impl Index {
    /// Takes in what a session's row says now.
    pub fn record(&self, facts: SessionFacts) {
        self.rows().insert(facts.file.clone(), facts);
    }

    /// Returns a page.
    ///
    /// # Errors
    /// The cursor is not one of ours.
    pub async fn list(&self, query: ListQuery) -> Result<ListPage, IndexError> {
        let skip: usize = query.cursor.map_or(Ok(0), |cursor| cursor.parse()).map_err(|_| IndexError::BadCursor)?;
        let text = query.text.map(|text| text.to_lowercase());
        let mut rows: Vec<IndexRow> = self.rows().values().map(row).collect();
        rows.retain(|row| query.cwd.as_ref().is_none_or(|cwd| row.cwd == *cwd));
        rows.retain(|row| {
            let fields = [&row.name, &row.first_message];
            text.as_ref().is_none_or(|text| fields.into_iter().flatten().any(|f| f.to_lowercase().contains(text)))
        });
        rows.sort_by_key(|row| std::cmp::Reverse((row.modified, row.session_id.clone())));
        let total = rows.len();
        let limit = query.limit.unwrap_or(50) as usize;
        let rows: Vec<IndexRow> = rows.into_iter().skip(skip).take(limit).collect();
        let next_cursor = (skip + rows.len() < total).then(|| (skip + rows.len()).to_string());
        Ok(ListPage { rows, next_cursor, total: total as u64, list_seq: 0 })
    }

    /// Returns the sessions whose id is or ends so.
    ///
    /// # Errors
    /// None.
    pub async fn find(&self, tail: &str) -> Result<Vec<IndexRow>, IndexError> {
        Ok(self.rows().values().map(row).filter(|row| row.session_id.as_str().ends_with(tail)).collect())
    }

    /// Returns the session used last.
    ///
    /// # Errors
    /// None.
    pub async fn latest(&self, cwd: Option<&Path>) -> Result<Option<IndexRow>, IndexError> {
        let rows = self.rows();
        let rows = rows.values().map(row).filter(|row| cwd.is_none_or(|cwd| Path::new(&row.cwd) == cwd));
        Ok(rows.max_by_key(|row| row.modified))
    }

    fn rows(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, SessionFacts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn row(facts: &SessionFacts) -> IndexRow {
    IndexRow {
        session_id: facts.id.clone(),
        path: facts.file.clone(),
        cwd: facts.cwd.clone(),
        name: facts.name.clone(),
        first_message: facts.first_message.clone(),
        created: facts.created,
        modified: facts.modified,
        message_count: facts.message_count,
        model: facts.model.clone(),
        cost: facts.cost,
        duplicate_of: None,
    }
}

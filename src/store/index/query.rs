//! Reading: pages of the list, sessions by id.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use agentd_protocol::SessionId;
use rusqlite::{Connection, Row, ToSql, params};

use super::database::open_for_reading;
use super::{DEFAULT_PAGE, IndexError, IndexRow, ListPage, ListQuery, MAX_PAGE};

/// Connections kept for the next reader. More can be open at a time; they are closed afterwards.
const IDLE_CONNECTIONS: usize = 2;
/// Most sessions that a tail gives: enough to say that it is ambiguous.
const MAX_FOUND: u32 = 20;
/// Up to as many sessions with a text are sorted; if there are more, the list is gone through in its order, and a page
/// is full soon.
const MAX_SORTED: usize = 1000;

pub(super) const COLUMNS: &str =
    "shown_id, file, cwd, name, first_message, created, modified, message_count, model, cost, duplicate_of";

/// Runs read transactions. The writer tells it where the database is.
#[derive(Debug, Default)]
pub(super) struct Reader(Mutex<Source>);

#[derive(Debug, Default)]
enum Source {
    /// The writer has not opened it yet, or is closed: there are no rows.
    #[default]
    None,
    /// In a file. `generation` grows when another file takes its place.
    File { path: PathBuf, generation: u64, idle: Vec<Connection> },
    /// In memory: the writer's own connection.
    Memory(Arc<Mutex<Connection>>),
}

impl Reader {
    pub(super) fn use_file(&self, path: PathBuf) {
        let mut source = self.source();
        let generation = match &*source {
            Source::File { generation, .. } => generation + 1,
            _ => 0,
        };
        *source = Source::File { path, generation, idle: Vec::new() };
    }

    pub(super) fn use_memory(&self, connection: Arc<Mutex<Connection>>) {
        *self.source() = Source::Memory(connection);
    }

    pub(super) fn clear(&self) {
        *self.source() = Source::None;
    }

    fn source(&self) -> std::sync::MutexGuard<'_, Source> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a question in one read transaction, so that its parts agree with each other.
    fn ask<T>(&self, none: T, question: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, IndexError> {
        let in_transaction = |connection: &Connection| {
            let tx = connection.unchecked_transaction()?;
            let answer = question(&tx)?;
            tx.commit()?;
            Ok(answer)
        };
        let (path, generation, connection) = match &mut *self.source() {
            Source::None => return Ok(none),
            Source::File { path, generation, idle } => (path.clone(), *generation, idle.pop()),
            Source::Memory(shared) => {
                let shared = Arc::clone(shared);
                let connection = shared.lock().unwrap_or_else(PoisonError::into_inner);
                return in_transaction(&connection).map_err(IndexError::Unreadable);
            }
        };
        let connection = connection.map_or_else(|| open_for_reading(&path), Ok).map_err(IndexError::Unreadable)?;
        // A connection that met an error is not used again.
        let answer = in_transaction(&connection).map_err(IndexError::Unreadable)?;
        self.give_back(connection, generation);
        Ok(answer)
    }

    fn give_back(&self, connection: Connection, of: u64) {
        if let Source::File { generation, idle, .. } = &mut *self.source()
            && *generation == of
            && idle.len() < IDLE_CONNECTIONS
        {
            idle.push(connection);
        }
    }

    pub(super) fn list(&self, query: &ListQuery) -> Result<ListPage, IndexError> {
        let cursor =
            query.cursor.as_deref().map(|text| Cursor::parse(text).ok_or(IndexError::BadCursor)).transpose()?;
        let none = ListPage { rows: Vec::new(), next_cursor: None, total: 0, revision: 0 };
        self.ask(none, |connection| page(connection, query, cursor.as_ref()))
    }

    pub(super) fn find(&self, id_or_tail: &str) -> Result<Vec<IndexRow>, IndexError> {
        if id_or_tail.is_empty() {
            return Ok(Vec::new());
        }
        self.ask(Vec::new(), |connection| find(connection, id_or_tail))
    }
}

/// Where the next page begins.
#[derive(Debug, PartialEq, Eq)]
struct Cursor {
    modified: i64,
    id: String,
}

impl Cursor {
    fn parse(text: &str) -> Option<Self> {
        let (modified, id) = text.split_once('.')?;
        Some(Self { modified: modified.parse().ok()?, id: id.to_owned() })
    }

    fn text(&self) -> String {
        format!("{}.{}", self.modified, self.id)
    }
}

fn page(connection: &Connection, query: &ListQuery, cursor: Option<&Cursor>) -> rusqlite::Result<ListPage> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE);
    let text = query.text.as_ref().map(|text| text.to_lowercase()).filter(|text| !text.is_empty());
    let matches = text.as_deref().map(|text| Matches::find(connection, text, query.cwd.as_deref())).transpose()?;
    let (all, revision) = totals(connection)?;
    let total = match (&matches, &query.cwd) {
        (Some(matches), _) => matches.total,
        (None, Some(cwd)) => count_in(connection, cwd)?,
        (None, None) => all,
    };
    let filter = PageFilter {
        cwd: query.cwd.as_deref(),
        cursor,
        text: text.as_deref(),
        rows: matches.as_ref().and_then(Matches::few),
    };
    let mut rows = filter.rows(connection, limit + 1)?;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more);
    let next_cursor = next.map(|row| Cursor { modified: row.modified, id: row.session_id.to_string() }.text());
    Ok(ListPage { rows, next_cursor, total, revision })
}

/// The sessions with a text.
struct Matches {
    total: u64,
    /// The first of them in no order.
    rows: Vec<i64>,
}

impl Matches {
    fn find(connection: &Connection, text: &str, cwd: Option<&str>) -> rusqlite::Result<Self> {
        let sql = match cwd {
            None => "SELECT row FROM sessions WHERE instr(search, ?1) > 0",
            Some(_) => "SELECT row FROM sessions WHERE cwd = ?2 AND instr(search, ?1) > 0",
        };
        let mut statement = connection.prepare_cached(sql)?;
        let mut found = match cwd {
            None => statement.query([text])?,
            Some(cwd) => statement.query([text, cwd])?,
        };
        let mut matches = Self { total: 0, rows: Vec::new() };
        while let Some(row) = found.next()? {
            matches.total += 1;
            if matches.rows.len() < MAX_SORTED {
                matches.rows.push(row.get(0)?);
            }
        }
        Ok(matches)
    }

    /// Returns all of them if there are few.
    fn few(&self) -> Option<&[i64]> {
        (self.total == self.rows.len() as u64).then_some(&self.rows)
    }
}

/// What the rows of a page must satisfy.
#[derive(Default)]
struct PageFilter<'a> {
    cwd: Option<&'a str>,
    cursor: Option<&'a Cursor>,
    text: Option<&'a str>,
    /// The only rows in question.
    rows: Option<&'a [i64]>,
}

impl PageFilter<'_> {
    fn rows(&self, connection: &Connection, limit: u32) -> rusqlite::Result<Vec<IndexRow>> {
        let mut arguments: Vec<(&str, &dyn ToSql)> = vec![(":limit", &limit)];
        if let Some(cwd) = &self.cwd {
            arguments.push((":cwd", cwd));
        }
        if let (Some(text), None) = (&self.text, self.rows) {
            arguments.push((":text", text));
        }
        if let Some(cursor) = self.cursor {
            arguments.push((":modified", &cursor.modified));
            arguments.push((":id", &cursor.id));
        }
        // A list of rows is different each time: not worth keeping.
        let sql = self.sql();
        match self.rows {
            Some(_) => connection.prepare(&sql)?.query_map(&arguments[..], read_row)?.collect(),
            None => connection.prepare_cached(&sql)?.query_map(&arguments[..], read_row)?.collect(),
        }
    }

    /// The row of values lets SQLite go straight to the page in the index; `OR` would not.
    fn sql(&self) -> String {
        let mut conditions = Vec::new();
        if let Some(rows) = self.rows {
            let rows: Vec<String> = rows.iter().map(i64::to_string).collect();
            conditions.push(format!("row IN ({})", rows.join(",")));
        } else if self.text.is_some() {
            conditions.push("instr(search, :text) > 0".to_owned());
        }
        if self.cwd.is_some() {
            conditions.push("cwd = :cwd".to_owned());
        }
        if self.cursor.is_some() {
            conditions.push("(modified, shown_id) < (:modified, :id)".to_owned());
        }
        let filter = if conditions.is_empty() { String::new() } else { format!("WHERE {}", conditions.join(" AND ")) };
        format!("SELECT {COLUMNS} FROM sessions {filter} ORDER BY modified DESC, shown_id DESC LIMIT :limit")
    }
}

/// Returns the number of sessions and that of the last change.
fn totals(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    connection
        .prepare_cached("SELECT sessions, list_seq FROM totals")?
        .query_row([], |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64)))
}

fn count_in(connection: &Connection, cwd: &str) -> rusqlite::Result<u64> {
    connection
        .prepare_cached("SELECT coalesce(sum(sessions), 0) FROM counts WHERE cwd = ?1")?
        .query_row([cwd], |row| Ok(row.get::<_, i64>(0)? as u64))
}

fn find(connection: &Connection, id_or_tail: &str) -> rusqlite::Result<Vec<IndexRow>> {
    let exact = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE shown_id = ?1"))?
        .query_map([id_or_tail], read_row)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    if !exact.is_empty() {
        return Ok(exact);
    }
    let from: String = id_or_tail.chars().rev().collect();
    // Behind every text that begins so.
    let to = format!("{from}\u{10ffff}");
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM sessions WHERE shown_id_reversed >= ?1 AND shown_id_reversed < ?2 \
             ORDER BY modified DESC LIMIT ?3"
        ))?
        .query_map(params![from, to, MAX_FOUND], read_row)?
        .collect()
}

pub(super) fn read_row(row: &Row<'_>) -> rusqlite::Result<IndexRow> {
    Ok(IndexRow {
        session_id: SessionId::new(row.get_ref(0)?.as_str()?),
        path: PathBuf::from(OsStr::from_bytes(row.get_ref(1)?.as_blob()?)),
        cwd: row.get(2)?,
        name: row.get(3)?,
        first_message: row.get(4)?,
        created: row.get(5)?,
        modified: row.get(6)?,
        message_count: row.get::<_, i64>(7)? as u64,
        model: row.get(8)?,
        cost: row.get(9)?,
        duplicate_of: row.get::<_, Option<String>>(10)?.map(SessionId::from),
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::database::open;
    use super::*;

    #[test]
    fn cursors_come_back_and_others_are_refused() {
        let cursor = Cursor { modified: -5, id: "a.b c".into() };
        assert_eq!(Cursor::parse(&cursor.text()), Some(cursor));
        for bad in ["", "5", "x.a", "1,5.a", "99999999999999999999.a"] {
            assert_eq!(Cursor::parse(bad), None, "{bad}");
        }
    }

    /// A page must be read off an index, from its first row on, without sorting.
    #[test]
    fn pages_need_no_sorting() {
        let (database, _) = open(None, false).unwrap();
        let connection = database.lock();
        let plan = |sql: &str| -> String {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let (mut rows, mut steps) = (statement.raw_query(), Vec::new());
            while let Some(row) = rows.next().unwrap() {
                steps.push(row.get::<_, String>(3).unwrap());
            }
            steps.join("; ")
        };
        let at = Cursor { modified: 0, id: String::new() };
        for (by_cwd, from_cursor, expected) in [
            (false, false, "SCAN sessions USING INDEX sessions_by_use"),
            (false, true, "SEARCH sessions USING INDEX sessions_by_use ((modified,shown_id)<(?,?))"),
            (true, false, "SEARCH sessions USING INDEX sessions_by_cwd (cwd=?)"),
            (true, true, "SEARCH sessions USING INDEX sessions_by_cwd (cwd=? AND (modified,shown_id)<(?,?))"),
        ] {
            let filter =
                |text| PageFilter { cwd: by_cwd.then_some("/w"), cursor: from_cursor.then_some(&at), text, rows: None };
            assert_eq!(plan(&filter(None).sql()), expected);
            assert_eq!(plan(&filter(Some("x")).sql()), expected);
        }
        let all_texts = "SELECT row FROM sessions WHERE instr(search, ?1) > 0";
        assert_eq!(plan(all_texts), "SCAN sessions USING COVERING INDEX sessions_by_text");
    }
}

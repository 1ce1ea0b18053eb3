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

const COLUMNS: &str =
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
        let none = ListPage { rows: Vec::new(), next_cursor: None, total: 0, list_seq: 0 };
        self.ask(none, |connection| page(connection, query, cursor.as_ref()))
    }

    pub(super) fn find(&self, id_or_tail: &str) -> Result<Vec<IndexRow>, IndexError> {
        if id_or_tail.is_empty() {
            return Ok(Vec::new());
        }
        self.ask(Vec::new(), |connection| find(connection, id_or_tail))
    }
}

/// Where the next page begins. The total goes along: counting by text reads all rows, which one page of many need do.
#[derive(Debug, PartialEq, Eq)]
struct Cursor {
    modified: i64,
    total: u64,
    id: String,
}

impl Cursor {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let (modified, total, id) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { modified: modified.parse().ok()?, total: total.parse().ok()?, id: id.to_owned() })
    }

    fn text(&self) -> String {
        format!("{}.{}.{}", self.modified, self.total, self.id)
    }
}

fn page(connection: &Connection, query: &ListQuery, cursor: Option<&Cursor>) -> rusqlite::Result<ListPage> {
    let limit = query.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE);
    let text = query.text.as_ref().map(|text| text.to_lowercase()).filter(|text| !text.is_empty());
    let (total, list_seq) = totals(connection, query.cwd.as_deref(), text.as_deref(), cursor)?;

    let one_more = limit + 1;
    let mut arguments: Vec<(&str, &dyn ToSql)> = vec![(":limit", &one_more)];
    if let Some(cwd) = &query.cwd {
        arguments.push((":cwd", cwd));
    }
    if let Some(text) = &text {
        arguments.push((":text", text));
    }
    if let Some(cursor) = cursor {
        arguments.push((":modified", &cursor.modified));
        arguments.push((":id", &cursor.id));
    }
    let sql = page_sql(query.cwd.is_some(), text.is_some(), cursor.is_some());
    let mut rows =
        connection.prepare_cached(&sql)?.query_map(&arguments[..], read_row)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more);
    let next_cursor = next.map(|row| Cursor { modified: row.modified, total, id: row.session_id.to_string() }.text());
    Ok(ListPage { rows, next_cursor, total, list_seq })
}

/// The row of values lets SQLite go straight to the page in the index; `OR` would not.
fn page_sql(by_cwd: bool, by_text: bool, from_cursor: bool) -> String {
    let conditions = [
        (by_cwd, "cwd = :cwd"),
        (from_cursor, "(modified, shown_id) < (:modified, :id)"),
        (by_text, "instr(search, :text) > 0"),
    ];
    let conditions: Vec<&str> = conditions.into_iter().filter(|(is_used, _)| *is_used).map(|(_, sql)| sql).collect();
    let filter = if conditions.is_empty() { String::new() } else { format!("WHERE {}", conditions.join(" AND ")) };
    format!("SELECT {COLUMNS} FROM sessions {filter} ORDER BY modified DESC, shown_id DESC LIMIT :limit")
}

fn totals(
    connection: &Connection,
    cwd: Option<&str>,
    text: Option<&str>,
    cursor: Option<&Cursor>,
) -> rusqlite::Result<(u64, u64)> {
    let (all, list_seq) = connection
        .prepare_cached("SELECT sessions, list_seq FROM totals")?
        .query_row([], |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64)))?;
    let total = match (cwd, text, cursor) {
        (_, Some(_), Some(cursor)) => cursor.total,
        (None, None, _) => all,
        (Some(cwd), None, _) => {
            count(connection, "SELECT coalesce(sum(sessions), 0) FROM counts WHERE cwd = ?1", params![cwd])?
        }
        (None, Some(text), _) => {
            count(connection, "SELECT count(*) FROM sessions WHERE instr(search, ?1) > 0", params![text])?
        }
        (Some(cwd), Some(text), _) => {
            let sql = "SELECT count(*) FROM sessions WHERE cwd = ?2 AND instr(search, ?1) > 0";
            count(connection, sql, params![text, cwd])?
        }
    };
    Ok((total, list_seq))
}

fn count(connection: &Connection, sql: &str, arguments: &[&dyn ToSql]) -> rusqlite::Result<u64> {
    connection.prepare_cached(sql)?.query_row(arguments, |row| Ok(row.get::<_, i64>(0)? as u64))
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

fn read_row(row: &Row<'_>) -> rusqlite::Result<IndexRow> {
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
        let cursor = Cursor { modified: -5, total: 7, id: "a.b c".into() };
        assert_eq!(Cursor::parse(&cursor.text()), Some(cursor));
        for bad in ["", "5", "5.6", "x.1.a", "1.-1.a", "99999999999999999999.1.a"] {
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
        for (by_cwd, from_cursor, expected) in [
            (false, false, "SCAN sessions USING INDEX sessions_by_use"),
            (false, true, "SEARCH sessions USING INDEX sessions_by_use ((modified,shown_id)<(?,?))"),
            (true, false, "SEARCH sessions USING INDEX sessions_by_cwd (cwd=?)"),
            (true, true, "SEARCH sessions USING INDEX sessions_by_cwd (cwd=? AND (modified,shown_id)<(?,?))"),
        ] {
            assert_eq!(plan(&page_sql(by_cwd, false, from_cursor)), expected);
            assert_eq!(plan(&page_sql(by_cwd, true, from_cursor)), expected);
        }
    }
}

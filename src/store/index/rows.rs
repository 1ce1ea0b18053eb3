//! Writing rows.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agentd_protocol::SessionId;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::super::names::{fnv1a, likeness};
use super::IndexRow;
use super::query::{COLUMNS, read_row};
use crate::session::rows::SessionFacts;

/// What became of the list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    /// This row is new, or says something else.
    Put {
        /// The row.
        row: IndexRow,
        /// Whether no row had its id before.
        is_new: bool,
    },
    /// There is no row of this id any more.
    Gone(SessionId),
}

/// A file's size and time of change: while these stand, its row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) size: u64,
    pub(super) changed_ns: i64,
    pub(super) inode: u64,
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let nanoseconds = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
        Self { size: metadata.size(), changed_ns: nanoseconds, inode: metadata.ino() }
    }
}

/// Who says what a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The session's actor, which has just written the file.
    Session,
    /// The comparison with the files, which may have read the file before the actor wrote to it.
    Scan,
}

/// Inserts or replaces the row of a file, and adds to `told` what that changes in the list.
pub(super) fn put(
    tx: &Transaction<'_>,
    facts: &SessionFacts,
    source: Source,
    told: &mut Vec<Told>,
) -> rusqlite::Result<()> {
    let stamp = match fs::symlink_metadata(&facts.file) {
        Ok(metadata) => Stamp::of(&metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return remove(tx, &facts.file, told),
        Err(_) => Stamp { size: facts.len, changed_ns: 0, inode: 0 },
    };
    let known = known(tx, &facts.file)?;
    if let Some(known) = &known
        && source == Source::Scan
        && known.stamp.inode == stamp.inode
        && known.facts.len > facts.len
        && known.facts.len <= stamp.size
    {
        return Ok(());
    }
    let row = write(tx, facts, stamp)?;
    match known {
        Some(known) if known.facts.id == facts.id => {
            // A file that was only touched, or has grown by what no list shows.
            if shown(&known.facts) != shown(facts) {
                told.push(Told::Put { row, is_new: false });
            }
        }
        Some(known) => {
            assign_ids(tx, &facts.id, None, told)?;
            assign_ids(tx, &known.facts.id, None, told)?;
        }
        None => assign_ids(tx, &facts.id, None, told)?,
    }
    Ok(())
}

/// Returns what lists show of a session.
fn shown(facts: &SessionFacts) -> impl PartialEq + '_ {
    let texts = (&facts.cwd, &facts.name, &facts.first_message, &facts.model);
    (texts, facts.created, facts.modified, facts.message_count, facts.cost.to_bits())
}

/// Writes the row and returns it. A session keeps its shown id when its row is replaced; a new one gets it from
/// [`assign_ids`].
fn write(tx: &Transaction<'_>, facts: &SessionFacts, stamp: Stamp) -> rusqlite::Result<IndexRow> {
    let mut statement = tx.prepare_cached(&format!(
        "INSERT INTO sessions (file, header_id, shown_id, shown_id_reversed, cwd, parent_session, name, first_message, \
             created, modified, message_count, model, model_chosen, cost, search, covered, size, changed_ns, inode) \
         VALUES (?1, ?2, ?2, '', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17) \
         ON CONFLICT (file) DO UPDATE SET header_id = ?2, cwd = ?3, parent_session = ?4, name = ?5, first_message = ?6, \
             created = ?7, modified = ?8, message_count = ?9, model = ?10, model_chosen = ?11, cost = ?12, search = ?13, \
             covered = ?14, size = ?15, changed_ns = ?16, inode = ?17 \
         RETURNING {COLUMNS}",
    ))?;
    let values = params![
        facts.file.as_os_str().as_bytes(),
        facts.id.as_str(),
        facts.cwd,
        facts.parent_session,
        facts.name,
        facts.first_message,
        facts.created,
        facts.modified,
        facts.message_count as i64,
        facts.model,
        facts.model_chosen,
        facts.cost,
        search_text(facts),
        facts.len as i64,
        stamp.size as i64,
        stamp.changed_ns,
        stamp.inode as i64,
    ];
    statement.query_row(values, read_row)
}

/// Returns what a search by text looks into. SQLite itself knows upper and lower case of ASCII only.
fn search_text(facts: &SessionFacts) -> String {
    let fields = [facts.name.as_deref(), facts.first_message.as_deref()];
    fields.into_iter().flatten().map(str::to_lowercase).collect::<Vec<_>>().join("\n")
}

/// Takes a file's row out, if there is one, and adds to `told` what that changes in the list.
pub(super) fn remove(tx: &Transaction<'_>, file: &Path, told: &mut Vec<Told>) -> rusqlite::Result<()> {
    let ids: Option<(String, String)> = tx
        .prepare_cached("DELETE FROM sessions WHERE file = ?1 RETURNING header_id, shown_id")?
        .query_row([file.as_os_str().as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((id, shown)) = ids else { return Ok(()) };
    assign_ids(tx, &SessionId::new(id), Some(shown), told)
}

/// Settles which of the files with one header id is shown under it. The others are its copies and get ids of their
/// own. The original is told by its name and its folder, so that it is the same one after the index was made again;
/// where these do not tell, the file stays that had the id first. `removed` is what a file that is gone was shown under.
fn assign_ids(
    tx: &Transaction<'_>,
    id: &SessionId,
    removed: Option<String>,
    told: &mut Vec<Told>,
) -> rusqlite::Result<()> {
    let mut files = same_id(tx, id)?;
    files.sort_by_cached_key(|same| {
        let had_it = same.shown_now.as_deref() == Some(id.as_str());
        (Reverse(same.likeness), !had_it, same.file.clone())
    });
    let mut gone: Vec<String> = files.iter().filter_map(|same| same.shown_now.clone()).chain(removed).collect();
    let mut put = Vec::new();
    let mut update = tx.prepare_cached(&format!(
        "UPDATE sessions SET shown_id = ?2, shown_id_reversed = ?3, duplicate_of = ?4 WHERE row = ?1 \
         RETURNING {COLUMNS}"
    ))?;
    for (place, SameId { row, file, shown_now, .. }) in files.into_iter().enumerate() {
        let (shown, of) = if place == 0 { (id.to_string(), None) } else { (copy_id(id, &file), Some(id.as_str())) };
        let was_shown = gone.iter().position(|before| *before == shown).map(|at| gone.swap_remove(at)).is_some();
        if shown_now.as_ref() != Some(&shown) {
            let reversed: String = shown.chars().rev().collect();
            let row = update.query_row(params![row, shown, reversed, of], read_row)?;
            put.push(Told::Put { row, is_new: !was_shown });
        }
    }
    told.extend(gone.into_iter().map(|id| Told::Gone(id.into())));
    told.extend(put);
    Ok(())
}

fn same_id(tx: &Transaction<'_>, id: &SessionId) -> rusqlite::Result<Vec<SameId>> {
    tx.prepare_cached("SELECT row, file, shown_id, shown_id_reversed, cwd, created FROM sessions WHERE header_id = ?1")?
        .query_map([id.as_str()], |row| {
            let file = PathBuf::from(OsStr::from_bytes(row.get_ref(1)?.as_blob()?));
            // A row that has just been made has no reversed id yet.
            let is_settled = !row.get_ref(3)?.as_str()?.is_empty();
            Ok(SameId {
                row: row.get(0)?,
                shown_now: is_settled.then_some(row.get::<_, String>(2)?),
                likeness: likeness(&file, id, row.get_ref(4)?.as_str()?, row.get(5)?),
                file,
            })
        })?
        .collect()
}

/// One of the files with one header id.
struct SameId {
    row: i64,
    file: PathBuf,
    /// The id under which it is shown, if that was settled before.
    shown_now: Option<String>,
    likeness: u8,
}

/// Returns the id of a second file with one header id: the end differs, by which people name sessions.
pub(super) fn copy_id(id: &SessionId, file: &Path) -> String {
    format!("{id}-{:012x}", fnv1a(file.as_os_str().as_bytes()) >> 16)
}

/// A row as the comparison with the files needs it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) facts: SessionFacts,
    pub(super) stamp: Stamp,
}

const KNOWN_COLUMNS: &str = "file, header_id, cwd, parent_session, name, first_message, created, modified, \
    message_count, model, model_chosen, cost, covered, size, changed_ns, inode";

/// Returns the row of a file.
pub(super) fn known(connection: &rusqlite::Connection, file: &Path) -> rusqlite::Result<Option<Known>> {
    connection
        .prepare_cached(&format!("SELECT {KNOWN_COLUMNS} FROM sessions WHERE file = ?1"))?
        .query_row([file.as_os_str().as_bytes()], read_known)
        .optional()
}

/// Returns the files of the next rows after one, in the order of their names.
pub(super) fn files_after(
    connection: &rusqlite::Connection,
    after: &[u8],
    count: u32,
) -> rusqlite::Result<Vec<PathBuf>> {
    connection
        .prepare_cached("SELECT file FROM sessions WHERE file > ?1 ORDER BY file LIMIT ?2")?
        .query_map(params![after, count], |row| Ok(PathBuf::from(OsStr::from_bytes(row.get_ref(0)?.as_blob()?))))?
        .collect()
}

fn read_known(row: &Row<'_>) -> rusqlite::Result<Known> {
    Ok(Known {
        facts: SessionFacts {
            file: PathBuf::from(OsStr::from_bytes(row.get_ref(0)?.as_blob()?)),
            id: SessionId::new(row.get_ref(1)?.as_str()?),
            cwd: row.get(2)?,
            parent_session: row.get(3)?,
            name: row.get(4)?,
            first_message: row.get(5)?,
            created: row.get(6)?,
            modified: row.get(7)?,
            message_count: row.get::<_, i64>(8)? as u64,
            model: row.get(9)?,
            model_chosen: row.get(10)?,
            cost: row.get(11)?,
            len: row.get::<_, i64>(12)? as u64,
        },
        stamp: Stamp {
            size: row.get::<_, i64>(13)? as u64,
            changed_ns: row.get(14)?,
            inode: row.get::<_, i64>(15)? as u64,
        },
    })
}

/// Returns how many changes of the list have been counted.
pub(super) fn revision(connection: &rusqlite::Connection) -> rusqlite::Result<u64> {
    let counted = "SELECT list_seq FROM totals";
    connection.prepare_cached(counted)?.query_row([], |row| Ok(row.get::<_, i64>(0)? as u64))
}

/// Counts this many changes of the list; returns the number before and after them.
pub(super) fn count_changes(tx: &Transaction<'_>, by: usize) -> rusqlite::Result<(u64, u64)> {
    let before = revision(tx)?;
    if by > 0 {
        tx.prepare_cached("UPDATE totals SET list_seq = list_seq + ?1")?.execute([by as i64])?;
    }
    Ok((before, before + by as u64))
}

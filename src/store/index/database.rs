//! Opening the database file, whatever state it is in.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, Transaction, TransactionBehavior};

use super::super::error::StoreError;
use super::super::session_file::{create_dirs, create_private};
use crate::clock;

/// Marks the file as ours, so that no other program's database is taken for an index ("agtd").
const APPLICATION_ID: i32 = 0x6167_7464;
/// Version of the tables. Rows are made again from the session files when it differs.
const SCHEMA_VERSION: i32 = 1;
/// Longest wait for another process that has the database open, such as the `sqlite3` shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between attempts where SQLite does not wait by itself.
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// Size to which the write-ahead log is cut when it starts again, in bytes.
const WAL_LIMIT_BYTES: u32 = 1024 * 1024;
/// Page cache of one connection, in KiB: a page of a list needs a few dozen pages.
const CACHE_KIB: u32 = 512;

/// Ids are looked up from their end, so they are stored backwards as well. `shown_id` is the id under which a session
/// is listed, `covered` the bytes of the file that the row knows of. The index by text is for reading all texts without the
/// rest of the rows. The counts make a total as cheap as a row.
const SCHEMA: &str = "
CREATE TABLE sessions (
    row INTEGER PRIMARY KEY,
    file BLOB NOT NULL UNIQUE,
    header_id TEXT NOT NULL,
    shown_id TEXT NOT NULL,
    shown_id_reversed TEXT NOT NULL,
    duplicate_of TEXT,
    cwd TEXT NOT NULL,
    parent_session TEXT,
    name TEXT,
    first_message TEXT,
    created INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    message_count INTEGER NOT NULL,
    model TEXT,
    model_chosen INTEGER NOT NULL,
    cost REAL NOT NULL,
    search TEXT NOT NULL,
    covered INTEGER NOT NULL,
    size INTEGER NOT NULL,
    changed_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL
);
CREATE INDEX sessions_by_use ON sessions (modified DESC, shown_id DESC);
CREATE INDEX sessions_by_cwd ON sessions (cwd, modified DESC, shown_id DESC);
CREATE INDEX sessions_by_header_id ON sessions (header_id);
CREATE INDEX sessions_by_id ON sessions (shown_id);
CREATE INDEX sessions_by_tail ON sessions (shown_id_reversed);
CREATE INDEX sessions_by_text ON sessions (search);
CREATE TABLE counts (cwd TEXT PRIMARY KEY, sessions INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE totals (one INTEGER PRIMARY KEY CHECK (one = 1), sessions INTEGER NOT NULL, list_seq INTEGER NOT NULL);
CREATE TRIGGER sessions_added AFTER INSERT ON sessions BEGIN
    UPDATE totals SET sessions = sessions + 1;
    INSERT INTO counts VALUES (new.cwd, 1) ON CONFLICT (cwd) DO UPDATE SET sessions = sessions + 1;
END;
CREATE TRIGGER sessions_removed AFTER DELETE ON sessions BEGIN
    UPDATE totals SET sessions = sessions - 1;
    UPDATE counts SET sessions = sessions - 1 WHERE cwd = old.cwd;
    DELETE FROM counts WHERE cwd = old.cwd AND sessions <= 0;
END;
CREATE TRIGGER sessions_moved AFTER UPDATE OF cwd ON sessions WHEN old.cwd <> new.cwd BEGIN
    UPDATE counts SET sessions = sessions - 1 WHERE cwd = old.cwd;
    DELETE FROM counts WHERE cwd = old.cwd AND sessions <= 0;
    INSERT INTO counts VALUES (new.cwd, 1) ON CONFLICT (cwd) DO UPDATE SET sessions = sessions + 1;
END;
";

/// Where the database is.
#[derive(Debug)]
pub(super) enum Place {
    /// In this file, which was this one when it was opened.
    File { path: PathBuf, inode: u64 },
    /// In memory, for lack of a file.
    Memory,
}

/// An open database.
#[derive(Debug)]
pub(super) struct Database {
    /// Shared with readers only where there is no file that they could open themselves.
    connection: Arc<Mutex<Connection>>,
    pub(super) place: Place,
}

/// Why a file cannot be used as it is.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("{}", .0.report())]
    Store(#[from] StoreError),
    #[error("it is of another version or of another program")]
    Foreign,
    #[error("it is damaged: {0}")]
    Damaged(String),
    #[error("it can only be read")]
    ReadOnly,
}

/// Opens the file, or what stands for it: a new one when the old one cannot be used, memory when no file can. The text
/// says what is amiss. `is_damaged`: the file is known to be beyond use.
pub(super) fn open(path: Option<&Path>, is_damaged: bool) -> Result<(Database, Option<String>), rusqlite::Error> {
    let Some(path) = path else { return Ok((memory()?, None)) };
    if !is_damaged {
        match open_file_in_turn(path) {
            Ok(database) => return Ok((database, None)),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the session index cannot be used; it is made again");
            }
        }
    }
    let again = match move_aside(path) {
        Ok(()) => open_file_in_turn(path).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match again {
        Ok(database) => Ok((database, None)),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the session index is kept in memory");
            Ok((memory()?, Some(format!("in memory, for {} cannot be written: {error}", path.display()))))
        }
    }
}

fn memory() -> Result<Database, rusqlite::Error> {
    let connection = Connection::open_in_memory()?;
    create_tables(&connection)?;
    Ok(Database { connection: Arc::new(Mutex::new(connection)), place: Place::Memory })
}

/// Opens the file; waits while another process is just making it. SQLite itself does not wait for all of its locks.
fn open_file_in_turn(path: &Path) -> Result<Database, Unusable> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match open_file(path) {
            Err(Unusable::Sqlite(error)) if is_busy(&error) && Instant::now() < deadline => thread::sleep(BUSY_PAUSE),
            other => return other,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn open_file(path: &Path) -> Result<Database, Unusable> {
    // SQLite gives its own files the mode of the database; that one has to be right from the start.
    create_dirs(path.parent().unwrap_or(Path::new(".")))?;
    match create_private(path) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => make_private(path)?,
        other => drop(other?),
    }
    // After a clean end there is no log. One that is there may be of another database, whose pages SQLite would mix in.
    let had_log = fs::metadata(with_suffix(path, "-wal")).is_ok_and(|log| log.len() > 0);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    if connection.is_readonly(MAIN_DB)? {
        return Err(Unusable::ReadOnly);
    }
    let is_empty = check_alone(&connection, had_log, TransactionBehavior::Deferred, |_| Ok(()))?;
    configure(&connection)?;
    if is_empty {
        // Unless another process (a second daemon with the same state folder) has just done so.
        check_alone(&connection, false, TransactionBehavior::Immediate, create_tables)?;
    }
    let inode = fs::metadata(path).map_err(StoreError::io(path, "look at"))?.ino();
    let place = Place::File { path: path.to_owned(), inode };
    Ok(Database { connection: Arc::new(Mutex::new(connection)), place })
}

fn make_private(path: &Path) -> Result<(), StoreError> {
    let metadata = fs::symlink_metadata(path).map_err(StoreError::io(path, "look at"))?;
    if metadata.is_file() && metadata.mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(StoreError::io(path, "set the mode of"))?;
    }
    Ok(())
}

/// As [`check`], on one state of the database whoever else writes to it; does something about an empty one.
fn check_alone(
    connection: &Connection,
    thoroughly: bool,
    behavior: TransactionBehavior,
    if_empty: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> Result<bool, Unusable> {
    let tx = Transaction::new_unchecked(connection, behavior)?;
    let is_empty = check(&tx, thoroughly)?;
    if is_empty {
        if_empty(&tx)?;
    }
    tx.commit()?;
    Ok(is_empty)
}

/// Tells whether the database is an empty one; finds out if it is not ours.
fn check(connection: &Connection, thoroughly: bool) -> Result<bool, Unusable> {
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i32>(0));
    let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let (id, version) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    if objects == 0 && id == 0 && version == 0 {
        return Ok(true);
    }
    if (id, version) != (APPLICATION_ID, SCHEMA_VERSION) {
        return Err(Unusable::Foreign);
    }
    if thoroughly {
        quick_check(connection)?;
    }
    // Damage at the root of a table shows here.
    connection.query_row("SELECT sessions, list_seq FROM totals", [], |_| Ok(()))?;
    connection.query_row("SELECT max(modified) FROM sessions", [], |_| Ok(()))?;
    Ok(false)
}

fn quick_check(connection: &Connection) -> Result<(), Unusable> {
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(Unusable::Damaged(verdict)) }
}

fn configure(connection: &Connection) -> Result<(), rusqlite::Error> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        tracing::debug!(mode, "this file system has no write-ahead log for the session index");
    }
    // Without a sync a power cut may lose the last rows, never the database; the files still have them.
    connection.execute_batch(&format!(
        "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -{CACHE_KIB}; PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}"
    ))
}

/// The list's number begins at the time, so that it does not fall behind that of a database that was lost.
fn create_tables(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.execute_batch(&format!(
        "{SCHEMA} INSERT INTO totals VALUES (1, 0, {}); \
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}",
        clock::now_ms()
    ))
}

/// Opens the database for reading only.
pub(super) fn open_for_reading(path: &Path) -> Result<Connection, rusqlite::Error> {
    // Read-write as far as SQLite is concerned: a reader of a write-ahead log takes part in its bookkeeping.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.execute_batch(&format!("PRAGMA query_only = ON; PRAGMA cache_size = -{CACHE_KIB}"))?;
    Ok(connection)
}

impl Database {
    pub(super) fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection, for readers of a database in memory.
    pub(super) fn shared(&self) -> Arc<Mutex<Connection>> {
        Arc::clone(&self.connection)
    }

    /// Looks through the whole database, as a reader finds it: the pages that this connection remembers may be gone
    /// from the file.
    pub(super) fn is_damaged(&self) -> bool {
        let checked = match &self.place {
            Place::File { path, .. } => open_for_reading(path)
                .map_err(Unusable::from)
                .and_then(|connection| check_alone(&connection, true, TransactionBehavior::Deferred, |_| Ok(()))),
            Place::Memory => check(&self.lock(), true),
        };
        match checked {
            // Tables that were there are gone.
            Ok(is_empty) => is_empty,
            Err(Unusable::Sqlite(error)) => means_damage(&error),
            Err(_) => true,
        }
    }

    /// Tells whether the file of that name is no longer the one that is open.
    pub(super) fn is_gone(&self) -> bool {
        match &self.place {
            Place::File { path, inode } => !fs::symlink_metadata(path).is_ok_and(|metadata| metadata.ino() == *inode),
            Place::Memory => false,
        }
    }

    /// Writes the log into the database and cuts it. `false`: a reader is in the way, or the disk; try again later.
    pub(super) fn checkpoint(&self) -> bool {
        let busy = self.lock().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        matches!(busy, Ok(0))
    }
}

/// Tells whether an error means that the file itself is beyond use.
pub(super) fn means_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, message) => match failure.code {
            // A file that cannot be opened any more was deleted, most likely.
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::CannotOpen => true,
            ErrorCode::Unknown => message.as_deref().is_some_and(names_what_is_missing),
            _ => false,
        },
        // The same errors as a statement is read, which comes before anything else.
        rusqlite::Error::SqlInputError { msg, .. } => names_what_is_missing(msg),
        // Values of another type than we wrote.
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::QueryReturnedNoRows => true,
        _ => false,
    }
}

/// Tells whether SQLite misses a table or a column of ours.
fn names_what_is_missing(message: &str) -> bool {
    message.starts_with("no such")
}

/// Moves a database that cannot be used out of the way, with its log. The one moved aside before it goes.
fn move_aside(path: &Path) -> io::Result<()> {
    for suffix in ["-wal", "-shm", ""] {
        let from = with_suffix(path, suffix);
        let to = with_suffix(path, &format!(".broken{suffix}"));
        match fs::rename(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A log of the one before would not belong to this one.
                let _ = fs::remove_file(&to);
            }
            Err(error) if suffix.is_empty() => return Err(error),
            // The log is worth nothing without the database, but must not stay beside the new one.
            Err(_) if !suffix.is_empty() => fs::remove_file(&from)?,
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

//! A whole file, line by line.

use memchr::memchr_iter;

use super::decode::{Line, decode_line};
use super::migrate::Migration;
use super::{CURRENT_VERSION, Damage, DamagedLine};
use crate::session::{Entry, Header};

/// A session file as it was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The first record.
    pub header: Header,
    /// All entries in file order, already in the current version.
    pub entries: Vec<Entry>,
    /// Lines that were skipped, or read with a loss.
    pub damaged: Vec<DamagedLine>,
    /// Version of the file; lower than the current one when it was migrated in memory.
    pub version: u32,
    /// Bytes that were read.
    pub len: u64,
    /// Where the last line begins if it lacks its line end; `len` otherwise.
    pub complete_len: u64,
    /// Whether that last line is a whole entry.
    pub tail_is_entry: bool,
}

/// The file does not begin with a session header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotASession {
    /// It has no record at all.
    #[error("it is empty")]
    Empty,
    /// Nothing in it can be read.
    #[error("it has no readable line")]
    Unreadable,
    /// Its first record is something else.
    #[error("its first record is not a session header")]
    NoHeader,
}

/// Reads a session line by line, so that a file need not be in memory as a whole beside its entries.
#[derive(Debug, Default)]
pub struct Loader {
    header: Option<Header>,
    entries: Vec<Entry>,
    damaged: Vec<DamagedLine>,
    migration: Option<Migration>,
    offset: u64,
    complete: u64,
    tail_is_entry: bool,
}

impl Loader {
    /// Returns a loader at the start of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the header once it was read.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Takes the entries read so far out, for a reader that wants them one by one.
    pub(in crate::store) fn drain_entries(&mut self) -> impl Iterator<Item = Entry> {
        self.entries.drain(..)
    }

    /// Returns how much of the file was read into entries: without a last line that may still be being written.
    pub(in crate::store) fn covered(&self) -> u64 {
        if self.tail_is_entry { self.offset } else { self.complete }
    }

    /// Says why there is no header.
    pub(in crate::store) fn why_no_header(&self) -> NotASession {
        if self.damaged.is_empty() { NotASession::Empty } else { NotASession::Unreadable }
    }

    /// Takes the next line, with its line end if it has one.
    ///
    /// # Errors
    /// The first record is not a session header.
    pub fn push_line(&mut self, line: &[u8]) -> Result<(), NotASession> {
        let start = self.offset;
        self.offset += line.len() as u64;
        let content = line.strip_suffix(b"\n");
        let is_unfinished = content.is_none() && !line.is_empty();
        if content.is_some() {
            self.complete = self.offset;
        }
        let content = content.unwrap_or(line);
        let entries_before = self.entries.len();
        let damage = match decode_line(self.migrated(content).as_deref().unwrap_or(content)) {
            Line::Blank => None,
            Line::Header(header) => self.take_header(header),
            Line::Entry(_, _) if self.header.is_none() => return Err(NotASession::NoHeader),
            Line::Entry(entry, damage) => {
                self.push_entry(entry);
                damage
            }
            Line::Damaged(damage) => Some(damage),
        };
        if let Some(damage) = damage {
            self.damaged.push(DamagedLine { offset: start, len: content.len() as u64, damage });
        }
        self.tail_is_entry = is_unfinished && self.entries.len() > entries_before;
        Ok(())
    }

    /// Nearly always an entry hangs from the one before, and can share its id.
    fn push_entry(&mut self, mut entry: Entry) {
        if let (Some(last), Some(parent)) = (self.entries.last(), &mut entry.parent_id)
            && last.id == *parent
        {
            parent.clone_from(&last.id);
        }
        self.entries.push(entry);
    }

    fn take_header(&mut self, header: Header) -> Option<Damage> {
        if self.header.is_some() {
            return Some(Damage::SecondHeader);
        }
        if header.version < CURRENT_VERSION {
            self.migration = Some(Migration::new(&header));
        }
        self.header = Some(header);
        None
    }

    fn migrated(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        self.migration.as_mut()?.migrate_line(line)
    }

    /// Returns what was read.
    ///
    /// # Errors
    /// No header came.
    pub fn finish(mut self) -> Result<Loaded, NotASession> {
        self.entries.shrink_to_fit();
        let why_no_header = self.why_no_header();
        let Some(header) = self.header else { return Err(why_no_header) };
        Ok(Loaded {
            version: header.version,
            header,
            entries: self.entries,
            damaged: self.damaged,
            len: self.offset,
            complete_len: self.complete,
            tail_is_entry: self.tail_is_entry,
        })
    }
}

/// Reads a file that is in memory.
///
/// # Errors
/// The bytes are no session.
pub fn load_bytes(bytes: &[u8]) -> Result<Loaded, NotASession> {
    let mut loader = Loader::new();
    for line in lines_with_ends(bytes) {
        loader.push_line(line)?;
    }
    loader.finish()
}

/// Splits at LF and nothing else; each line keeps its line end.
pub(in crate::store) fn lines_with_ends(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    let ends = memchr_iter(b'\n', bytes).map(|end| end + 1);
    let last = (!bytes.is_empty() && !bytes.ends_with(b"\n")).then_some(bytes.len());
    ends.chain(last).map(move |end| {
        let line = &bytes[start..end];
        start = end;
        line
    })
}

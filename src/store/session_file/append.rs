//! Appending, and reading what others appended.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use memchr::memmem;

use super::super::error::{Change, StoreError};
use super::super::record::{CURRENT_VERSION, Damage, DamagedLine, Line, decode_line, lines_with_ends};
use super::read::FileId;
use super::{Appended, Foreign, Known, SessionFile, SyncMode};

impl SessionFile {
    /// Appends whole lines, each with its line end, in one write.
    ///
    /// Takes the lock on first use and keeps it. Lines of other programs that are found in the file are handed out;
    /// they stand before ours. A missing line end of the last line is written along. After an error nothing of
    /// `lines` is in the file.
    ///
    /// # Errors
    /// [`StoreError::Locked`], [`StoreError::Changed`] (open the session again), or the system's: disk full,
    /// read-only, input/output error.
    pub fn append(&mut self, lines: &[u8], sync: SyncMode) -> Result<Appended, StoreError> {
        debug_assert!(lines.ends_with(b"\n"), "only whole lines are appended");
        if self.known.is_none() {
            return self.create_with(lines, sync);
        }
        self.lock()?;
        let before = self.known;
        let appended = self.catch_up().and_then(|foreign| self.append_after(foreign, lines, sync));
        if appended.is_err() {
            // The lines of others that were read go nowhere with the error: they are to be read again.
            self.known = before;
        }
        appended
    }

    fn append_after(&mut self, mut foreign: Foreign, lines: &[u8], sync: SyncMode) -> Result<Appended, StoreError> {
        let (Some(open), Some(known)) = (&self.open, self.known) else { unreachable!("locked above") };
        let torn = known.len > known.complete;
        let bytes = if torn { Cow::Owned([b"\n", lines].concat()) } else { Cow::Borrowed(lines) };
        write_whole(&open.file, known.len, &bytes).map_err(StoreError::io(&self.path, "append to"))?;
        if sync == SyncMode::Data
            && let Err(error) = self.sync()
        {
            // Not known to be on the disk, so it must not be taken for written later.
            if let Some(open) = &self.open {
                undo(&open.file, known.len, bytes.len());
            }
            return Err(error);
        }
        let offset = self.settle(known, &bytes, torn, &mut foreign)?;
        Ok(Appended { offset, foreign: foreign.entries, damaged: foreign.damaged })
    }

    /// Reads what other programs appended since, without writing or locking. The session's actor does this before it
    /// chooses the parent of a new entry: while idle, the leaf follows the last line.
    ///
    /// # Errors
    /// [`StoreError::Changed`], or the system's.
    pub fn refresh(&mut self) -> Result<Foreign, StoreError> {
        match (&self.open, self.known) {
            (_, None) => Ok(Foreign::default()),
            (Some(_), Some(_)) => self.catch_up(),
            (None, Some(known)) => {
                let (file, _) =
                    super::read::open_regular(&self.path, false).map_err(|error| self.changed_if_gone(error))?;
                self.check_identity(&file, known)?;
                self.read_growth(&file, known)
            }
        }
    }

    fn catch_up(&mut self) -> Result<Foreign, StoreError> {
        let (Some(open), Some(known)) = (&self.open, self.known) else { return Ok(Foreign::default()) };
        self.check_identity(&open.file, known)?;
        let file = open.file.try_clone().map_err(StoreError::io(&self.path, "read"))?;
        self.read_growth(&file, known)
    }

    /// Checks that the name still stands for the file that was read, and that this is the one that is open.
    pub(super) fn check_identity(&self, file: &File, known: Known) -> Result<(), StoreError> {
        let named = fs::symlink_metadata(&self.path)
            .map_err(StoreError::io(&self.path, "look at"))
            .map_err(|error| self.changed_if_gone(error))?;
        let opened = file.metadata().map_err(StoreError::io(&self.path, "look at"))?;
        if FileId::of(&named) != known.id || FileId::of(&opened) != known.id {
            return Err(self.changed(Change::Replaced));
        }
        if opened.len() < known.len {
            return Err(self.changed(Change::Shrunk));
        }
        Ok(())
    }

    pub(super) fn changed(&self, change: Change) -> StoreError {
        StoreError::Changed { path: self.path.clone(), change }
    }

    /// A file that was read and is gone has changed; that is not the same as one that never was.
    pub(super) fn changed_if_gone(&self, error: StoreError) -> StoreError {
        if error.is_not_found() { self.changed(Change::Deleted) } else { error }
    }

    /// Reads the lines after those that are known.
    fn read_growth(&mut self, file: &File, known: Known) -> Result<Foreign, StoreError> {
        let size = file.metadata().map_err(StoreError::io(&self.path, "look at"))?.len();
        if size == known.len {
            return Ok(Foreign::default());
        }
        if known.version < CURRENT_VERSION {
            // Ids of migrated entries go by their place in the file: it has to be read as a whole.
            return Err(self.changed(Change::Rewritten));
        }
        // From the start of the unfinished line, if there was one: it may be whole now.
        let bytes = read_range(file, known.complete, size).map_err(StoreError::io(&self.path, "read"))?;
        let mut reader = Growth { skip_first: known.tail_is_entry, ..Growth::at(known.complete) };
        reader.take_lines(&bytes);
        self.known = Some(Known { len: size, complete: reader.complete, tail_is_entry: reader.tail_is_entry, ..known });
        Ok(reader.foreign)
    }

    /// Notes the file's new length. Where a program without locks wrote at the very same moment, its lines are told
    /// apart from ours. Returns where ours begin.
    pub(super) fn settle(
        &mut self,
        before: Known,
        ours: &[u8],
        torn: bool,
        foreign: &mut Foreign,
    ) -> Result<u64, StoreError> {
        let Some(open) = &self.open else { unreachable!("locked by the caller") };
        let size = open.file.metadata().map_err(StoreError::io(&self.path, "look at"))?.len();
        let end = before.len + ours.len() as u64;
        if size == end {
            self.known = Some(Known { len: end, complete: end, tail_is_entry: false, ..before });
            return Ok(before.len + u64::from(torn));
        }
        // From the start of a line that was unfinished when we looked: it may have been finished before ours came.
        let bytes = read_range(&open.file, before.complete, size).map_err(StoreError::io(&self.path, "read"))?;
        let seen = usize::try_from(before.len - before.complete).unwrap_or(usize::MAX);
        let place = bytes.get(seen..).and_then(|new| memmem::find(new, ours)).map(|place| seen + place);
        let place = place.ok_or_else(|| self.changed(Change::Rewritten))?;
        let (start, end) = (before.complete + place as u64, before.complete + (place + ours.len()) as u64);
        // What was said of that line is said anew.
        foreign.damaged.retain(|line| line.offset < before.complete);
        let mut reader = Growth {
            skip_first: before.tail_is_entry,
            foreign: std::mem::take(foreign),
            ..Growth::at(before.complete)
        };
        reader.take_lines(&bytes[..place]);
        reader = Growth { foreign: reader.foreign, ..Growth::at(end) };
        reader.take_lines(&bytes[place + ours.len()..]);
        *foreign = reader.foreign;
        self.known =
            Some(Known { len: size, complete: reader.complete, tail_is_entry: reader.tail_is_entry, ..before });
        Ok(start + u64::from(torn))
    }
}

/// Reads lines that other programs appended.
#[derive(Default)]
struct Growth {
    at: u64,
    /// End of the last whole line.
    complete: u64,
    tail_is_entry: bool,
    /// The first line was read before, when it had no line end yet.
    skip_first: bool,
    foreign: Foreign,
}

impl Growth {
    fn at(offset: u64) -> Self {
        Self { at: offset, complete: offset, ..Self::default() }
    }

    fn take_lines(&mut self, bytes: &[u8]) {
        for line in lines_with_ends(bytes) {
            let offset = self.at;
            self.at += line.len() as u64;
            let whole = line.strip_suffix(b"\n");
            let is_entry = self.take(offset, whole.unwrap_or(line));
            self.tail_is_entry = whole.is_none() && is_entry;
            if whole.is_some() {
                self.complete = self.at;
            }
        }
    }

    /// Takes one line; tells whether it is an entry.
    fn take(&mut self, offset: u64, line: &[u8]) -> bool {
        let known_before = std::mem::take(&mut self.skip_first);
        let (is_entry, damage) = match decode_line(line) {
            Line::Blank => (false, None),
            Line::Entry(_, _) if known_before => (true, None),
            Line::Entry(entry, damage) => {
                self.foreign.entries.push(entry);
                (true, damage)
            }
            Line::Header(_) => (false, Some(Damage::SecondHeader)),
            Line::Damaged(damage) => (false, Some(damage)),
        };
        if let Some(damage) = damage {
            self.foreign.damaged.push(DamagedLine { offset, len: line.len() as u64, damage });
        }
        is_entry
    }
}

fn read_range(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(to - from).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

/// Writes all of it or nothing: what came of a failed write is cut off again.
pub(in crate::store) fn write_whole(mut file: &File, len_before: u64, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return Err(fail(file, len_before, written, io::ErrorKind::WriteZero.into())),
            // A short write means that the next one fails; that one has the reason.
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(fail(file, len_before, written, error)),
        }
    }
    Ok(())
}

fn fail(file: &File, len_before: u64, written: usize, error: io::Error) -> io::Error {
    undo(file, len_before, written);
    error
}

/// Cuts off the last `written` bytes, unless another program wrote after them: its lines are not ours to take away.
/// A fragment that stays is skipped by readers, and the next append begins on a new line.
pub(super) fn undo(file: &File, len_before: u64, written: usize) {
    if written == 0 {
        return;
    }
    let ours_is_last = file.metadata().is_ok_and(|metadata| metadata.len() == len_before + written as u64);
    if ours_is_last && let Err(error) = file.set_len(len_before) {
        tracing::warn!(%error, "cannot cut off a failed write");
    }
}

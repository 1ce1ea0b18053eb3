//! Overwrites a file in place, for those that a rename would part from their other names.
//!
//! Space is reserved first and a failed write is undone. Against a kill in the middle there is a record of the old and
//! the new content, locked while its writer lives: the next daemon gives a file that holds the beginning of the new
//! content and the rest of the old one its old content back ([`mend_overwritten`]). A file that holds anything else was
//! changed by somebody since, and stays.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, fallocate};
use serde::{Deserialize, Serialize};

use super::open::open;
use super::replace::ReplaceError;
use super::work::Gate;

/// Largest content that is kept to undo a write in place, in bytes; of a larger one a failure can leave a mix.
const MAX_UNDO_BYTES: u64 = 64 * 1024 * 1024;
/// Ends the names of records.
const SUFFIX: &str = ".undo";

/// What is overwritten.
pub(super) struct Overwritten<'a> {
    /// The file, open for reading if possible, and for writing.
    pub(super) file: &'a File,
    /// Its path.
    pub(super) path: &'a Path,
    /// What the system says of it.
    pub(super) metadata: &'a Metadata,
}

/// Overwrites a file with the pieces, with a record in `records`. Returns what the system says of it then.
pub(super) fn overwrite(
    old: &Overwritten<'_>,
    pieces: &[&[u8]],
    records: &Path,
    gate: &Gate,
) -> Result<Option<Metadata>, ReplaceError> {
    let new_bytes = pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
    reserve(old.file, old.metadata.len(), new_bytes)?;
    let undo = read_for_undo(old.file, old.metadata.len());
    let record = match &undo {
        Some(content) if new_bytes <= MAX_UNDO_BYTES => Record::write(records, old, content, pieces)
            .inspect_err(|error| tracing::warn!(%error, "a file is overwritten without a record of its old content"))
            .ok(),
        _ => None,
    };
    if !gate.commit() {
        return Err(ReplaceError::Stopped);
    }
    if let Err(error) = write_at_start(old.file, pieces, new_bytes) {
        if let Some(undo) = undo {
            // The space was the file's own; if even this fails there is nothing left to try.
            let _ = write_at_start(old.file, &[&undo], old.metadata.len());
        }
        return Err(error.into());
    }
    // What is written now outlives the process, and may be changed by others.
    drop(record);
    old.file.sync_data()?;
    Ok(old.file.metadata().ok())
}

/// Makes sure that a longer content has room before the first byte is changed.
fn reserve(file: &File, old: u64, new: u64) -> io::Result<()> {
    let (Ok(from), Ok(more)) = (i64::try_from(old), i64::try_from(new.saturating_sub(old))) else {
        return Err(io::Error::from_raw_os_error(Errno::EFBIG as i32));
    };
    if more == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, from, more) {
        Err(full @ (Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG)) => Err(full.into()),
        // Not every file system can reserve.
        _ => Ok(()),
    }
}

fn read_for_undo(file: &File, len: u64) -> Option<Vec<u8>> {
    let mut content = vec![0; usize::try_from(len).ok().filter(|_| len <= MAX_UNDO_BYTES)?];
    file.read_exact_at(&mut content, 0).ok().map(|()| content)
}

fn write_at_start(file: &File, pieces: &[&[u8]], len: u64) -> io::Result<()> {
    let mut at = 0;
    for piece in pieces {
        file.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    file.set_len(len)
}

/// First line of a record; the old and the new content follow.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    /// Bytes of the file's path.
    path: Vec<u8>,
    device: u64,
    inode: u64,
    old_bytes: usize,
    new_bytes: usize,
}

/// A record that was left behind.
struct LeftBehind {
    header: Header,
    old: Vec<u8>,
    new: Vec<u8>,
}

/// A record on disk; removed and unlocked when dropped.
struct Record {
    path: PathBuf,
    file: File,
}

impl Drop for Record {
    fn drop(&mut self) {
        // A record that stays behind says of a whole file that it is whole.
        let _ = fs::remove_file(&self.path);
    }
}

impl Record {
    fn write(records: &Path, file: &Overwritten<'_>, old: &[u8], pieces: &[&[u8]]) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(records)?;
        let path = records.join(format!("{}{SUFFIX}", uuid::Uuid::new_v4().simple()));
        let record = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let mut record = Self { path, file: record };
        record.file.lock()?;
        let header = Header {
            path: file.path.as_os_str().as_bytes().to_vec(),
            device: file.metadata.dev(),
            inode: file.metadata.ino(),
            old_bytes: old.len(),
            new_bytes: pieces.iter().map(|piece| piece.len()).sum(),
        };
        serde_json::to_writer(&record.file, &header)?;
        record.file.write_all(b"\n")?;
        record.file.write_all(old)?;
        pieces.iter().try_for_each(|piece| record.file.write_all(piece))?;
        record.file.sync_data()?;
        Ok(record)
    }
}

/// Gives files whose overwriting was cut short by the end of a daemon their old content back. Blocking.
pub fn mend_overwritten(records: &Path) {
    for entry in fs::read_dir(records).into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(record) = File::open(&path).ok().filter(|_| path.to_str().is_some_and(|path| path.ends_with(SUFFIX)))
        else {
            continue;
        };
        // Its writer lives.
        if record.try_lock().is_err() {
            continue;
        }
        match mend(record) {
            Ok(Some(file)) => tracing::info!(file = %file.display(), "a write was cut short; the old content is back"),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(record = %path.display(), %error, "cannot mend a file whose overwriting was cut short");
                continue;
            }
        }
        // Another daemon's start may have been faster.
        let _ = fs::remove_file(&path);
    }
}

/// Returns the file that got its old content back.
fn mend(record: File) -> io::Result<Option<PathBuf>> {
    let Some(LeftBehind { header, old, new }) = read_record(record)? else { return Ok(None) };
    let path = PathBuf::from(OsString::from_vec(header.path));
    let file = open(OpenOptions::new().read(true).write(true), OFlag::O_NOFOLLOW, &path, None)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || (metadata.dev(), metadata.ino()) != (header.device, header.inode) {
        return Ok(None);
    }
    let content = read_for_undo(&file, metadata.len()).unwrap_or_default();
    if !is_mix(&content, &old, &new) {
        return Ok(None);
    }
    write_at_start(&file, &[&old], old.len() as u64)?;
    file.sync_data()?;
    Ok(Some(path))
}

/// Reads a record; `None` for one that is not whole: nothing was overwritten then.
fn read_record(record: File) -> io::Result<Option<LeftBehind>> {
    let mut record = BufReader::new(record);
    let mut header = Vec::new();
    record.read_until(b'\n', &mut header)?;
    let Ok(header) = serde_json::from_slice::<Header>(&header) else { return Ok(None) };
    let mut old = Vec::new();
    record.read_to_end(&mut old)?;
    if header.old_bytes.checked_add(header.new_bytes) != Some(old.len()) {
        return Ok(None);
    }
    let new = old.split_off(header.old_bytes);
    Ok(Some(LeftBehind { header, old, new }))
}

/// Whether a content is what a write that was cut short leaves: the new one up to a place and the old one from there on,
/// the first part of which may have been undone again.
fn is_mix(content: &[u8], old: &[u8], new: &[u8]) -> bool {
    let undone = common(content, old);
    let written = undone + common(&content[undone..], new.get(undone..).unwrap_or_default());
    content != old && content != new && content[written..] == *old.get(written..).unwrap_or_default()
}

/// Returns how many bytes two contents have in common at their start.
fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests;

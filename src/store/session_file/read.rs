//! Reading, with care for what else may lie under the name.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

use super::super::error::{NotASessionReason, StoreError};
use super::super::record::{Loaded, Loader, NotASession};
use crate::session::Header;

/// Bytes in which a header must have come: a folder name is at most 4096 bytes long, so this is generous. Keeps a
/// huge file of something else from being read to its end.
const HEADER_WITHIN_BYTES: u64 = 1024 * 1024;

const READ_BUFFER_BYTES: usize = 128 * 1024;

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) dev: u64,
    pub(super) ino: u64,
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { dev: metadata.dev(), ino: metadata.ino() }
    }
}

/// Opens a regular file and nothing else: opening a pipe waits, opening a device can do things.
pub(in crate::store) fn open_regular(path: &Path, write: bool) -> Result<(File, Metadata), StoreError> {
    let action = if write { "open for writing" } else { "open" };
    check_regular(path, &fs::symlink_metadata(path).map_err(StoreError::io(path, action))?)?;
    let file = OpenOptions::new()
        .read(true)
        .append(write)
        // Against a name that was exchanged since: no link is followed, no pipe waited for.
        .custom_flags(O_NOFOLLOW | O_NONBLOCK)
        .open(path)
        .map_err(StoreError::io(path, action))?;
    let metadata = file.metadata().map_err(StoreError::io(path, action))?;
    check_regular(path, &metadata)?;
    Ok((file, metadata))
}

fn check_regular(path: &Path, metadata: &Metadata) -> Result<(), StoreError> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let odd = kind.is_dir() || kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device();
    let why = if odd { NotASessionReason::NotAFile } else { NotASessionReason::Link };
    Err(StoreError::NotASession { path: path.to_owned(), why })
}

pub(super) fn read_session(path: &Path) -> Result<(FileId, Loaded), StoreError> {
    let (file, metadata) = open_regular(path, false)?;
    let mut reader = BufReader::with_capacity(READ_BUFFER_BYTES, file);
    let mut loader = Loader::new();
    read_header(path, &mut reader, &mut loader)?;
    let mut line = Vec::new();
    while read_line(path, &mut reader, &mut line)? {
        loader.push_line(&line).map_err(|why| not_a_session(path, why))?;
    }
    Ok((FileId::of(&metadata), loader.finish().map_err(|why| not_a_session(path, why))?))
}

/// Reads up to the header of a session.
pub(in crate::store) fn read_header(
    path: &Path,
    reader: &mut impl BufRead,
    loader: &mut Loader,
) -> Result<Header, StoreError> {
    let (mut line, mut total) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        let limited = reader.by_ref().take(HEADER_WITHIN_BYTES - total).read_until(b'\n', &mut line);
        let count = limited.map_err(StoreError::io(path, "read"))?;
        total += count as u64;
        loader.push_line(&line).map_err(|why| not_a_session(path, why))?;
        if let Some(header) = loader.header() {
            return Ok(header.clone());
        }
        if count == 0 || total >= HEADER_WITHIN_BYTES {
            return Err(not_a_session(path, loader.why_no_header()));
        }
    }
}

/// Reads the next line with its line end; `false` at the end of the file.
pub(in crate::store) fn read_line(
    path: &Path,
    reader: &mut impl BufRead,
    line: &mut Vec<u8>,
) -> Result<bool, StoreError> {
    line.clear();
    // One huge line must not keep its room while the rest is read.
    line.shrink_to(READ_BUFFER_BYTES);
    Ok(reader.read_until(b'\n', line).map_err(StoreError::io(path, "read"))? > 0)
}

pub(in crate::store) fn not_a_session(path: &Path, why: NotASession) -> StoreError {
    StoreError::NotASession { path: path.to_owned(), why: NotASessionReason::Content(why) }
}

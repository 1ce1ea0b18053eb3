//! One session file → the facts of its row.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::super::error::StoreError;
use super::super::record::{CURRENT_VERSION, Line, Loader, decode_line};
use super::super::session_file::{not_a_session, open_regular, read_header, read_line};
use super::rows::{Known, Stamp};
use crate::session::rows::SessionFacts;

const READ_BUFFER_BYTES: usize = 64 * 1024;

/// Reads a whole file, holding one entry at a time.
pub(super) fn read_facts(path: &Path) -> Result<SessionFacts, StoreError> {
    let (file, _) = open_regular(path, false)?;
    let mut reader = BufReader::with_capacity(READ_BUFFER_BYTES, file);
    let mut loader = Loader::new();
    let header = read_header(path, &mut reader, &mut loader)?;
    let mut facts = SessionFacts::new(path, &header);
    let mut line = Vec::new();
    while read_line(path, &mut reader, &mut line)? {
        loader.push_line(&line).map_err(|why| not_a_session(path, why))?;
        loader.drain_entries().for_each(|entry| facts.add(&entry));
    }
    facts.len = loader.covered();
    Ok(facts)
}

/// Reads only what was appended since the row was made. `None`: the row has to be made anew.
pub(super) fn continue_facts(path: &Path, known: &Known, now: Stamp) -> Result<Option<SessionFacts>, StoreError> {
    let covered = known.facts.len;
    if known.stamp.inode != now.inode || covered > now.size || covered == 0 {
        return Ok(None);
    }
    let (mut file, _) = open_regular(path, false)?;
    if !is_appended_to(&mut file, path, known)? {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(covered)).map_err(StoreError::io(path, "read"))?;
    let mut reader = BufReader::with_capacity(READ_BUFFER_BYTES, file);
    let mut facts = known.facts.clone();
    let mut line = Vec::new();
    while read_line(path, &mut reader, &mut line)? {
        match decode_line(&line) {
            Line::Entry(entry, _) => facts.add(&entry),
            // What is being written just now is read the next time.
            _ if !line.ends_with(b"\n") => break,
            _ => {}
        }
        facts.len += line.len() as u64;
    }
    Ok(Some(facts))
}

/// A file that was rewritten in place (same inode, another session, an old version of the format) begins otherwise, or
/// has no line end where the row ends. So has one whose last line was unfinished; that one is read as a whole, too.
fn is_appended_to(file: &mut File, path: &Path, known: &Known) -> Result<bool, StoreError> {
    let mut end = [0];
    file.read_exact_at(&mut end, known.facts.len - 1).map_err(StoreError::io(path, "read"))?;
    let header = read_header(path, &mut BufReader::with_capacity(4096, &*file), &mut Loader::new())?;
    Ok(end == *b"\n" && header.version >= CURRENT_VERSION && header.id == known.facts.id)
}

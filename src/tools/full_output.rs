//! The file that takes the whole output of a command when the result cannot.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use tokio::fs::{DirBuilder, File, OpenOptions};
use tokio::io::AsyncWriteExt as _;

use super::node_error;
use crate::clock;
use crate::constants::{OUTPUT_FILE_BYTES, OUTPUT_FILE_KEEP};

/// Output on its way to a file that may never be needed.
#[derive(Debug)]
pub(crate) struct FullOutput {
    dir: PathBuf,
    state: State,
}

#[derive(Debug)]
enum State {
    /// All bytes so far; the file is not needed yet.
    Early(Vec<u8>),
    /// The file, its name and size.
    Open(File, PathBuf, u64),
    /// The file could not be written.
    Failed(io::Error),
}

impl FullOutput {
    /// Prepares a file in this folder; nothing is made yet.
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), state: State::Early(Vec::new()) }
    }

    /// Takes more output.
    pub(crate) async fn push(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Early(early) => early.extend_from_slice(bytes),
            State::Open(file, _, size) => {
                if let Err(error) = append(file, size, bytes).await {
                    self.state = State::Failed(error);
                }
            }
            State::Failed(_) => {}
        }
    }

    /// Makes the file, if it was not made yet.
    pub(crate) async fn need(&mut self) {
        let State::Early(early) = &mut self.state else { return };
        let early = std::mem::take(early);
        self.state = match create(&self.dir, &early).await {
            Ok((file, path)) => State::Open(file, path, early.len() as u64),
            Err(error) => State::Failed(error),
        };
    }

    /// Closes the file and returns its path, or why there is none. `None` when it was not needed.
    pub(crate) async fn close(self) -> Option<Result<PathBuf, String>> {
        match self.state {
            State::Early(_) => None,
            State::Open(mut file, path, _) => {
                // What was written is on its way through another thread until it is flushed.
                Some(file.flush().await.map(|()| path).map_err(|error| node_error::code(&error)))
            }
            State::Failed(error) => Some(Err(node_error::code(&error))),
        }
    }
}

/// Removes files of full output whose last byte is older than [`OUTPUT_FILE_KEEP`], and nothing else. Blocking.
pub fn remove_old_outputs(dir: &Path) {
    let keep = i64::try_from(OUTPUT_FILE_KEEP.as_secs()).unwrap_or(i64::MAX);
    let oldest = clock::now_ms() / 1000 - keep;
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| {
            name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)).is_some_and(is_hex)
        });
        let is_old = || entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.mtime() < oldest);
        if is_ours && is_old() {
            // Another daemon's start may have been faster.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_hex(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

const PREFIX: &str = "bash-";
const SUFFIX: &str = ".log";

async fn create(dir: &Path, early: &[u8]) -> io::Result<(File, PathBuf)> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).await?;
    let path = dir.join(format!("{PREFIX}{}{SUFFIX}", uuid::Uuid::new_v4().simple()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(&path)
        .await?;
    file.write_all(early).await?;
    Ok((file, path))
}

async fn append(file: &mut File, size: &mut u64, bytes: &[u8]) -> io::Result<()> {
    let room = OUTPUT_FILE_BYTES.saturating_sub(*size);
    if room == 0 {
        return Ok(());
    }
    let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
    file.write_all(&bytes[..fits]).await?;
    *size += fits as u64;
    if *size == OUTPUT_FILE_BYTES {
        file.write_all(b"\n[agentd keeps no more of this output]\n").await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[tokio::test]
    async fn only_old_files_of_ours_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (old, _) = create(dir.path(), b"old").await.unwrap();
        let (_new, kept) = create(dir.path(), b"new").await.unwrap();
        let other = dir.path().join("bash-notes.log");
        let other_file = std::fs::File::create(&other).unwrap();
        let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        old.into_std().await.set_modified(long_ago).unwrap();
        other_file.set_modified(long_ago).unwrap();
        remove_old_outputs(dir.path());
        remove_old_outputs(&dir.path().join("nowhere"));
        let mut left: Vec<_> = dir.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        let mut expected = [kept, other];
        expected.sort();
        assert_eq!(left, expected);
    }
}

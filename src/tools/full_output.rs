//! The file that takes the whole output of a command when the result cannot.

use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use tokio::fs::{DirBuilder, File, OpenOptions};
use tokio::io::AsyncWriteExt as _;

use super::node_error;
use crate::constants::OUTPUT_FILE_BYTES;

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

async fn create(dir: &Path, early: &[u8]) -> io::Result<(File, PathBuf)> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).await?;
    let path = dir.join(format!("bash-{}.log", uuid::Uuid::new_v4().simple()));
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

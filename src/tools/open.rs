//! Opens files so that nothing can block: only regular files are opened, and never in blocking mode. A file that is
//! leased (a file server holds one back until its clients have written what they have) is waited for, as long as the
//! call may take.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::node_error;
use super::work::Gate;

/// Pause between two looks at a leased file.
const LEASE_PAUSE: Duration = Duration::from_millis(5);

/// Why a file was not opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The system says so.
    Io(io::Error),
    /// It is not a file that holds data; the text says what it is.
    NotRegular(&'static str),
}

impl OpenError {
    /// Returns the text for a tool result. `action` is Node's name of the step that fails.
    pub(crate) fn text(&self, action: &str, path: &Path) -> String {
        match self {
            Self::Io(error) if error.raw_os_error() == Some(Errno::EISDIR as i32) => {
                node_error::text(error, "read", None)
            }
            Self::Io(error) => node_error::text(error, action, Some(path)),
            Self::NotRegular(kind) => not_regular_text(kind, path),
        }
    }
}

/// Says that a path names something that is not a file of data.
pub(crate) fn not_regular_text(kind: &str, path: &Path) -> String {
    format!("Not a regular file: '{}' is {kind}", path.display())
}

/// Opens a regular file for reading. Without a gate a leased one is an error.
pub(crate) fn open_regular(path: &Path, gate: Option<&Gate>) -> Result<(File, Metadata), OpenError> {
    // Looked at first, because opening a device can have effects of its own; looked at again once it is open, because
    // the name may have been taken by something else meanwhile.
    check_kind(&path.metadata().map_err(OpenError::Io)?)?;
    let file = open(OpenOptions::new().read(true), OFlag::empty(), path, gate).map_err(OpenError::Io)?;
    let metadata = file.metadata().map_err(OpenError::Io)?;
    check_kind(&metadata)?;
    Ok((file, metadata))
}

/// Opens something that was a regular file just now. The first attempt asks the holder of a lease to give it back.
pub(crate) fn open(options: &mut OpenOptions, flags: OFlag, path: &Path, gate: Option<&Gate>) -> io::Result<File> {
    let options = options.custom_flags((flags | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
    loop {
        match options.open(path) {
            Err(error) if is_leased(&error) && gate.is_some_and(|gate| !gate.is_stopped()) => {
                std::thread::sleep(LEASE_PAUSE);
            }
            done => return done,
        }
    }
}

fn is_leased(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Refuses all but regular files.
pub(crate) fn check_kind(metadata: &Metadata) -> Result<(), OpenError> {
    let kind = metadata.file_type();
    if kind.is_file() {
        Ok(())
    } else if kind.is_dir() {
        Err(OpenError::Io(io::Error::from_raw_os_error(Errno::EISDIR as i32)))
    } else if kind.is_fifo() {
        Err(OpenError::NotRegular("a named pipe (FIFO)"))
    } else if kind.is_socket() {
        Err(OpenError::NotRegular("a socket"))
    } else if kind.is_char_device() {
        Err(OpenError::NotRegular("a character device"))
    } else {
        Err(OpenError::NotRegular("a block device"))
    }
}

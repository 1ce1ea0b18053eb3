//! Where a search begins.

use std::io;
use std::path::{Path, PathBuf};

use super::names;
use crate::tools::node_error;

/// Returns the real path of a folder, links followed.
///
/// # Errors
/// The text for the model: there is none.
pub(crate) fn folder_at(path: &Path) -> Result<PathBuf, String> {
    let metadata = path.metadata().map_err(|error| cannot_look(&error, path))?;
    if !metadata.is_dir() {
        return Err(format!("Not a directory: {}", names::shown(&node_error::normalize(path))));
    }
    real_path(path)
}

/// Returns a path with its links followed.
///
/// # Errors
/// The text for the model.
pub(crate) fn real_path(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize().map_err(|error| cannot_look(&error, path))
}

/// Returns the text that says why there is nothing to be looked at.
pub(crate) fn cannot_look(error: &io::Error, path: &Path) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("Path not found: {}", names::shown(&node_error::normalize(path))),
        _ => node_error::text(error, "access", Some(path)),
    }
}

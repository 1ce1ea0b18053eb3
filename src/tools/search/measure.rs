//! Searches without limits that only count, for `agentd bench`.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use super::globs::{GlobError, PathPattern, file_filter};
use super::lines::{Wanted, matcher};
use super::rules::{Dialect, Rules};
use super::walk::walk;
use crate::tools::find::PathSearch;
use crate::tools::grep::LineSearch;
use crate::tools::work::Gate;

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The folder cannot be read.
    #[error("cannot read the folder: {0}")]
    Io(#[from] io::Error),
    /// The pattern cannot be used.
    #[error("the pattern cannot be used: {0}")]
    Pattern(String),
}

impl From<GlobError> for MeasureError {
    fn from(error: GlobError) -> Self {
        Self::Pattern(error.to_string())
    }
}

/// Counts the lines below a folder that `grep` would show if there were no limits.
///
/// # Errors
/// The folder cannot be read, or the pattern is none.
pub fn count_lines(folder: &Path, pattern: &str) -> Result<usize, MeasureError> {
    let root = folder.canonicalize()?;
    let matcher = matcher(pattern, false, false).map_err(|error| MeasureError::Pattern(error.to_string()))?;
    let wanted = Wanted { matches: usize::MAX, context: 0, bytes: usize::MAX };
    let search = LineSearch { matcher, filter: file_filter(&root, &[], None)?, wanted };
    let rules = Rules::inside(&root, Dialect::grep(&[]));
    let mut count = 0;
    walk(root, rules, &search, &Gate::default(), |found| {
        count += found.lines.matches();
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

/// Counts the paths below a folder that `find` would show if there were no limits.
///
/// # Errors
/// The folder cannot be read, or the pattern is none.
pub fn count_paths(folder: &Path, pattern: &str) -> Result<usize, MeasureError> {
    let root = folder.canonicalize()?;
    let search = PathSearch { pattern: PathPattern::new(pattern)?, named: root.clone() };
    let rules = Rules::inside(&root, Dialect::find(&[]));
    let mut count = 0;
    walk(root, rules, &search, &Gate::default(), |_| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

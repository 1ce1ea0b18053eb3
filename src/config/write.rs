//! Changes of settings, kept in a file.
//!
//! Blocking.

use std::io;
use std::path::{Path, PathBuf};

use super::live::{LiveSettings, read_text};
use super::project::project_root;
use super::settings::{Key, Value, edit};
use crate::constants::{CONFIG_FILE, PROJECT_DIR};
use crate::own_file::{WriteLock, behind_links};

/// How often a change is tried again that somebody's edit by hand got in the way of.
const TRIES: usize = 10;

/// Which file is changed.
#[derive(Clone, Debug)]
pub enum ConfigTarget {
    /// The user's.
    User,
    /// That of the project of a directory.
    Project {
        /// The directory.
        cwd: PathBuf,
        /// The user's home.
        home: Option<PathBuf>,
    },
}

/// Why a setting was not kept.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The directory is gone.
    #[error("{} is not there", .0.display())]
    NoFolder(PathBuf),
    /// The file would lose what it says.
    #[error("{}:{line}: {message}; it was left as it is: mend it first", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line at fault.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The system's.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl LiveSettings {
    /// Sets a key in a file, or takes it out, and returns the file. Comments and order stay; a link to the file does, too.
    ///
    /// # Errors
    /// The file is as it was.
    pub fn write(&self, target: &ConfigTarget, key: &Key, value: Option<&Value>) -> Result<PathBuf, WriteError> {
        let path = match target {
            ConfigTarget::User => self.user_file().to_owned(),
            ConfigTarget::Project { cwd, home } => {
                let root = project_root(cwd, home.as_deref()).ok_or_else(|| WriteError::NoFolder(cwd.clone()))?;
                root.join(PROJECT_DIR).join(CONFIG_FILE)
            }
        };
        let fault = |source| WriteError::Io { path: path.clone(), source };
        let real = behind_links(&path).map_err(fault)?;
        // One lock for all files, beside the user's: a repository is no place for it.
        let lock = WriteLock::take_at(&self.user_file().with_extension("toml.lock"), &real).map_err(fault)?;
        for _ in 0..TRIES {
            if change(&lock, &real, key, value).map_err(|error| error.of(&path))? {
                return Ok(path);
            }
        }
        Err(fault(io::Error::other("somebody else changes it all the time")))
    }
}

/// Why one try failed.
enum Fault {
    Broken(usize, String),
    Io(io::Error),
}

impl Fault {
    fn of(self, path: &Path) -> WriteError {
        let path = path.to_owned();
        match self {
            Self::Broken(line, message) => WriteError::Broken { path, line, message },
            Self::Io(source) => WriteError::Io { path, source },
        }
    }
}

/// Changes the file once; `false` when it has changed meanwhile.
fn change(lock: &WriteLock, path: &Path, key: &Key, value: Option<&Value>) -> Result<bool, Fault> {
    let (before, version) =
        read_text(path).map_err(Fault::Io)?.map_or_else(Default::default, |(text, version)| (text, Some(version)));
    let after = edit(&before, key, value).map_err(|(line, message)| Fault::Broken(line, message))?;
    if after == before {
        return Ok(true);
    }
    lock.replace(version, after.as_bytes()).map_err(Fault::Io)
}

#[cfg(test)]
mod tests;

//! The decisions on disk.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::decisions::{Decided, Decisions, Standing};
use super::error::TrustError;
use super::place::place_of;
use crate::constants::{MAX_TRUST_BYTES, TRUST_FILE};
use crate::own_file::{self, Version, WriteLock};

/// How often a change is tried again that somebody's edit by hand got in the way of.
const TRIES: usize = 10;

/// The decisions on disk. They are read anew each time, so that a change counts at once, whoever made it. Cheap to
/// clone; clones share what they have read.
#[derive(Clone, Debug)]
pub struct TrustStore {
    path: PathBuf,
    known: Arc<Mutex<Known>>,
}

/// What was read last.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The decisions; none when they cannot be read.
    pub decisions: Arc<Decisions>,
    /// Why they cannot be read.
    pub problem: Option<String>,
}

impl TrustStore {
    /// Returns the store of a state directory. Nothing is read or written yet.
    pub fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join(TRUST_FILE), known: Arc::default() }
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads all decisions. Blocks.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn load(&self) -> Result<Arc<Decisions>, TrustError> {
        let loaded = self.read().map(|(decisions, _)| followed(decisions));
        *self.lock() = match &loaded {
            Ok(decisions) => Known { decisions: Arc::clone(decisions), problem: None },
            Err(error) => Known { problem: Some(error.to_string()), ..Known::default() },
        };
        loaded
    }

    /// Reads all decisions; none when they cannot be read, which is logged. Blocks.
    pub fn load_or_none(&self) -> Arc<Decisions> {
        self.load().unwrap_or_else(|error| {
            tracing::warn!(%error, "decisions about folders cannot be read");
            Arc::default()
        })
    }

    /// Returns what was read last or written since, without a look at the disk.
    pub fn known(&self) -> Known {
        self.lock().clone()
    }

    /// Returns what was decided about a folder, however it is spelled. Blocks.
    ///
    /// # Errors
    /// The file cannot be used, or the path cannot be followed.
    pub fn lookup(&self, dir: &Path) -> Result<Standing, TrustError> {
        let decisions = self.load()?;
        Ok(decisions.of(&place_of(dir)?))
    }

    /// Tells whether what is in a folder may be loaded: not when something is wrong, which is logged. Blocks.
    pub fn is_trusted(&self, dir: &Path) -> bool {
        self.lookup(dir).map_or_else(
            |error| {
                tracing::warn!(dir = %dir.display(), %error, "a folder counts as not trusted");
                false
            },
            |standing| standing.is_trusted(),
        )
    }

    /// Keeps a decision about a folder and returns by which path. Blocks.
    ///
    /// # Errors
    /// There is no such folder; the file cannot be used, and is left as it is, or not be written.
    pub fn decide(&self, dir: &Path, decided: Decided) -> Result<PathBuf, TrustError> {
        let place = place_of(dir)?;
        if !place.is_dir() {
            return Err(TrustError::NotAFolder(place));
        }
        if place.to_str().is_none() {
            return Err(TrustError::NotText(place));
        }
        self.change(|decisions| decisions.set(place.clone(), decided.clone()))?;
        Ok(place)
    }

    /// Takes back what was decided about this very folder. Returns by which path it was kept, and what it was; `None`
    /// when nothing was decided about it. Blocks.
    ///
    /// # Errors
    /// As for [`TrustStore::decide`], but the folder may be gone.
    pub fn forget(&self, dir: &Path) -> Result<(PathBuf, Option<Decided>), TrustError> {
        let place = place_of(dir)?;
        // Somebody may have written it down by hand as it is spelled here.
        let known = self.change(|decisions| decisions.remove(&place).or_else(|| decisions.remove(dir)))?;
        Ok((place, known))
    }

    fn change<T>(&self, change: impl Fn(&mut Decisions) -> T) -> Result<T, TrustError> {
        let fault = |source| TrustError::Write { path: self.path.clone(), source };
        let lock = WriteLock::take(&self.path).map_err(fault)?;
        for _ in 0..TRIES {
            let (before, version) = self.read()?;
            let mut decisions = before.clone();
            let result = change(&mut decisions);
            if decisions == before {
                return Ok(result);
            }
            let text = decisions.to_text();
            if text.len() as u64 > MAX_TRUST_BYTES {
                return Err(fault(std::io::Error::other("there are too many decisions")));
            }
            if lock.replace(version, text.as_bytes()).map_err(fault)? {
                *self.lock() = Known { decisions: followed(decisions), problem: None };
                return Ok(result);
            }
        }
        Err(fault(std::io::Error::other("somebody else changes it all the time")))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> Result<(Decisions, Option<Version>), TrustError> {
        let fault = |why: String| TrustError::Unreadable { path: self.path.clone(), why };
        match own_file::read(&self.path, MAX_TRUST_BYTES).map_err(|error| fault(error.to_string()))? {
            None => Ok((Decisions::default(), None)),
            Some((bytes, version)) => {
                let text = std::str::from_utf8(&bytes).map_err(|_| fault("it is not valid UTF-8".to_owned()))?;
                let decisions = Decisions::parse(text.trim_start_matches('\u{feff}')).map_err(fault)?;
                Ok((decisions, Some(version)))
            }
        }
    }
}

fn followed(mut decisions: Decisions) -> Arc<Decisions> {
    decisions.follow_denied(|folder| place_of(folder).ok());
    Arc::new(decisions)
}

#[cfg(test)]
mod tests;

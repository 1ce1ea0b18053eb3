//! The decisions on disk.

use std::path::{Path, PathBuf};

use super::decisions::{Decided, Decisions, Standing};
use super::error::TrustError;
use super::place::place_of;
use crate::constants::{MAX_TRUST_BYTES, TRUST_FILE};
use crate::own_file::{self, Version, WriteLock};

/// How often a change is tried again that somebody's edit by hand got in the way of.
const TRIES: usize = 10;

/// The decisions on disk. They are read anew each time, so that a change counts at once, whoever made it.
#[derive(Clone, Debug)]
pub struct TrustStore {
    path: PathBuf,
}

impl TrustStore {
    /// Returns the store of a state directory. Nothing is read or written yet.
    pub fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join(TRUST_FILE) }
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads all decisions. Blocks.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn load(&self) -> Result<Decisions, TrustError> {
        self.read().map(|(mut decisions, _)| {
            decisions.follow_denied(|folder| place_of(folder).ok());
            decisions
        })
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
                return Ok(result);
            }
        }
        Err(fault(std::io::Error::other("somebody else changes it all the time")))
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

#[cfg(test)]
mod tests;

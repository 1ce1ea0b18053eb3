//! From the path that a model wrote to a file: the exact name always comes first.
//!
//! In order: the name as it is; without one leading `@` (models copy mention marks); with a leading `~` expanded.
//! For reading only, at last, a name in the same folder that differs just in look-alike characters (an odd blank, a
//! curly quote), and only when there is exactly one: writing to a file that was not named would destroy another.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::fold::fold;

/// Names in a folder that are looked at for look-alikes; beyond that the folder counts as having none.
const MAX_LOOK_ALIKE_NAMES: usize = 20_000;

/// What paths are relative to.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    /// The session's working directory.
    pub(crate) cwd: PathBuf,
    /// Home of the session's user, if its environment names one.
    pub(crate) home: Option<PathBuf>,
}

impl Base {
    /// Takes the home from a session's environment.
    pub(crate) fn new(cwd: &Path, env: &[(String, String)]) -> Self {
        let home = env.iter().find(|(name, _)| name == "HOME").map(|(_, value)| PathBuf::from(value));
        Self { cwd: cwd.to_owned(), home: home.filter(|home| home.is_absolute()) }
    }

    /// Returns the absolute path of a file to be read. Touches the disk.
    pub(crate) fn resolve_for_reading(&self, written: &str) -> PathBuf {
        let candidates = self.candidates(written);
        if let Some(found) = candidates.iter().find(|path| exists(path)) {
            return found.clone();
        }
        candidates.iter().find_map(|path| single(look_alikes(path))).unwrap_or_else(|| self.assumed(written))
    }

    /// Returns the absolute path of a file to be changed or made. Touches the disk.
    pub(crate) fn resolve_for_writing(&self, written: &str) -> PathBuf {
        self.candidates(written).into_iter().find(|path| exists(path)).unwrap_or_else(|| self.assumed(written))
    }

    /// Returns the one file that the path may have meant, for a hint. Touches the disk.
    pub(crate) fn look_alike(&self, written: &str) -> Option<PathBuf> {
        self.candidates(written).iter().find_map(|path| single(look_alikes(path)))
    }

    /// The readings of a written path, best first.
    fn candidates(&self, written: &str) -> Vec<PathBuf> {
        let mut found = vec![self.cwd.join(written)];
        let bare = written.strip_prefix('@').filter(|bare| !bare.is_empty());
        for text in [Some(written), bare].into_iter().flatten() {
            found.extend(self.expand_home(text));
        }
        if let Some(bare) = bare {
            found.insert(1, self.cwd.join(bare));
        }
        found
    }

    /// The reading of a path under which nothing exists.
    fn assumed(&self, written: &str) -> PathBuf {
        let bare = written.strip_prefix('@').filter(|bare| !bare.is_empty() && !self.has_first_part(written));
        let text = bare.unwrap_or(written);
        self.expand_home(text).unwrap_or_else(|| self.cwd.join(text))
    }

    /// Whether the path leads into something that is really named with its `@` (`@types/…`).
    fn has_first_part(&self, written: &str) -> bool {
        Path::new(written).components().next().is_some_and(|part| {
            Path::new(part.as_os_str()) != Path::new(written) && exists(&self.cwd.join(part.as_os_str()))
        })
    }

    /// `~` and `~/…`; other users' homes (`~name`) are not looked up.
    fn expand_home(&self, text: &str) -> Option<PathBuf> {
        let home = self.home.as_ref()?;
        if text == "~" {
            return Some(home.clone());
        }
        text.strip_prefix("~/").map(|rest| home.join(rest.trim_start_matches('/')))
    }
}

/// A link counts as existing even when its target does not.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Names in the same folder that fold to the same text as this one.
fn look_alikes(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
        return Vec::new();
    };
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let wanted = fold(name);
    let mut found = Vec::new();
    for (count, entry) in entries.flatten().enumerate() {
        if count == MAX_LOOK_ALIKE_NAMES {
            return Vec::new();
        }
        let same = entry.file_name().to_str().is_some_and(|other| !other.is_ascii() || !name.is_ascii())
            && entry.file_name().to_str().is_some_and(|other| fold(other) == wanted);
        if same {
            found.push(folder.join(entry.file_name()));
        }
    }
    found
}

fn single(mut found: Vec<PathBuf>) -> Option<PathBuf> {
    if found.len() == 1 { found.pop() } else { None }
}

#[cfg(test)]
mod tests;

//! The files in which users describe models and keep keys, read again when they have changed.
//!
//! Blocking.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::known_keys;
use super::models_json::{self, OrderedMap, ProviderDef};
use super::registry::ConfigNotice;
use super::spec::ValueSource;

/// Largest configuration file that is read, in bytes; a real one has a few kilobytes.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    changed: (i64, i64),
    size: u64,
    inode: u64,
}

impl Stamp {
    /// Returns that of a file; `None` where there is none.
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            size: metadata.len(),
            inode: metadata.ino(),
        })
    }
}

/// Takes a file's text apart: what it says, and what is wrong with it.
type Parse<T> = fn(&Path, &str) -> (Vec<T>, Vec<ConfigNotice>);

/// A file and what it said when it was last without fault.
#[derive(Debug)]
pub(super) struct Watched<T> {
    path: PathBuf,
    /// Its state when it was read; outside, whether it was read at all.
    stamp: Option<Option<Stamp>>,
    content: Vec<T>,
    /// Whether the content is that of a whole file without fault.
    is_sound: bool,
    notices: Vec<ConfigNotice>,
    parse: Parse<T>,
}

impl Watched<ProviderDef> {
    /// Returns a file of models, not read yet.
    pub(super) fn models(path: PathBuf) -> Self {
        Self::new(path, parse_models)
    }
}

impl Watched<(String, ValueSource)> {
    /// Returns a file of keys by provider, not read yet.
    pub(super) fn keys(path: PathBuf) -> Self {
        Self::new(path, parse_keys)
    }
}

impl Watched<(String, String)> {
    /// Returns a file of keys as names and everything in it that is a key, not read yet.
    pub(super) fn all_keys(path: PathBuf) -> Self {
        Self::new(path, parse_all_keys)
    }
}

impl<T> Watched<T> {
    fn new(path: PathBuf, parse: Parse<T>) -> Self {
        Self { path, stamp: None, content: Vec::new(), is_sound: false, notices: Vec::new(), parse }
    }

    /// Returns the file's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what the file says, or said when it was last without fault.
    pub(super) fn content(&self) -> &[T] {
        &self.content
    }

    /// Returns what is wrong with it.
    pub(super) fn notices(&self) -> &[ConfigNotice] {
        &self.notices
    }

    /// Reads the file if it has changed; tells whether it had.
    pub(super) fn refresh(&mut self) -> bool {
        // Taken before the text: a change between the two is seen the next time.
        let stamp = Stamp::of(&self.path);
        if self.stamp == Some(stamp) {
            return false;
        }
        self.stamp = Some(stamp);
        match read(&self.path) {
            Ok(None) => {
                self.content.clear();
                self.notices.clear();
                self.is_sound = false;
            }
            Ok(Some(text)) => {
                let (content, notices) = (self.parse)(&self.path, &text);
                self.take(content, notices);
            }
            Err(notice) => self.keep(vec![notice]),
        }
        true
    }

    fn take(&mut self, content: Vec<T>, notices: Vec<ConfigNotice>) {
        if !notices.is_empty() && self.is_sound {
            return self.keep(notices);
        }
        self.is_sound = notices.is_empty();
        self.content = content;
        self.notices = notices;
    }

    /// Keeps what was read before, and says so.
    fn keep(&mut self, notices: Vec<ConfigNotice>) {
        self.notices = notices;
        if self.is_sound {
            for notice in &mut self.notices {
                notice.message.push_str("; what the file said before goes on to hold");
            }
        }
    }
}

/// Reads a file that may be missing.
fn read(path: &Path) -> Result<Option<String>, ConfigNotice> {
    let notice = |message: String| ConfigNotice { path: path.to_path_buf(), place: None, message };
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Err(notice("is not a file".to_owned())),
        Ok(metadata) if metadata.len() > MAX_FILE_BYTES => {
            return Err(notice(format!("is larger than {MAX_FILE_BYTES} bytes")));
        }
        _ => {}
    }
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(notice(format!("cannot be read: {error}"))),
    }
}

fn parse_models(path: &Path, text: &str) -> (Vec<ProviderDef>, Vec<ConfigNotice>) {
    let (providers, faults) = models_json::parse(text);
    let notices = faults.into_iter().map(|fault| ConfigNotice {
        path: path.to_path_buf(),
        place: Some((fault.line, fault.column)),
        message: fault.message,
    });
    (providers, notices.collect())
}

/// Reads every key of pi's `auth.json`, those of log-ins included. Faults are told by [`parse_keys`].
fn parse_all_keys(_path: &Path, text: &str) -> (Vec<(String, String)>, Vec<ConfigNotice>) {
    let entries = serde_json::from_str::<OrderedMap<serde_json::Map<String, serde_json::Value>>>(text);
    let keys = entries.unwrap_or_default().0.into_iter().flat_map(|(provider, entry)| {
        let is_key = |name: &str| matches!(name, "access" | "refresh") || known_keys::is_telling(name);
        let keys = entry.into_iter().filter(|(name, _)| is_key(name));
        let name = format!("key of {provider}");
        keys.flat_map(|(_, value)| value.as_str().map(|value| known_keys::literal(&name, value)))
            .flatten()
            .collect::<Vec<_>>()
    });
    (keys.collect(), Vec::new())
}

/// Reads the `api_key` entries of pi's `auth.json`; other kinds belong to log-ins that only pi can renew.
fn parse_keys(path: &Path, text: &str) -> (Vec<(String, ValueSource)>, Vec<ConfigNotice>) {
    match serde_json::from_str::<OrderedMap<serde_json::Value>>(text.trim_start_matches('\u{feff}')) {
        Ok(entries) => {
            let keys = entries
                .0
                .into_iter()
                .filter(|(_, entry)| entry.get("type").and_then(serde_json::Value::as_str) == Some("api_key"))
                .filter_map(|(provider, entry)| Some((provider, ValueSource::parse(entry.get("key")?.as_str()?))));
            (keys.collect(), Vec::new())
        }
        Err(error) => {
            // The text of a key file is never quoted; serde_json's messages for broken syntax do not quote either.
            let message = "is not valid JSON".to_owned();
            let place = Some((error.line(), error.column()));
            (Vec::new(), vec![ConfigNotice { path: path.to_path_buf(), place, message }])
        }
    }
}

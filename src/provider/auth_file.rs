//! The file in which keys are kept that a person has entered, in the form of pi's `auth.json`.
//!
//! Blocking.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::constants::MAX_KEY_BYTES;
use crate::own_file::{self, WriteLock, behind_links};

/// Largest file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// How often a change is tried again that somebody's edit by hand got in the way of.
const TRIES: usize = 10;

/// Why a key was not kept. Keys are never in it.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Nobody knows the provider.
    #[error("no provider {id}{}; describe others in models.json first", .similar.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default())]
    UnknownProvider {
        /// The id that was given.
        id: String,
        /// One that looks like it.
        similar: Option<String>,
    },
    /// It cannot be a key.
    #[error("the key {0}")]
    NoKey(&'static str),
    /// The file would lose what it holds.
    #[error("{}:{line}: is no JSON object; it was left as it is: mend it first", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line at fault.
        line: usize,
    },
    /// The system's.
    #[error("cannot change {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A file of keys.
#[derive(Clone, Debug)]
pub struct AuthFile {
    path: PathBuf,
}

impl AuthFile {
    /// Returns the file at a path. Nothing is read yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the key of a provider, or forgets it for `None`; all else in the file stays. Tells whether there was one.
    ///
    /// # Errors
    /// The file is as it was.
    pub fn set(&self, provider: &str, key: Option<&str>) -> Result<bool, AuthError> {
        let entry = key.map(notation).transpose()?.map(|key| json!({"type": "api_key", "key": key}));
        let fault = |source| AuthError::Io { path: self.path.clone(), source };
        let real = behind_links(&self.path).map_err(fault)?;
        let lock = WriteLock::take(&real).map_err(fault)?;
        for _ in 0..TRIES {
            let read = own_file::read(&real, MAX_FILE_BYTES).map_err(fault)?;
            let (mut entries, version) = match read {
                Some((bytes, version)) => (self.parse(&bytes)?, Some(version)),
                None => (Map::new(), None),
            };
            let had_one = entries.contains_key(provider);
            match &entry {
                Some(entry) => drop(entries.insert(provider.to_owned(), entry.clone())),
                None if !had_one => return Ok(false),
                None => drop(entries.shift_remove(provider)),
            }
            let text = format!("{:#}\n", Value::Object(entries));
            if lock.replace(version, text.as_bytes()).map_err(fault)? {
                return Ok(had_one);
            }
        }
        Err(fault(io::Error::other("somebody else changes it all the time")))
    }

    fn parse(&self, bytes: &[u8]) -> Result<Map<String, Value>, AuthError> {
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        if bytes.trim_ascii().is_empty() {
            return Ok(Map::new());
        }
        serde_json::from_slice(bytes).map_err(|error| AuthError::Broken { path: self.path.clone(), line: error.line() })
    }
}

/// Returns a key in the notation of the file, in which `$` and a leading `!` mean something.
fn notation(key: &str) -> Result<String, AuthError> {
    let key = key.trim();
    let why = match key {
        "" => "is empty",
        key if key.len() > MAX_KEY_BYTES => "is longer than any real one",
        key if key.chars().any(|c| c.is_control() || c.is_whitespace()) => {
            "has white space or control characters in it"
        }
        key if key.starts_with('!') => {
            "begins with \"!\", which would be read as a command; write that into the file by hand"
        }
        key => return Ok(key.replace('$', "$$")),
    };
    Err(AuthError::NoKey(why))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use pretty_assertions::assert_eq;

    use super::*;

    fn file(dir: &tempfile::TempDir) -> AuthFile {
        AuthFile::new(dir.path().join("conf/auth.json"))
    }

    fn text(file: &AuthFile) -> Value {
        serde_json::from_str(&fs::read_to_string(file.path()).unwrap()).unwrap()
    }

    #[test]
    fn keys_are_kept_beside_what_else_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        assert!(!file.set("openai", None).unwrap());
        assert!(!file.path().exists(), "nothing is written for nothing");
        assert!(!file.set("openai", Some(" sk-a$b\n")).unwrap());
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(text(&file), json!({"openai": {"type": "api_key", "key": "sk-a$$b"}}));
        fs::write(file.path(), "\u{feff}{\"x\": {\"type\": \"oauth\", \"more\": [1]}, \"openai\": 5}").unwrap();
        assert!(file.set("openai", Some("k")).unwrap());
        let kept = json!({"x": {"type": "oauth", "more": [1]}, "openai": {"type": "api_key", "key": "k"}});
        assert_eq!(text(&file), kept);
        assert!(file.set("openai", None).unwrap());
        assert_eq!(text(&file), json!({"x": {"type": "oauth", "more": [1]}}));
    }

    #[test]
    fn what_can_be_no_key_is_refused_without_being_shown() {
        let dir = tempfile::tempdir().unwrap();
        for key in ["", " ", "sk CANARY", "sk\u{1b}CANARY", "!echo CANARY", &"C".repeat(MAX_KEY_BYTES + 1)] {
            let error = file(&dir).set("openai", Some(key)).unwrap_err();
            assert!(matches!(error, AuthError::NoKey(_)), "{error}");
            assert!(!format!("{error} {error:?}").contains("CANARY"));
        }
        assert!(!file(&dir).path().exists());
    }

    #[test]
    fn b204_a_broken_file_of_keys_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        fs::create_dir(dir.path().join("conf")).unwrap();
        for text in ["{\n\"a\": sk-CANARY", "[]"] {
            fs::write(file.path(), text).unwrap();
            let error = file.set("openai", Some("k")).unwrap_err().to_string();
            assert!(error.contains("left as it is") && !error.contains("CANARY"), "{error}");
            assert_eq!(fs::read_to_string(file.path()).unwrap(), text);
        }
    }

    #[test]
    fn b204_no_key_is_lost_when_many_are_set_at_once_and_a_link_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        fs::create_dir(dir.path().join("conf")).unwrap();
        fs::write(dir.path().join("real.json"), "{}").unwrap();
        symlink("../real.json", file.path()).unwrap();
        let writers: Vec<_> = (0..10)
            .map(|number| {
                let file = file.clone();
                std::thread::spawn(move || file.set(&format!("p{number}"), Some("k")).unwrap())
            })
            .collect();
        assert!(writers.into_iter().all(|writer| !writer.join().unwrap()), "none was there before");
        assert!(file.path().is_symlink());
        assert_eq!(text(&file).as_object().unwrap().len(), 10);
    }
}

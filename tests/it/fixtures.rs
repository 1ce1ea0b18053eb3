//! The recordings in `tests/fixtures/pi`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Returns the folder of the recordings.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pi")
}

/// Returns the `models.json` of the recordings for a model server on `port`.
pub(crate) fn models(port: u16) -> String {
    read(&folder().join("setups/_models.json")).replace("<PORT>", &port.to_string())
}

/// Reads a JSON file.
#[track_caller]
pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_str(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads a file of JSON lines.
#[track_caller]
pub(crate) fn json_lines(path: &Path) -> Vec<Value> {
    read(path)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        .collect()
}

#[track_caller]
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

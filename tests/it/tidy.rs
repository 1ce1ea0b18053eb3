//! Rules of the source tree that the compiler does not check: who may use whom, what a pure module may not touch,
//! how long a file may be, and that no method is without tests.
#![allow(clippy::unwrap_used, reason = "a test: a panic names the place")]

mod methods;
mod order;
mod source;
mod tree;

use std::path::{Path, PathBuf};

/// Returns the root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the Rust files under `dir`, relative to the root, in a stable order.
fn rust_files(dir: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![root().join(dir)];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no Rust files in {dir}");
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Fails with all faults at once, one a line.
#[track_caller]
fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

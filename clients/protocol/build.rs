//! Gives the programs a build id, so that a client can tell that the daemon that runs is of another build.
//!
//! It is in this package because the daemon and its clients must agree on it. In a git checkout it names the
//! revision; elsewhere it is a hash of the sources. It is never worth a failed build.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo::rerun-if-changed=build.rs");
    let id = git_id(&root).unwrap_or_else(|| source_id(&root));
    println!("cargo::rustc-env=AGENTD_BUILD={id}");
}

/// Commit time (UTC) and short revision. Edits that are not committed do not show: watching the sources from here
/// would rebuild everything at each of them.
fn git_id(root: &Path) -> Option<String> {
    // Sources unpacked inside somebody else's repository are not described by its revision.
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let id = git(root, &["log", "-1", "--date=format-local:%Y%m%d%H%M%S", "--format=%cd-%h", "--abbrev=9"])?;
    for name in ["logs/HEAD", "HEAD", "packed-refs"] {
        let file = root.join(git(root, &["rev-parse", "--git-path", name])?);
        // A file that is not there would run this script at every build.
        if file.is_file() {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    Some(id)
}

#[allow(clippy::disallowed_methods, reason = "the daemon's way of starting children is not there at build time")]
fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(args).env("TZ", "UTC").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn source_id(root: &Path) -> String {
    let mut files = vec![root.join("Cargo.lock"), root.join("Cargo.toml")];
    for dir in ["src", "clients"] {
        println!("cargo::rerun-if-changed={}", root.join(dir).display());
        collect(&root.join(dir), &mut files);
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.strip_prefix(root).unwrap_or(&file).hash(&mut hasher);
        std::fs::read(&file).unwrap_or_default().hash(&mut hasher);
    }
    format!("src-{:016x}", hasher.finish())
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

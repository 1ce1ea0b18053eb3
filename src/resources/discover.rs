//! Finding AGENTS.md and its like.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::libc::O_NONBLOCK;

use crate::constants::{MAX_CONTEXT_BYTES, MAX_CONTEXT_FILE_BYTES};
use crate::trust::{Trusted, place_of};

/// Names that are looked for in each folder; the first that is there counts (pi's order).
const NAMES: [&str; 5] = ["AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD"];

/// A file of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it says, at most [`MAX_CONTEXT_FILE_BYTES`] of it.
    pub text: String,
}

/// Finds instructions: those of the `global` folders first, then those of every folder from the root down to `cwd`,
/// so that the nearest comes last. What cannot be read, is no regular file, or is a link that leads out of its folder
/// is left out, and so are, unread, those of folders that are not trusted. In a git worktree that lies inside of its
/// main checkout, the worktree's own file stands in for that of the checkout (pi: the same).
pub fn discover_context_files(cwd: &Path, global: &[PathBuf], trusted: &Trusted) -> Vec<ContextFile> {
    let may_load = |dir: &Path| place_of(dir).is_ok_and(|place| trusted.of(&place).is_trusted());
    let mut ancestors: Vec<&Path> = cwd.ancestors().filter(|dir| may_load(dir)).collect();
    let shadowed = ancestors.iter().find_map(|dir| shadowed_checkout(dir));
    ancestors.reverse();
    let user = global.iter().map(|dir| (dir.as_path(), Links::Anywhere));
    let project = ancestors.into_iter().filter(|dir| Some(*dir) != shadowed.as_deref()).map(|dir| (dir, Links::Inside));
    let mut found: Vec<ContextFile> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut left = MAX_CONTEXT_BYTES;
    for (dir, links) in user.chain(project) {
        let Some((file, target)) = NAMES.iter().find_map(|name| read(&dir.join(name), dir, links, left)) else {
            continue;
        };
        // A link may lead into a folder further down, about which something else was decided.
        let is_allowed = links == Links::Anywhere || target.parent().is_some_and(may_load);
        if is_allowed && !seen.contains(&target) {
            left -= file.text.len().min(left);
            seen.push(target);
            found.push(file);
        }
    }
    found
}

/// Returns the file of instructions that counts in a folder, by its name alone.
pub(super) fn first_name(dir: &Path) -> Option<PathBuf> {
    NAMES.iter().map(|name| dir.join(name)).find(|path| path.symlink_metadata().is_ok())
}

/// Returns the main checkout of a git worktree that begins in `dir` and has instructions of its own. There, `.git` is a
/// file that names a folder below the checkout's `.git/worktrees`.
fn shadowed_checkout(dir: &Path) -> Option<PathBuf> {
    const MAX_BYTES: u64 = 4096;
    let link = dir.join(".git");
    if !link.symlink_metadata().ok()?.is_file() || !NAMES.iter().any(|name| dir.join(name).is_file()) {
        return None;
    }
    let mut text = String::new();
    std::fs::File::open(link).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let worktree = dir.join(text.strip_prefix("gitdir:")?.trim());
    let mut parts = worktree.ancestors().skip(1);
    let is_worktree = parts.next()?.ends_with("worktrees") && parts.next()?.ends_with(".git");
    let checkout = parts.next().filter(|_| is_worktree)?;
    dir.starts_with(checkout).then(|| checkout.to_owned())
}

/// Where a link may lead. A repository must not have files from elsewhere read into a prompt; in the user's own
/// folders, links to a collection of settings are common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Anywhere,
    Inside,
}

/// Reads a file; also returns what it is behind all links.
fn read(path: &Path, dir: &Path, links: Links, left: usize) -> Option<(ContextFile, PathBuf)> {
    let target = std::fs::canonicalize(path).ok()?;
    if links == Links::Inside && !target.starts_with(std::fs::canonicalize(dir).ok()?) {
        tracing::warn!(path = %path.display(), "instructions behind a link out of their folder are not read");
        return None;
    }
    // A pipe must not block the open, and what was opened is what is looked at.
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(&target).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let limit = MAX_CONTEXT_FILE_BYTES.min(left);
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes).ok()?;
    let is_cut = bytes.len() > limit;
    bytes.truncate(limit);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if is_cut {
        text.push_str("\n[The rest of this file is left out: it is too long.]");
    }
    Some((ContextFile { path: path.to_owned(), text }, target))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use std::sync::Arc;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::trust::{Decided, Decision, TrustStore};

    fn texts(cwd: &Path, global: &[PathBuf]) -> Vec<String> {
        texts_within(Path::new("/"), cwd, global)
    }

    fn texts_within(trusted: &Path, cwd: &Path, global: &[PathBuf]) -> Vec<String> {
        let trusted = Trusted::new(Arc::default(), Some(place_of(trusted).unwrap()));
        discover_context_files(cwd, global, &trusted).into_iter().map(|file| file.text).collect()
    }

    #[test]
    fn only_trusted_folders_give_instructions() {
        let dir = tempfile::tempdir().unwrap();
        let (home, outer, inner) = (dir.path().join("home"), dir.path().join("p"), dir.path().join("p/sub"));
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir(&home).unwrap();
        for (folder, text) in [(&home, "home"), (&outer, "outer"), (&inner, "inner")] {
            fs::write(folder.join("AGENTS.md"), text).unwrap();
        }
        let own = std::slice::from_ref(&home);
        assert_eq!(texts_within(&dir.path().join("elsewhere"), &inner, own), ["home"]);
        assert_eq!(texts_within(&inner, &inner, own), ["home", "inner"]);
        assert_eq!(texts_within(&outer, &inner, own), ["home", "outer", "inner"]);
    }

    #[test]
    fn a_link_into_a_denied_folder_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (project, vendor) = (dir.path().join("p"), dir.path().join("p/vendor"));
        fs::create_dir_all(&vendor).unwrap();
        fs::write(vendor.join("AGENTS.md"), "denied").unwrap();
        symlink("vendor/AGENTS.md", project.join("AGENTS.md")).unwrap();
        let store = TrustStore::new(&dir.path().join("state"));
        store.decide(&project, Decided::new(Decision::Yes, 0, None)).unwrap();
        let found = || discover_context_files(&project, &[], &Trusted::new(store.load().unwrap(), None)).len();
        assert_eq!(found(), 1);
        store.decide(&vendor, Decided::new(Decision::No, 0, None)).unwrap();
        assert_eq!(found(), 0);
    }

    #[test]
    fn the_nearest_comes_last_and_one_file_a_folder_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (home, outer, inner) = (dir.path().join("home"), dir.path().join("p"), dir.path().join("p/sub"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&inner).unwrap();
        fs::write(home.join("AGENTS.md"), "home").unwrap();
        fs::write(outer.join("CLAUDE.md"), "outer").unwrap();
        fs::write(inner.join("AGENTS.md"), "inner").unwrap();
        fs::write(inner.join("CLAUDE.md"), "not this").unwrap();
        assert_eq!(texts(&inner, std::slice::from_ref(&home)), ["home", "outer", "inner"]);
        fs::write(inner.join("AGENTS.override.md"), "override").unwrap();
        assert_eq!(texts(&inner, &[]), ["outer", "override"]);
    }

    #[test]
    fn what_is_no_readable_file_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("AGENTS.md")).unwrap();
        nix::unistd::mkfifo(&dir.path().join("AGENTS.override.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::write(dir.path().join("CLAUDE.md"), b"kept \xff").unwrap();
        assert_eq!(texts(dir.path(), &[]), ["kept \u{fffd}"]);
    }

    #[test]
    fn a_link_may_not_lead_out_of_a_project() {
        let dir = tempfile::tempdir().unwrap();
        let (project, secret) = (dir.path().join("p"), dir.path().join("secret"));
        fs::create_dir(&project).unwrap();
        fs::write(&secret, "secret").unwrap();
        symlink(&secret, project.join("AGENTS.md")).unwrap();
        assert_eq!(texts(&project, &[]), Vec::<String>::new());
        assert_eq!(texts(dir.path(), std::slice::from_ref(&project)), ["secret"]);
        fs::remove_file(project.join("AGENTS.md")).unwrap();
        fs::write(project.join("CLAUDE.md"), "shared").unwrap();
        symlink("CLAUDE.md", project.join("AGENTS.md")).unwrap();
        assert_eq!(texts(&project, &[]), ["shared"]);
    }

    #[test]
    fn a_worktree_stands_in_for_its_checkout() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("main/trees/one");
        let cwd = tree.join("src");
        fs::create_dir_all(&cwd).unwrap();
        fs::create_dir_all(dir.path().join("main/.git/worktrees/one")).unwrap();
        fs::write(dir.path().join("main/AGENTS.md"), "main").unwrap();
        fs::write(dir.path().join("AGENTS.md"), "above").unwrap();
        let link = format!("gitdir: {}/main/.git/worktrees/one\n", dir.path().display());
        fs::write(tree.join(".git"), link).unwrap();
        assert_eq!(texts(&cwd, &[]), ["above", "main"]);
        fs::write(tree.join("AGENTS.md"), "tree").unwrap();
        assert_eq!(texts(&cwd, &[]), ["above", "tree"]);
        // A submodule names a folder of another kind.
        fs::write(tree.join(".git"), format!("gitdir: {}/main/.git/modules/one\n", dir.path().display())).unwrap();
        assert_eq!(texts(&cwd, &[]), ["above", "main", "tree"]);
    }

    #[test]
    fn long_files_are_cut() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("AGENTS.md"), "x".repeat(MAX_CONTEXT_FILE_BYTES + 10)).unwrap();
        let text = texts(dir.path(), &[]).remove(0);
        assert!(text.len() < MAX_CONTEXT_FILE_BYTES + 100 && text.ends_with("too long.]"), "{}", text.len());
    }
}

//! Which folder is the project of a working directory.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::constants::PROJECT_DIR;

/// Returns the folder, by its canonical path, whose `.agentd` counts for a working directory: the nearest one that has
/// such a folder, up to the root of the repository. Outside of a repository only the directory itself is looked at.
pub(super) fn project_dir(cwd: &Path, home: Option<&Path>) -> Option<PathBuf> {
    candidates(cwd, home).into_iter().find(|dir| dir.join(PROJECT_DIR).is_dir())
}

/// Returns the folder in which a project's settings are written: the one whose `.agentd` counts, else the root of the
/// repository, else the directory itself. `None` when the directory is gone.
pub fn project_root(cwd: &Path, home: Option<&Path>) -> Option<PathBuf> {
    project_dir(cwd, home).or_else(|| candidates(cwd, home).pop())
}

/// Returns the folders from the directory up to the root of its repository.
fn candidates(cwd: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let Ok(cwd) = cwd.canonicalize() else { return Vec::new() };
    let root = repository(&cwd, home).unwrap_or_else(|| cwd.clone());
    cwd.ancestors().take_while(|dir| dir.starts_with(&root)).map(Path::to_owned).collect()
}

/// Returns the root of the repository around a folder. Neither the home nor what is above it is one, and neither is a
/// folder of another user: anybody can put a `.git` into `/tmp`.
pub fn repository(place: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let user = nix::unistd::geteuid().as_raw();
    let home = home.and_then(|home| home.canonicalize().ok());
    let below_home = |dir: &&Path| home.as_ref().is_none_or(|home| !home.starts_with(dir));
    let mine = |dir: &Path| dir.symlink_metadata().is_ok_and(|metadata| metadata.uid() == user);
    let root = place.ancestors().take_while(below_home).find(|dir| dir.join(".git").symlink_metadata().is_ok())?;
    mine(root).then(|| root.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_nearest_folder_within_the_repository_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in [".agentd", "repo/.git", "repo/a/b/c", "plain/x"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let found = |cwd: &str| project_dir(&root.join(cwd), None);
        assert_eq!(found("repo/a/b/c"), None, "what is above the repository has no say");
        assert_eq!(found("plain/x"), None);
        assert_eq!(found("gone"), None);
        assert_eq!(project_root(&root.join("repo/a/b"), None), Some(root.join("repo")));
        assert_eq!(project_root(&root.join("plain/x"), None), Some(root.join("plain/x")));
        fs::create_dir_all(root.join("repo/.agentd")).unwrap();
        assert_eq!(found("repo/a/b/c"), Some(root.join("repo")));
        fs::create_dir_all(root.join("repo/a/.agentd")).unwrap();
        assert_eq!(found("repo/a/b/c"), Some(root.join("repo/a")));
        assert_eq!(found("repo"), Some(root.join("repo")));
        std::os::unix::fs::symlink(root.join("repo/a/b"), root.join("plain/link")).unwrap();
        assert_eq!(found("plain/link"), Some(root.join("repo/a")));
        assert_eq!(found(""), Some(root.clone()));
        fs::create_dir_all(root.join("h/.git")).unwrap();
        fs::create_dir_all(root.join("h/.agentd")).unwrap();
        fs::create_dir_all(root.join("h/x")).unwrap();
        assert_eq!(project_dir(&root.join("h/x"), Some(&root.join("h"))), None, "the home is no project");
    }
}

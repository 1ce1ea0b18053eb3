//! What the folder of a session brings along, and which part of it may be loaded.

use std::path::{Path, PathBuf};

use super::discover;
use crate::config::repository;
use crate::constants::PROJECT_DIR;
use crate::trust::{Trusted, place_of};

/// What the folder of a session brings along that is loaded only where it is trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// Canonical path of the working directory.
    pub place: PathBuf,
    /// The folder that is to be decided about: the repository's root, or the working directory itself.
    pub folder: PathBuf,
    /// What is there.
    pub held: Vec<Held>,
}

/// A file or folder that is loaded only where the folder that holds it is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Canonical path of the folder that holds it.
    pub folder: PathBuf,
    /// Where it was found.
    pub path: PathBuf,
}

impl Project {
    /// Looks at what is there, and reads none of it. `own` are the user's own folders, which need no trust; `home` is
    /// never a project. Blocks.
    pub fn survey(cwd: &Path, home: Option<&Path>, own: &[PathBuf]) -> Self {
        let Ok(place) = place_of(cwd) else {
            return Self { place: cwd.to_owned(), folder: cwd.to_owned(), held: Vec::new() };
        };
        let own: Vec<PathBuf> = own.iter().filter_map(|dir| place_of(dir).ok()).collect();
        let mut held = Vec::new();
        for dir in cwd.ancestors() {
            let Some(folder) = place_of(dir).ok().filter(|folder| !own.contains(folder)) else { continue };
            held.extend(discover::first_name(dir).map(|path| Held { folder, path }));
        }
        let folder = repository(&place, home).unwrap_or_else(|| place.clone());
        for dir in place.ancestors().take_while(|dir| dir.starts_with(&folder)) {
            let path = dir.join(PROJECT_DIR);
            if path.symlink_metadata().is_ok() {
                held.push(Held { folder: dir.to_owned(), path });
            }
        }
        Self { place, folder, held }
    }

    /// Returns what is not loaded because the folders that hold it are not trusted.
    pub fn withheld(&self, trusted: &Trusted) -> Vec<PathBuf> {
        let held = self.held.iter().filter(|held| !trusted.of(&held.folder).is_trusted());
        held.map(|held| held.path.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use pretty_assertions::assert_eq;

    use super::*;

    fn root() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        (dir, root)
    }

    fn names(root: &Path, paths: Vec<PathBuf>) -> Vec<String> {
        paths.iter().map(|path| path.strip_prefix(root).unwrap().display().to_string()).collect()
    }

    #[test]
    fn a_repository_is_decided_about_as_a_whole() {
        let (_dir, root) = root();
        fs::create_dir_all(root.join("h/p/a/b")).unwrap();
        fs::create_dir_all(root.join("h/plain")).unwrap();
        symlink("h/p", root.join("link")).unwrap();
        fs::create_dir(root.join("h/.git")).unwrap();
        fs::write(root.join("h/p/.git"), "gitdir: elsewhere").unwrap();
        let home = root.join("h");
        for (cwd, place, folder) in [
            ("h/p", "h/p", "h/p"),
            ("h/p/a/b", "h/p/a/b", "h/p"),
            ("link/a/../a", "h/p/a", "h/p"),
            ("h/plain", "h/plain", "h/plain"),
            ("h", "h", "h"),
        ] {
            let found = Project::survey(&root.join(cwd), Some(&home), &[]);
            assert_eq!((found.place, found.folder), (root.join(place), root.join(folder)), "{cwd}");
        }
    }

    #[test]
    fn what_trust_would_load_is_known_without_reading_it() {
        let (_dir, root) = root();
        fs::create_dir_all(root.join("up/p/sub/.agentd")).unwrap();
        fs::create_dir(root.join("up/p/.git")).unwrap();
        fs::write(root.join("up/AGENTS.md"), "").unwrap();
        fs::write(root.join("up/p/CLAUDE.md"), "").unwrap();
        // Odd things count as well: what they are is found out when they may be read.
        symlink("nowhere", root.join("up/p/.agentd")).unwrap();
        nix::unistd::mkfifo(&root.join("up/p/sub/AGENTS.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for harmless in [".env", ".pi", ".claude"] {
            fs::create_dir(root.join("up/p/sub").join(harmless)).unwrap();
        }
        let cwd = root.join("up/p/sub");
        let project = Project::survey(&cwd, None, &[]);
        let all = ["up/p/sub/AGENTS.md", "up/p/CLAUDE.md", "up/AGENTS.md", "up/p/sub/.agentd", "up/p/.agentd"];
        assert_eq!(names(&root, project.withheld(&Trusted::default())), all);
        let trusts = |folder: &str| Trusted::new(Arc::default(), Some(root.join(folder)));
        assert_eq!(names(&root, project.withheld(&trusts("up/p"))), ["up/AGENTS.md"]);
        assert_eq!(project.withheld(&trusts("up")), Vec::<PathBuf>::new());
        let own = Project::survey(&cwd, None, &[root.join("up"), root.join("up/p/../p")]);
        assert_eq!(
            names(&root, own.withheld(&Trusted::default())),
            ["up/p/sub/AGENTS.md", "up/p/sub/.agentd", "up/p/.agentd"]
        );
    }

    #[test]
    fn a_folder_that_is_gone_brings_nothing() {
        let (_dir, root) = root();
        let project = Project::survey(&root.join("gone/.."), None, &[]);
        assert_eq!(project.held, []);
    }
}

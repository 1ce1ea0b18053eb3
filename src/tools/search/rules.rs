//! Ignore files: `.gitignore` and its like, from the folders above the one that is searched down to each folder in it.
//!
//! The rules of a folder hold in it and below, nearer ones first, never beside it. `.gitignore` files count up to the
//! root of the repository that a folder is in: those of a repository around it say nothing about what is inside.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::globs;
use crate::constants::MAX_IGNORE_FILE_BYTES;
use crate::tools::open::open_regular;

/// Which files hold rules, and when.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    /// Names besides `.gitignore`, strongest first.
    extra: [&'static str; 2],
    /// Whether `.gitignore` counts only inside a repository.
    needs_repository: bool,
    /// The user's own rules for all repositories.
    global: Arc<Gitignore>,
}

impl Dialect {
    /// What ripgrep goes by.
    pub(crate) fn grep(env: &[(String, String)]) -> Self {
        Self { extra: [".rgignore", ".ignore"], needs_repository: true, global: global(env) }
    }

    /// What fd goes by: `.gitignore` counts everywhere.
    pub(crate) fn find(env: &[(String, String)]) -> Self {
        Self { extra: [".fdignore", ".ignore"], needs_repository: false, global: global(env) }
    }
}

/// Reads `git/ignore` of the user whose environment this is.
fn global(env: &[(String, String)]) -> Arc<Gitignore> {
    let get =
        |wanted: &str| env.iter().find(|(name, value)| name == wanted && !value.is_empty()).map(|(_, value)| value);
    let config = get("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| get("HOME").map(|home| Path::new(home).join(".config")));
    let file = config.filter(|config| config.is_absolute()).map(|config| config.join("git/ignore"));
    // Its patterns hold in every folder.
    Arc::new(file.and_then(|file| read(Path::new("/"), &file)).unwrap_or_else(Gitignore::empty))
}

/// Files with rules that a folder has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    git: bool,
    gitignore: bool,
    extra: [bool; 2],
}

impl Marks {
    /// Takes note of a name in the folder.
    fn note(&mut self, name: &[u8], dialect: &Dialect) {
        match name {
            b".git" => self.git = true,
            b".gitignore" => self.gitignore = true,
            _ => {
                for (mark, wanted) in self.extra.iter_mut().zip(dialect.extra) {
                    *mark |= name == wanted.as_bytes();
                }
            }
        }
    }

    /// Looks for the files by name.
    fn of(folder: &Path, dialect: &Dialect) -> Self {
        let mut marks = Self::default();
        for name in [".git", ".gitignore"].into_iter().chain(dialect.extra) {
            if folder.join(name).symlink_metadata().is_ok() {
                marks.note(name.as_bytes(), dialect);
            }
        }
        marks
    }
}

/// The rules that hold in a folder. Cheap to clone: a folder without files of its own shares those of its parent.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    dialect: Dialect,
    nearest: Option<Arc<Layer>>,
    in_repository: bool,
}

/// The rules that one folder adds.
#[derive(Debug)]
struct Layer {
    parent: Option<Arc<Layer>>,
    extra: [Option<Gitignore>; 2],
    gitignore: Option<Gitignore>,
    exclude: Option<Gitignore>,
    begins_repository: bool,
}

impl Rules {
    /// Returns the rules inside of a folder that was named to be searched; the path has no links in it. Rules that
    /// would leave all of it out do not count: it is searched because it was asked for. Touches the disk.
    pub(crate) fn inside(root: &Path, dialect: Dialect) -> Self {
        let mut rules = Self { dialect, nearest: None, in_repository: false };
        let mut above: Vec<&Path> = root.ancestors().collect();
        above.reverse();
        for folder in above {
            if rules.is_ignored(folder, true) {
                rules.nearest = None;
            }
            let marks = Marks::of(folder, &rules.dialect);
            rules = rules.with(folder, marks);
            if rules.leave_nothing(folder) {
                rules.nearest = None;
            }
        }
        rules
    }

    /// Returns the rules inside of a folder, given those of its parent. Touches the disk only where marks are.
    pub(crate) fn with(&self, folder: &Path, marks: Marks) -> Self {
        if marks == Marks::default() {
            return self.clone();
        }
        let file = |there: bool, name: &str| if there { read(folder, &folder.join(name)) } else { None };
        let [first, second] = self.dialect.extra;
        let layer = Layer {
            parent: self.nearest.clone(),
            extra: [file(marks.extra[0], first), file(marks.extra[1], second)],
            gitignore: file(marks.gitignore, ".gitignore"),
            exclude: file(marks.git, ".git/info/exclude"),
            begins_repository: marks.git,
        };
        Self {
            dialect: self.dialect.clone(),
            nearest: Some(Arc::new(layer)),
            in_repository: self.in_repository || marks.git,
        }
    }

    /// Takes note of a name in a folder.
    pub(crate) fn note(&self, marks: &mut Marks, name: &[u8]) {
        marks.note(name, &self.dialect);
    }

    /// Tells whether the rules leave something out. Its path is absolute.
    pub(crate) fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        let counts_git = self.in_repository || !self.dialect.needs_repository;
        let mut found = [Match::None, Match::None, Match::None, Match::None];
        let mut left_repository = false;
        for layer in self.layers() {
            let git = counts_git && !left_repository;
            let [first, second] = &layer.extra;
            let sources = [(first, true), (second, true), (&layer.gitignore, git), (&layer.exclude, git)];
            for (found, (rules, counts)) in found.iter_mut().zip(sources) {
                if let (true, Some(rules), true) = (found.is_none(), rules, counts) {
                    *found = rules.matched(path, is_folder);
                }
            }
            left_repository |= layer.begins_repository;
        }
        match found.into_iter().find(|found| !found.is_none()) {
            Some(found) => found.is_ignore(),
            None => counts_git && self.dialect.global.matched(path, is_folder).is_ignore(),
        }
    }

    fn layers(&self) -> impl Iterator<Item = &Layer> {
        std::iter::successors(self.nearest.as_deref(), |layer| layer.parent.as_deref())
    }

    /// Whether everything in a folder is left out, for rules without exceptions.
    fn leave_nothing(&self, folder: &Path) -> bool {
        // No rule is about this very name.
        let any = folder.join(".agentd any name");
        let sources = |layer: &Layer| {
            let [first, second] = &layer.extra;
            let all = [first, second, &layer.gitignore, &layer.exclude];
            all.into_iter().flatten().map(Gitignore::num_whitelists).sum::<u64>()
        };
        self.is_ignored(&any, false) && self.is_ignored(&any, true) && self.layers().map(sources).sum::<u64>() == 0
    }
}

/// Reads a file of rules that hold in `folder`; nothing when it cannot be read or holds none.
fn read(folder: &Path, path: &Path) -> Option<Gitignore> {
    let (file, _) = open_regular(path, None).ok()?;
    let text = read_text(&file).ok()?;
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.trim_start_matches('\u{feff}').lines().filter(|line| globs::check_size(line).is_ok()) {
        // A line that git would not understand either holds for nothing.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

fn read_text(file: &File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_IGNORE_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

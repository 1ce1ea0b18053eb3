//! The files that rules are kept in.
//!
//! They are looked at for each tool call, so that a change counts at once, whoever made it; what is as it was is not parsed
//! again. A file that cannot be used may have held a rule that forbids, and so everything is asked about until it can.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use agentd_protocol::methods::{Rule, RuleScope};
use thiserror::Error;

use super::rules::{Prepared, RuleFault, Rules, WrongRule, add_rule, parse_rules, remove_rule};
use crate::constants::{MAX_RULES_BYTES, PROJECT_DIR, RULES_FILE};
use crate::own_file::{self, Version, WriteLock};

/// How often a change is tried again that somebody's edit by hand got in the way of.
const TRIES: usize = 10;
/// Files whose rules are remembered. With more, all are forgotten and read again.
const MOST_FILES: usize = 64;

/// Why a file of rules was not changed.
#[derive(Debug, Error)]
pub enum RuleFileError {
    /// The rule says nothing that could be followed.
    #[error(transparent)]
    Wrong(#[from] WrongRule),
    /// Reading or writing failed, or what is in the file cannot be kept.
    #[error("the rules in {} cannot be changed: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// What is to be done with a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleEdit {
    /// It is added, unless it is there.
    Add,
    /// It is taken out.
    Remove,
}

/// What decides how a file's rules are read: where it is, and what `~` means.
type Key = (PathBuf, Option<PathBuf>);

/// Reads and changes the files of rules.
#[derive(Debug)]
pub struct RuleFiles {
    user: PathBuf,
    known: Mutex<HashMap<Key, (Version, Arc<Rules>)>>,
}

impl RuleFiles {
    /// Returns the files of a user with this settings folder. Nothing is read yet.
    pub fn new(config_dir: &Path) -> Self {
        Self { user: config_dir.join(RULES_FILE), known: Mutex::default() }
    }

    /// Returns the file of a scope; `folder` is that of the project.
    pub fn path(&self, scope: RuleScope, folder: &Path) -> PathBuf {
        match scope {
            RuleScope::User => self.user.clone(),
            RuleScope::Project => folder.join(PROJECT_DIR).join(RULES_FILE),
        }
    }

    /// Returns the rules for a folder, a canonical path: the user's, and the project's if `is_trusted` says so, which is
    /// asked only if there are any. `home` is what `~` stands for. Blocks.
    pub fn load(&self, folder: &Path, home: Option<&Path>, is_trusted: impl FnOnce() -> bool) -> Arc<Rules> {
        let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
        let user = self.read(RuleScope::User, folder, home.as_deref());
        let project_file = self.path(RuleScope::Project, folder);
        if std::fs::symlink_metadata(&project_file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            || !is_trusted()
        {
            return user;
        }
        let project = self.read(RuleScope::Project, folder, home.as_deref());
        match (user.is_empty(), project.is_empty()) {
            (_, true) => user,
            (true, _) => project,
            _ => Arc::new(Rules {
                rules: [user.rules.as_slice(), &project.rules].concat(),
                faults: [user.faults.as_slice(), &project.faults].concat(),
            }),
        }
    }

    fn read(&self, scope: RuleScope, folder: &Path, home: Option<&Path>) -> Arc<Rules> {
        let path = self.path(scope, folder);
        let base = (scope == RuleScope::Project).then_some(folder);
        let (bytes, version) = match own_file::read(&path, MAX_RULES_BYTES) {
            Ok(Some(read)) => read,
            Ok(None) => return Arc::default(),
            Err(error) => return unusable(path, &error.to_string()),
        };
        let key = (path, home.map(Path::to_owned));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, rules)) = known.get(&key).filter(|(known, _)| *known == version) {
            return Arc::clone(rules);
        }
        let Ok(text) = std::str::from_utf8(&bytes) else { return unusable(key.0, "it is not valid UTF-8") };
        let rules = Arc::new(parse_rules(text.trim_start_matches('\u{feff}'), &key.0, scope, base, home));
        for fault in &rules.faults {
            tracing::warn!("{fault}");
        }
        if known.len() >= MOST_FILES {
            known.clear();
        }
        known.insert(key, (version, Arc::clone(&rules)));
        rules
    }

    /// Adds a rule to a file or takes it out; comments in the file stay. Returns the file and whether it was changed.
    /// Blocks.
    ///
    /// # Errors
    /// The rule says nothing that could be followed, or the file cannot be read or written; it is as it was.
    pub fn change(
        &self,
        edit: RuleEdit,
        rule: &Rule,
        scope: RuleScope,
        folder: &Path,
    ) -> Result<(PathBuf, bool), RuleFileError> {
        if edit == RuleEdit::Add {
            // What `~` stands for does not matter here.
            Prepared::new(rule.clone(), Some(scope), None, Some(Path::new("/")))?;
        }
        let path = self.path(scope, folder);
        let changed = change(&path, edit, rule).map_err(|why| RuleFileError::File { path: path.clone(), why })?;
        Ok((path, changed))
    }
}

fn unusable(file: PathBuf, message: &str) -> Arc<Rules> {
    tracing::warn!(file = %file.display(), message, "a file of rules cannot be used");
    let fault = RuleFault { file, line: None, message: message.to_owned(), tool: None, is_harmless: false };
    Arc::new(Rules { rules: Vec::new(), faults: vec![fault] })
}

fn change(path: &Path, edit: RuleEdit, rule: &Rule) -> Result<bool, String> {
    let said = |error: io::Error| error.to_string();
    let lock = WriteLock::take(path).map_err(said)?;
    for _ in 0..TRIES {
        let read = own_file::read(path, MAX_RULES_BYTES).map_err(said)?;
        let (bytes, version) = read.map_or((Vec::new(), None), |(bytes, version)| (bytes, Some(version)));
        let text = String::from_utf8(bytes).map_err(|_| "it is not valid UTF-8".to_owned())?;
        let new = match edit {
            RuleEdit::Add => add_rule(&text, rule)?,
            RuleEdit::Remove => remove_rule(&text, rule)?.0,
        };
        if new == text {
            return Ok(false);
        }
        if new.len() as u64 > MAX_RULES_BYTES {
            return Err("there are too many rules".to_owned());
        }
        if lock.replace(version, new.as_bytes()).map_err(said)? {
            return Ok(true);
        }
    }
    Err("somebody else changes it all the time".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use agentd_protocol::methods::RuleAction;
    use pretty_assertions::assert_eq;

    use super::*;

    fn rule(command: &str) -> Rule {
        Rule { action: RuleAction::Deny, tool: "bash".into(), command: Some(command.into()), path: None }
    }

    fn commands(rules: &Rules) -> Vec<String> {
        rules.rules.iter().filter_map(|rule| rule.rule.command.clone()).collect()
    }

    #[test]
    fn a_change_counts_at_once_and_a_projects_rules_only_where_it_is_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let (config, project) = (dir.path().join("config"), dir.path().join("project"));
        fs::create_dir(&project).unwrap();
        let files = RuleFiles::new(&config);
        let load = |is_trusted| files.load(&project, None, || is_trusted);
        assert!(load(true).is_empty());
        let add = |command, scope| files.change(RuleEdit::Add, &rule(command), scope, &project).unwrap().1;
        assert_eq!((add("rm", RuleScope::User), add("rm", RuleScope::User)), (true, false));
        assert_eq!(commands(&load(true)), ["rm"]);
        assert!(add("mv", RuleScope::Project));
        assert_eq!(
            (commands(&load(true)), commands(&load(false))),
            (vec!["rm".into(), "mv".into()], vec!["rm".into()])
        );
        // By hand, with the size it had.
        let path = config.join(RULES_FILE);
        let text = fs::read_to_string(&path).unwrap().replace("rm", "cp");
        fs::write(&path, text).unwrap();
        assert_eq!(commands(&load(false)), ["cp"]);
        let removed = files.change(RuleEdit::Remove, &rule("cp"), RuleScope::User, &project).unwrap();
        assert_eq!((removed, commands(&load(false))), ((path, true), vec![]));
        let wide = Rule { action: RuleAction::Allow, ..rule("bash") };
        assert!(files.change(RuleEdit::Add, &wide, RuleScope::User, &project).is_err());
    }

    #[test]
    fn a_file_that_cannot_be_used_has_everything_asked_about_and_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let files = RuleFiles::new(dir.path());
        let path = dir.path().join(RULES_FILE);
        for bytes in [&b"[[rule"[..], b"\xff\xfe", &[b'#'; 300 * 1024]] {
            fs::write(&path, bytes).unwrap();
            assert!(files.load(dir.path(), None, || true).fault_for("read").is_some());
            assert!(files.change(RuleEdit::Add, &rule("rm"), RuleScope::User, dir.path()).is_err());
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(files.load(dir.path(), None, || true).fault_for("bash").is_some());
    }
}

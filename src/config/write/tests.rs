use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::Arc;

use pretty_assertions::assert_eq;

use super::*;
use crate::config::settings::{KEYS, Layer, read_assignment};
use crate::trust::TrustStore;

fn live(dir: &Path) -> LiveSettings {
    let trust = TrustStore::new(&dir.join("state"));
    LiveSettings::start(dir.join("conf/config.toml"), None, trust, Layer::default(), Layer::default())
}

fn set(live: &LiveSettings, target: &ConfigTarget, assignment: &str) -> Result<PathBuf, WriteError> {
    let (key, value) = read_assignment(assignment).unwrap();
    live.write(target, key, Some(&value))
}

#[test]
fn a_file_is_made_for_its_owner_alone_and_a_link_to_it_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let live = live(dir.path());
    let path = set(&live, &ConfigTarget::User, "max_turns=5").unwrap();
    assert_eq!(path, dir.path().join("conf/config.toml"));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let real = dir.path().join("dotfiles.toml");
    fs::rename(&path, &real).unwrap();
    symlink(&real, &path).unwrap();
    set(&live, &ConfigTarget::User, "max_turns=6").unwrap();
    assert!(path.is_symlink());
    assert_eq!(fs::read_to_string(&real).unwrap(), "max_turns = 6\n");
    fs::remove_file(&real).unwrap();
    let error = set(&live, &ConfigTarget::User, "max_turns=7").unwrap_err().to_string();
    assert!(error.ends_with("it is a symbolic link that leads nowhere"), "{error}");
}

#[test]
fn a_project_has_its_file_and_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("repo/.git")).unwrap();
    fs::create_dir_all(dir.path().join("repo/src")).unwrap();
    let live = live(dir.path());
    let target = ConfigTarget::Project { cwd: dir.path().join("repo/src"), home: None };
    let path = set(&live, &target, "max_turns=5").unwrap();
    assert_eq!(path, dir.path().canonicalize().unwrap().join("repo/.agentd/config.toml"));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    let gone = ConfigTarget::Project { cwd: dir.path().join("gone"), home: None };
    assert!(matches!(set(&live, &gone, "max_turns=5"), Err(WriteError::NoFolder(_))));
}

#[test]
fn b204_a_broken_file_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let live = live(dir.path());
    fs::create_dir(dir.path().join("conf")).unwrap();
    for text in ["a = 1\nb = \n".as_bytes(), b"\xff\xfe"] {
        fs::write(live.user_file(), text).unwrap();
        let error = set(&live, &ConfigTarget::User, "max_turns=5").unwrap_err().to_string();
        assert!(error.contains("left as it is") || error.contains("not valid UTF-8"), "{error}");
        assert_eq!(fs::read(live.user_file()).unwrap(), text);
    }
}

#[test]
fn b204_no_change_is_lost_when_many_write_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let live = Arc::new(live(dir.path()));
    let keys: Vec<_> = KEYS.iter().copied().filter(|key| key.name.ends_with("_ms")).collect();
    assert!(keys.len() >= 5, "{}", keys.len());
    let writers: Vec<_> = keys
        .iter()
        .map(|key| {
            let (live, key) = (Arc::clone(&live), *key);
            std::thread::spawn(move || live.write(&ConfigTarget::User, key, Some(&Value::Number(7))).unwrap())
        })
        .collect();
    writers.into_iter().for_each(|writer| drop(writer.join().unwrap()));
    let held = live.of_daemon();
    for key in keys {
        assert_eq!(held.resolved.value(key), Some(&Value::Number(7)), "{}", key.name);
    }
}

#[test]
fn b204_a_writer_that_hangs_is_not_waited_for_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let live = live(dir.path());
    let _held = WriteLock::take(live.user_file()).unwrap();
    let error = set(&live, &ConfigTarget::User, "max_turns=5").unwrap_err().to_string();
    assert!(error.ends_with("another process is writing it and does not finish"), "{error}");
    assert!(!live.user_file().exists());
}

use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;

use super::*;

fn put(path: &Path, content: &str) {
    let target = final_target(path).unwrap();
    replace_content(&target, &[content.as_bytes()], &records(path), &Gate::default()).unwrap();
}

/// Beside the folder of the file.
fn records(path: &Path) -> PathBuf {
    path.parent().unwrap().with_extension("records")
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn mode_is_kept_and_nothing_stays_behind() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [0o755, 0o600, 0o640] {
        let path = dir.path().join(format!("{mode:o}"));
        fs::write(&path, "old content").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        put(&path, "new");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, mode);
    }
    assert_eq!(names(dir.path()), ["600", "640", "755"]);
}

#[test]
fn new_files_have_the_usual_mode() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, plain) = (dir.path().join("ours"), dir.path().join("plain"));
    put(&ours, "a");
    fs::write(&plain, "a").unwrap();
    assert_eq!(ours.metadata().unwrap().mode(), plain.metadata().unwrap().mode());
    assert_eq!(names(dir.path()), ["ours", "plain"]);
}

#[test]
fn symbolic_links_stay_and_their_target_changes() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/real"), "old").unwrap();
    symlink("sub/real", dir.path().join("link")).unwrap();
    symlink("link", dir.path().join("link2")).unwrap();
    symlink("sub/later", dir.path().join("dangling")).unwrap();
    put(&dir.path().join("link2"), "new");
    put(&dir.path().join("dangling"), "made");
    assert_eq!(fs::read_to_string(dir.path().join("sub/real")).unwrap(), "new");
    assert_eq!(fs::read_to_string(dir.path().join("sub/later")).unwrap(), "made");
    assert!(dir.path().join("link2").is_symlink() && dir.path().join("dangling").is_symlink());
}

#[test]
fn link_loops_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    symlink("b", dir.path().join("a")).unwrap();
    symlink("a", dir.path().join("b")).unwrap();
    assert_eq!(final_target(&dir.path().join("a")).unwrap_err().raw_os_error(), Some(Errno::ELOOP as i32));
}

#[test]
fn hard_links_stay_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    fs::write(&a, "old and longer").unwrap();
    fs::hard_link(&a, &b).unwrap();
    for content in ["short", "much longer than it was before"] {
        put(&a, content);
        assert_eq!(fs::read_to_string(&b).unwrap(), content);
    }
    assert_eq!(a.metadata().unwrap().ino(), b.metadata().unwrap().ino());
}

#[test]
fn other_kinds_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = replace_content(&fifo, &[b"x"], &records(&fifo), &Gate::default()).unwrap_err();
    assert!(matches!(error, ReplaceError::Open(OpenError::NotRegular("a named pipe (FIFO)"))));
    let error = replace_content(dir.path(), &[b"x"], &records(&fifo), &Gate::default()).unwrap_err();
    assert!(matches!(error, ReplaceError::Open(OpenError::Io(error)) if node_code(&error) == "EISDIR"));
}

fn node_code(error: &io::Error) -> String {
    super::super::node_error::code(error)
}

#[test]
fn a_stopped_call_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let other = dir.path().join("g");
    fs::write(&path, "old").unwrap();
    let gate = Gate::default();
    assert!(gate.stop_for_test());
    for target in [&path, &other] {
        let error = replace_content(target, &[b"new"], &records(target), &gate).unwrap_err();
        assert!(matches!(error, ReplaceError::Stopped));
    }
    fs::hard_link(&path, dir.path().join("h")).unwrap();
    assert!(matches!(replace_content(&path, &[b"new"], &records(&path), &gate), Err(ReplaceError::Stopped)));
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(names(dir.path()), ["f", "h"]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "mounting is no work of tools")]
fn a_full_disk_leaves_the_old_content() {
    // /dev/full cannot hold a folder; a file size limit would hit the whole test process. A tmpfs of a known size
    // needs privileges, so this runs where we have them.
    let dir = tempfile::tempdir().unwrap();
    let mount =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(dir.path()).status();
    if !mount.is_ok_and(|status| status.success()) {
        return;
    }
    let outcome = std::panic::catch_unwind(|| {
        let path = dir.path().join("f");
        let big = vec![b'x'; 200_000];
        for linked in [false, true] {
            fs::write(&path, "old").unwrap();
            if linked {
                fs::hard_link(&path, dir.path().join("g")).unwrap();
            }
            let error = replace_content(&path, &[&big], &records(&path), &Gate::default()).unwrap_err();
            assert!(matches!(error, ReplaceError::Open(OpenError::Io(error)) if node_code(&error) == "ENOSPC"));
            assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        }
        assert_eq!(names(dir.path()), ["f", "g"]);
    });
    std::process::Command::new("umount").arg(dir.path()).status().unwrap();
    outcome.unwrap();
}

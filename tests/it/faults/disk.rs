//! Changes of files that cannot come to their end: no room, a kill in the middle, far too much.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::calls::Calls;
use crate::harness::{Daemon, Home, bounded};

const MIB: usize = 1024 * 1024;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns how many files are being overwritten in place, or were when a daemon ended.
fn records(home: &Home) -> usize {
    fs::read_dir(home.state().join("agentd/overwrites")).into_iter().flatten().count()
}

/// Lets no file of the daemon grow beyond a size: to its writes a full disk, at a known byte.
fn limit_files(daemon: &Daemon, size: &str) {
    let status = Command::new("prlimit")
        .args(["--pid", &daemon.pid().to_string(), &format!("--fsize={size}:")])
        .status()
        .expect("prlimit of util-linux");
    assert!(status.success());
}

#[tokio::test]
async fn b114_without_room_the_old_content_stays() {
    let mut calls = Calls::start().await;
    limit_files(calls.daemon(), &(8 * MIB).to_string());
    let cwd = calls.home().cwd();
    let old = format!("key{}", "x".repeat(8 * MIB - 1000));
    for name in ["alone", "linked"] {
        calls.home().write(name, &old);
    }
    fs::hard_link(cwd.join("linked"), cwd.join("other")).unwrap();
    for name in ["alone", "linked"] {
        let error = calls.edit(name, &[("key", &"k".repeat(2000))]).await.unwrap_err();
        assert!(error.ends_with("Error code: EFBIG."), "{name}: {error}");
        assert!(calls.home().read(name) == old, "{name}");
    }
    assert_eq!(names(&cwd), ["alone", "linked", "other"]);
    assert_eq!(records(calls.home()), 0);
    limit_files(calls.daemon(), "unlimited");
    for name in ["alone", "linked"] {
        calls.edit(name, &[("key", "new")]).await.unwrap();
        assert!(calls.home().read(name) == old.replacen("key", "new", 1), "{name}");
    }
    assert!(calls.home().read("other").starts_with("new"));
    assert_eq!(names(&cwd), ["alone", "linked", "other"]);
}

/// Waits until the daemon has written this much of the new content, or has put it in the place of the old.
async fn until_written(daemon: &Daemon, file: &Path, bytes: usize) {
    let inode = || fs::metadata(file).map_or(0, |facts| facts.ino());
    let before = inode();
    // The new content is in a file beside the old one, which may have no name yet.
    let is_draft = |path: &Path| path.parent() == file.parent() && path != file;
    let is_begun = || {
        fs::read_dir(format!("/proc/{}/fd", daemon.pid())).into_iter().flatten().flatten().any(|entry| {
            fs::read_link(entry.path()).is_ok_and(|path| is_draft(&path))
                && fs::metadata(entry.path()).is_ok_and(|facts| facts.is_file() && facts.len() > bytes as u64)
        })
    };
    let wait = async {
        while !is_begun() && inode() == before {
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
    };
    bounded("the write", wait).await;
}

#[tokio::test]
async fn b114_a_kill_in_mid_write_leaves_the_old_or_the_new_content() {
    let old = format!("old {}", "a line of text\n".repeat(50 * MIB / 15));
    let new = old.replacen("old", "new", 1);
    let mut calls = Calls::start().await;
    let mut in_mid_write = 0;
    for written in [0, MIB, 10 * MIB, 25 * MIB, 40 * MIB] {
        calls.home().write("big", &old);
        calls.begin("edit", json!({"path": "big", "edits": [{"oldText": "old", "newText": "new"}]})).await;
        until_written(calls.daemon(), &calls.home().cwd().join("big"), written).await;
        calls.kill();
        calls.restart().await;
        let content = calls.home().read("big");
        assert!(content == old || content == new, "after {written} bytes: {} bytes", content.len());
        in_mid_write += usize::from(content == old);
        assert_eq!(names(&calls.home().cwd()), ["big"], "after {written} bytes");
    }
    assert!(in_mid_write > 0, "each kill came after the write");
}

fn first_byte(file: &Path) -> u8 {
    let mut byte = [0];
    fs::File::open(file).unwrap().read_exact_at(&mut byte, 0).unwrap();
    byte[0]
}

#[tokio::test]
async fn b114_a_kill_while_a_linked_file_is_overwritten_is_mended_by_the_next_daemon() {
    let old = format!("old {}", "a line of text\n".repeat(50 * MIB / 15));
    let new = old.replacen("old", "newer", 1);
    let mut calls = Calls::start().await;
    let file = calls.home().cwd().join("big");
    calls.home().write("big", "");
    fs::hard_link(&file, calls.home().cwd().join("other")).unwrap();
    let mut mixes = 0;
    for _ in 0..3 {
        calls.home().write("big", &old);
        calls.begin("edit", json!({"path": "big", "edits": [{"oldText": "old", "newText": "newer"}]})).await;
        let begun = async {
            while first_byte(&file) != b'n' {
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
        };
        bounded("the write", begun).await;
        calls.kill();
        let content = calls.home().read("big");
        mixes += usize::from(content != old && content != new);
        calls.restart().await;
        let mended = async {
            while records(calls.home()) > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        bounded("the mending", mended).await;
        let content = calls.home().read("big");
        assert!(content == old || content == new, "{} bytes", content.len());
        assert!(calls.home().read("other") == content);
    }
    assert!(mixes > 0, "each kill came after the write");
}

#[tokio::test]
async fn b118_a_log_of_300_mb_is_read_searched_and_edited_in_bounded_memory() {
    let block = "2026-11-30 10:08:22 a line of a log like any other\n".repeat(MIB / 51);
    let mut calls = Calls::start().await;
    let log = calls.home().cwd().join("log");
    let mut file = fs::File::create(&log).unwrap();
    for number in 0..300 {
        file.write_all(block.as_bytes()).unwrap();
        writeln!(file, "needle {number}").unwrap();
    }
    let size = usize::try_from(file.metadata().unwrap().len()).unwrap();
    drop(file);
    let before = calls.daemon().memory("VmRSS");
    let read = calls.call("read", json!({"path": "log", "offset": 20_000, "limit": 3})).await.unwrap();
    assert!(read.contains(" more lines in file. Use offset=20003 to continue.]"), "{read}");
    let found = calls.call("grep", json!({"path": "log", "pattern": "needle 29\\d"})).await.unwrap();
    assert_eq!(found.lines().count(), 10, "{found}");
    let after_reading = calls.daemon().memory("VmHWM");
    assert!(after_reading < before + 64 * MIB, "{before} bytes before, at most {after_reading} while reading");
    calls.edit("log", &[("needle 299", "thread 299")]).await.unwrap();
    let (peak, after) = (calls.daemon().memory("VmHWM"), calls.daemon().memory("VmRSS"));
    assert!(
        peak < before + size + 64 * MIB && after < before + 64 * MIB,
        "{size} bytes: at most {peak}, {after} after"
    );
    assert_eq!(fs::metadata(&log).unwrap().len(), size as u64);
    let text = calls.call("grep", json!({"path": "log", "pattern": "thread", "limit": 1})).await.unwrap();
    assert!(text.ends_with("thread 299"), "{text}");
    let session = fs::metadata(&calls.home().session_files()[0]).unwrap().len();
    assert!(session < 1_000_000, "the session holds no copy of the file");
}

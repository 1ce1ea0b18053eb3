//! Reading: what is no file of data, ends of files, and what cannot be opened.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use pretty_assertions::assert_eq;
use serde_json::json;

use super::calls::Calls;
use super::descriptors;
use super::lease::{Lease, WhenAsked};

#[tokio::test]
async fn b120_what_is_no_file_of_data_is_refused_at_once() {
    let mut calls = Calls::start().await;
    let cwd = calls.home().cwd();
    nix::unistd::mkfifo(&cwd.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(cwd.join("socket")).unwrap();
    symlink("pipe", cwd.join("link")).unwrap();
    for path in ["pipe", "link", "socket", "/dev/zero", "/dev/random", "/dev/tty"] {
        let text = calls.read(path).await.unwrap_err();
        assert!(text.starts_with("Not a regular file: "), "{path}: {text}");
    }
    let edit = calls.edit("pipe", &[("a", "b")]).await.unwrap_err();
    assert!(edit.starts_with("Not a regular file: "), "{edit}");
    let status = calls.call("read", json!({"path": "/proc/self/status", "limit": 1})).await.unwrap();
    assert!(status.starts_with("Name:"), "{status}");
}

#[tokio::test]
async fn b124_offsets_past_the_end_say_how_long_the_file_is() {
    let mut calls = Calls::start().await;
    calls.home().write("cut", "1\n2\n3\n4\n5");
    calls.home().write("empty", "");
    let beyond = |offset: &str| format!("Offset {offset} is beyond end of file (5 lines total)");
    for (args, expected) in [
        (json!({"path": "cut", "offset": 5}), Ok("5".to_owned())),
        (json!({"path": "cut", "offset": 6}), Err(beyond("6"))),
        (json!({"path": "cut", "offset": 100}), Err(beyond("100"))),
        (json!({"path": "cut", "offset": 9_007_199_254_740_992_u64}), Err(beyond("9007199254740992"))),
        (json!({"path": "cut", "offset": 0}), Ok("1\n2\n3\n4\n5".to_owned())),
        (json!({"path": "cut", "offset": -1}), Ok("1\n2\n3\n4\n5".to_owned())),
        (json!({"path": "empty"}), Ok(String::new())),
    ] {
        assert_eq!(calls.call("read", args.clone()).await, expected, "{args}");
    }
}

#[tokio::test]
async fn b126_what_cannot_be_opened_is_an_answer() {
    let mut calls = Calls::start().await;
    std::fs::create_dir(calls.home().cwd().join("folder")).unwrap();
    symlink("nowhere", calls.home().cwd().join("dangling")).unwrap();
    for (path, code) in [("folder", "EISDIR"), ("missing", "ENOENT"), ("dangling", "ENOENT"), ("a\u{0}b", "")] {
        let text = calls.read(path).await.unwrap_err();
        assert!(text.contains(code), "{path:?}: {text}");
    }
    // Root may read everything.
    if !nix::unistd::geteuid().is_root() {
        calls.home().write("closed", "secret");
        std::fs::set_permissions(calls.home().cwd().join("closed"), std::fs::Permissions::from_mode(0o000)).unwrap();
        let text = calls.read("closed").await.unwrap_err();
        assert!(text.contains("EACCES"), "{text}");
    }
    calls.home().write("f", "still working");
    assert_eq!(calls.read("f").await.as_deref(), Ok("still working"));
}

/// Somebody else has the file and takes time to give it back, or takes it away meanwhile, or keeps it until the abort.
#[tokio::test]
async fn b126_a_file_that_is_held_back_is_waited_for_until_the_abort() {
    const ABORTS: usize = 3;
    if !Lease::can_be_taken() {
        return;
    }
    let mut calls = Calls::start().await;
    let path = calls.home().cwd().join("held");
    calls.home().write("held", "one");
    let held = Lease::take(&path, WhenAsked::GiveBack);
    assert_eq!(calls.read("held").await.as_deref(), Ok("one"));
    drop(held.until_asked());
    let held = Lease::take(&path, WhenAsked::GiveBack);
    calls.edit("held", &[("one", "two")]).await.unwrap();
    drop(held.until_asked());
    let held = Lease::take(&path, WhenAsked::GiveBack);
    calls.call("write", json!({"path": "held", "content": "three"})).await.unwrap();
    drop(held.until_asked());
    for tool in ["read", "grep"] {
        calls.home().write("held", "three");
        let held = Lease::take(&path, WhenAsked::RemoveIt);
        let text = calls.call(tool, json!({"path": "held", "pattern": "three"})).await.unwrap_err();
        assert!(text.starts_with("ENOENT: "), "{tool}: {text}");
        drop(held.until_asked());
    }
    calls.home().write("held", "four");
    let before = descriptors(calls.daemon());
    for _ in 0..ABORTS {
        let held = Lease::take(&path, WhenAsked::KeepIt);
        calls.begin("read", json!({"path": "held"})).await;
        let held = held.until_asked();
        assert_eq!(calls.abort().await, Err("Operation aborted".to_owned()));
        drop(held);
    }
    assert_eq!(calls.read("held").await.as_deref(), Ok("four"));
    // Connections to the model come and go.
    assert!(descriptors(calls.daemon()) < before + ABORTS);
}

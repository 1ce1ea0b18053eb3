use std::os::unix::fs::symlink;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::tools::test_support::{Place, replay};

async fn write_to(place: &Place, path: &str, content: &str) -> (bool, String) {
    let output = place.run("write", json!({"path": path, "content": content})).await;
    (output.is_error, output.first_text().to_owned())
}

#[tokio::test]
async fn as_recorded() {
    replay("edit-write", |_, recorded| recorded.tool == "write").await;
}

#[tokio::test]
async fn content_is_written_byte_for_byte() {
    let place = Place::new();
    for content in ["", "a\r\nb\rc\n", "\u{feff}héé 🌍", "no end"] {
        assert_eq!(write_to(&place, "deep/er/f", content).await, (false, "Successfully wrote to deep/er/f".to_owned()));
        place.check_file("deep/er/f", content);
    }
}

#[tokio::test]
async fn names_are_taken_literally() {
    let place = Place::new();
    place.put("it\u{2019}s", "kept");
    write_to(&place, "it's", "new").await;
    place.check_file("it\u{2019}s", "kept");
    write_to(&place, "~/sub/f", "home").await;
    assert_eq!(fs::read_to_string(place.cwd().join("../h/sub/f")).unwrap(), "home");
}

#[tokio::test]
async fn refusals_leave_things_as_they_are() {
    let place = Place::new();
    place.put("file", "text");
    nix::unistd::mkfifo(&place.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink("nowhere/f", place.path("dangling")).unwrap();
    symlink("nowhere", place.path("folder")).unwrap();
    let cwd = place.cwd();
    let cwd = cwd.display();
    for (path, expected) in [
        ("file/x", format!("EEXIST: file already exists, mkdir '{cwd}/file'")),
        ("file/x/y", format!("ENOTDIR: not a directory, mkdir '{cwd}/file/x'")),
        ("new/", format!("EISDIR: illegal operation on a directory, open '{cwd}/new'")),
        ("fifo", format!("Not a regular file: '{cwd}/fifo' is a named pipe (FIFO)")),
        ("dangling", format!("ENOENT: no such file or directory, open '{cwd}/dangling'")),
        ("folder/f", format!("ENOTDIR: not a directory, mkdir '{cwd}/folder'")),
        ("/dev/null", "Not a regular file: '/dev/null' is a character device".to_owned()),
    ] {
        assert_eq!(write_to(&place, path, "new").await, (true, expected), "{path}");
    }
    place.check_file("file", "text");
}

#[tokio::test]
async fn writes_of_one_file_are_kept_apart() {
    let place = Arc::new(Place::new());
    symlink("f", place.path("link")).unwrap();
    let (sender, _receiver) = mpsc::channel(1);
    let context = place.context(sender);
    let contents: Vec<String> = (0..8).map(|n| n.to_string().repeat(200_000)).collect();
    let runs = contents.iter().enumerate().map(|(n, content)| {
        let path = if n % 2 == 0 { "f" } else { "link" };
        place.run_in("write", json!({"path": path, "content": content}), context.clone())
    });
    for output in futures_util::future::join_all(runs).await {
        assert!(!output.is_error);
    }
    let found = fs::read_to_string(place.path("f")).unwrap();
    assert!(contents.contains(&found));
}

#[tokio::test]
async fn an_aborted_call_writes_nothing() {
    let place = Place::new();
    place.cancel.cancel();
    assert_eq!(write_to(&place, "sub/f", "x").await, (true, "Operation aborted".to_owned()));
    assert!(!place.path("sub").exists());
}

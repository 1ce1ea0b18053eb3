use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::*;
use crate::tools::ToolOutput;
use crate::tools::test_support::Place;

/// A place whose calls are those of one session.
fn session() -> Place {
    let mut place = Place::new();
    place.known_files = Some(KnownFiles::default());
    place
}

async fn read(place: &Place, name: &str) {
    assert!(!place.run("read", json!({"path": name})).await.is_error);
}

async fn edit(place: &Place, name: &str, old: &str, new: &str) -> ToolOutput {
    place.run("edit", json!({"path": name, "edits": [{"oldText": old, "newText": new}]})).await
}

async fn write(place: &Place, name: &str, content: &str) -> ToolOutput {
    place.run("write", json!({"path": name, "content": content})).await
}

#[track_caller]
fn check_refused(output: &ToolOutput, name: &str) {
    assert!(output.is_error);
    assert_eq!(output.first_text(), changed_text(name));
}

#[tokio::test]
async fn a_file_that_changed_is_to_be_read_again() {
    let place = session();
    place.put("f", "one\n");
    read(&place, "f").await;
    // Of the same length, and in the same tick of the clock.
    place.put("f", "two\n");
    check_refused(&edit(&place, "f", "two", "three").await, "f");
    check_refused(&write(&place, "f", "three\n").await, "f");
    place.check_file("f", "two\n");
    read(&place, "f").await;
    assert!(!edit(&place, "f", "two", "three").await.is_error);
    place.put("f", "four\n");
    check_refused(&edit(&place, "f", "four", "five").await, "f");
}

#[tokio::test]
async fn own_changes_are_known() {
    let place = session();
    assert!(!write(&place, "f", "one\n").await.is_error);
    fs::hard_link(place.path("f"), place.path("g")).unwrap();
    assert!(!edit(&place, "f", "one", "two").await.is_error);
    fs::remove_file(place.path("g")).unwrap();
    assert!(!edit(&place, "f", "two", "three").await.is_error);
    assert!(!write(&place, "f", "four\n").await.is_error);
    place.check_file("f", "four\n");
}

#[tokio::test]
async fn a_touch_is_no_change() {
    let place = session();
    place.put("f", "one\n");
    read(&place, "f").await;
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(60);
    fs::File::options().write(true).open(place.path("f")).unwrap().set_modified(then).unwrap();
    assert!(!edit(&place, "f", "one", "two").await.is_error);
    // An editor that saves the same content as a new file.
    place.put("new", "two\n");
    fs::rename(place.path("new"), place.path("f")).unwrap();
    assert!(!write(&place, "f", "three\n").await.is_error);
}

#[tokio::test]
async fn files_that_were_never_seen_or_are_gone_may_be_written() {
    let place = session();
    place.put("f", "one\n");
    assert!(!edit(&place, "f", "one", "two").await.is_error);
    fs::remove_file(place.path("f")).unwrap();
    assert!(!write(&place, "f", "new\n").await.is_error);
    // A read that gave nothing does not count.
    place.put("g", "one\n");
    assert!(place.run("read", json!({"path": "g", "offset": 9})).await.is_error);
    place.put("g", "two\n");
    assert!(!edit(&place, "g", "two", "three").await.is_error);
}

#[tokio::test]
async fn names_of_one_file_are_the_same() {
    let place = session();
    place.put("f", "one\n");
    std::os::unix::fs::symlink("f", place.path("link")).unwrap();
    read(&place, "link").await;
    place.put("f", "two\n");
    check_refused(&write(&place, "./f", "three\n").await, "./f");
}

#[tokio::test]
async fn of_a_large_file_the_facts_decide() {
    let place = session();
    let large = "line\n".repeat(usize::try_from(KNOWN_HASH_BYTES).unwrap() / 5 + 1);
    place.put("f", &large);
    read(&place, "f").await;
    assert!(!write(&place, "f", &large).await.is_error);
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(60);
    fs::File::options().write(true).open(place.path("f")).unwrap().set_modified(then).unwrap();
    check_refused(&write(&place, "f", "short").await, "f");
}

#[tokio::test]
async fn sessions_that_do_not_care_are_not_told() {
    let place = Place::new();
    place.put("f", "one\n");
    read(&place, "f").await;
    place.put("f", "two\n");
    assert!(!edit(&place, "f", "two", "three").await.is_error);
}

#[test]
fn a_read_does_not_undo_what_was_noted_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("f");
    let known = KnownFiles::default();
    let since = known.now();
    fs::write(&path, "new").unwrap();
    let metadata = path.metadata().unwrap();
    known.note_change(&path, Some(&metadata), &[b"n", b"ew"]);
    known.note_read(&path, &metadata, hash_of(&[b"old"]), since);
    assert!(!known.is_other_on_disk(&path, &Gate::default()));
    known.note_read(&path, &metadata, hash_of(&[b"old"]), known.now());
    assert!(known.is_other_on_disk(&path, &Gate::default()));
}

#[test]
fn what_was_seen_longest_ago_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let metadata = dir.path().metadata().unwrap();
    let known = KnownFiles::default();
    for number in 0..=KNOWN_FILES {
        known.note_change(&dir.path().join(number.to_string()), Some(&metadata), &[b"x"]);
    }
    assert_eq!(known.table().files.len(), KNOWN_FILES);
    assert!(!known.is_other(&dir.path().join("0"), &metadata, b"y"));
    assert!(known.is_other(&dir.path().join("1"), &metadata, b"y"));
}

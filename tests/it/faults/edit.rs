//! Edits and writes: no byte but those that were meant.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use pretty_assertions::assert_eq;
use serde_json::json;

use super::calls::Calls;

#[tokio::test]
async fn b026_loose_arguments_mean_what_they_can_only_mean() {
    let mut calls = Calls::start().await;
    calls.home().write("f", "a\nb\nc\n");
    let read = calls.call("read", json!({"path": "f", "offset": "2", "limit": null})).await;
    assert_eq!(read.as_deref(), Ok("b\nc\n"));
    let edit = |old: &str, new: &str| json!({"oldText": old, "newText": new});
    for (args, after) in [
        (json!({"path": "f", "edits": json!([edit("a", "A")]).to_string()}), "A\nb\nc\n"),
        (json!({"path": "f", "edits": edit("b", "B")}), "A\nB\nc\n"),
        (json!({"path": "f", "edits": [edit("c", "C")], "description": "make it large"}), "A\nB\nC\n"),
        (json!({"path": "f", "oldText": "A", "newText": "aa", "edits": null}), "aa\nB\nC\n"),
    ] {
        calls.call("edit", args).await.unwrap();
        assert_eq!(calls.home().read("f"), after);
    }
    // Nothing stands for nothing: a required text is not read as an empty one.
    let missing = calls.call("write", json!({"path": "f", "content": null})).await.unwrap_err();
    assert!(missing.contains("content"), "{missing}");
    assert_eq!(calls.home().read("f"), "aa\nB\nC\n");
}

#[tokio::test]
async fn b108_line_ends_outside_the_edit_stay() {
    let mut calls = Calls::start().await;
    for (before, edits, after) in [
        ("a\r\nb\r\nc\r\n", ("a\nb\n", "x\ny\nz\n"), "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\nc\r\n", ("b", "B"), "a\r\nB\nc\r\n"),
        ("x\ry\nz", ("z", "Z"), "x\ry\nZ"),
    ] {
        calls.check_edit(before, &[edits], Some(after)).await;
    }
}

#[tokio::test]
async fn b110_a_folded_match_changes_only_itself() {
    let mut calls = Calls::start().await;
    let before = "keep \u{201c}this\u{201d}  \nsay \u{2018}hi\u{2019} \u{2014} now\u{a0}\u{ff13}  \n";
    let after = "keep \u{201c}this\u{201d}  \nsay \"bye\" \u{2014} now\u{a0}\u{ff13}  \n";
    calls.check_edit(before, &[("'hi'", "\"bye\"")], Some(after)).await;
}

#[tokio::test]
async fn b112_all_edits_are_about_the_file_before_the_call() {
    let mut calls = Calls::start().await;
    for (edits, after) in [
        ([("A", "B"), ("B", "C")], Some("B C C")),
        ([("A B", "X"), ("B C", "Y")], None),
        ([("A ", "1"), ("B ", "2")], Some("12C")),
        ([("A", "1"), ("nowhere", "2")], None),
    ] {
        calls.check_edit("A B C", &edits, after).await;
    }
}

#[tokio::test]
async fn b114_modes_and_links_stay_and_nothing_is_left_behind() {
    let mut calls = Calls::start().await;
    let path = |name: &str| calls.home().cwd().join(name);
    let (script, link, target) = (path("run.sh"), path("link"), path("target"));
    let (one, two) = (path("one"), path("two"));
    for file in [&script, &target, &one] {
        std::fs::write(file, "old").unwrap();
    }
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o600)).unwrap();
    symlink("target", &link).unwrap();
    std::fs::hard_link(&one, &two).unwrap();
    for name in ["run.sh", "link", "one"] {
        calls.edit(name, &[("old", "new")]).await.unwrap();
        calls.call("write", json!({"path": name, "content": "newer"})).await.unwrap();
    }
    let mode = |file: &std::path::Path| std::fs::metadata(file).unwrap().mode() & 0o777;
    assert_eq!((mode(&script), mode(&target)), (0o755, 0o600));
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_to_string(&two).unwrap(), "newer");
    assert_eq!(std::fs::metadata(&one).unwrap().nlink(), 2);
    assert_eq!(std::fs::read_dir(calls.home().cwd()).unwrap().count(), 5);
}

#[tokio::test]
async fn b116_ends_of_files() {
    let mut calls = Calls::start().await;
    for (before, edit, after) in [
        ("", ("a", "b"), None),
        ("a", ("a", "b"), Some("b")),
        ("a\n", ("a", "b"), Some("b\n")),
        ("x\nb", ("b\n", "c\n"), None),
        ("all of it", ("all of it", ""), Some("")),
    ] {
        calls.check_edit(before, &[edit], after).await;
    }
}

#[tokio::test]
async fn b118_a_huge_line_is_edited_and_its_details_are_short() {
    let mut calls = Calls::start().await;
    let huge = format!("{{\"key\": \"value\", \"data\": \"{}\"}}", "x".repeat(20_000_000));
    calls.home().write("huge.json", &huge);
    calls.edit("huge.json", &[("\"value\"", "\"other\"")]).await.unwrap();
    assert_eq!(calls.home().read("huge.json"), huge.replacen("value", "other", 1));
    let file = &calls.home().session_files()[0];
    assert!(std::fs::metadata(file).unwrap().len() < 1_000_000, "the session holds no copy of the file");
}

#[tokio::test]
async fn a_file_that_changed_since_the_session_saw_it_is_read_again_first() {
    let mut calls = Calls::start().await;
    let check_refused = |result: Result<String, String>| {
        let text = result.unwrap_err();
        assert!(text.contains("changed on disk") && text.contains("Read it again"), "{text}");
    };
    calls.home().write("f", "one");
    calls.read("f").await.unwrap();
    calls.edit("f", &[("one", "two")]).await.unwrap();
    calls.edit("f", &[("two", "three")]).await.unwrap();
    // By somebody else.
    calls.home().write("f", "thrEE");
    check_refused(calls.edit("f", &[("thr", "f")]).await);
    check_refused(calls.call("write", json!({"path": "f", "content": "four"})).await);
    assert_eq!(calls.home().read("f"), "thrEE");
    assert_eq!(calls.read("f").await.as_deref(), Ok("thrEE"));
    calls.edit("f", &[("thrEE", "four")]).await.unwrap();
    // By a command of its own.
    calls.call("bash", json!({"command": "echo more >> f"})).await.unwrap();
    check_refused(calls.edit("f", &[("four", "five")]).await);
    calls.read("f").await.unwrap();
    // By another session, which never read it.
    let first = calls.other_session().await;
    calls.edit("f", &[("four", "five")]).await.unwrap();
    calls.go_back(first);
    check_refused(calls.edit("f", &[("five", "six")]).await);
    assert_eq!(calls.home().read("f"), "fivemore\n");
}

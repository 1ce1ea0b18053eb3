use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::tools::test_support::{Place, replay};

#[track_caller]
fn check(output: &ToolOutput, is_error: bool, text: &str) {
    assert_eq!((output.first_text(), output.is_error), (text, is_error));
}

async fn edit_one(place: &Place, path: &str, old: &str, new: &str) -> ToolOutput {
    place.run("edit", json!({"path": path, "edits": [{"oldText": old, "newText": new}]})).await
}

#[tokio::test]
async fn as_recorded() {
    // 12 is found by look-alikes: pi also drops the blanks that follow on the line, we touch nothing but the match.
    replay("edit-write", |at, _| at != 12).await;
    let place = Place::new();
    place.put("smart.txt", "it’s “x” – y   \nnext\n");
    check(
        &edit_one(&place, "smart.txt", "it's \"x\" - y", "plain").await,
        false,
        "Successfully replaced 1 block(s) in smart.txt.",
    );
    place.check_file("smart.txt", "plain   \nnext\n");
}

#[tokio::test]
async fn recorded_files_come_out_the_same() {
    let place = Place::new();
    place.put("crlf.txt", "a\r\nb\r\nc\r\n");
    edit_one(&place, "crlf.txt", "b\nc", "B\nC").await;
    place.check_file("crlf.txt", "a\r\nB\r\nC\r\n");
}

#[tokio::test]
async fn all_spellings_of_the_arguments() {
    let place = Place::new();
    let edit = json!({"oldText": "a", "newText": "b"});
    for arguments in [
        json!({"path": "f", "edits": [edit]}),
        json!({"path": "f", "edits": edit}),
        json!({"path": "f", "edits": json!([edit]).to_string()}),
        json!({"path": "f", "edits": edit.to_string()}),
        json!({"path": "f", "edits": [edit], "description": "what for"}),
        json!({"path": "f", "oldText": "a", "newText": "b"}),
        json!({"path": "f", "oldText": "a", "newText": "b", "edits": null}),
        json!({"path": "f", "oldText": "a", "newText": "b", "edits": []}),
        Value::from(json!({"path": "f", "oldText": "a", "newText": "b"}).to_string()),
    ] {
        place.put("f", "a");
        let output = place.run("edit", arguments.clone()).await;
        check(&output, false, "Successfully replaced 1 block(s) in f.");
        place.check_file("f", "b");
    }
    let output = place.run("edit", json!({"path": "f"})).await;
    assert!(output.first_text().contains("\n  - edits: missing\n"));
    let output = place.run("edit", json!({"path": "f", "edits": [{"oldText": "a"}]})).await;
    assert!(output.first_text().contains("\n  - edits.0.newText: missing\n"));
}

#[tokio::test]
async fn failures_write_nothing() {
    let place = Place::new();
    place.put("f", "a b a");
    place.put("empty", "");
    for (arguments, expected) in [
        (
            json!([{"oldText": "b", "newText": "x"}, {"oldText": "", "newText": "x"}]),
            "edits[1].oldText must not be empty in f.",
        ),
        (
            json!([{"oldText": "b", "newText": "x"}, {"oldText": "a", "newText": "x"}]),
            "Found 2 occurrences of edits[1] in f. Each oldText must be unique. Please provide more context to make it unique.",
        ),
        (
            json!([{"oldText": "b", "newText": "b"}, {"oldText": "a b", "newText": "a b"}]),
            "edits[1] and edits[0] overlap in f. Merge them into one edit or target disjoint regions.",
        ),
        (
            json!([{"oldText": "b", "newText": "b"}, {"oldText": "a b", "newText": "q"}, {"oldText": "zz", "newText": ""}]),
            "Could not find edits[2] in f. The oldText must match exactly including all whitespace and newlines.",
        ),
    ] {
        check(&place.run("edit", json!({"path": "f", "edits": arguments})).await, true, expected);
    }
    place.check_file("f", "a b a");
    let output = edit_one(&place, "empty", "a", "b").await;
    check(
        &output,
        true,
        "Could not find the exact text in empty. The old text must match exactly including all whitespace and newlines.",
    );
    place.check_file("empty", "");
}

#[tokio::test]
async fn what_is_no_file_is_refused() {
    let place = Place::new();
    place.put("it\u{2019}s", "a");
    std::fs::create_dir(place.path("d")).unwrap();
    nix::unistd::mkfifo(&place.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let cwd = place.cwd();
    let cwd = cwd.display();
    for (path, expected) in [
        ("d", "Could not edit file: d. Error code: EISDIR.".to_owned()),
        ("nowhere/f", "Could not edit file: nowhere/f. Error code: ENOENT.".to_owned()),
        ("fifo", format!("Not a regular file: '{cwd}/fifo' is a named pipe (FIFO)")),
        (
            "it's",
            format!(
                "Could not edit file: it's. Error code: ENOENT. There is a file of a similar name: {cwd}/it\u{2019}s"
            ),
        ),
    ] {
        check(&edit_one(&place, path, "a", "b").await, true, &expected);
    }
    place.check_file("it\u{2019}s", "a");
}

#[tokio::test]
async fn mode_and_links_are_kept() {
    let place = Place::new();
    place.put("script", "a");
    std::fs::set_permissions(place.path("script"), std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("script", place.path("link")).unwrap();
    edit_one(&place, "link", "a", "b").await;
    place.check_file("script", "b");
    assert!(place.path("link").is_symlink());
    assert_eq!(place.path("script").metadata().unwrap().mode() & 0o777, 0o755);
    std::fs::hard_link(place.path("script"), place.path("twin")).unwrap();
    edit_one(&place, "twin", "b", "c").await;
    place.check_file("script", "c");
}

#[tokio::test]
async fn read_only_files_stay() {
    if nix::unistd::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    place.put("f", "a");
    std::fs::set_permissions(place.path("f"), std::fs::Permissions::from_mode(0o444)).unwrap();
    check(&edit_one(&place, "f", "a", "b").await, true, "Could not edit file: f. Error code: EACCES.");
    place.check_file("f", "a");
}

#[tokio::test]
async fn edits_of_one_file_from_many_sessions_all_arrive() {
    let place = Arc::new(Place::new());
    let lines: String = (0..40).map(|n| format!("<{n}>\n")).collect();
    place.put("f", &lines);
    symlink("f", place.path("link")).unwrap();
    let (sender, _receiver) = mpsc::channel(1);
    let context = place.context(sender);
    let runs = (0..40).map(|n| {
        let path = if n % 2 == 0 { "f" } else { "./link" };
        let arguments = json!({"path": path, "edits": [{"oldText": format!("<{n}>"), "newText": format!("[{n}]")}]});
        place.run_in("edit", arguments, context.clone())
    });
    for output in futures_util::future::join_all(runs).await {
        assert!(!output.is_error, "{}", output.first_text());
    }
    place.check_file("f", lines.replace('<', "[").replace('>', "]"));
}

#[tokio::test]
async fn a_huge_line_is_edited_in_bounded_time() {
    let place = Place::new();
    let line = format!("{{\"a\": \"{}\", \"word\": 1}}", "x".repeat(20_000_000));
    place.put("f", &line);
    let begun = Instant::now();
    let output = edit_one(&place, "f", "\"word\"", "\"sword\"").await;
    check(&output, false, "Successfully replaced 1 block(s) in f.");
    place.check_file_len("f", line.len() + 1);
    let details = output.result.details.unwrap().to_string();
    assert!(details.len() < 10_000, "{} bytes of details", details.len());
    // Generous: the machine may be busy and this is not optimised.
    assert!(begun.elapsed().as_secs() < 20, "took {:?}", begun.elapsed());
}

#[tokio::test]
async fn an_aborted_call_changes_nothing() {
    let place = Place::new();
    place.put("f", "a");
    place.cancel.cancel();
    check(&edit_one(&place, "f", "a", "b").await, true, "Operation aborted");
    place.check_file("f", "a");
}

#[test]
fn a_file_that_changed_meanwhile_is_noticed() {
    let place = Place::new();
    place.put("f", "a");
    let path = place.path("f");
    let metadata = path.metadata().unwrap();
    assert!(is_same(&metadata, &path));
    place.put("f", "ab");
    assert!(!is_same(&metadata, &path));
    std::fs::remove_file(&path).unwrap();
    assert!(!is_same(&metadata, &path));
}

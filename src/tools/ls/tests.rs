use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::tools::test_support::{Place, make_fifo, replay};

#[tokio::test]
async fn results_are_those_of_the_recording() {
    replay("grep-find-ls", |_, recorded| recorded.tool == "bash" || recorded.tool == "ls").await;
}

#[tokio::test]
async fn names_are_sorted_and_marked() {
    let place = Place::new();
    std::fs::create_dir(place.path("Dir")).unwrap();
    for name in ["b", "A", "a", "é"] {
        place.put(name, "");
    }
    make_fifo(&place.path("pipe"));
    symlink("Dir", place.path("link")).unwrap();
    symlink("nowhere", place.path("broken")).unwrap();
    let output = place.run("ls", json!({"path": "."})).await;
    assert_eq!(output.first_text(), "A\na\nb\nbroken\nDir/\nlink/\npipe\né");
    let output = place.run("ls", json!({"path": "link"})).await;
    assert_eq!(output.first_text(), "(empty directory)");
}

#[tokio::test]
async fn b137_odd_names_take_one_line_each() {
    let place = Place::new();
    for name in [&b"a\nb"[..], b"-rf", b"\x1b[2Jx", b"caf\xe9"] {
        std::fs::create_dir(place.cwd().join(std::ffi::OsStr::from_bytes(name))).unwrap();
    }
    let output = place.run("ls", json!({})).await;
    assert_eq!(output.first_text(), "$'\\x1b[2Jx'/\n-rf/\n$'a\\nb'/\n$'caf\\xe9'/");
}

#[tokio::test]
async fn a_large_folder_is_cut_at_its_first_names() {
    let place = Place::new();
    for at in 0..1200 {
        place.put(&format!("{}{at:04}", "n".repeat(100)), "");
    }
    let names: Vec<_> = (0..1200).map(|at| format!("{}{at:04}", "n".repeat(100))).collect();
    let output = place.run("ls", json!({})).await;
    let note = "\n\n[500 entries limit reached. Use limit=1000 for more";
    assert!(output.first_text().starts_with(&names[0]) && output.first_text().contains(note));
    let output = place.run("ls", json!({"limit": 100})).await;
    let note = "\n\n[100 entries limit reached. Use limit=200 for more]";
    assert_eq!(output.first_text(), format!("{}{note}", names[..100].join("\n")));
    assert_eq!(output.result.details, Some(json!({"entryLimitReached": 100})));
    let output = place.run("ls", json!({"limit": 5000})).await;
    assert!(output.first_text().ends_with("\n\n[50.0KB limit reached]"));
}

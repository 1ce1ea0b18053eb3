use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::tools::ToolOutput;
use crate::tools::test_support::{Place, make_fifo, replay};

fn place(files: &[(&str, &str)]) -> Place {
    let place = Place::new();
    for (name, text) in files {
        std::fs::create_dir_all(place.path(name).parent().unwrap()).unwrap();
        place.put(name, text);
    }
    place
}

#[track_caller]
fn check_text(output: &ToolOutput, expected: &str) {
    assert_eq!((output.first_text(), output.is_error), (expected, false));
}

/// The names of the files with matches.
fn files(output: &ToolOutput) -> Vec<&str> {
    assert!(!output.is_error, "{}", output.first_text());
    let lines = output.first_text().lines().filter(|line| *line != "No matches found");
    lines.map(|line| line.split_once(':').unwrap().0).collect()
}

async fn check_files(place: &Place, arguments: Value, expected: &[&str]) {
    let output = place.run("grep", arguments.clone()).await;
    assert_eq!(files(&output), expected, "{arguments}");
}

#[tokio::test]
async fn results_are_those_of_the_recording() {
    // Left out: the order of files, which pi leaves to chance, and the words for a broken pattern, which are ripgrep's.
    let same = |id: &str| !["g1", "g7"].contains(&id);
    replay("grep-find-ls", |at, recorded| recorded.tool == "grep" && same(&format!("g{}", at + 1))).await;
}

#[tokio::test]
async fn files_come_in_the_order_of_their_paths() {
    let place =
        place(&[("b/x", "m\n"), ("b.txt", "m\n"), ("B", "m\n"), (".h/y", "m\n"), ("a/b/c", "m\n"), ("a/b.c", "m\n")]);
    check_files(&place, json!({"pattern": "m"}), &[".h/y", "B", "a/b/c", "a/b.c", "b/x", "b.txt"]).await;
}

#[tokio::test]
async fn b129_ignore_files_hold_below_their_folder_alone() {
    let place = place(&[
        (".git/config", "m\n"),
        ("a/.gitignore", "*.log\n"),
        ("a/x.log", "m\n"),
        ("a/keep", "m\n"),
        ("b/x.log", "m\n"),
        (".gitignore", "sub/\n/c/*\n"),
        ("sub/.git/HEAD", "m\n"),
        ("sub/f", "m\n"),
        ("c/f", "m\n"),
        (".github/w.yml", "m\n"),
        (".ignore", "b/no\n"),
        ("b/no", "m\n"),
    ]);
    check_files(&place, json!({"pattern": "m"}), &[".github/w.yml", "a/keep", "b/x.log"]).await;
    // What is named is searched, whatever holds above it; and what lies in it goes by its own rules.
    check_files(&place, json!({"pattern": "m", "path": "sub"}), &["f"]).await;
    check_files(&place, json!({"pattern": "m", "path": "c"}), &["f"]).await;
    check_files(&place, json!({"pattern": "m", "path": "c/f"}), &["f"]).await;
    check_files(&place, json!({"pattern": "m", "path": "a"}), &["keep"]).await;
    check_files(&place, json!({"pattern": "m", "path": "a/x.log"}), &["x.log"]).await;
    // A glob that fits wins over the rules, as in ripgrep.
    check_files(&place, json!({"pattern": "m", "glob": "*.log"}), &["a/x.log", "b/x.log"]).await;
    check_files(&place, json!({"pattern": "m", "glob": "**/*"}), &[".github/w.yml", "a/keep", "b/x.log"]).await;
}

#[tokio::test]
async fn b129_gitignore_counts_in_repositories_alone() {
    let place = place(&[
        (".gitignore", "x\n"),
        ("x", "m\n"),
        (".ignore", "y\n"),
        ("y", "m\n"),
        ("in/.git/HEAD", ""),
        ("in/x", "m\n"),
    ]);
    place.put("in/.gitignore", "z\n");
    place.put("in/z", "m\n");
    check_files(&place, json!({"pattern": "m"}), &["in/x", "x"]).await;
    // A project below a hidden folder, with rules of the user's own.
    let home = place.path("../h");
    std::fs::create_dir_all(home.join(".config/git")).unwrap();
    std::fs::write(home.join(".config/git/ignore"), "*.swp\n").unwrap();
    std::fs::create_dir_all(home.join(".hidden/p/.git/info")).unwrap();
    for (name, text) in [("a", "m\n"), ("b.swp", "m\n"), ("c.tmp", "m\n"), (".git/info/exclude", "*.tmp\n")] {
        std::fs::write(home.join(".hidden/p").join(name), text).unwrap();
    }
    check_files(&place, json!({"pattern": "m", "path": "~/.hidden/p"}), &["a"]).await;
}

#[tokio::test]
async fn b129_rules_that_would_leave_all_out_do_not_count_for_what_is_named() {
    let place = place(&[
        (".git/HEAD", ""),
        (".gitignore", "/*\n!/src/\n!/c/\n"),
        ("src/a", "m\n"),
        ("other/b", "m\n"),
        ("c/.gitignore", "*\n"),
        ("c/d/e", "m\n"),
        ("top", "m\n"),
    ]);
    check_files(&place, json!({"pattern": "m"}), &["src/a"]).await;
    check_files(&place, json!({"pattern": "m", "path": "other"}), &["b"]).await;
    check_files(&place, json!({"pattern": "m", "path": "c/d"}), &["e"]).await;
}

#[tokio::test]
async fn b131_long_lines_and_many_matches_stay_small() {
    let place = place(&[("min.js", &"x=1;".repeat(1_300_000)), ("lib.so", "\0needle\n")]);
    for at in 0..3000 {
        place.put(&format!("f{at:04}"), "needle\n".repeat(50));
    }
    let output = place.run("grep", json!({"pattern": "x=1"})).await;
    let expected = format!(
        "min.js:1: {}... [truncated]\n\n[Some lines truncated to 500 chars. Use read tool to see full lines]",
        "x=1;".repeat(125)
    );
    check_text(&output, &expected);
    assert_eq!(output.result.details, Some(json!({"linesTruncated": true})));

    // The first ones, every time.
    let mut expected: Vec<_> = (0..100).map(|at| format!("f{:04}:{}: needle", at / 50, at % 50 + 1)).collect();
    expected.push("\n[100 matches limit reached. Use limit=200 for more, or refine pattern]".to_owned());
    for _ in 0..3 {
        check_text(&place.run("grep", json!({"pattern": "needle"})).await, &expected.join("\n"));
    }
    let output = place.run("grep", json!({"pattern": "needle", "limit": 1_000_000, "context": 5})).await;
    let text = output.first_text();
    assert!(text.len() < 52_000 && text.ends_with("needle\n\n[50.0KB limit reached]"), "{}", text.len());
    assert_eq!(output.result.details.unwrap()["truncation"]["truncatedBy"], "bytes");
}

#[tokio::test]
async fn b131_binary_files_are_skipped_and_a_named_one_is_noted() {
    let place = place(&[("lib.so", "\0needle\n"), ("text", "needle\n")]);
    check_text(&place.run("grep", json!({"pattern": "needle"})).await, "text:1: needle");
    check_text(
        &place.run("grep", json!({"pattern": "needle", "path": "lib.so"})).await,
        "No matches found\n\n[lib.so is a binary file: it was searched up to its first NUL byte]",
    );
}

#[tokio::test]
async fn the_limit_counts_over_files_and_is_noted_only_when_there_is_more() {
    let place = place(&[("a", "m\nm\n"), ("b", "m\n"), ("c", "m\n")]);
    let all = "a:1: m\na:2: m\nb:1: m\nc:1: m";
    check_text(&place.run("grep", json!({"pattern": "m", "limit": 4})).await, all);
    let cut = "a:1: m\na:2: m\nb:1: m\n\n[3 matches limit reached. Use limit=6 for more, or refine pattern]";
    check_text(&place.run("grep", json!({"pattern": "m", "limit": 3})).await, cut);
    let one = "a:1: m\n\n[1 matches limit reached. Use limit=2 for more, or refine pattern]";
    check_text(&place.run("grep", json!({"pattern": "m", "limit": -1})).await, one);
}

#[tokio::test]
async fn context_of_the_last_match_is_whole_and_that_of_the_next_is_not_shown() {
    let place = place(&[("a", "m1\n2\nm3\n4\n5\n6\n7\nm8\n"), ("b", "0\nm1\n")]);
    let limited = |limit: i32| json!({"pattern": "m", "context": 2, "limit": limit});
    let note = |limit: i32| {
        format!("\n\n[{limit} matches limit reached. Use limit={} for more, or refine pattern]", 2 * limit)
    };
    let first = place.run("grep", limited(1)).await;
    check_text(&first, &format!("a:1: m1\na-2- 2\na-3- m3{}", note(1)));
    let second = place.run("grep", limited(2)).await;
    check_text(&second, &format!("a:1: m1\na-2- 2\na:3: m3\na-4- 4\na-5- 5{}", note(2)));
    let third = place.run("grep", limited(3)).await;
    assert!(third.first_text().ends_with(&format!("a-7- 7\na:8: m8{}", note(3))));
}

#[tokio::test]
async fn b133_globs_hold_below_the_path_that_is_searched() {
    let place = place(&[("repo/m/a.js", "m\n"), ("repo/b.js", "m\n"), ("m/c.js", "m\n"), ("repo/x/m/d.js", "m\n")]);
    symlink(place.path("repo"), place.path("link")).unwrap();
    check_files(&place, json!({"pattern": "m", "path": "repo", "glob": "m/*.js"}), &["m/a.js"]).await;
    check_files(&place, json!({"pattern": "m", "path": "link", "glob": "./m/*.js"}), &["m/a.js"]).await;
    check_files(&place, json!({"pattern": "m", "path": "repo", "glob": "**/m/*.js"}), &["m/a.js", "x/m/d.js"]).await;
    check_files(&place, json!({"pattern": "m", "path": "repo", "glob": "repo/**/*.js"}), &[]).await;
    let absolute = format!("{}/m/*.js", place.path("link").display());
    check_files(&place, json!({"pattern": "m", "path": "link", "glob": absolute}), &["m/a.js"]).await;
}

#[tokio::test]
async fn b135_an_abort_ends_a_broad_search_at_once() {
    let place = Place::new();
    let (sender, _receiver) = tokio::sync::mpsc::channel(1);
    let context = place.context(sender);
    let abort = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        place.cancel.cancel();
    };
    // Nothing has this text but this file, of which a tree of everything may have thousands of copies.
    let arguments = json!({"pattern": "b135 no file has (this|that) text[.]{3}", "path": "/"});
    let (output, ()) = tokio::join!(place.run_in("grep", arguments.clone(), context.clone()), abort);
    assert_eq!((output.first_text(), output.is_error), ("Operation aborted", true));
    let output = place.run_in("grep", arguments, context).await;
    assert_eq!((output.first_text(), output.is_error), ("Operation aborted", true));
    assert_eq!(place.abandoned(), 0, "the worker came back within its grace");
}

#[tokio::test]
async fn b120_pipes_and_links_are_not_opened() {
    let place = place(&[("f", "m\n"), ("d/g", "m\n")]);
    make_fifo(&place.path("pipe"));
    make_fifo(&place.path("d/.gitignore"));
    make_fifo(&place.path(".ignore"));
    symlink(place.path("pipe"), place.path("to-pipe")).unwrap();
    symlink(place.path("d"), place.path("to-d")).unwrap();
    symlink("nowhere", place.path("broken")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
    check_files(&place, json!({"pattern": "m"}), &["d/g", "f"]).await;
    check_files(&place, json!({"pattern": "m", "path": "to-d"}), &["g"]).await;
    for name in ["pipe", "to-pipe"] {
        let output = place.run("grep", json!({"pattern": "m", "path": name})).await;
        let text = format!("Not a regular file: '{}' is a named pipe (FIFO)", place.path(name).display());
        assert_eq!((output.first_text(), output.is_error), (text.as_str(), true));
    }
}

#[tokio::test]
async fn b137_odd_names_take_one_line_each() {
    let place = Place::new();
    for name in [&b"a\nb"[..], b"-rf", b"\x1b[2Jx", b"caf\xe9"] {
        std::fs::write(place.cwd().join(std::ffi::OsStr::from_bytes(name)), "m\n").unwrap();
    }
    check_text(
        &place.run("grep", json!({"pattern": "m"})).await,
        "$'\\x1b[2Jx':1: m\n-rf:1: m\n$'a\\nb':1: m\n$'caf\\xe9':1: m",
    );
}

#[tokio::test]
async fn broken_patterns_and_globs_are_explained() {
    let place = place(&[("f", "m\n")]);
    for (arguments, expected) in [
        (json!({"pattern": "("}), "Invalid pattern: regex parse error:\n    (?:()\n    ^\nerror: unclosed group"),
        (
            json!({"pattern": "a\nb", "literal": true}),
            "Invalid pattern: it has a line break, and lines are looked at one by one. Search for one of the lines.",
        ),
        (json!({"pattern": "m", "glob": "{".repeat(50)}), "Invalid glob: its braces are nested more than 32 deep"),
    ] {
        let output = place.run("grep", arguments).await;
        assert_eq!((output.first_text(), output.is_error), (expected, true));
        assert_eq!(output.result.details, Some(json!({})));
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_counted() {
    let place = place(&[("f", "m\n")]);
    let file = std::fs::File::create(place.path("long")).unwrap();
    // Longer than any line that is looked at; text, so that it is not skipped.
    std::io::copy(&mut std::io::Read::take(std::io::repeat(b'a'), 40 << 20), &mut &file).unwrap();
    let output = place.run("grep", json!({"pattern": "m"})).await;
    check_text(&output, "f:1: m\n\n[1 file or folder could not be read]");
}

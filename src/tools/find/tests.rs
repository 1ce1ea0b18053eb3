use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::tools::test_support::{Place, make_fifo, replay};

fn place(files: &[&str]) -> Place {
    let place = Place::new();
    for name in files {
        std::fs::create_dir_all(place.path(name).parent().unwrap()).unwrap();
        place.put(name, "");
    }
    place
}

async fn check(place: &Place, arguments: Value, expected: &[&str]) {
    let output = place.run("find", arguments.clone()).await;
    let text = if expected.is_empty() { "No files found matching pattern".to_owned() } else { expected.join("\n") };
    assert_eq!((output.first_text(), output.is_error), (text.as_str(), false), "{arguments}");
}

#[tokio::test]
async fn results_are_those_of_the_recording() {
    // Left out: which two of all pi happens to come across first, and fd's words for a wrong path.
    let same = |arguments: &Value| arguments["pattern"] != "*";
    replay("grep-find-ls", |_, recorded| recorded.tool == "find" && same(&recorded.arguments)).await;
}

#[tokio::test]
async fn b133_patterns_with_and_without_a_folder() {
    let place = place(&["src/app/src/x/a.ts", "src/app/b.ts", "src/app/a/c.ts", "src/app/x/a/d.ts", "src/up.ts"]);
    symlink(place.path("src/app"), place.path("link")).unwrap();
    for path in ["src/app", "link"] {
        let with = |pattern: &str| json!({"pattern": pattern, "path": path});
        check(&place, with("*.ts"), &["a/c.ts", "b.ts", "src/x/a.ts", "x/a/d.ts"]).await;
        check(&place, with("src/**/*.ts"), &["src/x/a.ts"]).await;
        check(&place, with("./a/*.ts"), &["a/c.ts"]).await;
        check(&place, with("**/a/*.ts"), &["a/c.ts", "x/a/d.ts"]).await;
        check(&place, with("../*.ts"), &[]).await;
        let absolute = format!("{}/**/a/*.ts", place.path(path).display());
        check(&place, with(&absolute), &["a/c.ts", "x/a/d.ts"]).await;
        check(&place, with("a/"), &["a/", "x/a/"]).await;
        check(&place, with("x/*/"), &["x/a/"]).await;
    }
}

#[tokio::test]
async fn everything_with_a_name_is_found_and_links_are_not_followed() {
    let place = place(&["d/f", ".git/config", "sub/.git", ".hidden/g"]);
    make_fifo(&place.path("pipe"));
    symlink(place.path("d"), place.path("to-d")).unwrap();
    check(&place, json!({"pattern": "*"}), &[".hidden/", ".hidden/g", "d/", "d/f", "pipe", "sub/", "to-d"]).await;
}

#[tokio::test]
async fn b129_gitignore_counts_everywhere_and_in_its_folder_alone() {
    let place = place(&["a/x.log", "b/x.log", "ignored/y", "ignored/z/y", "sub/.git/HEAD", "sub/y"]);
    place.put("a/.gitignore", "*.log\n");
    place.put(".gitignore", "ignored/\nsub/\n");
    place.put(".fdignore", "b/*.tmp\n");
    place.put("b/y.tmp", "");
    check(&place, json!({"pattern": "*.{log,tmp}"}), &["b/x.log"]).await;
    check(&place, json!({"pattern": "y"}), &[]).await;
    check(&place, json!({"pattern": "y", "path": "ignored"}), &["y", "z/y"]).await;
    check(&place, json!({"pattern": "y", "path": "ignored/z"}), &["y"]).await;
    check(&place, json!({"pattern": "y", "path": "sub"}), &["y"]).await;
}

#[tokio::test]
async fn the_first_results_are_kept() {
    let names: Vec<_> = (0..2500).map(|at| format!("d{}/f{at:04}", at % 7)).collect();
    let place = place(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut expected = names;
    expected.sort();
    for limit in [1, 300, 1000] {
        let kept = expected[..limit].join("\n");
        let more = 2 * limit;
        let text = format!("{kept}\n\n[{limit} results limit reached. Use limit={more} for more, or refine pattern]");
        let output = place.run("find", json!({"pattern": "f*", "limit": limit})).await;
        assert_eq!(output.first_text(), text);
        assert_eq!(output.result.details, Some(json!({"resultLimitReached": limit})));
    }
    let output = place.run("find", json!({"pattern": "f*", "limit": 2500})).await;
    assert_eq!(output.first_text(), expected.join("\n"));
    let wrong = place.run("find", json!({"pattern": "x", "path": "d0/f0000"})).await;
    assert_eq!(wrong.first_text(), format!("Not a directory: {}", place.path("d0/f0000").display()));
    let missing = place.run("find", json!({"pattern": "x", "path": "no/../where"})).await;
    assert_eq!(missing.first_text(), format!("Path not found: {}", place.path("where").display()));
}

#[tokio::test]
async fn b135_an_abort_ends_a_broad_search_at_once() {
    let place = Place::new();
    let (sender, _receiver) = tokio::sync::mpsc::channel(1);
    let abort = async {
        tokio::task::yield_now().await;
        place.cancel.cancel();
    };
    let arguments = json!({"pattern": "b135 no such name", "path": "/"});
    let (output, ()) = tokio::join!(place.run_in("find", arguments, place.context(sender)), abort);
    assert_eq!((output.first_text(), output.is_error), ("Operation aborted", true));
    assert_eq!(place.abandoned(), 0, "the worker came back within its grace");
}

#[tokio::test]
async fn b137_glob_bombs_end_and_odd_names_take_one_line_each() {
    let deep = "a/".repeat(60);
    let place = place(&[&format!("{deep}y")]);
    for name in [&b"a\nb"[..], b"-rf", b"\x1b[2Jx", b"caf\xe9"] {
        std::fs::write(place.cwd().join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
    }
    let nested = (0..25).fold("a".to_owned(), |inner, _| format!("{{{inner},b}}"));
    check(&place, json!({"pattern": format!("{}{nested}x", "**/".repeat(50))}), &[]).await;
    let found = format!("{deep}y");
    check(&place, json!({"pattern": format!("{}y", "**/".repeat(50))}), &[&found]).await;
    check(&place, json!({"pattern": "?*[xb9f]"}), &["$'\\x1b[2Jx'", "-rf", "$'a\\nb'"]).await;
    check(&place, json!({"pattern": "caf*"}), &["$'caf\\xe9'"]).await;
    let output = place.run("find", json!({"pattern": "{a,b}".repeat(1000)})).await;
    assert_eq!(output.first_text(), "Invalid pattern: it is longer than 4096 bytes");
}

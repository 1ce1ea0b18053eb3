use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::tools::test_support::{Place, replay};
use crate::tools::truncate::truncate_head;

#[track_caller]
fn check(output: &ToolOutput, is_error: bool, text: &str) {
    assert_eq!((output.is_error, output.first_text()), (is_error, text));
}

#[tokio::test]
async fn as_recorded() {
    // 15 is resized, and no two encoders make the same bytes; 18 has broken arguments (see the registry's tests).
    replay("read-tool", |at, _| ![15, 18].contains(&at)).await;
    replay("thinking-tools-parallel", |_, recorded| recorded.tool == "read").await;
}

#[tokio::test]
async fn ends_of_files() {
    let place = Place::new();
    place.put("five", "1\n2\n3\n4\n5\n");
    place.put("cut", "1\n2\n3\n4\n5");
    let beyond = |offset: &str, lines: u32| format!("Offset {offset} is beyond end of file ({lines} lines total)");
    for (file, arguments, is_error, expected) in [
        ("five", json!({"offset": 5}), false, "5\n".to_owned()),
        ("five", json!({"offset": 6}), false, String::new()),
        ("five", json!({"offset": 7}), true, beyond("7", 6)),
        ("cut", json!({"offset": 5}), false, "5".to_owned()),
        ("cut", json!({"offset": 6}), true, beyond("6", 5)),
        ("cut", json!({"offset": 100}), true, beyond("100", 5)),
        ("cut", json!({"offset": 9_007_199_254_740_992_u64}), true, beyond("9007199254740992", 5)),
        (
            "cut",
            json!({"offset": 0, "limit": 1}),
            false,
            "1\n\n[4 more lines in file. Use offset=2 to continue.]".to_owned(),
        ),
        ("cut", json!({"offset": -1}), false, "1\n2\n3\n4\n5".to_owned()),
        ("cut", json!({"offset": 4, "limit": 2}), false, "4\n5".to_owned()),
        ("cut", json!({"offset": 4, "limit": 1e300}), false, "4\n5".to_owned()),
    ] {
        let mut arguments = arguments;
        arguments["path"] = Value::from(file);
        check(&place.run("read", arguments).await, is_error, &expected);
    }
}

#[tokio::test]
async fn odd_files_are_refused_at_once() {
    let place = Place::new();
    nix::unistd::mkfifo(&place.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
    symlink("fifo", place.path("link")).unwrap();
    for (path, kind) in [
        ("fifo", "a named pipe (FIFO)"),
        ("link", "a named pipe (FIFO)"),
        ("socket", "a socket"),
        ("/dev/zero", "a character device"),
        ("/dev/tty", "a character device"),
    ] {
        let read = place.run("read", json!({"path": path}));
        let output = tokio::time::timeout(Duration::from_secs(2), read).await.unwrap();
        let absolute = place.path(path);
        check(&output, true, &format!("Not a regular file: '{}' is {kind}", absolute.display()));
    }
}

#[tokio::test]
async fn files_of_the_kernel_have_no_size_but_text() {
    let output = Place::new().run("read", json!({"path": "/proc/self/status", "limit": 1})).await;
    assert!(output.first_text().starts_with("Name:\t"), "{}", output.first_text());
}

#[tokio::test]
async fn what_cannot_be_opened_is_named_as_node_does() {
    let place = Place::new();
    place.put("f", "");
    place.put("locked", "secret");
    std::fs::set_permissions(place.path("locked"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let cwd = place.cwd();
    let cwd = cwd.display();
    let inside = place.run("read", json!({"path": "f/x"})).await;
    check(&inside, true, &format!("ENOTDIR: not a directory, access '{cwd}/f/x'"));
    let nul = place.run("read", json!({"path": "a\u{0}b"})).await;
    assert!(nul.is_error);
    let locked = place.run("read", json!({"path": "locked"})).await;
    if !nix::unistd::geteuid().is_root() {
        check(&locked, true, &format!("EACCES: permission denied, access '{cwd}/locked'"));
    }
}

#[tokio::test]
async fn an_abort_before_the_start_reads_nothing() {
    let place = Place::new();
    place.put("f", "text");
    place.cancel.cancel();
    check(&place.run("read", json!({"path": "f"})).await, true, "Operation aborted");
}

#[tokio::test]
async fn images_that_a_model_cannot_take_become_text() {
    let place = Place::new();
    let png = crate::tools::image::test_sample(ImageKind::Png);
    place.put("cut", &png[..png.len() - 1]);
    place.put("text.png", "not an image");
    place.put("empty.png", "");
    place.put("drawing.svg", "<svg/>");
    place.put("big", [png.clone(), vec![0; 33 * 1024 * 1024]].concat());
    for (file, expected) in [
        ("cut", "Read image file [image/png]\n[Image not shown: the file is damaged or cut off.]"),
        ("text.png", "not an image"),
        ("empty.png", ""),
        ("drawing.svg", "<svg/>"),
        (
            "big",
            "Read image file [image/png]\n[Image not shown: the file has more than 32.0MB, which is not opened. Make a smaller copy.]",
        ),
    ] {
        let output = place.run("read", json!({"path": file})).await;
        check(&output, false, expected);
        assert_eq!(output.result.content.len(), 1);
    }
}

#[tokio::test]
async fn a_model_without_eyes_is_named_and_the_image_kept() {
    let place = Place::new();
    place.put("p.png", crate::tools::image::test_sample(ImageKind::Png));
    let mut context = place.context(tokio::sync::mpsc::channel(1).0);
    context.text_only_model = Some("plain".to_owned());
    let output = place.run_in("read", json!({"path": "p.png"}), context).await;
    assert_eq!(output.result.details, Some(json!({"imageUnsupportedByModel": "plain"})));
    assert_eq!(output.result.content.len(), 2);
}

#[tokio::test]
async fn a_hint_for_the_shell_is_quoted() {
    let place = Place::new();
    place.put("it's $x", "w".repeat(60_000));
    check(
        &place.run("read", json!({"path": "it's $x"})).await,
        false,
        r"[Line 1 is 58.6KB, exceeds 50.0KB limit. Use bash: sed -n '1p' 'it'\''s $x' | head -c 51200]",
    );
}

#[test]
fn a_huge_file_takes_little_memory() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(300_000_000).unwrap();
    let mut opened = File::open(file.path()).unwrap();
    let window = Window { start: 0, end: None };
    let scanned = scan(&[], &mut opened, window, None, &Gate::default()).unwrap().unwrap();
    assert_eq!((scanned.bytes, scanned.lines(), scanned.kept.len()), (300_000_000, 1, KEEP_BYTES));
    assert!(scanned.kept.capacity() < 1_000_000);
}

/// The straightforward reading of a whole text.
fn reference(text: &str, offset: usize, limit: Option<usize>) -> (String, Truncation) {
    let lines: Vec<&str> = text.split('\n').collect();
    let end = limit.map_or(lines.len(), |limit| (offset + limit).min(lines.len()));
    let wanted = lines[offset..end].join("\n");
    let cut = truncate_head(&wanted);
    (wanted, cut)
}

fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![Just("\n"), Just("ab"), Just("界\n"), Just("a line of text that is longer\n")];
    prop::collection::vec((piece, prop_oneof![1..4_usize, 1..3000_usize]), 0..6)
        .prop_map(|parts| parts.into_iter().map(|(piece, times)| piece.repeat(times)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn reading_in_pieces_gives_the_same(
        text in texts(), offset in 0..3000_usize, limit in prop::option::of(0..3000_usize), piece in 1..70_000_usize,
    ) {
        let mut scanned = Scanned { complete: true, ..Scanned::default() };
        let window = Window { start: offset as u64, end: limit.map(|limit| (offset + limit) as u64) };
        for part in text.as_bytes().chunks(piece) {
            scanned.take(part, window);
        }
        prop_assert_eq!(scanned.lines() as usize, text.split('\n').count());
        if offset < text.split('\n').count() {
            let (wanted, cut) = reference(&text, offset, limit);
            prop_assert_eq!(scanned.bytes as usize, wanted.len());
            prop_assert_eq!(cut_window(&scanned), cut);
        }
    }
}

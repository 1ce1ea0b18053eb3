use std::fmt::Write as _;
use std::time::Duration;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::tools::edit_match::{Replacement, plan_edits};

fn details(content: &str, edits: &[(&str, &str)]) -> EditDetails {
    let edits: Vec<_> =
        edits.iter().map(|(old, new)| Replacement { old_text: (*old).into(), new_text: (*new).into() }).collect();
    let spans = plan_edits(content.as_bytes(), &edits).unwrap();
    describe(content.as_bytes(), &spans, "p", Instant::now() + Duration::from_secs(10))
}

#[track_caller]
fn check(content: &str, edits: &[(&str, &str)], diff: &str, patch: &str, first: usize) {
    let found = details(content, edits);
    assert_eq!(found.diff, diff);
    assert_eq!(found.patch, if patch.is_empty() { String::new() } else { format!("--- p\n+++ p\n{patch}") });
    assert_eq!(found.first_changed_line, first);
}

fn numbered(from: usize, to: usize) -> String {
    (from..=to).fold(String::new(), |mut text, n| {
        writeln!(text, "l{n}").unwrap();
        text
    })
}

#[test]
fn as_recorded() {
    check(
        "one\ntwo\nthree\nfour\nfive\nsix\n",
        &[("two", "TWO"), ("five\n", "5\n")],
        " 1 one\n-2 two\n+2 TWO\n 3 three\n 4 four\n-5 five\n+5 5\n 6 six",
        "@@ -1,6 +1,6 @@\n one\n-two\n+TWO\n three\n four\n-five\n+5\n six\n",
        2,
    );
    check(
        "a\r\nb\r\nc\r\n",
        &[("b\nc", "B\nC")],
        " 1 a\n-2 b\n-3 c\n+2 B\n+3 C",
        "@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n+C\n",
        2,
    );
}

#[test]
fn far_lines_are_left_out() {
    check(
        &numbered(1, 30),
        &[("l10\n", "x\ny\n"), ("l25", "z")],
        "    ...\n  6 l6\n  7 l7\n  8 l8\n  9 l9\n-10 l10\n+10 x\n+11 y\n 11 l11\n 12 l12\n 13 l13\n 14 l14\n    ...\n \
         21 l21\n 22 l22\n 23 l23\n 24 l24\n-25 l25\n+26 z\n 26 l26\n 27 l27\n 28 l28\n 29 l29\n    ...",
        "@@ -6,9 +6,10 @@\n l6\n l7\n l8\n l9\n-l10\n+x\n+y\n l11\n l12\n l13\n l14\n@@ -21,9 +22,9 @@\n l21\n l22\n l23\n \
         l24\n-l25\n+z\n l26\n l27\n l28\n l29\n",
        10,
    );
    // Eight lines between two changes are shown, and the hunks are one.
    let near = details(&numbered(1, 30), &[("l10\n", ""), ("l19\n", "")]);
    assert_eq!(near.diff.matches("...").count(), 2);
    assert_eq!(near.patch.matches("@@ -").count(), 1);
    let far = details(&numbered(1, 30), &[("l10\n", ""), ("l20\n", "")]);
    assert_eq!(far.diff.matches("...").count(), 3);
    assert_eq!(far.patch.matches("@@ -").count(), 2);
}

#[test]
fn ends_of_files() {
    let mark = "\\ No newline at end of file\n";
    check("a", &[("a", "b")], "-1 a\n+1 b", &format!("@@ -1,1 +1,1 @@\n-a\n{mark}+b\n{mark}"), 1);
    check("a", &[("a", "")], "-1 a", &format!("@@ -1,1 +0,0 @@\n-a\n{mark}"), 1);
    check("a\n", &[("a\n", "")], "-1 a", "@@ -1,1 +0,0 @@\n-a\n", 1);
    check("a\nb", &[("b", "b\n")], " 1 a\n-2 b\n+2 b", &format!("@@ -1,2 +1,2 @@\n a\n-b\n{mark}+b\n"), 2);
    check("a\nb\nc", &[("a", "x")], "-1 a\n+1 x\n 2 b\n 3 c", &format!("@@ -1,3 +1,3 @@\n-a\n+x\n b\n c\n{mark}"), 1);
    check("a\nb\n", &[("a\n", "")], "-1 a\n 2 b", "@@ -1,2 +1,1 @@\n-a\n b\n", 1);
    check("a\nb\nc\n", &[("b\n", "b")], " 1 a\n-2 b\n-3 c\n+2 bc", "@@ -1,3 +1,2 @@\n a\n-b\n-c\n+bc\n", 2);
}

#[test]
fn lines_that_stay_inside_of_an_edit_are_context() {
    check(
        "a\nb\nc\n",
        &[("a\nb\nc", "a\nB\nc\nd")],
        " 1 a\n-2 b\n+2 B\n 3 c\n+4 d",
        "@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n",
        2,
    );
    check("a b\n", &[("a", "x"), ("b", "y")], "-1 a b\n+1 x y", "@@ -1,1 +1,1 @@\n-a b\n+x y\n", 1);
}

#[test]
fn numbers_are_as_wide_as_the_last() {
    assert!(details(&numbered(1, 8), &[("l1\n", "")]).diff.starts_with("-1 l1\n 2 l2\n"));
    assert!(details(&numbered(1, 9), &[("l1\n", "")]).diff.starts_with("- 1 l1\n  2 l2\n"));
    assert!(details(&numbered(1, 8), &[("l1\n", "l1\nx\n")]).diff.starts_with("  1 l1\n+ 2 x\n"));
}

#[test]
fn long_lines_and_diffs_are_cut() {
    let long = "x".repeat(100_000);
    let cut = details(&format!("{long}a\nnext\n"), &[("a\n", "b\n")]);
    assert!(cut.diff.len() < 5_000 && cut.diff.contains("… [98001 more bytes]\n") && cut.diff.ends_with("\n 2 next"));
    assert_eq!(cut.patch, "");
    let many = numbered(1, 20_000);
    let cut = details(&format!("begin\n{many}end"), &[(&many, "gone\n")]);
    assert!(cut.diff.len() <= EDIT_DIFF_BYTES + 60 && cut.diff.ends_with("… (the diff is too long to be shown whole)"));
    assert_eq!((cut.patch.as_str(), cut.first_changed_line), ("", 2));
    let umlauts = "ü".repeat(EDIT_DIFF_LINE_BYTES);
    assert!(details(&format!("a{umlauts}"), &[("a", "b")]).diff.contains("ü… ["));
}

#[test]
fn bytes_that_are_no_text_are_shown_but_not_patched() {
    let spans = plan_edits(b"\xff\na\n", &[Replacement { old_text: "a".into(), new_text: "b".into() }]).unwrap();
    let found = describe(b"\xff\na\n", &spans, "p", Instant::now());
    assert_eq!((found.diff.as_str(), found.patch.as_str()), (" 1 \u{fffd}\n-2 a\n+2 b", ""));
}

/// Applies a patch as `patch` would.
fn apply_patch(old: &str, patch: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let mut new = String::new();
    let mut at = 0;
    let mut rest = patch.lines().skip(2).peekable();
    while let Some(line) = rest.next() {
        if let Some(header) = line.strip_prefix("@@ -") {
            let (start, more) = header.split_once(',').unwrap();
            let len: usize = more.split(' ').next().unwrap().parse().unwrap();
            let start = start.parse::<usize>().unwrap() - usize::from(len > 0);
            new.extend(old[at..start].iter().copied());
            at = start;
            continue;
        }
        let end = if rest.peek().is_some_and(|next| next.starts_with('\\')) { "" } else { "\n" };
        let (sign, text) = line.split_at(1);
        if sign == "-" || sign == " " {
            assert_eq!(old[at], format!("{text}{end}"));
            at += 1;
        }
        if sign == "+" || sign == " " {
            new.push_str(text);
            new.push_str(end);
        }
        if end.is_empty() {
            rest.next();
        }
    }
    new.extend(old[at..].iter().copied());
    new
}

fn texts() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "\n", "\n", "\n"]), 0..60)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_patch_makes_the_new_content_of_the_old(
        content in texts(), cuts in prop::collection::btree_set(0..60_usize, 2..7), new in texts(), other in texts(),
    ) {
        let cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(content.len())).collect();
        let spans: Vec<_> = cuts
            .chunks_exact(2)
            .enumerate()
            .map(|(index, cut)| {
                let new_text = if index == 0 { new.clone() } else { other.clone() };
                Span { start: cut[0], end: cut[1], new_text, index }
            })
            .filter(|span| span.start < span.end)
            .collect();
        let expected = String::from_utf8(apply(content.as_bytes(), &spans).concat()).unwrap();
        if content != expected {
            let found = describe(content.as_bytes(), &spans, "p", Instant::now() + Duration::from_secs(10));
            prop_assert_eq!(apply_patch(&content, &found.patch), expected.clone());
            // Of several equal lines any may count as the new one.
            let before = found.first_changed_line - 1;
            prop_assert!(content.split_inclusive('\n').take(before).eq(expected.split_inclusive('\n').take(before)));
        }
    }
}

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn replacements(edits: &[(&str, &str)]) -> Vec<Replacement> {
    edits.iter().map(|(old, new)| Replacement { old_text: (*old).into(), new_text: (*new).into() }).collect()
}

fn edited(content: &[u8], edits: &[(&str, &str)]) -> Result<Vec<u8>, MatchError> {
    plan_edits(content, &replacements(edits)).map(|spans| apply(content, &spans).concat())
}

#[track_caller]
fn check(content: &str, edits: &[(&str, &str)], expected: &str) {
    let result = edited(content.as_bytes(), edits).map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(result.as_deref(), Ok(expected));
}

#[track_caller]
fn check_error(content: &str, edits: &[(&str, &str)], expected: &MatchError) {
    assert_eq!(edited(content.as_bytes(), edits).as_ref(), Err(expected));
}

#[test]
fn exact_text_is_replaced() {
    for (content, edits, expected) in [
        ("a b c", &[("b", "B")][..], "a B c"),
        ("one\ntwo\nthree\n", &[("two\n", "")], "one\nthree\n"),
        ("a", &[("a", "b")], "b"),
        ("a", &[("a", "")], ""),
        ("x\n", &[("x\n", "x")], "x"),
        ("x", &[("x", "x\n")], "x\n"),
        ("日本", &[("本", "曜")], "日曜"),
        ("tail", &[("tail", "tail end")], "tail end"),
    ] {
        check(content, edits, expected);
    }
}

#[test]
fn all_edits_see_the_original() {
    check("A B C", &[("A", "B"), ("B", "C")], "B C C");
    check("A B C", &[("C", "A"), ("A", "C")], "C B A");
    check("A B C", &[("A ", "1"), ("B ", "2")], "12C");
    check_error("A B C", &[("A B", "X"), ("B C", "Y")], &MatchError::Overlap { first: 0, second: 1 });
    check_error("A B C", &[("B C", "X"), ("A B", "Y")], &MatchError::Overlap { first: 1, second: 0 });
    check_error("A B C", &[("A B C", "X"), ("B", "Y")], &MatchError::Overlap { first: 0, second: 1 });
    check_error("A B C", &[("B", "X"), ("B", "Y")], &MatchError::Overlap { first: 0, second: 1 });
}

#[test]
fn refusals() {
    check_error("a", &[], &MatchError::NoEdits);
    check_error("a", &[("a", "b"), ("", "b")], &MatchError::EmptyOldText { index: 1 });
    check_error("", &[("a", "b")], &MatchError::NotFound { index: 0 });
    check_error("ab", &[("a", "x"), ("c", "d")], &MatchError::NotFound { index: 1 });
    check_error("b", &[("b\n", "c")], &MatchError::NotFound { index: 0 });
    check_error("a b a", &[("a", "x")], &MatchError::Ambiguous { index: 0, count: 2 });
    check_error("aaa", &[("aa", "x")], &MatchError::Ambiguous { index: 0, count: 2 });
    check_error("a", &[("a", "a")], &MatchError::NoChange);
    check_error("ab", &[("a", ""), ("b", "ab")], &MatchError::NoChange);
    check_error("a\r\nb", &[("a\nb", "a\r\nb")], &MatchError::NoChange);
}

#[test]
fn line_ends_stay_and_inserted_lines_get_those_of_their_place() {
    for (content, edits, expected) in [
        ("a\r\nb\r\nc\r\n", &[("b\nc", "B\nC")][..], "a\r\nB\r\nC\r\n"),
        ("a\r\nb\nc\r\n", &[("b", "B")], "a\r\nB\nc\r\n"),
        ("a\r\nb\nc\r\n", &[("b", "B\nB2")], "a\r\nB\nB2\nc\r\n"),
        ("a\r\nb\nc\r\n", &[("c", "C\nD")], "a\r\nb\nC\r\nD\r\n"),
        ("a\r\nb", &[("b", "b\nc")], "a\r\nb\r\nc"),
        ("a\nb\n", &[("a\r\nb", "x\r\ny")], "x\ny\n"),
        ("x\ry\nz", &[("z", "Z")], "x\ry\nZ"),
        ("x\ry\nz", &[("x\ry", "q")], "q\nz"),
        ("x\r\r\ny", &[("y", "z\n")], "x\r\r\nz\r\n"),
        ("a\r\nb\r\n", &[("a\n", "")], "b\r\n"),
        ("a\r\nb\r\n", &[("a", "")], "\r\nb\r\n"),
        ("one", &[("one", "one\ntwo")], "one\ntwo"),
    ] {
        check(content, edits, expected);
    }
}

#[test]
fn a_byte_order_mark_stays() {
    for (old, new) in [("a", "b"), ("\u{feff}a", "\u{feff}b"), ("\u{feff}a", "b")] {
        check("\u{feff}a\n", &[(old, new)], "\u{feff}b\n");
    }
    check("a\n", &[("\u{feff}a", "b")], "b\n");
}

#[test]
fn look_alikes_are_found_and_only_the_match_changes() {
    let content = "keep “this” – and３   \nit’s \u{a0}“x” – y   \nnext\u{a0}line \t\r\n";
    check(content, &[("it's  \"x\" - y", "plain")], "keep “this” – and３   \nplain   \nnext\u{a0}line \t\r\n");
    check(content, &[("next line", "N")], "keep “this” – and３   \nit’s \u{a0}“x” – y   \nN \t\r\n");
    check(content, &[("and3\nit's", "A\nB")], "keep “this” – A\nB \u{a0}“x” – y   \nnext\u{a0}line \t\r\n");
    check(content, &[("- y\nnext", "!")], "keep “this” – and３   \nit’s \u{a0}“x” !\u{a0}line \t\r\n");
    check("e\u{301}tude\n", &[("\u{e9}tude", "study")], "study\n");
}

#[test]
fn exact_matches_go_before_look_alikes() {
    check("it’s it's", &[("it's", "X")], "it’s X");
    check_error("it’s it‘s", &[("it's", "X")], &MatchError::Ambiguous { index: 0, count: 2 });
}

#[test]
fn a_part_of_a_folded_character_is_no_match() {
    // ½ folds to 1⁄2.
    check_error("a ½ b", &[("1", "x")], &MatchError::NotFound { index: 0 });
    check("a ½ b", &[("1\u{2044}2", "half")], "a half b");
}

#[test]
fn blanks_at_the_end_of_the_old_text_need_an_end() {
    check_error("foobar", &[("foo  ", "x")], &MatchError::NotFound { index: 0 });
    check("foo\nbar", &[("foo  ", "x")], "x\nbar");
    check("foo \nbar", &[("foo   ", "x")], "x \nbar");
    check("foo bar", &[("foo\t", "x")], "x bar");
    check_error("a b", &[("   ", "x")], &MatchError::NotFound { index: 0 });
    check("a  \nb", &[("a\nb", "c")], "c");
    check("\n  \nfoo", &[("\nfoo", "bar")], "\n  bar");
}

#[test]
fn files_need_not_be_text() {
    assert_eq!(edited(b"\xff a \xfe\r\n\x00", &[("a", "b")]), Ok(b"\xff b \xfe\r\n\x00".to_vec()));
    assert_eq!(edited(b"\xff a\r\nb", &[("a\nb", "c\nd")]), Ok(b"\xff c\r\nd".to_vec()));
    assert_eq!(edited(b"\xff it\xe2\x80\x99s", &[("it's", "b")]), Err(MatchError::NotFound { index: 0 }));
}

#[test]
fn many_matches_are_counted_fast() {
    let content = "a".repeat(1_000_000);
    check_error(&content, &[("aaaa", "x")], &MatchError::Ambiguous { index: 0, count: 999_997 });
}

/// Text with all that the views change.
fn texts() -> impl Strategy<Value = String> {
    let pieces = [
        "a",
        "b",
        " ",
        "\t",
        "\n",
        "\r\n",
        "\r",
        "’",
        "'",
        "–",
        "\u{a0}",
        "３",
        "½",
        "e\u{301}",
        "\u{301}",
        "界",
        "가",
        "\u{1100}\u{1161}",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..40).prop_map(|parts| parts.concat())
}

/// Start and end of a piece, on character boundaries.
fn piece(text: &str, from: usize, len: usize) -> (usize, usize) {
    let start = text.floor_char_boundary(from % (text.len() + 1));
    (start, text.ceil_char_boundary((start + len).min(text.len())))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_unique_piece_is_spliced(text in texts(), from in 0..200_usize, len in 1..12_usize) {
        let (start, end) = piece(&text, from, len);
        let wanted = &text[start..end];
        if let Ok(result) = edited(text.as_bytes(), &[(wanted, "<new>")]) {
            // CRLF counts as LF: a piece that begins or ends inside of one is found without or with its other half.
            let cuts_crlf = |at: usize| text[..at].ends_with('\r') && text[at..].starts_with('\n');
            let is_whole = ![start, end].into_iter().any(cuts_crlf);
            if is_whole {
                let expected = [&text[..start], "<new>", &text[end..]].concat();
                prop_assert_eq!(String::from_utf8(result).unwrap(), expected);
            }
        }
    }

    #[test]
    fn nothing_outside_of_the_spans_changes(text in texts(), wanted in texts(), other in texts()) {
        let edits = replacements(&[(&wanted, "<1>"), (&other, "<2>")]);
        if let Ok(spans) = plan_edits(text.as_bytes(), &edits) {
            let mut at = 0;
            let mut result: &[u8] = &apply(text.as_bytes(), &spans).concat();
            for span in &spans {
                prop_assert!(at <= span.start && span.start < span.end);
                let kept = &text.as_bytes()[at..span.start];
                result = result.strip_prefix(kept).unwrap().strip_prefix(span.new_text.as_bytes()).unwrap();
                at = span.end;
            }
            prop_assert_eq!(result, &text.as_bytes()[at..]);
        }
    }

    #[test]
    fn what_is_replaced_looks_like_what_was_asked_for(text in texts(), wanted in texts()) {
        if let Ok(spans) = plan_edits(text.as_bytes(), &replacements(&[(&wanted, "<new>")])) {
            let found = &text[spans[0].start..spans[0].end];
            let (found, wanted) = (View::folded(found), View::folded(&wanted));
            prop_assert_eq!(found.text(), wanted.text());
        }
    }

    #[test]
    fn pieces_of_a_view_stand_for_pieces_of_the_original(text in texts(), from in 0..200_usize, len in 0..20_usize) {
        for view in [View::lines(text.as_bytes()), View::folded(&text)] {
            let all = view.text().len();
            let (start, end) = piece(std::str::from_utf8(view.text()).unwrap(), from, len);
            if let Some((first, last)) = view.original(start, end).filter(|_| start < end) {
                prop_assert!(first < last && last <= text.len());
                prop_assert!(text.is_char_boundary(first) && text.is_char_boundary(last));
            }
            prop_assert_eq!(view.original(0, all).map(|(_, last)| last <= text.len()), Some(true));
        }
    }
}

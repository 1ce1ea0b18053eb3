use std::fmt::Write as _;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn numbers(from: usize, to: usize) -> String {
    (from..=to).fold(String::new(), |mut text, n| {
        writeln!(text, "{n}").unwrap();
        text
    })
}

/// (truncated by, total lines, total bytes, output lines, output bytes)
type Figures = (Option<TruncatedBy>, usize, usize, usize, usize);

fn figures(cut: &Truncation) -> Figures {
    (cut.truncated_by, cut.total_lines, cut.total_bytes, cut.output_lines, cut.output_bytes)
}

#[track_caller]
fn check_head(text: &str, expected: Figures) -> Truncation {
    let cut = truncate_head(text);
    assert_eq!(figures(&cut), expected);
    cut
}

#[track_caller]
fn check_tail(text: &str, expected: Figures) -> Truncation {
    let cut = truncate_tail(text);
    assert_eq!(figures(&cut), expected);
    cut
}

#[test]
fn keeps_what_fits() {
    for text in ["", "a", "a\n", "\n", "a\r\nb", &numbers(1, 2000)] {
        let lines = count_lines(text);
        let expected = (None, lines, text.len(), lines, text.len());
        assert_eq!(check_head(text, expected).content, text);
        assert_eq!(check_tail(text, expected).content, text);
    }
}

#[test]
fn cuts_at_the_line_limit() {
    let text = numbers(1, 2500);
    let head = check_head(&text, (Some(TruncatedBy::Lines), 2500, 11393, 2000, 8892));
    assert!(head.content.starts_with("1\n2\n") && head.content.ends_with("\n2000"));
    // The figures of the recorded `seq 1 2500`.
    let tail = check_tail(&text, (Some(TruncatedBy::Lines), 2500, 11393, 2000, 9500));
    assert!(tail.content.starts_with("501\n") && tail.content.ends_with("\n2500"));
    // An unfinished line counts, a final line feed does not.
    check_tail(&numbers(1, 2001), (Some(TruncatedBy::Lines), 2001, 8898, 2000, 8895));
    check_tail(numbers(1, 2001).trim_end(), (Some(TruncatedBy::Lines), 2001, 8897, 2000, 8895));
}

#[test]
fn cuts_at_the_byte_limit_in_whole_lines() {
    let mut text = String::new();
    for n in 1..=800 {
        writeln!(text, "line {n:04} {:090}", 0).unwrap();
    }
    let tail = check_tail(&text, (Some(TruncatedBy::Bytes), 800, 80800, 506, 51105));
    assert!(tail.content.starts_with("line 0295 "));
    assert!(!tail.last_line_partial);
    check_head(&text, (Some(TruncatedBy::Bytes), 800, 80800, 506, 51105));
}

#[test]
fn byte_limit_is_exact() {
    let at = |n: usize| "x".repeat(n);
    let limit = TOOL_OUTPUT_BYTES;
    check_tail(&at(limit), (None, 1, limit, 1, limit));
    check_tail(&at(limit + 1), (Some(TruncatedBy::Bytes), 1, limit + 1, 1, limit));
    check_tail(&(at(limit - 1) + "\n"), (None, 1, limit, 1, limit));
    check_tail(&(at(limit) + "\n"), (Some(TruncatedBy::Bytes), 1, limit + 1, 1, limit));
    check_head(&at(limit), (None, 1, limit, 1, limit));
    check_head(&at(limit + 1), (Some(TruncatedBy::Bytes), 1, limit + 1, 0, 0));
    check_head(&(at(limit) + "\n"), (Some(TruncatedBy::Bytes), 1, limit + 1, 1, limit));
}

#[test]
fn overlong_line() {
    let text = "x".repeat(70_000);
    let tail = check_tail(&text, (Some(TruncatedBy::Bytes), 1, 70_000, 1, 51_200));
    assert!(tail.last_line_partial);
    let head = check_head(&text, (Some(TruncatedBy::Bytes), 1, 70_000, 0, 0));
    assert!(head.first_line_exceeds_limit);
}

#[test]
fn cuts_between_characters() {
    for lead in 0..4 {
        let text = "a".repeat(lead) + &"界🌍".repeat(30_000);
        let tail = truncate_tail(&text);
        assert!(tail.content.len() <= TOOL_OUTPUT_BYTES && tail.content.len() > TOOL_OUTPUT_BYTES - 4);
        assert!(text.ends_with(&tail.content));
    }
}

#[test]
fn serialises_as_recorded() {
    let json = serde_json::to_string(&truncate_head(&"y".repeat(60_000))).unwrap();
    assert_eq!(
        json,
        r#"{"content":"","truncated":true,"truncatedBy":"bytes","totalLines":1,"totalBytes":60000,"outputLines":0,"outputBytes":0,"lastLinePartial":false,"firstLineExceedsLimit":true,"maxLines":2000,"maxBytes":51200}"#
    );
}

#[test]
fn sizes() {
    for (bytes, expected) in
        [(0, "0B"), (1023, "1023B"), (1024, "1.0KB"), (51_200, "50.0KB"), (60_003, "58.6KB"), (1_572_864, "1.5MB")]
    {
        assert_eq!(format_size(bytes), expected);
    }
}

/// Texts around the limits: few characters, many repetitions.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![Just("\n"), Just("a"), Just("界"), Just("🌍\n"), Just("some longer line of text\n")];
    prop::collection::vec((piece, 1..4000_usize), 0..8)
        .prop_map(|parts| parts.into_iter().map(|(piece, times)| piece.repeat(times)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn results_are_within_limits(text in texts()) {
        for cut in [truncate_head(&text), truncate_tail(&text)] {
            prop_assert!(cut.content.len() <= TOOL_OUTPUT_BYTES);
            prop_assert!(count_lines(&cut.content) <= TOOL_OUTPUT_LINES);
            prop_assert_eq!(cut.content.len(), cut.output_bytes);
            prop_assert_eq!(cut.truncated, cut.content != text);
            prop_assert_eq!(cut.total_lines, count_lines(&text));
        }
    }

    #[test]
    fn a_long_enough_part_gives_the_same(text in texts(), more in 4..9000_usize) {
        let totals = Totals::of(&text);
        let keep = TOOL_OUTPUT_BYTES + more;
        let prefix = &text[..text.floor_char_boundary(keep.min(text.len()))];
        prop_assert_eq!(truncate_head_of(prefix, totals), truncate_head(&text));
        let suffix = &text[text.ceil_char_boundary(text.len().saturating_sub(keep))..];
        prop_assert_eq!(truncate_tail_of(suffix, totals), truncate_tail(&text));
    }
}

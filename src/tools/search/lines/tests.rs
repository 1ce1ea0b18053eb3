use std::sync::atomic::AtomicBool;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::tools::work::Gate;

fn found(pattern: &str, text: &[u8], wanted: Wanted) -> FileLines {
    let (gate, ended) = (Gate::default(), AtomicBool::new(false));
    let matcher = matcher(pattern, false, false).unwrap();
    search(&mut searcher(wanted.context), &matcher, text, wanted, Halt::new(&gate, &ended)).unwrap()
}

/// Lines as `2:text` for a match and `2-text` for one near it.
fn listed(lines: &FileLines) -> Vec<String> {
    let mark = |line: &Line<'_>| if line.is_match { ':' } else { '-' };
    lines.iter().map(|line| format!("{}{}{}", line.number, mark(&line), line.text)).collect()
}

fn wanted(matches: usize, context: usize) -> Wanted {
    Wanted { matches, context, bytes: usize::MAX }
}

#[test]
fn lines_near_a_match_come_once() {
    let text = b"a\nx1\nb\nx2\nc\nd\ne\r\nx3";
    assert_eq!(listed(&found("x", text, wanted(9, 1))), ["1-a", "2:x1", "3-b", "4:x2", "5-c", "7-e", "8:x3"]);
    assert_eq!(listed(&found("x", text, wanted(9, 0))), ["2:x1", "4:x2", "8:x3"]);
}

#[test]
fn a_search_ends_after_one_more_match_and_what_is_near_the_last() {
    let text = "x\n".repeat(100);
    assert_eq!(found("x", text.as_bytes(), wanted(2, 0)).matches(), 3);
    assert_eq!(found("x", text.as_bytes(), wanted(2, 3)).matches(), 5);
    assert_eq!(found("x", text.as_bytes(), Wanted { bytes: 10, ..wanted(99, 0) }).matches(), 11);
}

#[test]
fn files_that_are_no_text_end_at_their_first_nul_byte() {
    let binary = found("x", b"ELF\0x\n", wanted(9, 0));
    assert_eq!((binary.matches(), binary.is_binary), (0, true));
    assert!(!found("x", b"x\n", wanted(9, 0)).is_binary);
}

#[test]
fn utf_16_is_read_by_its_mark() {
    let text: Vec<u8> = "\u{feff}one\nzwölf\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(listed(&found("ö", &text, wanted(9, 0))), ["2:zwölf"]);
}

#[test]
fn b131_a_line_that_is_too_long_is_an_error_and_not_held() {
    let (gate, ended) = (Gate::default(), AtomicBool::new(false));
    let line = std::io::Read::take(std::io::repeat(b'a'), 8 * GREP_LINE_BYTES as u64);
    let matcher = matcher("x", false, false).unwrap();
    let outcome = search(&mut searcher(0), &matcher, line, wanted(9, 0), Halt::new(&gate, &ended));
    assert!(outcome.is_err());
}

#[test]
fn a_search_that_is_given_up_reads_no_further() {
    let (gate, ended) = (Gate::default(), AtomicBool::new(false));
    assert!(gate.stop_for_test());
    let endless = std::io::repeat(b'\n');
    let matcher = matcher("x", false, false).unwrap();
    let found = search(&mut searcher(0), &matcher, endless, wanted(9, 0), Halt::new(&gate, &ended)).unwrap();
    assert_eq!(found.matches(), 0);
}

#[test]
fn b137_pattern_bombs_are_refused() {
    for pattern in ["((a{100}){100}){100}", &"(".repeat(10_000), r"(\w{1000}){100}"] {
        assert!(matcher(pattern, false, false).is_err());
    }
    assert!(matcher(&"(".repeat(10_000), true, true).is_ok());
}

proptest! {
    #[test]
    fn b095_lines_are_cut_between_characters(count in 0_usize..1200, lead in 0_usize..4, c in any::<char>(), tail in any::<Vec<u8>>()) {
        let mut line: Vec<u8> = b"a".repeat(lead);
        line.extend(c.to_string().repeat(count).into_bytes());
        line.extend(tail);
        let (text, is_cut) = shown(&line);
        let bare = line.strip_suffix(b"\n").unwrap_or(&line);
        let whole = String::from_utf8_lossy(bare.strip_suffix(b"\r").unwrap_or(bare)).into_owned();
        if whole.chars().count() <= GREP_LINE_CHARS {
            prop_assert_eq!((text.as_ref(), is_cut), (whole.as_str(), false));
        } else {
            let kept: String = whole.chars().take(GREP_LINE_CHARS).collect();
            let kept = format!("{kept}{CUT_MARK}");
            prop_assert_eq!((text.as_ref(), is_cut), (kept.as_str(), true));
        }
    }
}

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::tools::truncate::truncate_tail;

fn decode(pieces: &[&[u8]]) -> String {
    let mut stream = Utf8Stream::default();
    let mut text: String = pieces.iter().map(|piece| stream.feed(piece)).collect();
    text.push_str(&stream.finish());
    text
}

#[test]
fn characters_cut_by_reads_are_whole() {
    let text = "你好🌍é";
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(decode(&bytes), text);
    for cut in 0..text.len() {
        assert_eq!(decode(&[&text.as_bytes()[..cut], &text.as_bytes()[cut..]]), text);
    }
}

#[test]
fn what_is_no_text_is_marked() {
    assert_eq!(decode(&[b"a\0b\xff\n"]), "a\0b\u{fffd}\n");
    assert_eq!(decode(&[b"\xf0\x9f", b"x"]), "\u{fffd}x");
    assert_eq!(decode(&[b"x\xf0\x9f"]), "x\u{fffd}");
    assert_eq!(decode(&[b"\xe4", b"\xe4\xbd\xa0"]), "\u{fffd}你");
}

#[test]
fn long_output_keeps_head_and_tail_in_bounded_memory() {
    let mut kept = KeptOutput::default();
    let line = "界 line of output\n";
    let times = 500_000;
    for _ in 0..times {
        kept.push(line);
    }
    assert_eq!(kept.totals(), Totals { lines: times, bytes: times * line.len() });
    assert!(kept.head.capacity() + kept.tail.capacity() < 4 * COMMAND_OUTPUT_BYTES);
    let (text, cut) = kept.for_programs();
    assert!(cut && text.starts_with(line) && text.ends_with(line));
    assert!(text.len() <= COMMAND_OUTPUT_BYTES + 40);
    let shown: usize =
        text.split('\n').find_map(|line| line.strip_prefix('[')).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert_eq!(shown + text.len() - format!("\n[{shown} bytes left out]\n").len(), times * line.len());
}

#[test]
fn output_at_the_limit_for_programs_is_whole() {
    let mut kept = KeptOutput::default();
    let text = "x".repeat(COMMAND_OUTPUT_BYTES);
    kept.push(&text);
    assert_eq!(kept.for_programs(), (text, false));
    kept.push("y");
    assert!(kept.for_programs().1);
}

#[test]
fn last_lines() {
    for (pieces, expected) in [(&["ab", "c"][..], 3), (&["ab\n"], 2), (&["ab\nc", "d"], 2), (&["ab\n\n"], 0), (&[], 0)]
    {
        let mut kept = KeptOutput::default();
        pieces.iter().for_each(|piece| kept.push(piece));
        assert_eq!(kept.last_line_bytes(), expected, "{pieces:?}");
    }
}

fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![Just("\n"), Just("a"), Just("界🌍"), Just("🌍\n"), Just("some longer line of text\n")];
    prop::collection::vec((piece, prop_oneof![1..9_usize, 1..40_000_usize]), 0..6)
        .prop_map(|parts| parts.into_iter().map(|(piece, times)| piece.repeat(times)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_split_gives_the_same(bytes in prop::collection::vec(any::<u8>(), 0..300), cuts in prop::collection::vec(0..300_usize, 0..9)) {
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(decode(&pieces), String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn what_the_model_sees_is_cut_from_the_whole(text in texts(), piece in 1..70_000_usize) {
        let mut kept = KeptOutput::default();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (part, more) = rest.split_at(rest.ceil_char_boundary(piece.min(rest.len())));
            kept.push(part);
            rest = more;
        }
        prop_assert_eq!(kept.truncation(), truncate_tail(&text));
        if text.len() <= COMMAND_OUTPUT_BYTES {
            prop_assert_eq!(kept.for_programs(), (text, false));
        }
    }
}

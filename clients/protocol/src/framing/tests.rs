use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

const MAX: usize = 64;

fn message(text: &str) -> Frame {
    Frame::Message(Bytes::copy_from_slice(text.as_bytes()))
}

/// Feeds `input` cut at `cuts` and returns what came out, with the error as text at the end.
fn decode_in_pieces(input: &[u8], cuts: &[usize]) -> (Vec<Frame>, Option<FramingError>, Option<Framing>) {
    let mut decoder = Decoder::new(MAX);
    let mut frames = Vec::new();
    let mut start = 0;
    for cut in cuts.iter().copied().chain([input.len()]) {
        let end = cut.clamp(start, input.len());
        decoder.buffer().extend_from_slice(&input[start..end]);
        start = end;
        loop {
            match decoder.decode() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error), decoder.framing()),
            }
        }
    }
    frames.extend(decoder.finish());
    (frames, None, decoder.framing())
}

#[track_caller]
fn check(input: &[u8], expected: &[Frame]) {
    let (frames, error, _) = decode_in_pieces(input, &[]);
    assert_eq!((frames.as_slice(), error), (expected, None));
    let every_byte: Vec<usize> = (0..input.len()).collect();
    let (frames, error, _) = decode_in_pieces(input, &every_byte);
    assert_eq!((frames.as_slice(), error), (expected, None), "byte by byte");
}

#[track_caller]
fn check_error(input: &[u8], expected: FramingError) {
    assert_eq!(decode_in_pieces(input, &[]).1, Some(expected));
}

#[test]
fn one_message_a_line() {
    check(b"{}\n[1]\n", &[message("{}"), message("[1]")]);
}

#[test]
fn one_carriage_return_is_dropped() {
    check(b"{}\r\n{\"a\":1}\r\r\n", &[message("{}"), message("{\"a\":1}\r")]);
}

#[test]
fn blank_lines_are_ignored() {
    check(b"\n \r\n\t\n{}\n \n\r\n\n[]\n", &[message("{}"), message("[]")]);
}

#[test]
fn other_line_separators_are_data() {
    check("{\"a\":\"\u{2028}\u{2029}\u{85}\"}\n".as_bytes(), &[message("{\"a\":\"\u{2028}\u{2029}\u{85}\"}")]);
}

#[test]
fn the_last_line_may_lack_its_line_feed() {
    check(b"{}\n{\"a\":2}", &[message("{}"), message("{\"a\":2}")]);
    check(b"{}\n  ", &[message("{}")]);
}

#[test]
fn a_byte_order_mark_is_skipped() {
    check(b"\xef\xbb\xbf{}\n", &[message("{}")]);
    check(b"\xef\xbb\xbfContent-Length: 2\r\n\r\n{}", &[message("{}")]);
}

#[test]
fn invalid_utf8_is_reported_and_the_next_line_read() {
    check(b"{}\n\xff\xfe{}\n{}\n", &[message("{}"), Frame::NotUtf8, message("{}")]);
}

#[test]
fn nul_and_garbage_lines_are_messages() {
    check(b"{}\n\0\nnonsense\n", &[message("{}"), message("\0"), message("nonsense")]);
}

#[test]
fn the_limit_counts_the_line_without_its_line_feed() {
    let at_limit = format!("\"{}\"", "x".repeat(MAX - 2));
    let over = format!("\"{}\"", "x".repeat(MAX - 1));
    check(
        format!("{at_limit}\n{over}\n{at_limit}\n").as_bytes(),
        &[message(&at_limit), Frame::TooLong, message(&at_limit)],
    );
}

#[test]
fn a_very_long_line_is_skipped_without_being_kept() {
    let mut decoder = Decoder::new(MAX);
    let mut frames = Vec::new();
    decoder.buffer().extend_from_slice(b"{");
    for _ in 0..1000 {
        decoder.buffer().extend_from_slice(&[b'x'; 1000]);
        frames.extend(decoder.decode().unwrap());
        assert!(decoder.buffer().len() <= MAX);
    }
    decoder.buffer().extend_from_slice(b"}\n{}\n");
    frames.extend(decoder.decode().unwrap());
    assert_eq!(frames, [Frame::TooLong, message("{}")]);
}

#[test]
fn a_large_buffer_is_given_back() {
    let mut decoder = Decoder::new(10 * KEEP_BUFFER_BYTES);
    let line = vec![b'1'; 5 * KEEP_BUFFER_BYTES];
    decoder.buffer().extend_from_slice(&line);
    decoder.buffer().extend_from_slice(b"\n");
    assert_eq!(decoder.decode().unwrap(), Some(Frame::Message(line.into())));
    assert_eq!(decoder.decode().unwrap(), None);
    assert!(decoder.buffer().capacity() <= KEEP_BUFFER_BYTES);
}

#[test]
fn headers_in_any_case_and_order() {
    let input = b"content-type: application/vscode-jsonrpc; charset=utf-8\r\nCONTENT-LENGTH:2\r\n\r\n{}Content-Length: 3\nX-Other: 1\n\n[1]";
    check(input, &[message("{}"), message("[1]")]);
    assert_eq!(decode_in_pieces(input, &[]).2, Some(Framing::Lsp));
}

#[test]
fn bodies_are_exact() {
    let body = "{\"a\":\"\n\r\n\"} ";
    let input = format!("Content-Length: {}\r\n\r\n{body}\r\nContent-Length: 2\r\n\r\n{{}}", body.len());
    check(input.as_bytes(), &[message(body), message("{}")]);
}

#[test]
fn empty_and_blank_bodies_are_ignored() {
    check(b"Content-Length: 0\r\n\r\nContent-Length: 1\r\n\r\n Content-Length: 2\r\n\r\n{}", &[message("{}")]);
}

#[test]
fn a_body_over_the_limit_is_skipped_exactly() {
    let input = format!("Content-Length: {}\r\n\r\n{}Content-Length: 2\r\n\r\n{{}}", MAX + 1, "\n".repeat(MAX + 1));
    check(input.as_bytes(), &[Frame::TooLong, message("{}")]);
}

#[test]
fn a_cut_off_message_is_reported_at_the_end() {
    let whole = "Content-Length: 2\r\n\r\n{}";
    for rest in ["Content-Length: 9\r\n\r\n{}", "Content-Length: 9\r\n\r\n", "Content-Length: 9\r\n", "C"] {
        check(format!("{whole}{rest}").as_bytes(), &[message("{}"), Frame::Truncated]);
    }
    check(format!("{whole}\r\n").as_bytes(), &[message("{}")]);
    // Reported already.
    check(format!("Content-Length: {}\r\n\r\n{{", MAX + 1).as_bytes(), &[Frame::TooLong]);
}

#[test]
fn what_is_neither_framing_is_an_error() {
    check_error(b"<html>", FramingError::Unrecognised(b'<'));
    check_error(b"\x16\x03\x01", FramingError::Unrecognised(0x16));
    check_error(b"\n\xff", FramingError::Unrecognised(0xff));
    check_error(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", FramingError::MalformedHeader);
    check_error(b"Host: x\r\n\r\n", FramingError::NoLength);
    check_error(b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", FramingError::NoLength);
    check_error(b"Content-Length: -1\r\n\r\n", FramingError::NoLength);
    check_error(b"Content-Length: +1\r\n\r\n", FramingError::NoLength);
    check_error(b"Content-Length: 99999999999999999999\r\n\r\n", FramingError::NoLength);
    check_error(&[b'a'; MAX_HEADER_BYTES + 1], FramingError::HeaderTooLong);
    check_error(format!("a: {}\n\n", "b".repeat(MAX_HEADER_BYTES)).as_bytes(), FramingError::HeaderTooLong);
}

#[test]
fn the_framing_can_be_found_out_again() {
    let mut decoder = Decoder::new(MAX);
    decoder.buffer().extend_from_slice(b"{\"method\":\"front\"}\nContent-Length: 2\r\n\r\n{}");
    assert_eq!(decoder.decode().unwrap(), Some(message("{\"method\":\"front\"}")));
    decoder.detect_again();
    assert_eq!(decoder.decode().unwrap(), Some(message("{}")));
    assert_eq!(decoder.framing(), Some(Framing::Lsp));
}

#[tokio::test]
async fn a_reader_yields_messages_until_the_end() {
    let mut reader = FrameReader::new(&b"{}\r\n[1]"[..], Decoder::new(MAX));
    let mut frames = Vec::new();
    while let Some(frame) = reader.next().await.unwrap() {
        frames.push(frame);
    }
    assert_eq!(frames, [message("{}"), message("[1]")]);
    assert!(reader.next().await.unwrap().is_none());
}

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"{}".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\n".to_vec()),
        Just(b" ".to_vec()),
        Just(b"\xff".to_vec()),
        Just("\"é\u{2028}\"".as_bytes().to_vec()),
        Just(vec![b'x'; MAX - 1]),
        Just(b"Content-Length: 3\r\n\r\n".to_vec()),
        Just(b"content-length: 70\n\n".to_vec()),
        Just(BOM.to_vec()),
        proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_same_messages(input in pieces(), mut cuts in proptest::collection::vec(0usize..400, 0..12)) {
        cuts.sort_unstable();
        prop_assert_eq!(decode_in_pieces(&input, &cuts), decode_in_pieces(&input, &[]));
    }

    #[test]
    fn decoding_gives_back_what_was_encoded(
        bodies in proptest::collection::vec("[{\\[0-9][ -~é\u{2028}]{0,20}", 1..8),
        framing in prop_oneof![Just(Framing::Lines), Just(Framing::Lsp)],
        mut cuts in proptest::collection::vec(0usize..400, 0..12),
    ) {
        let mut input = Vec::new();
        for body in &bodies {
            framing.encode(body.as_bytes(), &mut input);
        }
        cuts.sort_unstable();
        let (frames, error, found) = decode_in_pieces(&input, &cuts);
        prop_assert_eq!((error, found), (None, Some(framing)));
        let expected: Vec<Frame> = bodies.iter().map(|body| message(body)).collect();
        prop_assert_eq!(frames, expected);
    }
}

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// Type and data.
type Owned = (String, String);

/// Parses pieces; the second is an event that the end of the stream cut.
fn parse_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Owned>, Option<Owned>) {
    let mut parser = SseParser::new();
    let mut events = Vec::new();
    for piece in pieces {
        parser.push(piece, |found| events.push(event(found.event, found.data))).unwrap();
    }
    let mut cut = None;
    parser.finish(|found| assert_eq!(cut.replace(event(found.event, found.data)), None));
    (events, cut)
}

fn parse(bytes: &[u8]) -> Vec<Owned> {
    parse_pieces([bytes]).0
}

fn event(event: &str, data: &str) -> Owned {
    (event.into(), data.into())
}

#[track_caller]
fn check(bytes: &[u8], expected: &[&str]) {
    let data: Vec<String> = parse(bytes).into_iter().map(|(_, data)| data).collect();
    assert_eq!(data, expected, "{:?}", String::from_utf8_lossy(bytes));
    for cut in 0..=bytes.len() {
        let (before, after) = bytes.split_at(cut);
        let data: Vec<String> = parse_pieces([before, after]).0.into_iter().map(|(_, data)| data).collect();
        assert_eq!(data, expected, "cut at {cut}");
    }
    let data: Vec<String> = parse_pieces(bytes.chunks(1)).0.into_iter().map(|(_, data)| data).collect();
    assert_eq!(data, expected, "byte by byte");
}

#[test]
fn events() {
    for (bytes, expected) in [
        ("data: a\n\ndata: b\n\n", &["a", "b"][..]),
        ("data: a\ndata: b\n\n", &["a\nb"]),
        ("data:a\n\n", &["a"]),
        ("data:  a\n\n", &[" a"]),
        ("data\n\n", &[""]),
        ("\n\n\ndata: a\n\n\n\n", &["a"]),
        ("id: 1\nretry: 10\nevent: x\ndata: a\n\n", &["a"]),
        ("retry: 10\n\ndata: a\n\n", &["a"]),
        ("event: x\n\ndata: a\n\n", &["a"]),
        ("other: x\ndata: a\n\n", &["a"]),
        (": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\ndata: a\n\n:\n\n", &["a"]),
        ("data: a\n: comment\ndata: b\n\n", &["a\nb"]),
        ("data: a: b\n\n", &["a: b"]),
        ("", &[]),
        ("data: a\n", &[]),
    ] {
        check(bytes.as_bytes(), expected);
    }
}

#[test]
fn types_of_events() {
    assert_eq!(
        parse(b"event: ping\ndata: {}\n\ndata: [DONE]\n\nevent: made up\ndata: x\n\n"),
        [event("ping", "{}"), event("message", "[DONE]"), event("made up", "x")]
    );
}

#[test]
fn all_line_ends() {
    check(b"data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
    check(b"data: a\r\rdata: b\r\r", &["a", "b"]);
    check(b"data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", &["a", "b", "c"]);
    check(b"data: a\r\ndata: b\rdata: c\n\r\n", &["a\nb\nc"]);
}

/// Each of these makes the bare crate panic or fall silent.
#[test]
fn what_the_crate_alone_does_not_survive() {
    check(b"\xef\xbb\xbfdata: a\n\n", &["a"]);
    check(b"\xef\xbb\xbf\n\ndata: a\n\n", &["a"]);
    check(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", &["b"]);
    check(b": c\n\xef\xbb\xbfdata: a\n\ndata: b\n\n", &["b"]);
    check(b"data: a\xffb\n\ndata: \xf0\x9f\n\ndata: c\n\n", &["a\u{fffd}b", "\u{fffd}", "c"]);
}

#[test]
fn characters_cut_by_the_network_stay_whole() {
    check("data: 你好🌍é\n\n".as_bytes(), &["你好🌍é"]);
}

#[test]
fn an_event_that_the_end_cuts_is_set_aside() {
    assert_eq!(
        parse_pieces([&b"data: a\n\ndata: [DONE]\n"[..]]),
        (vec![event("message", "a")], Some(event("message", "[DONE]")))
    );
    assert_eq!(parse_pieces([&b"data: x\ndata: [DO"[..]]).1, Some(event("message", "x\n[DO")));
    assert_eq!(parse_pieces([&b"data: \xe4\xbd"[..]]).1, Some(event("message", "\u{fffd}")));
    assert_eq!(parse_pieces([&b": comment"[..]]).1, None);
    assert_eq!(parse_pieces([&b"data: a\n\n"[..]]).1, None);
    assert_eq!(parse_pieces([&b"\xef\xbb\xbfdata: a"[..]]).1, Some(event("message", "a")));
}

#[test]
fn sizes_are_bounded() {
    const LIMIT: usize = 64 * 1024;
    let limited = || SseParser { lines: Lines::new(LIMIT), ..SseParser::new() };
    let mut parser = limited();
    parser.push(b"data: ", |_| ()).unwrap();
    let piece = vec![b'a'; 1024];
    let pushed = (0..).take_while(|_| parser.push(&piece, |_| ()).is_ok()).count();
    assert_eq!(pushed, LIMIT / 1024 - 1, "one long line");
    assert!(parser.lines.start.len() <= LIMIT);

    let mut parser = limited();
    let line = [b"data: ".as_slice(), &[b'a'; 1024], b"\n"].concat();
    let pushed = (0..).take_while(|_| parser.push(&line, |_| ()).is_ok()).count();
    assert_eq!(pushed, LIMIT / line.len(), "many lines of one event");
}

#[test]
fn an_endless_comment_is_kept_nowhere() {
    let mut parser = SseParser::new();
    parser.push(b": ", |_| ()).unwrap();
    let piece = vec![b'a'; 1024 * 1024];
    for _ in 0..40 {
        parser.push(&piece, |_| panic!("no event")).unwrap();
    }
    assert!(parser.lines.start.is_empty());
    let mut events = Vec::new();
    parser.push(b"\ndata: a\n\n", |found| events.push(event(found.event, found.data))).unwrap();
    assert_eq!(events, [event("message", "a")]);
}

#[test]
fn large_lines_and_many_small_events_take_linear_time() {
    let started = std::time::Instant::now();
    let line = [b"data: ".as_slice(), &vec![b'x'; 2 * 1024 * 1024], b"\n\n"].concat();
    let (events, _) = parse_pieces(line.chunks(256));
    assert_eq!(events[0].1.len(), 2 * 1024 * 1024);
    assert_eq!(parse(&b"data: a\n\n".repeat(20_000)).len(), 20_000);
    // The bare crate would parse 8 GiB for the line alone.
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

/// What the bare crate makes of the same bytes.
fn oracle(pieces: &[&[u8]]) -> Vec<Owned> {
    let pieces: Vec<Result<Vec<u8>, Infallible>> = pieces.iter().map(|piece| Ok(piece.to_vec())).collect();
    let mut events = EventStream::new(futures_util::stream::iter(pieces));
    let mut context = Context::from_waker(Waker::noop());
    let mut found = Vec::new();
    while let Poll::Ready(Some(Ok(event))) = Pin::new(&mut events).poll_next(&mut context) {
        found.push((event.event, event.data));
    }
    found
}

/// Streams that keep to the standard, in all its notations.
fn well_formed() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => "data:? ?[a-z:{}\"é界🌍 ]{0,12}",
        1 => "(event|id|retry|other): ?[a-z0-9 ]{0,6}",
        1 => ":[a-z ]{0,6}",
        2 => Just(String::new()),
    ];
    let end = prop_oneof![3 => Just("\n"), 2 => Just("\r\n"), 1 => Just("\r")];
    prop::collection::vec((line, end), 0..24)
        .prop_map(|lines| lines.into_iter().map(|(line, end)| line + end).collect::<String>() + "\n\ndata: end\n\n")
        .prop_map(String::into_bytes)
}

fn split(bytes: &[u8], mut cuts: Vec<prop::sample::Index>) -> Vec<&[u8]> {
    let mut cuts: Vec<usize> = cuts.drain(..).map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let mut start = 0;
    cuts.into_iter().map(|end| &bytes[std::mem::replace(&mut start, end)..end]).collect()
}

proptest! {
    #[test]
    fn agrees_with_the_crate_on_well_formed_streams(
        bytes in well_formed(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let pieces = split(&bytes, cuts);
        prop_assert_eq!(parse_pieces(pieces.iter().copied()).0, oracle(&pieces));
    }

    #[test]
    fn any_split_of_any_bytes_gives_the_same(
        bytes in prop::collection::vec(prop_oneof![
            4 => any::<u8>(), 2 => Just(b'\n'), 2 => Just(b'\r'), 1 => Just(b':'), 1 => Just(0xef), 1 => Just(0xbb),
        ], 0..80).prop_flat_map(|noise| (Just(noise), 0usize..4)).prop_map(|(noise, at)| match at {
            0 => noise,
            1 => [BOM, b"data: ", &noise].concat(),
            2 => [b"data: ".as_slice(), &noise, b"\n\ndata: x\r\n\r\n"].concat(),
            _ => [&noise, b"\r\ndata:".as_slice(), &noise, b"\n\n"].concat(),
        }),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let whole = parse_pieces([&bytes[..]]);
        prop_assert_eq!(&parse_pieces(split(&bytes, cuts)), &whole);
        prop_assert_eq!(&parse_pieces(bytes.chunks(1)), &whole);
    }
}

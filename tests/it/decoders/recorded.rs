//! Every stream of the recordings, in both dialects, cut wherever it can be cut.

use std::collections::BTreeMap;

use serde_json::json;

use super::search::wanted;
use super::{Outcome, disorder, read};
use crate::fixtures;
use crate::model_server::{Dialect, Reply, Script};

/// Streams up to this length are cut at every byte, longer ones in their middle only around the ends of lines, unless
/// there is time for all.
const SHORT: usize = 400;

/// A stream's bytes, and whether its connection breaks after them.
type Stream = (Vec<u8>, bool);

/// Returns all streams of the recordings' scripts, each once, with the names of a recording that has it.
fn streams(dialect: Dialect) -> BTreeMap<Stream, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(fixtures::folder().join("setups")).unwrap() {
        let path = entry.unwrap().path();
        let setup = fixtures::json(&path);
        if !setup["scenario"].is_object() {
            continue;
        }
        let script = Script::parse(setup["scenario"].clone());
        let routed = script.routes.iter().flat_map(|route| &route.replies);
        for reply in script.replies.iter().chain(routed).chain(&script.default).filter(|reply| is_stream(reply)) {
            found.entry(stream(dialect, reply)).or_insert_with(|| path.file_stem().unwrap().to_string_lossy().into());
        }
    }
    assert!(found.len() > 50, "{} streams", found.len());
    found
}

fn is_stream(reply: &Reply) -> bool {
    reply.status.is_none() && !reply.drop
}

/// Returns what the recordings' server sends, its faults included.
fn stream(dialect: Dialect, reply: &Reply) -> Stream {
    let request = json!({"model": "plain", "stream_options": {"include_usage": true}});
    let mut bytes = Vec::new();
    // Thousands of equal deltas tell no more than some.
    let mut reply = reply.clone();
    if let Some(synth) = &mut reply.synth {
        synth.deltas = synth.deltas.min(20);
    }
    for (index, chunk) in dialect.chunks(&reply, &request, 1).into_iter().enumerate() {
        let ends = |after: Option<usize>| after.is_some_and(|after| index >= after);
        if ends(reply.cut_after) || ends(reply.hang_after) {
            return (bytes, true);
        }
        if ends(reply.end_after) {
            return (bytes, false);
        }
        if reply.malformed_after == Some(index) {
            bytes.extend_from_slice(b"data: {\"broken\": \n\n");
        }
        if reply.error_after == Some(index) {
            bytes.extend(dialect.error_event(&reply.error.clone().unwrap_or_default()));
            return (bytes, false);
        }
        bytes.extend(chunk);
    }
    (bytes, false)
}

/// Returns the places at which a stream is cut in two.
fn cuts(bytes: &[u8]) -> Vec<usize> {
    let is_all = bytes.len() <= SHORT || wanted().is_some();
    let near_line_end = |at: usize| bytes[at.saturating_sub(2)..(at + 2).min(bytes.len())].contains(&b'\n');
    let is_outside = |at: usize| at < SHORT / 4 || at + SHORT / 4 > bytes.len();
    (0..=bytes.len()).filter(|at| is_all || is_outside(*at) || near_line_end(*at)).collect()
}

#[track_caller]
fn check(dialect: Dialect) {
    for ((bytes, is_cut), name) in streams(dialect) {
        let whole = read(dialect, [&bytes[..]], is_cut);
        assert_eq!(disorder(&whole), None, "{name}");
        let same = |how: &str, found: Outcome| assert!(found == whole, "{name} {how}:\n{found:?}\n{whole:?}");
        for size in [1, 2, 3, 7, 64] {
            same(&format!("in pieces of {size}"), read(dialect, bytes.chunks(size), is_cut));
        }
        for at in cuts(&bytes) {
            let (before, after) = bytes.split_at(at);
            same(&format!("cut at {at}"), read(dialect, [before, after], is_cut));
        }
        // Other ends of lines say the same.
        for end in ["\r\n", "\r"] {
            let other = String::from_utf8(bytes.clone()).unwrap().replace('\n', end);
            same("with other line ends", read(dialect, [other.as_bytes()], is_cut));
            same("with other line ends, byte by byte", read(dialect, other.as_bytes().chunks(1), is_cut));
        }
    }
}

#[test]
fn chat_streams_mean_the_same_in_any_pieces() {
    check(Dialect::Chat);
}

#[test]
fn messages_streams_mean_the_same_in_any_pieces() {
    check(Dialect::Anthropic);
}

/// The end of a body may come anywhere; what came before is in order, and no beginning is taken for the whole.
#[test]
fn b005_no_beginning_of_a_recorded_stream_is_a_response() {
    for dialect in [Dialect::Chat, Dialect::Anthropic] {
        for ((bytes, _), name) in streams(dialect) {
            let marker: &[u8] = if dialect == Dialect::Chat { b"\"finish_reason\":\"" } else { b"message_stop" };
            let end = bytes.windows(marker.len()).position(|window| window == marker).unwrap_or(bytes.len());
            for at in cuts(&bytes).into_iter().filter(|at| *at <= end) {
                let outcome = read(dialect, [&bytes[..at]], false);
                assert!(outcome.1.is_err() && disorder(&outcome).is_none(), "{name} {dialect:?} ends at {at}");
            }
        }
    }
}

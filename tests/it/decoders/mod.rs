//! From the bytes of a provider to stream events: the same whatever the pieces in which they come, and well formed
//! whatever the bytes are.
//!
//! [`recorded`] reads every stream of the recordings, [`made`] streams in all notations that the standard allows,
//! [`noise`] anything at all. `AGENTD_FUZZ_SECONDS` makes each of the searches go on for that long; without it they
//! take a fixed, small number of cases.

mod made;
mod noise;
mod recorded;
mod search;
mod shell;

use std::sync::Arc;

use agentd::provider::reader::{Decode, Flow, Reader};
use agentd::provider::sse::SseParser;
use agentd::provider::{ProviderError, Secret, StreamEvent, anthropic_messages, demo_spec, openai_completions};

use crate::model_server::Dialect;

/// Stands for a key in what a provider says; it may stand in nothing that comes out.
const KEY: &str = "sk-CANARY123";

/// What a response was.
type Outcome = (Vec<StreamEvent>, Result<(), ProviderError>);

/// Reads a response that comes in these pieces and then ends in order, or breaks (`is_cut`).
fn read<'a>(dialect: Dialect, pieces: impl IntoIterator<Item = &'a [u8]>, is_cut: bool) -> Outcome {
    let (spec, seed, keys) = (Arc::new(demo_spec()), "seed".to_owned(), vec![Secret::new(KEY)]);
    match dialect {
        Dialect::Chat => read_with(openai_completions::decode::Decoder::new(spec, seed, keys), pieces, is_cut),
        Dialect::Anthropic => read_with(anthropic_messages::decode::Decoder::new(spec, seed, keys), pieces, is_cut),
    }
}

fn read_with<'a>(decoder: impl Decode, pieces: impl IntoIterator<Item = &'a [u8]>, is_cut: bool) -> Outcome {
    let mut reader = Reader::new(decoder);
    let mut out = Vec::new();
    let mut cut = is_cut.then(|| ProviderError::cut("other side closed"));
    for piece in pieces {
        match reader.push(piece, &mut out) {
            Ok(Flow::More | Flow::Aside) => {}
            Ok(Flow::Done) => {
                cut = None;
                break;
            }
            Err(error) => return (out, Err(error)),
        }
    }
    let ended = reader.end(cut, &mut out);
    (out, ended)
}

/// Returns what is wrong with the order of events.
fn disorder((events, ended): &Outcome) -> Option<String> {
    let mut open: Vec<bool> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let is_right = match event {
            StreamEvent::Started => false,
            StreamEvent::Meta { .. } | StreamEvent::Usage(_) => true,
            StreamEvent::BlockStart { index, .. } => {
                open.push(true);
                *index + 1 == open.len()
            }
            StreamEvent::Delta { index, .. }
            | StreamEvent::Signature { index, .. }
            | StreamEvent::Redacted { index }
            | StreamEvent::ToolCallName { index, .. } => open.get(*index) == Some(&true),
            StreamEvent::BlockEnd { index } => open.get_mut(*index).is_some_and(std::mem::take),
            StreamEvent::Stop { .. } => at + 1 == events.len() && open.iter().all(|is_open| !is_open),
        };
        if !is_right {
            return Some(format!("event {at} is out of place: {event:?}"));
        }
    }
    let has_stop = matches!(events.last(), Some(StreamEvent::Stop { .. }));
    (ended.is_ok() && !has_stop).then(|| "a response without an end is taken for whole".to_owned())
}

/// Type and data of each server-sent event, and of one that the end cut.
type SseOutcome = (Vec<(String, String)>, Option<(String, String)>);

fn read_sse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> SseOutcome {
    let mut parser = SseParser::new();
    let mut events = Vec::new();
    for piece in pieces {
        parser.push(piece, |event| events.push((event.event.to_owned(), event.data.to_owned()))).unwrap();
    }
    let mut cut = None;
    parser.finish(|event| cut = Some((event.event.to_owned(), event.data.to_owned())));
    (events, cut)
}

/// Cuts bytes at these places.
fn split<'a>(bytes: &'a [u8], cuts: &[proptest::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let mut start = 0;
    cuts.into_iter().map(|end| &bytes[std::mem::replace(&mut start, end)..end]).collect()
}

//! The body of a streaming response, as it comes from the network, to stream events.
//!
//! Pure: the one place that knows in which order parser and decoder are asked, at the end of a stream too.

use super::error::{ErrorClass, ProviderError};
use super::sse::{EventTooLarge, SseEvent, SseParser};
use super::stream::StreamEvent;
use crate::constants::MAX_SSE_EVENT_BYTES;

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// More may come.
    More,
    /// More may come; this only kept the connection open, and is no sign that the model still works.
    Aside,
    /// The response is complete; the rest of the stream need not be read.
    Done,
}

/// Decodes the events of one response of a dialect.
pub trait Decode {
    /// Decodes one event; what it means is added to `out`. A body that is one JSON value comes as the data of one
    /// event without a type.
    ///
    /// # Errors
    /// When the event is an error or cannot be understood. `out` may have been added to before.
    fn event(&mut self, event: SseEvent<'_>, out: &mut Vec<StreamEvent>) -> Result<Flow, ProviderError>;

    /// Ends the response: after its last event, at the orderly end of the body, or after that broke (`cut`).
    ///
    /// # Errors
    /// When the response is not complete, or ended for a reason that makes it unusable.
    fn finish(self, cut: Option<ProviderError>, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError>;
}

/// Reads one response.
pub struct Reader<D> {
    sse: SseParser,
    decoder: D,
    events: u64,
    /// The body, where it is one JSON value.
    whole: Vec<u8>,
    /// The response is complete.
    is_done: bool,
}

impl<D: Decode> Reader<D> {
    /// Returns a reader at the start of a body.
    pub fn new(decoder: D) -> Self {
        Self { sse: SseParser::new(), decoder, events: 0, whole: Vec::new(), is_done: false }
    }

    /// Takes the next bytes; what they mean is added to `out`.
    ///
    /// # Errors
    /// When the response is an error or cannot be understood. `out` holds what came before.
    #[inline]
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) -> Result<Flow, ProviderError> {
        if self.sse.push_middle(bytes) { Ok(Flow::More) } else { self.decode(bytes, out) }
    }

    #[inline(never)]
    fn decode(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) -> Result<Flow, ProviderError> {
        let Self { sse, decoder, events, .. } = self;
        let mut flow = Ok(Flow::More);
        let pushed = sse.push(bytes, |event| {
            // What follows the end, or an error, is of no interest.
            if let Ok(Flow::More | Flow::Aside) = flow {
                flow = decoder.event(event, out);
                *events += u64::from(flow != Ok(Flow::Aside));
            }
        });
        if let (Ok(Flow::More | Flow::Aside), Err(error)) = (&flow, pushed) {
            return Err(too_large(error));
        }
        self.is_done |= matches!(flow, Ok(Flow::Done));
        flow
    }

    /// Takes the next bytes of a body that is no stream: some servers answer with one JSON value all the same.
    ///
    /// # Errors
    /// When it is too large.
    pub fn keep(&mut self, bytes: &[u8]) -> Result<Flow, ProviderError> {
        if self.whole.len() + bytes.len() > MAX_SSE_EVENT_BYTES {
            return Err(too_large(EventTooLarge));
        }
        self.whole.extend_from_slice(bytes);
        Ok(Flow::More)
    }

    /// Ends the response: in order, or because it broke or fell silent (`cut`).
    ///
    /// # Errors
    /// When it is not complete, or unusable.
    pub fn end(self, cut: Option<ProviderError>, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let Self { sse, mut decoder, whole, is_done, .. } = self;
        let mut last = Ok(Flow::More);
        if is_done {
            // What follows the end in the same piece is of no interest either.
        } else if cut.is_none() && whole.is_empty() {
            sse.finish(|event| {
                // The last event of a body that ended in order may lack its blank line. Half an event is no event.
                if event.data.trim() == "[DONE]" || is_json(event.data) {
                    last = decoder.event(event, out);
                }
            });
        } else if cut.is_none() {
            let data = String::from_utf8_lossy(&whole);
            last = decoder.event(SseEvent { event: "", data: &data }, out);
        }
        last?;
        decoder.finish(cut, out)
    }

    /// Returns the number of events so far. Comments are no events, and neither is what only keeps the connection open.
    pub fn events(&self) -> u64 {
        self.events
    }
}

fn too_large(error: EventTooLarge) -> ProviderError {
    ProviderError::new(ErrorClass::Malformed, format!("Error reading response: {error}."))
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

//! The body of a streaming response, as it comes from the network, to stream events.
//!
//! Pure: the one place that knows in which order parser and decoder are asked, at the end of a stream too.

use bytes::Bytes;

use super::decode::{Decoder, Flow};
use crate::constants::MAX_SSE_EVENT_BYTES;
use crate::provider::error::{ErrorClass, ProviderError};
use crate::provider::sse::{EventTooLarge, SseEvent, SseParser};
use crate::provider::stream::StreamEvent;

/// Reads one response.
pub struct Reader {
    sse: SseParser,
    decoder: Decoder,
    events: u64,
    /// The body, where it is one JSON value.
    whole: Vec<u8>,
}

impl Reader {
    /// Returns a reader at the start of a body.
    pub fn new(decoder: Decoder) -> Self {
        Self { sse: SseParser::new(), decoder, events: 0, whole: Vec::new() }
    }

    /// Takes the next bytes; what they mean is added to `out`.
    ///
    /// # Errors
    /// When the response is an error or cannot be understood. `out` holds what came before.
    pub fn push(&mut self, bytes: &Bytes, out: &mut Vec<StreamEvent>) -> Result<Flow, ProviderError> {
        let Self { sse, decoder, events, .. } = self;
        let mut flow = Ok(Flow::More);
        let pushed = sse.push(bytes, |event| {
            *events += 1;
            // What follows the end, or an error, is of no interest.
            if flow == Ok(Flow::More) {
                flow = decoder.event(&event, out);
            }
        });
        if let (Ok(Flow::More), Err(error)) = (&flow, pushed) {
            return Err(too_large(error));
        }
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
        let Self { sse, mut decoder, whole, .. } = self;
        let last = if whole.is_empty() {
            // The last event of a body that ended in order may lack its blank line. Half an event is no event.
            sse.finish().filter(|event| event.data.trim() == "[DONE]" || is_json(&event.data))
        } else {
            let data = String::from_utf8_lossy(&whole).into_owned();
            Some(SseEvent { event: String::new(), data })
        };
        if cut.is_none()
            && let Some(event) = last
        {
            decoder.event(&event, out)?;
        }
        decoder.finish(cut, out)
    }

    /// Returns the number of events so far. Comments are no events.
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

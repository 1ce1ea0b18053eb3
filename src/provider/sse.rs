//! Bytes to server-sent events.
//!
//! Pure: bytes are pushed in as they come from the network, in any pieces, and events come out.
//!
//! The events themselves are parsed by `eventsource-stream`, which must not see raw bytes: it panics on a byte order
//! mark, goes silent for ever after one byte that is not UTF-8, and takes quadratic time over long lines and over
//! many events in one piece. So a chunker stands in front of it and hands over whole lines only: without the mark,
//! ended by LF, in valid UTF-8, and of bounded size. Comments never get that far.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use eventsource_stream::EventStream;
use futures_util::Stream;

use crate::constants::MAX_SSE_EVENT_BYTES;

/// Byte order mark, which may stand before the first line and means nothing.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// Its type; `message` when the stream does not name one.
    pub event: String,
    /// Its data.
    pub data: String,
}

/// An event, or one line of it, is larger than [`MAX_SSE_EVENT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is larger than {} MiB", MAX_SSE_EVENT_BYTES / (1024 * 1024))]
pub struct EventTooLarge;

/// Parses one stream.
pub struct SseParser {
    chunker: Chunker,
    slot: Slot,
    events: EventStream<Slot>,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::new()
    }
}

impl SseParser {
    /// Returns a parser at the start of a stream.
    pub fn new() -> Self {
        let slot = Slot::default();
        let mut events = EventStream::new(slot.clone());
        // It takes the first thing it sees for the start of the stream, where it would choke on a second byte order
        // mark. A blank line means nothing.
        deliver(&slot, &mut events, Bytes::from_static(b"\n"), &mut |_| {});
        Self { chunker: Chunker::new(MAX_SSE_EVENT_BYTES), slot, events }
    }

    /// Takes the next bytes and gives each event that is complete with them to `sink`.
    ///
    /// # Errors
    /// [`EventTooLarge`]; the stream is of no use then.
    pub fn push(&mut self, bytes: &Bytes, mut sink: impl FnMut(SseEvent)) -> Result<(), EventTooLarge> {
        let Self { chunker, slot, events } = self;
        chunker.push(bytes, |lines| deliver(slot, events, lines, &mut sink))
    }

    /// Ends the stream and returns the event that its end may have cut.
    ///
    /// The standard says to drop it, but some servers leave out the blank line after their last event. Whether it is
    /// whole only its data can tell.
    pub fn finish(mut self) -> Option<SseEvent> {
        let mut last = self.chunker.finish();
        last.extend_from_slice(b"\n\n");
        let mut cut = None;
        deliver(&self.slot, &mut self.events, Bytes::from(last), &mut |event| cut = Some(event));
        cut
    }
}

/// Hands lines to the parser and takes its events out. It asks for input only when it has none left.
fn deliver(slot: &Slot, events: &mut EventStream<Slot>, lines: Bytes, sink: &mut impl FnMut(SseEvent)) {
    slot.put(lines);
    let mut context = Context::from_waker(Waker::noop());
    // Errors cannot come up: the source has none, and lines are valid UTF-8.
    while let Poll::Ready(Some(Ok(event))) = Pin::new(&mut *events).poll_next(&mut context) {
        sink(SseEvent { event: event.event, data: event.data });
    }
}

/// Where the chunker leaves lines for the parser, which reads them as a stream.
#[derive(Clone, Default)]
struct Slot(Arc<Mutex<Option<Bytes>>>);

impl Slot {
    fn put(&self, lines: Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(lines);
    }
}

impl Stream for Slot {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(lines) => Poll::Ready(Some(Ok(lines))),
            None => Poll::Pending,
        }
    }
}

/// Cuts bytes into lines that the parser can be given.
struct Chunker {
    /// Most bytes of an event.
    limit: usize,
    /// Beginning of the current line, from earlier pieces.
    partial: Vec<u8>,
    /// Bytes of the current event in lines before this one.
    event_bytes: usize,
    /// The current line is a comment; the rest of it is skipped.
    in_comment: bool,
    /// The last piece ended in CR; a LF at the start of the next one belongs to it.
    after_cr: bool,
    /// A line has been seen, so that a byte order mark is text.
    past_start: bool,
}

impl Chunker {
    fn new(limit: usize) -> Self {
        Self { limit, partial: Vec::new(), event_bytes: 0, in_comment: false, after_cr: false, past_start: false }
    }

    /// Gives each line to `emit`: ended by LF, and together with the blank line after it where that is at hand.
    fn push(&mut self, bytes: &Bytes, mut emit: impl FnMut(Bytes)) -> Result<(), EventTooLarge> {
        let mut at = 0;
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            at = usize::from(bytes[0] == b'\n');
        }
        while at < bytes.len() {
            if self.partial.is_empty() && bytes[at] == b':' {
                self.in_comment = true;
            }
            let Some(length) = memchr::memchr2(b'\n', b'\r', &bytes[at..]) else {
                return self.keep(&bytes[at..]);
            };
            let end = at + length;
            let next = self.after_line_end(bytes, end);
            if std::mem::take(&mut self.in_comment) {
                self.past_start = true;
                at = next;
                continue;
            }
            if self.partial.is_empty() && length > 0 && bytes[end] == b'\n' && bytes.get(next) == Some(&b'\n') {
                // The usual case, in one go and without a copy: a line of this piece and a blank line after it.
                self.check_size(length)?;
                self.event_bytes = 0;
                emit(self.clean(bytes.slice(at..next + 1)));
                at = next + 1;
                continue;
            }
            emit(self.line(bytes, at, end)?);
            at = next;
        }
        Ok(())
    }

    /// Returns what is left of a line without an end.
    fn finish(mut self) -> Vec<u8> {
        let rest = std::mem::take(&mut self.partial);
        self.clean(Bytes::from(rest)).to_vec()
    }

    /// Keeps the beginning of a line for later.
    fn keep(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        if self.in_comment {
            return Ok(());
        }
        self.check_size(self.partial.len() + bytes.len())?;
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the line that ends at `end`, with LF.
    fn line(&mut self, bytes: &Bytes, start: usize, end: usize) -> Result<Bytes, EventTooLarge> {
        let length = self.partial.len() + (end - start);
        self.check_size(length)?;
        self.event_bytes = if length == 0 { 0 } else { self.event_bytes + length };
        if self.partial.is_empty() && bytes[end] == b'\n' {
            return Ok(self.clean(bytes.slice(start..=end)));
        }
        let mut line = std::mem::take(&mut self.partial);
        line.extend_from_slice(&bytes[start..end]);
        line.push(b'\n');
        Ok(self.clean(Bytes::from(line)))
    }

    /// Returns where the next line begins.
    fn after_line_end(&mut self, bytes: &[u8], end: usize) -> usize {
        if bytes[end] == b'\n' {
            return end + 1;
        }
        match bytes.get(end + 1) {
            Some(b'\n') => end + 2,
            Some(_) => end + 1,
            None => {
                self.after_cr = true;
                end + 1
            }
        }
    }

    /// Takes the byte order mark off the first line, and replaces what is not UTF-8.
    fn clean(&mut self, mut line: Bytes) -> Bytes {
        if !std::mem::replace(&mut self.past_start, true) && line.starts_with(BOM) {
            line = line.slice(BOM.len()..);
        }
        // The usual case is looked for first: it is checked many bytes at a time, repair goes byte by byte.
        if std::str::from_utf8(&line).is_ok() {
            return line;
        }
        Bytes::from(String::from_utf8_lossy(&line).into_owned())
    }

    fn check_size(&self, line: usize) -> Result<(), EventTooLarge> {
        if self.event_bytes + line > self.limit { Err(EventTooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;

//! Bytes to server-sent events.
//!
//! Pure: bytes are pushed in as they come from the network, in any pieces, and events come out.
//!
//! [`Lines`] cuts the bytes: lines without a byte order mark, in valid UTF-8, of bounded size; comments end there.
//! [`Fields`] makes events of them. The plainest events, which are nearly all that models send, it reads itself; what is
//! written in any other way is parsed by `eventsource-stream`, and a differential test holds the two together. That
//! crate must not see raw bytes: it panics on a byte order mark, goes silent for ever after one byte that is not UTF-8,
//! and takes quadratic time over long lines and over many events in one piece.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use eventsource_stream::EventStream;
use futures_util::Stream;

use self::line_start::{LineStart, SMALL_PIECE, is_line_end};
use crate::constants::MAX_SSE_EVENT_BYTES;

mod line_start;

/// Byte order mark, which may stand before the first line and means nothing.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Its type; `message` when the stream does not name one.
    pub event: &'a str,
    /// Its data.
    pub data: &'a str,
}

/// An event, or one line of it, is larger than [`MAX_SSE_EVENT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is larger than {} MiB", MAX_SSE_EVENT_BYTES / (1024 * 1024))]
pub struct EventTooLarge;

/// Parses one stream.
pub struct SseParser {
    lines: Lines,
    fields: Fields,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::new()
    }
}

impl SseParser {
    /// Returns a parser at the start of a stream.
    pub fn new() -> Self {
        Self { lines: Lines::new(MAX_SSE_EVENT_BYTES), fields: Fields::new() }
    }

    /// Takes the next bytes and gives each event that is complete with them to `sink`.
    ///
    /// # Errors
    /// [`EventTooLarge`]; the stream is of no use then.
    pub fn push(&mut self, bytes: &[u8], mut sink: impl FnMut(SseEvent<'_>)) -> Result<(), EventTooLarge> {
        let Self { lines, fields } = self;
        lines.push(bytes, |line, is_last| fields.line(line, is_last, &mut sink))
    }

    /// Takes the next bytes if they are few and from the middle of a line, which is what most pieces are when a body
    /// comes byte by byte. Returns whether it did; [`push`](Self::push) is for all others.
    #[inline]
    pub fn push_middle(&mut self, bytes: &[u8]) -> bool {
        self.lines.start.add_small(bytes)
    }

    /// Ends the stream and gives the event that its end may have cut to `sink`.
    ///
    /// The standard says to drop it, but some servers leave out the blank line after their last event. Whether it is
    /// whole only its data can tell.
    pub fn finish(mut self, mut sink: impl FnMut(SseEvent<'_>)) {
        let rest = std::mem::take(&mut self.lines.start);
        self.fields.line(&self.lines.clean(rest.bytes()), true, &mut sink);
    }
}

/// Lines to events.
///
/// Nearly all events of models are one line of data, with a line before it that names their type where the dialect has
/// types: those are read here, without a copy where the line is at hand. All others are the crate's.
struct Fields {
    /// Type of the event that began; empty without one.
    name: String,
    /// Its line of data, where that came apart from its end.
    data: Option<String>,
    /// The event that began is the crate's.
    is_handed_over: bool,
    slot: Slot,
    events: EventStream<Slot>,
}

impl Fields {
    fn new() -> Self {
        let slot = Slot::default();
        let mut events = EventStream::new(slot.clone());
        // It takes the first thing it sees for the start of the stream, where it would choke on a second byte order
        // mark. A blank line means nothing.
        deliver(&slot, &mut events, "\n".to_owned(), &mut |_| {});
        Self { name: String::new(), data: None, is_handed_over: false, slot, events }
    }

    /// Takes a line without its end. `is_last` says that a blank line follows, which is not given.
    fn line(&mut self, line: &str, is_last: bool, sink: &mut impl FnMut(SseEvent<'_>)) {
        if !self.is_handed_over {
            if let Some(name) = value(line, "event") {
                self.name.clear();
                self.name.push_str(name);
                return if is_last {
                    self.end(sink)
                };
            }
            if let Some(data) = value(line, "data").filter(|_| self.data.is_none()) {
                if is_last {
                    sink(SseEvent { event: type_of(&self.name), data });
                    return self.name.clear();
                }
                return self.data = Some(data.to_owned());
            }
            if line.is_empty() {
                return self.end(sink);
            }
            self.hand_over(sink);
        }
        deliver(&self.slot, &mut self.events, format!("{line}\n{}", if is_last { "\n" } else { "" }), sink);
        self.is_handed_over = !is_last && !line.is_empty();
    }

    /// Ends an event that is not the crate's. Without data it is none.
    fn end(&mut self, sink: &mut impl FnMut(SseEvent<'_>)) {
        if let Some(data) = self.data.take() {
            sink(SseEvent { event: type_of(&self.name), data: &data });
        }
        self.name.clear();
    }

    /// Gives the crate what came of an event so far.
    fn hand_over(&mut self, sink: &mut impl FnMut(SseEvent<'_>)) {
        let mut lines = format!("event: {}\n", std::mem::take(&mut self.name));
        if let Some(data) = self.data.take() {
            lines = lines + "data: " + &data + "\n";
        }
        deliver(&self.slot, &mut self.events, lines, sink);
    }
}

/// Returns where the first line ends.
fn line_end(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < SMALL_PIECE {
        return bytes.iter().position(|byte| is_line_end(*byte));
    }
    memchr::memchr2(b'\n', b'\r', bytes)
}

/// Returns the value of a line that is this field.
fn value<'a>(line: &'a str, field: &str) -> Option<&'a str> {
    let value = line.strip_prefix(field)?.strip_prefix(':')?;
    Some(value.strip_prefix(' ').unwrap_or(value))
}

fn type_of(name: &str) -> &str {
    if name.is_empty() { "message" } else { name }
}

/// Hands lines to the crate and takes its events out. It asks for input only when it has none left.
fn deliver(slot: &Slot, events: &mut EventStream<Slot>, lines: String, sink: &mut impl FnMut(SseEvent<'_>)) {
    slot.put(lines);
    let mut context = Context::from_waker(Waker::noop());
    // Errors cannot come up: the source has none, and lines are valid UTF-8.
    while let Poll::Ready(Some(Ok(event))) = Pin::new(&mut *events).poll_next(&mut context) {
        sink(SseEvent { event: &event.event, data: &event.data });
    }
}

/// Where lines are left for the crate, which reads them as a stream.
#[derive(Clone, Default)]
struct Slot(Arc<Mutex<Option<String>>>);

impl Slot {
    fn put(&self, lines: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(lines);
    }
}

impl Stream for Slot {
    type Item = Result<String, Infallible>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(lines) => Poll::Ready(Some(Ok(lines))),
            None => Poll::Pending,
        }
    }
}

/// Cuts bytes into lines.
struct Lines {
    /// Most bytes of an event.
    limit: usize,
    /// Beginning of the current line, from earlier pieces.
    start: LineStart,
    /// Bytes of the current event in lines before this one.
    event_bytes: usize,
    /// The current line is a comment; the rest of it is skipped.
    in_comment: bool,
    /// The last piece ended in CR; a LF at the start of the next one belongs to it.
    after_cr: bool,
    /// A line has been seen, so that a byte order mark is text.
    past_start: bool,
}

impl Lines {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            start: LineStart::default(),
            event_bytes: 0,
            in_comment: false,
            after_cr: false,
            past_start: false,
        }
    }

    /// Gives each line to `emit`, without its end, and whether a blank line follows that is not given.
    fn push(&mut self, bytes: &[u8], mut emit: impl FnMut(&str, bool)) -> Result<(), EventTooLarge> {
        let mut at = 0;
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            at = usize::from(bytes[0] == b'\n');
        }
        while at < bytes.len() {
            if self.start.is_empty() && bytes[at] == b':' {
                self.in_comment = true;
            }
            let Some(length) = line_end(&bytes[at..]) else {
                return self.keep(&bytes[at..]);
            };
            let (end, next) = (at + length, self.after_line_end(bytes, at + length));
            if std::mem::take(&mut self.in_comment) {
                self.past_start = true;
                at = next;
                continue;
            }
            let blank = match bytes[next..] {
                [b'\n', ..] => 1,
                [b'\r', b'\n', ..] => 2,
                _ => 0,
            };
            self.count(length, blank > 0)?;
            self.line(&bytes[at..end], |line| emit(line, blank > 0));
            at = next + blank;
        }
        Ok(())
    }

    /// Keeps the beginning of a line for later.
    fn keep(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        if self.in_comment {
            return Ok(());
        }
        self.check_size(self.start.len() + bytes.len())?;
        self.start.add(bytes, self.limit - self.event_bytes);
        Ok(())
    }

    /// Counts a line whose last `length` bytes came now.
    fn count(&mut self, length: usize, is_last: bool) -> Result<(), EventTooLarge> {
        let size = self.start.len() + length;
        self.check_size(size)?;
        self.event_bytes = if is_last || size == 0 { 0 } else { self.event_bytes + size };
        Ok(())
    }

    /// Puts a line together with its end, which came now.
    fn line(&mut self, end: &[u8], emit: impl FnOnce(&str)) {
        if self.start.is_empty() {
            return emit(&self.clean(end));
        }
        let mut line = std::mem::take(&mut self.start);
        line.add(end, 0);
        emit(&self.clean(line.bytes()));
        line.clear();
        self.start = line;
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
    fn clean<'a>(&mut self, mut line: &'a [u8]) -> Cow<'a, str> {
        if !std::mem::replace(&mut self.past_start, true) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        // The usual case is looked for first: it is checked many bytes at a time, repair goes byte by byte.
        std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed)
    }

    fn check_size(&self, line: usize) -> Result<(), EventTooLarge> {
        if self.event_bytes + line > self.limit { Err(EventTooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;

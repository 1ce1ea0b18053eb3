//! How messages are cut out of a byte stream, for the daemon and its clients.
//!
//! Two framings are spoken. **Lines**: one JSON value a line, ended by LF, one CR before it dropped, blank lines
//! ignored. **LSP**: headers in any letter case and order, a blank line, then exactly `Content-Length` bytes. A
//! [`Decoder`] finds out by the first byte which one the peer speaks. A message over the limit is skipped exactly and
//! reported, so that the connection lives on; only bytes that are neither framing end it.
//!
//! What is inside a message (other than that it is UTF-8) is none of this module's business.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Largest block of headers before one message in LSP framing: two short headers are usual.
const MAX_HEADER_BYTES: usize = 8 * 1024;
/// Room made for one read.
const READ_BYTES: usize = 8 * 1024;
/// An empty buffer that has grown beyond this is given back, so that one large message does not pin its memory.
const KEEP_BUFFER_BYTES: usize = 64 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// How messages are delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One JSON value a line.
    Lines,
    /// `Content-Length` headers, as in the Language Server Protocol.
    Lsp,
}

impl Framing {
    /// Appends `body`, which must not hold a line feed in [`Framing::Lines`], as one message.
    pub fn encode(self, body: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Lines => {
                out.reserve(body.len() + 1);
                out.extend_from_slice(body);
                out.push(b'\n');
            }
            Self::Lsp => {
                out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
                out.extend_from_slice(body);
            }
        }
    }
}

/// What a [`Decoder`] cuts out of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// One message: not blank, and UTF-8.
    Message(Bytes),
    /// A message over the limit; it is being skipped and its content is not kept.
    TooLong,
    /// A message that is not UTF-8; it was skipped.
    NotUtf8,
    /// The stream ended inside a message in LSP framing.
    Truncated,
}

/// Bytes that are neither framing: there is no telling where the next message begins.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The stream begins with something that neither JSON nor a header begins with.
    #[error("a connection begins with a JSON value or with an LSP header, not with byte 0x{0:02x}")]
    Unrecognised(u8),
    /// A header line without a colon, or one that is not ASCII.
    #[error("malformed LSP header line")]
    MalformedHeader,
    /// Headers without a usable `Content-Length`.
    #[error("LSP headers without one valid Content-Length")]
    NoLength,
    /// Headers without end.
    #[error("LSP headers over {MAX_HEADER_BYTES} bytes")]
    HeaderTooLong,
}

/// Cuts a byte stream into messages. Does no IO: bytes are put into [`Decoder::buffer`].
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    /// Bytes at the beginning of `buffer` that are known to hold no line feed.
    scanned: usize,
    framing: Option<Framing>,
    max_bytes: usize,
    state: State,
    at_start: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At or within a line, or within headers.
    Line,
    /// In an over-long line.
    SkipLine,
    /// In a body of which this many bytes are to come.
    Body(usize),
    /// In an over-long body of which this many bytes are to come.
    SkipBody(u64),
}

impl Decoder {
    /// Makes a decoder that finds the framing out by the first bytes. Messages over `max_bytes` are skipped.
    pub fn new(max_bytes: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, framing: None, max_bytes, state: State::Line, at_start: true }
    }

    /// Makes a decoder of a known framing.
    pub fn with_framing(framing: Framing, max_bytes: usize) -> Self {
        Self { framing: Some(framing), ..Self::new(max_bytes) }
    }

    /// Returns the framing, once it is known.
    pub fn framing(&self) -> Option<Framing> {
        self.framing
    }

    /// Forgets the framing: the next message tells it anew. Used after the line with which a front introduces itself
    /// before it passes on whatever its own client speaks.
    pub fn detect_again(&mut self) {
        self.framing = None;
        self.at_start = true;
    }

    /// Returns where received bytes are to be appended.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Returns the next message, or `None` until more bytes have come.
    ///
    /// # Errors
    /// When the bytes are neither framing; the connection cannot go on.
    pub fn decode(&mut self) -> Result<Option<Frame>, FramingError> {
        let frame = match self.detect()? {
            None => None,
            Some(Framing::Lines) => self.decode_line(),
            Some(Framing::Lsp) => self.decode_lsp()?,
        };
        if frame.is_none() && self.buffer.is_empty() && self.buffer.capacity() > KEEP_BUFFER_BYTES {
            self.buffer = BytesMut::new();
        }
        Ok(frame)
    }

    /// Returns what is left at the end of the stream: a line may lack its LF, an LSP message is cut off.
    pub fn finish(&mut self) -> Option<Frame> {
        if self.framing == Some(Framing::Lsp) {
            let is_within = match self.state {
                State::Line | State::SkipLine => self.buffer.iter().any(|byte| !is_blank(*byte)),
                State::Body(_) => true,
                // It was reported when it began.
                State::SkipBody(_) => false,
            };
            self.buffer.clear();
            return is_within.then_some(Frame::Truncated);
        }
        if self.framing != Some(Framing::Lines) || self.state != State::Line {
            return None;
        }
        let line = self.buffer.split();
        self.scanned = 0;
        message_of(strip_cr(line.freeze()))
    }

    fn detect(&mut self) -> Result<Option<Framing>, FramingError> {
        if self.at_start {
            if self.buffer.len() < BOM.len() && BOM.starts_with(&self.buffer) {
                return Ok(None); // nothing yet, or possibly the beginning of a byte order mark
            }
            if self.buffer.starts_with(BOM) {
                self.buffer.advance(BOM.len());
            }
            self.at_start = false;
        }
        if self.framing.is_none() {
            let blanks = self.buffer.iter().take_while(|byte| is_blank(**byte)).count();
            self.buffer.advance(blanks);
            self.framing = match self.buffer.first() {
                None => None,
                Some(byte) if byte.is_ascii_alphabetic() => Some(Framing::Lsp),
                Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9') => Some(Framing::Lines),
                Some(byte) => return Err(FramingError::Unrecognised(*byte)),
            };
        }
        Ok(self.framing)
    }

    fn decode_line(&mut self) -> Option<Frame> {
        loop {
            let line_feed = memchr::memchr(b'\n', &self.buffer[self.scanned..]).map(|at| self.scanned + at);
            match (self.state, line_feed) {
                (State::SkipLine, Some(at)) => {
                    self.buffer.advance(at + 1);
                    self.scanned = 0;
                    self.state = State::Line;
                }
                (State::SkipLine, None) => {
                    self.buffer.clear();
                    self.scanned = 0;
                    return None;
                }
                (_, Some(at)) if at > self.max_bytes => {
                    self.buffer.advance(at + 1);
                    self.scanned = 0;
                    return Some(Frame::TooLong);
                }
                (_, Some(at)) => {
                    let line = self.buffer.split_to(at).freeze();
                    self.buffer.advance(1);
                    self.scanned = 0;
                    if let Some(frame) = message_of(strip_cr(line)) {
                        return Some(frame);
                    }
                }
                (_, None) if self.buffer.len() > self.max_bytes => {
                    self.state = State::SkipLine;
                    self.buffer.clear();
                    self.scanned = 0;
                    return Some(Frame::TooLong);
                }
                (_, None) => {
                    self.scanned = self.buffer.len();
                    return None;
                }
            }
        }
    }

    fn decode_lsp(&mut self) -> Result<Option<Frame>, FramingError> {
        loop {
            match self.state {
                State::Line | State::SkipLine => {
                    let Some(length) = self.decode_headers()? else { return Ok(None) };
                    if length > self.max_bytes as u64 {
                        self.state = State::SkipBody(length);
                        return Ok(Some(Frame::TooLong));
                    }
                    self.state = State::Body(length as usize);
                }
                State::SkipBody(left) => {
                    let skipped = left.min(self.buffer.len() as u64);
                    self.buffer.advance(skipped as usize);
                    self.state = if skipped == left { State::Line } else { State::SkipBody(left - skipped) };
                    if skipped < left {
                        return Ok(None);
                    }
                }
                State::Body(length) if self.buffer.len() < length => return Ok(None),
                State::Body(length) => {
                    self.state = State::Line;
                    if let Some(frame) = message_of(self.buffer.split_to(length).freeze()) {
                        return Ok(Some(frame));
                    }
                }
            }
        }
    }

    /// Takes a whole block of headers from the buffer and returns the length that they announce.
    fn decode_headers(&mut self) -> Result<Option<u64>, FramingError> {
        if self.scanned == 0 {
            let blanks = self.buffer.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.buffer.advance(blanks); // blank lines that some writers put after a body
        }
        let mut line_start = 0;
        let mut length = None;
        while let Some(at) = memchr::memchr(b'\n', &self.buffer[line_start..]) {
            if line_start + at >= MAX_HEADER_BYTES {
                return Err(FramingError::HeaderTooLong);
            }
            let line = &self.buffer[line_start..line_start + at];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            line_start += at + 1;
            if line.is_empty() {
                self.buffer.advance(line_start);
                self.scanned = 0;
                return length.map(Some).ok_or(FramingError::NoLength);
            }
            if let Some(value) = content_length(line)? {
                if length.is_some_and(|earlier| earlier != value) {
                    return Err(FramingError::NoLength);
                }
                length = Some(value);
            }
        }
        if self.buffer.len() > MAX_HEADER_BYTES {
            return Err(FramingError::HeaderTooLong);
        }
        self.scanned = self.buffer.len(); // only tells that headers have begun; they are short enough to read again
        Ok(None)
    }
}

/// Returns the value of a `Content-Length` header, `None` for another header.
fn content_length(line: &[u8]) -> Result<Option<u64>, FramingError> {
    let line = std::str::from_utf8(line).map_err(|_| FramingError::MalformedHeader)?;
    let (name, value) = line.split_once(':').ok_or(FramingError::MalformedHeader)?;
    if !name.trim().eq_ignore_ascii_case("content-length") {
        return Ok(None);
    }
    let digits = value.trim();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FramingError::NoLength);
    }
    digits.parse().map(Some).map_err(|_| FramingError::NoLength)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn strip_cr(mut line: Bytes) -> Bytes {
    if line.ends_with(b"\r") {
        line.truncate(line.len() - 1);
    }
    line
}

fn message_of(body: Bytes) -> Option<Frame> {
    if body.iter().all(|byte| is_blank(*byte)) {
        None
    } else if std::str::from_utf8(&body).is_err() {
        Some(Frame::NotUtf8)
    } else {
        Some(Frame::Message(body))
    }
}

/// What went wrong while reading messages.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The connection broke.
    #[error("reading from the connection failed")]
    Io(#[from] io::Error),
    /// The peer speaks something else.
    #[error(transparent)]
    Framing(#[from] FramingError),
}

/// Reads messages from a byte stream.
#[derive(Debug)]
pub struct FrameReader<R> {
    stream: R,
    decoder: Decoder,
    ended: bool,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Reads from `stream` with `decoder`.
    pub fn new(stream: R, decoder: Decoder) -> Self {
        Self { stream, decoder, ended: false }
    }

    /// Returns the stream, to ask it about itself; what is read from it is lost to this reader.
    pub fn stream(&self) -> &R {
        &self.stream
    }

    /// Returns the decoder.
    pub fn decoder(&mut self) -> &mut Decoder {
        &mut self.decoder
    }

    /// Returns the next message, or `None` at the end of the stream.
    ///
    /// Cancel-safe: what was read stays in the buffer.
    ///
    /// # Errors
    /// When reading fails or the bytes are neither framing.
    pub async fn next(&mut self) -> Result<Option<Frame>, ReadError> {
        loop {
            if let Some(frame) = self.decoder.decode()? {
                return Ok(Some(frame));
            }
            if self.ended {
                return Ok(None);
            }
            self.decoder.buffer.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.decoder.buffer).await? == 0 {
                self.ended = true;
                return Ok(self.decoder.finish());
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! What is kept of a command's output, however much there is: the tail for the model, head and tail for programs,
//! and exact counts of the whole.
//!
//! Pure.

use super::truncate::{Totals, Truncation, truncate_tail_of};
use crate::constants::{COMMAND_OUTPUT_BYTES, TOOL_OUTPUT_BYTES};

/// Each of head and tail.
const HALF: usize = COMMAND_OUTPUT_BYTES / 2;
/// End of the text from which the part for the model is cut.
const SUFFIX: usize = TOOL_OUTPUT_BYTES + 8;

/// Turns bytes that come in pieces into text; a character cut by a read is put together again, and bytes that are no
/// UTF-8 become U+FFFD.
#[derive(Clone, Debug, Default)]
pub(crate) struct Utf8Stream {
    /// Beginning of a character.
    rest: Vec<u8>,
}

impl Utf8Stream {
    /// Decodes the next piece.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> String {
        let joined;
        let mut bytes = piece;
        if !self.rest.is_empty() {
            self.rest.extend_from_slice(piece);
            joined = std::mem::take(&mut self.rest);
            bytes = &joined;
        }
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            // Only the last chunk can be a beginning.
            if !invalid.is_empty() && is_beginning(invalid) && bytes.ends_with(invalid) && is_last(bytes, invalid) {
                self.rest = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }

    /// Decodes what is left at the end.
    pub(crate) fn finish(&mut self) -> String {
        if self.rest.is_empty() {
            return String::new();
        }
        self.rest.clear();
        char::REPLACEMENT_CHARACTER.to_string()
    }
}

/// Whether `part` is the very end of `whole`, not an equal piece before it.
fn is_last(whole: &[u8], part: &[u8]) -> bool {
    std::ptr::eq(whole.as_ptr_range().end, part.as_ptr_range().end)
}

/// Whether more bytes could make a character of these.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Head, tail and counts of an output.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptOutput {
    head: String,
    /// What followed the head; only its end once it is long.
    tail: String,
    bytes: usize,
    feeds: usize,
    /// Bytes since the last line feed.
    line: usize,
    /// Length of the line before that.
    line_before: usize,
}

impl KeptOutput {
    /// Appends text.
    pub(crate) fn push(&mut self, text: &str) {
        self.count(text);
        let room = HALF - self.head.len();
        let split = if self.tail.is_empty() { text.floor_char_boundary(room) } else { 0 };
        self.head.push_str(&text[..split]);
        self.tail.push_str(&text[split..]);
        if self.tail.len() > 2 * HALF {
            let from = self.tail.ceil_char_boundary(self.tail.len() - HALF);
            self.tail.drain(..from);
        }
    }

    fn count(&mut self, text: &str) {
        self.bytes += text.len();
        let mut from = 0;
        for feed in memchr::memchr_iter(b'\n', text.as_bytes()) {
            self.line_before = self.line + feed - from;
            self.line = 0;
            self.feeds += 1;
            from = feed + 1;
        }
        self.line += text.len() - from;
    }

    /// Returns the size of the whole.
    pub(crate) fn totals(&self) -> Totals {
        Totals { lines: self.feeds + usize::from(self.line > 0), bytes: self.bytes }
    }

    /// Returns the length of the last line of the whole, without its line feed.
    pub(crate) fn last_line_bytes(&self) -> usize {
        if self.line > 0 { self.line } else { self.line_before }
    }

    /// Returns the part for the model.
    pub(crate) fn truncation(&self) -> Truncation {
        let from_tail = self.tail.ceil_char_boundary(self.tail.len().saturating_sub(SUFFIX));
        let missing = SUFFIX.saturating_sub(self.tail.len());
        let from_head = self.head.ceil_char_boundary(self.head.len().saturating_sub(missing));
        let suffix = [&self.head[from_head..], &self.tail[from_tail..]].concat();
        truncate_tail_of(&suffix, self.totals())
    }

    /// Returns the part for programs, and whether anything is missing in it.
    pub(crate) fn for_programs(&self) -> (String, bool) {
        let whole = self.head.len() + self.tail.len() == self.bytes && self.bytes <= COMMAND_OUTPUT_BYTES;
        if whole {
            return ([self.head.as_str(), &self.tail].concat(), false);
        }
        let end = &self.tail[self.tail.ceil_char_boundary(self.tail.len().saturating_sub(HALF))..];
        let missing = self.bytes - self.head.len() - end.len();
        (format!("{}\n[{missing} bytes left out]\n{end}", self.head), true)
    }
}

#[cfg(test)]
mod tests;

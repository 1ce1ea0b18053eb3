//! Limits of tool output: keep the head of a file or the tail of a command's output, in whole lines where possible.
//!
//! Pure. A final line feed ends the last line and does not begin another one. Sizes are bytes of UTF-8.

use serde::Serialize;

use crate::constants::{TOOL_OUTPUT_BYTES, TOOL_OUTPUT_LINES};

/// Which limit cut a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TruncatedBy {
    /// The number of lines.
    Lines,
    /// The number of bytes.
    Bytes,
}

/// A text within the limits and what it was cut from; serialised as pi's `details.truncation`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Truncation {
    /// What is kept.
    pub content: String,
    /// Whether anything is missing.
    pub truncated: bool,
    /// The limit that was reached first.
    pub truncated_by: Option<TruncatedBy>,
    /// Lines of the whole.
    pub total_lines: usize,
    /// Bytes of the whole.
    pub total_bytes: usize,
    /// Lines of `content`.
    pub output_lines: usize,
    /// Bytes of `content`.
    pub output_bytes: usize,
    /// Whether the first kept line lacks its beginning (tail only).
    pub last_line_partial: bool,
    /// Whether not even the first line fits (head only).
    pub first_line_exceeds_limit: bool,
    /// The limit in lines.
    pub max_lines: usize,
    /// The limit in bytes.
    pub max_bytes: usize,
}

/// Size of a whole text of which only a part is at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Its lines.
    pub lines: usize,
    /// Its bytes.
    pub bytes: usize,
}

impl Totals {
    /// Counts a text.
    pub fn of(text: &str) -> Self {
        Self { lines: count_lines(text), bytes: text.len() }
    }

    /// Whether nothing has to be cut.
    pub fn fits(self) -> bool {
        self.lines <= TOOL_OUTPUT_LINES && self.bytes <= TOOL_OUTPUT_BYTES
    }
}

/// Counts lines; a final line feed does not begin another one.
pub fn count_lines(text: &str) -> usize {
    let feeds = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    feeds + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Keeps the first lines of `text` that fit both limits.
#[cfg(test)]
pub(super) fn truncate_head(text: &str) -> Truncation {
    truncate_head_of(text, Totals::of(text))
}

/// Keeps the first lines that fit both limits, of a whole that is `totals` in size and begins with `prefix`.
///
/// `prefix` is the whole, or at least one character longer than the byte limit.
pub fn truncate_head_of(prefix: &str, totals: Totals) -> Truncation {
    if totals.fits() {
        return whole(prefix, totals);
    }
    let mut end = 0;
    let mut lines = 0;
    let mut by = TruncatedBy::Lines;
    for line in lines_of(prefix) {
        if lines == TOOL_OUTPUT_LINES {
            break;
        }
        let next = end + line.len() + usize::from(lines > 0);
        if next > TOOL_OUTPUT_BYTES {
            by = TruncatedBy::Bytes;
            break;
        }
        end = next;
        lines += 1;
    }
    if end == totals.bytes.saturating_sub(1) && lines == totals.lines {
        // All lines fit and only the final line feed is too much.
        by = TruncatedBy::Bytes;
    }
    let first_line_exceeds_limit = lines == 0;
    Truncation { first_line_exceeds_limit, ..cut(&prefix[..end], lines, by, totals) }
}

/// Keeps the last lines of `text` that fit both limits; of one overlong last line, its end.
#[cfg(test)]
pub(super) fn truncate_tail(text: &str) -> Truncation {
    truncate_tail_of(text, Totals::of(text))
}

/// Keeps the last lines that fit both limits, of a whole that is `totals` in size and ends with `suffix`.
///
/// `suffix` is the whole, or at least two bytes longer than the byte limit (one for the final line feed).
pub fn truncate_tail_of(suffix: &str, totals: Totals) -> Truncation {
    if totals.fits() {
        return whole(suffix, totals);
    }
    let body = suffix.strip_suffix('\n').unwrap_or(suffix);
    let mut start = body.len();
    let mut lines = 0;
    let mut by = TruncatedBy::Lines;
    let mut partial = false;
    for line in body.rsplit('\n') {
        if lines == TOOL_OUTPUT_LINES {
            break;
        }
        let size = body.len() - start + line.len() + usize::from(lines > 0);
        if size > TOOL_OUTPUT_BYTES {
            by = TruncatedBy::Bytes;
            if lines == 0 {
                start = body.ceil_char_boundary(body.len() - TOOL_OUTPUT_BYTES);
                lines = 1;
                partial = true;
            }
            break;
        }
        start = body.len() - size;
        lines += 1;
    }
    if !partial && lines == totals.lines {
        by = TruncatedBy::Bytes;
    }
    Truncation { last_line_partial: partial, ..cut(&body[start..], lines, by, totals) }
}

/// Returns a size as people read it: `512B`, `50.0KB`, `1.5MB`.
pub fn format_size(bytes: usize) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let size = bytes as f64;
    if bytes < 1024 {
        format!("{bytes}B")
    } else if bytes < 1024 * 1024 {
        format!("{:.1}KB", size / 1024.0)
    } else {
        format!("{:.1}MB", size / (1024.0 * 1024.0))
    }
}

/// Lines without their line feeds; a final line feed does not begin another one.
fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    text.strip_suffix('\n').unwrap_or(text).split('\n')
}

fn whole(text: &str, totals: Totals) -> Truncation {
    Truncation {
        content: text.to_owned(),
        truncated: false,
        truncated_by: None,
        total_lines: totals.lines,
        total_bytes: totals.bytes,
        output_lines: totals.lines,
        output_bytes: totals.bytes,
        last_line_partial: false,
        first_line_exceeds_limit: false,
        max_lines: TOOL_OUTPUT_LINES,
        max_bytes: TOOL_OUTPUT_BYTES,
    }
}

fn cut(content: &str, lines: usize, by: TruncatedBy, totals: Totals) -> Truncation {
    Truncation {
        content: content.to_owned(),
        truncated: true,
        truncated_by: Some(by),
        output_lines: lines,
        output_bytes: content.len(),
        ..whole("", totals)
    }
}

#[cfg(test)]
mod tests;

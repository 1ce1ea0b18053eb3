//! The text of a result: lines up to the byte limit, and notes on what is missing.
//!
//! Pure.

use serde_json::{Map, Value, json};

use crate::constants::TOOL_OUTPUT_BYTES;
use crate::tools::context::ToolOutput;
use crate::tools::truncate::{TruncatedBy, Truncation, format_size};

/// Stands for "no limit" where a number is wanted: the greatest that every reader of JSON keeps exactly.
const NO_LIMIT: usize = (1 << 53) - 1;

/// A result in the making.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
    lines: usize,
    /// Length of the line that did not fit.
    cut_off: Option<usize>,
    notes: Vec<String>,
    details: Map<String, Value>,
}

impl Page {
    /// Adds a line; false when it does not fit, and then no more are wanted.
    pub(crate) fn push(&mut self, line: &str) -> bool {
        let separator = usize::from(self.lines > 0);
        if self.cut_off.is_some() || self.text.len() + separator + line.len() > TOOL_OUTPUT_BYTES {
            self.cut_off.get_or_insert(line.len());
            return false;
        }
        if self.lines > 0 {
            self.text.push('\n');
        }
        self.text.push_str(line);
        self.lines += 1;
        true
    }

    /// Adds a note.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Adds a note with the fact that it is about, for programs.
    pub(crate) fn note_fact(&mut self, note: impl Into<String>, name: &str, fact: impl Into<Value>) {
        self.note(note);
        self.details.insert(name.to_owned(), fact.into());
    }

    /// Adds the note that the byte limit was reached, if it was. How much was left out is not known, since the search
    /// ended there: the totals are what is certain.
    pub(crate) fn note_byte_limit(&mut self) {
        let Some(cut_off) = self.cut_off else { return };
        let truncation = Truncation {
            content: self.text.clone(),
            truncated: true,
            truncated_by: Some(TruncatedBy::Bytes),
            total_lines: self.lines + 1,
            total_bytes: self.text.len() + 1 + cut_off,
            output_lines: self.lines,
            output_bytes: self.text.len(),
            last_line_partial: false,
            first_line_exceeds_limit: false,
            max_lines: NO_LIMIT,
            max_bytes: TOOL_OUTPUT_BYTES,
        };
        self.note_fact(format!("{} limit reached", format_size(TOOL_OUTPUT_BYTES)), "truncation", json!(truncation));
    }

    /// Adds the note about what could not be read, if there is any.
    pub(crate) fn note_unreadable(&mut self, count: usize) {
        match count {
            0 => {}
            1 => self.note("1 file or folder could not be read"),
            count => self.note(format!("{count} files or folders could not be read")),
        }
    }

    /// Returns the result; `nothing` stands for no lines.
    pub(crate) fn finish(self, nothing: &str) -> ToolOutput {
        let mut text = if self.lines == 0 { nothing.to_owned() } else { self.text };
        if !self.notes.is_empty() {
            text.push_str(&format!("\n\n[{}]", self.notes.join(". ")));
        }
        let output = ToolOutput::text(text);
        if self.details.is_empty() { output } else { output.with_details(Value::Object(self.details)) }
    }
}

/// Reads a number that a model gave for a limit; less than 1 means 1 (pi: the same).
pub(crate) fn limit(given: Option<f64>, default: usize) -> usize {
    given.map_or(default, whole).max(1)
}

/// Reads a number of things; negative ones count as 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
pub(crate) fn whole(number: f64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::truncate::truncate_head;

    #[test]
    fn a_page_ends_at_the_byte_limit_with_a_whole_line() {
        let mut page = Page::default();
        let line = "界".repeat(300);
        let mut whole = String::new();
        while page.push(&line) {
            whole.push_str(&line);
            whole.push('\n');
        }
        assert!(!page.push("x"), "nothing comes after a gap");
        whole.push_str(&line);
        page.note_byte_limit();
        let output = page.finish("none");
        let expected = truncate_head(&whole);
        assert_eq!(output.first_text(), format!("{}\n\n[50.0KB limit reached]", expected.content));
        let expected = Truncation { max_lines: NO_LIMIT, ..expected };
        assert_eq!(output.result.details, Some(json!({ "truncation": expected })));
    }

    #[test]
    fn limits_are_whole_and_positive() {
        let cases = [(None, 7), (Some(0.0), 1), (Some(-3.0), 1), (Some(2.9), 2), (Some(f64::INFINITY), usize::MAX)];
        for (given, expected) in cases {
            assert_eq!(limit(given, 7), expected, "{given:?}");
        }
    }
}

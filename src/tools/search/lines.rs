//! The lines of one file that match, with what is around them.

use std::borrow::Cow;
use std::io::{self, Read};

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};

use super::walk::Halt;
use crate::constants::{GREP_LINE_BYTES, GREP_LINE_CHARS, GREP_PATTERN_BYTES};

/// Reads a pattern; `literal` means that it is no regular expression.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn matcher(pattern: &str, literal: bool, ignore_case: bool) -> Result<RegexMatcher, grep_regex::Error> {
    RegexMatcherBuilder::new()
        .fixed_strings(literal)
        .case_insensitive(ignore_case)
        .line_terminator(Some(b'\n'))
        .size_limit(GREP_PATTERN_BYTES)
        .dfa_size_limit(GREP_PATTERN_BYTES)
        .build(pattern)
}

/// Returns what searches a file, with `context` lines around each match.
pub(crate) fn searcher(context: usize) -> Searcher {
    SearcherBuilder::new()
        .line_terminator(LineTerminator::byte(b'\n'))
        .line_number(true)
        .before_context(context)
        .after_context(context)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(GREP_LINE_BYTES))
        .build()
}

/// How much of one file is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Matches; one more is looked for, to tell whether there are more.
    pub(crate) matches: usize,
    /// Lines around each.
    pub(crate) context: usize,
    /// Bytes of text, about.
    pub(crate) bytes: usize,
}

/// A line that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Counted from 1.
    pub(crate) number: u64,
    /// Whether it matches; else it is near one that does.
    pub(crate) is_match: bool,
    /// Whether it was cut, because it is long.
    pub(crate) is_cut: bool,
    /// Without its end.
    pub(crate) text: &'a str,
}

/// A line as it is kept: all texts are one string.
#[derive(Clone, Copy, Debug)]
struct Kept {
    number: u64,
    is_match: bool,
    is_cut: bool,
    end: usize,
}

/// The lines of a file.
#[derive(Debug, Default)]
pub(crate) struct FileLines {
    text: String,
    lines: Vec<Kept>,
    matches: usize,
    /// Whether the search ended at a NUL byte, as in files that are no text.
    pub(crate) is_binary: bool,
}

impl FileLines {
    /// Returns the lines.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Line<'_>> {
        let mut start = 0;
        self.lines.iter().map(move |kept| {
            let text = &self.text[start..kept.end];
            start = kept.end;
            Line { number: kept.number, is_match: kept.is_match, is_cut: kept.is_cut, text }
        })
    }

    /// Returns how many of them match.
    pub(crate) fn matches(&self) -> usize {
        self.matches
    }
}

/// Searches one file, as far as is wanted.
///
/// # Errors
/// It cannot be read, or has a line that is too long.
pub(crate) fn search(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    file: impl Read,
    wanted: Wanted,
    halt: Halt<'_>,
) -> io::Result<FileLines> {
    let mut collect = Collect { wanted, halt, lines: FileLines::default(), last: None };
    searcher.search_reader(matcher, Halting { file, halt }, &mut collect)?;
    Ok(collect.lines)
}

/// A file that seems to end when the search is given up.
struct Halting<'a, R> {
    file: R,
    halt: Halt<'a>,
}

impl<R: Read> Read for Halting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.halt.is_set() { Ok(0) } else { self.file.read(buffer) }
    }
}

struct Collect<'a> {
    wanted: Wanted,
    halt: Halt<'a>,
    lines: FileLines,
    /// Once there are enough matches: the last line that is near one of them.
    last: Option<u64>,
}

impl Collect<'_> {
    /// Takes a line; false when no more are wanted.
    fn take(&mut self, number: u64, is_match: bool, bytes: &[u8]) -> bool {
        if self.last.is_some_and(|last| number > last) && self.lines.matches > self.wanted.matches {
            return false;
        }
        let (text, is_cut) = shown(bytes);
        self.lines.text.push_str(&text);
        self.lines.lines.push(Kept { number, is_match, is_cut, end: self.lines.text.len() });
        self.lines.matches += usize::from(is_match);
        if is_match && self.lines.matches == self.wanted.matches {
            self.last = Some(number.saturating_add(self.wanted.context as u64));
        }
        let is_enough = self.lines.matches > self.wanted.matches && self.last.is_none_or(|last| number >= last);
        !is_enough && self.lines.text.len() <= self.wanted.bytes && !self.halt.is_set()
    }
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        Ok(self.take(line.line_number().unwrap_or_default(), true, line.bytes()))
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.take(line.line_number().unwrap_or_default(), false, line.bytes()))
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.lines.is_binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}

/// What is put in place of the rest of a line (pi: the same).
const CUT_MARK: &str = "... [truncated]";
/// The first so many bytes of a line hold more than the characters that are shown, if it has more.
const CUT_BYTES: usize = (GREP_LINE_CHARS + 1) * 4;

/// Returns the text of a line, and whether it was cut.
fn shown(line: &[u8]) -> (Cow<'_, str>, bool) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let start = &line[..line.len().min(CUT_BYTES)];
    // Checking alone is quicker than repairing, and most lines need none.
    let text = str::from_utf8(start).map_or_else(|_| String::from_utf8_lossy(start), Cow::Borrowed);
    if text.len() <= GREP_LINE_CHARS {
        return (text, false);
    }
    match text.char_indices().nth(GREP_LINE_CHARS) {
        Some((end, _)) => (Cow::Owned(format!("{}{CUT_MARK}", &text[..end])), true),
        None => (text, false),
    }
}

#[cfg(test)]
mod tests;

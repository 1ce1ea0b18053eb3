//! Shows what an edit changed: a diff with line numbers for people, and a patch for programs, in pi's formats.
//!
//! Pure. Since the places of the changes are known, only the lines they touch are compared, so that the size of the
//! file hardly matters; overlong lines and diffs are cut. Line ends are shown as LF whatever the file has.

use std::borrow::Cow;
use std::time::Instant;

use serde::Serialize;
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::edit_match::{Span, apply};
use crate::constants::{EDIT_DIFF_BYTES, EDIT_DIFF_LINE_BYTES};

/// Unchanged lines shown around a change.
const CONTEXT: usize = 4;
/// Lines of one place beyond which no smallest diff is looked for.
const MAX_COMPARED_LINES: usize = 50_000;

/// Serialised as the details of an edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EditDetails {
    /// For people.
    pub(crate) diff: String,
    /// For programs; empty when it would be too long.
    pub(crate) patch: String,
    /// Line of the new content, from 1.
    pub(crate) first_changed_line: usize,
    /// Whether `diff` leaves out something of the change.
    #[serde(skip)]
    pub(crate) is_cut: bool,
}

/// A line and whether a line feed ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Line<'a> {
    text: &'a [u8],
    is_ended: bool,
}

/// Lines that went and lines that came, at one place. Line numbers count from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change<'a> {
    old_line: usize,
    new_line: usize,
    removed: Vec<Line<'a>>,
    added: Vec<Line<'a>>,
}

impl Change<'_> {
    fn old_end(&self) -> usize {
        self.old_line + self.removed.len()
    }
}

/// Describes the change that `spans` make to `content`. At `deadline` a larger diff is taken.
pub(crate) fn describe(content: &[u8], spans: &[Span], path: &str, deadline: Instant) -> EditDetails {
    let regions = regions(content, spans);
    let new_texts: Vec<Vec<u8>> = regions.iter().map(|region| region.new_text(content)).collect();
    let mut changes = Vec::new();
    let mut counted = (0, 0);
    let mut new_shift = 0_isize;
    for (region, new_text) in regions.iter().zip(&new_texts) {
        let line = counted.1 + count_feeds(&content[counted.0..region.start]);
        counted = (region.start, line);
        let (old, new) = (lines(&content[region.start..region.end]), lines(new_text));
        let new_line = line.saturating_add_signed(new_shift);
        new_shift += new.len().cast_signed() - old.len().cast_signed();
        compare(&old, &new, (line, new_line), deadline, &mut changes);
    }
    let first = changes.first().map_or(counted.1, |change| change.new_line) + 1;
    let file = Old::new(content, &changes);
    let (diff, is_cut) = diff(&file, &changes);
    EditDetails { diff, patch: patch(&file, &changes, path), first_changed_line: first, is_cut }
}

/// Whole lines of the content with the spans that change them.
struct Region<'a> {
    start: usize,
    end: usize,
    spans: &'a [Span],
}

impl Region<'_> {
    fn new_text(&self, content: &[u8]) -> Vec<u8> {
        let shifted: Vec<Span> = self
            .spans
            .iter()
            .map(|span| Span { start: span.start - self.start, end: span.end - self.start, ..span.clone() })
            .collect();
        apply(&content[self.start..self.end], &shifted).concat()
    }
}

fn regions<'a>(content: &[u8], spans: &'a [Span]) -> Vec<Region<'a>> {
    let mut regions: Vec<Region<'a>> = Vec::new();
    let mut from = 0;
    for (at, span) in spans.iter().enumerate() {
        let start = memchr::memrchr(b'\n', &content[..span.start]).map_or(0, |feed| feed + 1);
        // Cut at a line end only where the new text ends there too.
        let ends_lines = span.new_text.ends_with('\n') || (span.new_text.is_empty() && span.start == start);
        let end = if content[..span.end].ends_with(b"\n") && ends_lines {
            span.end
        } else {
            memchr::memchr(b'\n', &content[span.end..]).map_or(content.len(), |feed| span.end + feed + 1)
        };
        match regions.last_mut().filter(|last| start < last.end) {
            Some(last) => {
                last.end = last.end.max(end);
                last.spans = &spans[from..=at];
            }
            None => {
                from = at;
                regions.push(Region { start, end, spans: &spans[at..=at] });
            }
        }
    }
    regions
}

fn count_feeds(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

fn lines(text: &[u8]) -> Vec<Line<'_>> {
    text.split_inclusive(|byte| *byte == b'\n').map(line).collect()
}

fn line(text: &[u8]) -> Line<'_> {
    match text.strip_suffix(b"\n") {
        Some(text) => Line { text: text.strip_suffix(b"\r").unwrap_or(text), is_ended: true },
        None => Line { text, is_ended: false },
    }
}

fn compare<'a>(
    old: &[Line<'a>],
    new: &[Line<'a>],
    (old_line, new_line): (usize, usize),
    deadline: Instant,
    changes: &mut Vec<Change<'a>>,
) {
    let mut push = |old_at: usize, old_len: usize, new_at: usize, new_len: usize| {
        changes.push(Change {
            old_line: old_line + old_at,
            new_line: new_line + new_at,
            removed: old[old_at..old_at + old_len].to_vec(),
            added: new[new_at..new_at + new_len].to_vec(),
        });
    };
    if old.len() + new.len() > MAX_COMPARED_LINES {
        return push(0, old.len(), 0, new.len());
    }
    for op in capture_diff_slices_deadline(Algorithm::Myers, old, new, Some(deadline)) {
        match op {
            DiffOp::Equal { .. } => {}
            DiffOp::Delete { old_index, old_len, new_index } => push(old_index, old_len, new_index, 0),
            DiffOp::Insert { old_index, new_index, new_len } => push(old_index, 0, new_index, new_len),
            DiffOp::Replace { old_index, old_len, new_index, new_len } => push(old_index, old_len, new_index, new_len),
        }
    }
}

/// The old content, for the lines around changes.
struct Old<'a> {
    lines: usize,
    feeds: usize,
    /// Lines by number: those near changes.
    near: Vec<(usize, Line<'a>)>,
}

impl<'a> Old<'a> {
    fn new(content: &'a [u8], changes: &[Change<'_>]) -> Self {
        let mut near = Vec::new();
        let mut number = 0;
        let mut changes = changes.iter().peekable();
        let mut start = 0;
        while start < content.len() {
            while changes.peek().is_some_and(|change| change.old_end() + CONTEXT <= number) {
                changes.next();
            }
            let Some(change) = changes.peek() else { break };
            let end = memchr::memchr(b'\n', &content[start..]).map_or(content.len(), |feed| start + feed + 1);
            if number + CONTEXT >= change.old_line {
                near.push((number, line(&content[start..end])));
            }
            number += 1;
            start = end;
        }
        let is_cut = !content.is_empty() && !content.ends_with(b"\n");
        // Only the last line can lack its line feed.
        let passed = if start == content.len() { number - usize::from(is_cut) } else { number };
        let feeds = passed + count_feeds(&content[start..]);
        Self { lines: feeds + usize::from(is_cut), feeds, near }
    }

    /// The unchanged lines of a range; all of them must be near a change.
    fn range(&self, from: usize, to: usize) -> impl Iterator<Item = (usize, Line<'a>)> {
        let first = self.near.partition_point(|(number, _)| *number < from);
        self.near[first..].iter().copied().take_while(move |(number, _)| *number < to)
    }
}

/// Text that stops growing at a limit.
struct Limited {
    text: String,
    is_full: bool,
}

impl Limited {
    fn new() -> Self {
        Self { text: String::new(), is_full: false }
    }

    fn push(&mut self, line: &str) {
        self.is_full |= self.text.len() + line.len() > EDIT_DIFF_BYTES;
        if !self.is_full {
            self.text.push_str(line);
        }
    }
}

fn shown(text: &[u8]) -> Cow<'_, str> {
    if text.len() <= EDIT_DIFF_LINE_BYTES {
        return String::from_utf8_lossy(text);
    }
    let head = String::from_utf8_lossy(&text[..EDIT_DIFF_LINE_BYTES]);
    let head = head.trim_end_matches(char::REPLACEMENT_CHARACTER);
    Cow::Owned(format!("{head}… [{} more bytes]", text.len() - EDIT_DIFF_LINE_BYTES))
}

/// Returns the diff, and whether it leaves out something of the change.
fn diff(file: &Old<'_>, changes: &[Change<'_>]) -> (String, bool) {
    let feeds = |lines: &[Line<'_>]| lines.iter().filter(|line| line.is_ended).count();
    let removed: usize = changes.iter().map(|change| feeds(&change.removed)).sum();
    let added: usize = changes.iter().map(|change| feeds(&change.added)).sum();
    // As wide as the number of the line that would follow the last line feed, in the longer of both contents.
    let width = (file.feeds + added.saturating_sub(removed) + 1).to_string().len();
    let mut out = Limited::new();
    let gap = format!(" {:width$} ...\n", "");
    let unchanged = |out: &mut Limited, from: usize, to: usize| {
        for (number, line) in file.range(from, to) {
            out.push(&format!(" {:>width$} {}\n", number + 1, shown(line.text)));
        }
    };
    let mut at = 0;
    for (n, change) in changes.iter().enumerate() {
        let tail = if n == 0 { at } else { at + CONTEXT };
        if tail + CONTEXT < change.old_line {
            unchanged(&mut out, at, tail);
            out.push(&gap);
            unchanged(&mut out, change.old_line - CONTEXT, change.old_line);
        } else {
            unchanged(&mut out, at, change.old_line);
        }
        for (n, line) in change.removed.iter().enumerate() {
            out.push(&format!("-{:>width$} {}\n", change.old_line + n + 1, shown(line.text)));
        }
        for (n, line) in change.added.iter().enumerate() {
            out.push(&format!("+{:>width$} {}\n", change.new_line + n + 1, shown(line.text)));
        }
        at = change.old_end();
    }
    unchanged(&mut out, at, at + CONTEXT);
    if at + CONTEXT < file.lines {
        out.push(&gap);
    }
    let mut text = out.text;
    if out.is_full {
        text.push_str("… (the diff is too long to be shown whole)\n");
    }
    text.pop();
    let mut lines = changes.iter().flat_map(|change| change.removed.iter().chain(&change.added));
    let is_cut = out.is_full || lines.any(|line| line.text.len() > EDIT_DIFF_LINE_BYTES);
    (text, is_cut)
}

fn patch(file: &Old<'_>, changes: &[Change<'_>], path: &str) -> String {
    let mut out = Limited::new();
    out.push(&format!("--- {path}\n+++ {path}\n"));
    let mut rest = changes;
    while let Some(first) = rest.first() {
        // One hunk as long as the lines around two changes touch.
        let apart = |pair: &[Change<'_>]| pair[0].old_end() + 2 * CONTEXT < pair[1].old_line;
        let count = rest.windows(2).position(apart).map_or(rest.len(), |last| last + 1);
        let (hunk, more) = rest.split_at(count);
        push_hunk(&mut out, file, first, hunk);
        rest = more;
    }
    let is_whole = changes
        .iter()
        .flat_map(|change| change.removed.iter().chain(&change.added))
        .chain(file.near.iter().map(|(_, line)| line))
        .all(|line| std::str::from_utf8(line.text).is_ok());
    // Half a patch is worse than none.
    if out.is_full || !is_whole { String::new() } else { out.text }
}

fn push_hunk(out: &mut Limited, file: &Old<'_>, first: &Change<'_>, hunk: &[Change<'_>]) {
    let start = first.old_line.saturating_sub(CONTEXT);
    let last_end = hunk.last().map_or(start, Change::old_end);
    let end = (last_end + CONTEXT).min(file.lines);
    let removed: usize = hunk.iter().map(|change| change.removed.len()).sum();
    let added: usize = hunk.iter().map(|change| change.added.len()).sum();
    let (old_len, new_len) = (end - start, end - start - removed + added);
    let new_start = first.new_line - (first.old_line - start);
    // Of no lines the one before is named.
    let number = |start: usize, len: usize| if len == 0 { start } else { start + 1 };
    out.push(&format!("@@ -{},{old_len} +{},{new_len} @@\n", number(start, old_len), number(new_start, new_len)));
    let mut push = |sign: char, line: &Line<'_>| {
        if line.text.len() > EDIT_DIFF_BYTES {
            out.is_full = true;
            return;
        }
        out.push(&format!("{sign}{}\n", String::from_utf8_lossy(line.text)));
        if !line.is_ended {
            out.push("\\ No newline at end of file\n");
        }
    };
    let mut at = start;
    for change in hunk {
        file.range(at, change.old_line).for_each(|(_, line)| push(' ', &line));
        change.removed.iter().for_each(|line| push('-', line));
        change.added.iter().for_each(|line| push('+', line));
        at = change.old_end();
    }
    file.range(at, end).for_each(|(_, line)| push(' ', &line));
}

#[cfg(test)]
mod tests;

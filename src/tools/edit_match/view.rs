//! A text as it is searched, and where its parts come from.

use std::borrow::Cow;

use crate::tools::fold::{clusters, fold_cluster};

/// A changed copy of a text that knows the original of each part.
pub(super) struct View<'a> {
    text: Cow<'a, [u8]>,
    /// The parts that differ from the original, in order; between them both are the same.
    marks: Vec<Mark>,
}

/// A part that differs.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Where it begins in the view.
    at: usize,
    /// Its length there; 0 for something left out.
    len: usize,
    /// Where it begins in the original.
    original: usize,
    /// Its length there.
    original_len: usize,
}

impl Mark {
    fn end(&self) -> usize {
        self.at + self.len
    }

    fn original_end(&self) -> usize {
        self.original + self.original_len
    }
}

/// Blanks that do not count at the end of a line.
pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace() && c != '\n'
}

impl<'a> View<'a> {
    /// The text with LF for CRLF.
    pub(super) fn lines(original: &'a [u8]) -> Self {
        let mut marks = Vec::new();
        let mut text = Vec::new();
        let mut from = 0;
        for feed in memchr::memchr_iter(b'\n', original) {
            if feed > 0 && original[feed - 1] == b'\r' {
                text.extend_from_slice(&original[from..feed - 1]);
                marks.push(Mark { at: text.len(), len: 1, original: feed - 1, original_len: 2 });
                from = feed;
            }
        }
        if marks.is_empty() {
            return Self { text: Cow::Borrowed(original), marks };
        }
        text.extend_from_slice(&original[from..]);
        Self { text: Cow::Owned(text), marks }
    }

    /// The text with LF for CRLF, look-alike characters folded, and blanks at line ends left out.
    pub(super) fn folded(original: &str) -> Self {
        let mut builder = Builder { text: String::with_capacity(original.len()), marks: Vec::new(), at: 0 };
        for line in original.split_inclusive('\n') {
            builder.add_line(line);
        }
        Self { text: Cow::Owned(builder.text.into_bytes()), marks: builder.marks }
    }

    /// Returns what is searched.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the piece of the original that a piece of the view stands for; `None` when it begins or ends inside of
    /// a part that stands for a whole. What was left out at either end is not part of it.
    pub(super) fn original(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let (mut first, mark) = self.position(start)?;
        for left_out in self.marks[mark..].iter().take_while(|mark| mark.at == start && mark.len == 0) {
            first = left_out.original_end();
        }
        let (last, _) = self.position(end)?;
        Some((first, last))
    }

    /// The earliest place in the original that a place in the view stands for, and the number of marks before it.
    fn position(&self, at: usize) -> Option<(usize, usize)> {
        let before = self.marks.partition_point(|mark| mark.at < at);
        let Some(mark) = before.checked_sub(1).map(|last| self.marks[last]) else { return Some((at, 0)) };
        (mark.end() <= at).then(|| (mark.original_end() + at - mark.end(), before))
    }
}

struct Builder {
    text: String,
    marks: Vec<Mark>,
    /// How far the original was taken.
    at: usize,
}

impl Builder {
    fn add_line(&mut self, line: &str) {
        let (body, end) = match line.strip_suffix('\n') {
            Some(body) => {
                (body.strip_suffix('\r').unwrap_or(body), &line[body.strip_suffix('\r').unwrap_or(body).len()..])
            }
            None => (line, ""),
        };
        let kept = body.trim_end_matches(is_blank);
        for cluster in clusters(kept) {
            let from = self.text.len();
            fold_cluster(cluster, &mut self.text);
            self.pass(cluster, from);
        }
        let from = self.text.len();
        self.pass(&body[kept.len()..], from);
        if !end.is_empty() {
            let from = self.text.len();
            self.text.push('\n');
            self.pass(end, from);
        }
    }

    /// Notes that the view's text since `from` stands for this piece of the original.
    fn pass(&mut self, piece: &str, from: usize) {
        if self.text[from..] != *piece {
            let len = self.text.len() - from;
            self.marks.push(Mark { at: from, len, original: self.at, original_len: piece.len() });
        }
        self.at += piece.len();
    }
}

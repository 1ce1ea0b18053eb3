//! Finds the text that an edit replaces, and replaces it without touching any other byte.
//!
//! Pure. Works on bytes, so that a file need not be UTF-8. All edits of a call are found in the original content. An
//! edit that does not occur exactly is looked for in a folded view of the file (look-alike characters, blanks at line
//! ends); what is replaced is then the piece of the original that the folded match stands for, and nothing around it.
//!
//! Line ends: CRLF in the file counts as the LF that models write, and inserted lines get the line end of the place
//! they go to. A lone CR is a character like others.

mod view;

use memchr::memmem::Finder;
use view::View;

use crate::constants::EDIT_FUZZY_BYTES;

const BOM: &[u8] = "\u{feff}".as_bytes();

/// One replacement as the model asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Text that is to be there exactly once.
    pub old_text: String,
    /// What comes in its place.
    pub new_text: String,
}

/// A replacement whose place is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte that is replaced.
    pub start: usize,
    /// Byte after the last one that is replaced.
    pub end: usize,
    /// What comes there, with the line ends of the place.
    pub new_text: String,
    /// Which of the replacements it is.
    pub index: usize,
}

/// Why nothing is replaced. Indexes count the replacements of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchError {
    /// There are no replacements.
    NoEdits,
    /// The old text is empty.
    EmptyOldText {
        /// Which one.
        index: usize,
    },
    /// The old text does not occur.
    NotFound {
        /// Which one.
        index: usize,
    },
    /// The old text occurs more than once.
    Ambiguous {
        /// Which one.
        index: usize,
        /// How often it occurs.
        count: usize,
    },
    /// Two replacements want the same bytes.
    Overlap {
        /// The one that begins first.
        first: usize,
        /// The other one.
        second: usize,
    },
    /// The content would stay as it is.
    NoChange,
}

/// Finds all replacements in the content; the result is sorted by place.
///
/// # Errors
/// [`MatchError`], in the order of the replacements; overlaps after those, and no change last.
pub fn plan_edits(content: &[u8], edits: &[Replacement]) -> Result<Vec<Span>, MatchError> {
    if edits.is_empty() {
        return Err(MatchError::NoEdits);
    }
    if let Some(index) = edits.iter().position(|edit| edit.old_text.is_empty()) {
        return Err(MatchError::EmptyOldText { index });
    }
    let lead = if content.starts_with(BOM) { BOM.len() } else { 0 };
    let mut places = Places::new(&content[lead..]);
    let mut spans = Vec::with_capacity(edits.len());
    for (index, edit) in edits.iter().enumerate() {
        let (start, end) = places.find(without_bom(&edit.old_text), index)?;
        let (start, end) = (start + lead, end + lead);
        let new_text = if lead > 0 { without_bom(&edit.new_text) } else { &edit.new_text };
        spans.push(Span { start, end, new_text: with_line_ends_of(content, start, end, new_text), index });
    }
    spans.sort_by_key(|span| (span.start, span.end));
    if let Some(pair) = spans.windows(2).find(|pair| pair[1].start < pair[0].end) {
        return Err(MatchError::Overlap { first: pair[0].index, second: pair[1].index });
    }
    if is_unchanged(content, &spans) { Err(MatchError::NoChange) } else { Ok(spans) }
}

/// Returns the new content in pieces.
pub fn apply<'a>(content: &'a [u8], spans: &'a [Span]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::with_capacity(2 * spans.len() + 1);
    let mut at = 0;
    for span in spans {
        pieces.push(&content[at..span.start]);
        pieces.push(span.new_text.as_bytes());
        at = span.end;
    }
    pieces.push(&content[at..]);
    pieces
}

fn is_unchanged(content: &[u8], spans: &[Span]) -> bool {
    let mut rest = content;
    for piece in apply(content, spans) {
        match rest.strip_prefix(piece) {
            Some(more) => rest = more,
            None => return false,
        }
    }
    rest.is_empty()
}

/// A byte order mark may be copied along by a model that sees it.
fn without_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').filter(|rest| !rest.is_empty()).unwrap_or(text)
}

/// The content and its views, made when first needed.
struct Places<'a> {
    content: &'a [u8],
    lines: Option<View<'a>>,
    folded: Option<Option<View<'a>>>,
}

impl<'a> Places<'a> {
    fn new(content: &'a [u8]) -> Self {
        Self { content, lines: None, folded: None }
    }

    /// Returns the one place of a text.
    fn find(&mut self, old_text: &str, index: usize) -> Result<(usize, usize), MatchError> {
        let old_text = old_text.replace("\r\n", "\n");
        let lines = self.lines.get_or_insert_with(|| View::lines(self.content));
        match occurrences(lines, old_text.as_bytes(), |_| true) {
            (1, Some(place)) => return Ok(place),
            (0, _) => {}
            (count, _) => return Err(MatchError::Ambiguous { index, count }),
        }
        let content = self.content;
        let folded = self.folded.get_or_insert_with(|| folded_view(content));
        let (Some(folded), Some(wanted)) = (folded, Folded::of(&old_text)) else {
            return Err(MatchError::NotFound { index });
        };
        let fits = |end: &[u8]| !wanted.ends_in_blanks || end.first().is_none_or(u8::is_ascii_whitespace);
        match occurrences(folded, wanted.text.as_bytes(), fits) {
            (1, Some(place)) => Ok(place),
            (0, _) => Err(MatchError::NotFound { index }),
            (count, _) => Err(MatchError::Ambiguous { index, count }),
        }
    }
}

fn folded_view(content: &[u8]) -> Option<View<'_>> {
    if content.len() > EDIT_FUZZY_BYTES {
        return None;
    }
    std::str::from_utf8(content).ok().map(View::folded)
}

/// What is looked for in the folded view.
struct Folded {
    text: String,
    /// The last line had blanks at its end, which the folding took away: the match must end where a line or word does.
    ends_in_blanks: bool,
}

impl Folded {
    /// `None` when nothing is left to look for.
    fn of(old_text: &str) -> Option<Self> {
        let view = View::folded(old_text);
        let text = String::from_utf8(view.text().to_vec()).ok().filter(|text| !text.is_empty())?;
        Some(Self { text, ends_in_blanks: old_text.ends_with(view::is_blank) })
    }
}

/// Counts the places of a text in a view, overlapping ones too (they are as ambiguous as others), and returns the
/// first. `fits` is asked about what follows a match.
fn occurrences(view: &View<'_>, wanted: &[u8], fits: impl Fn(&[u8]) -> bool) -> (usize, Option<(usize, usize)>) {
    let finder = Finder::new(wanted);
    let text = view.text();
    let (mut count, mut first, mut from) = (0, None, 0);
    while let Some(found) = finder.find(&text[from..]) {
        let (start, end) = (from + found, from + found + wanted.len());
        if let Some(place) = view.original(start, end)
            && fits(&text[end..])
        {
            count += 1;
            first = first.or(Some(place));
        }
        from = start + 1;
    }
    (count, first)
}

/// Gives new text the line ends of the place it goes to: those it replaces, else the next one, else the one before.
fn with_line_ends_of(content: &[u8], start: usize, end: usize, new_text: &str) -> String {
    let text = new_text.replace("\r\n", "\n");
    if !text.contains('\n') {
        return text;
    }
    let feed = memchr::memchr(b'\n', &content[start..end])
        .map(|at| start + at)
        .or_else(|| memchr::memchr(b'\n', &content[end..]).map(|at| end + at))
        .or_else(|| memchr::memrchr(b'\n', &content[..start]));
    let is_crlf = feed.is_some_and(|at| at > 0 && content[at - 1] == b'\r');
    if is_crlf { text.replace('\n', "\r\n") } else { text }
}

#[cfg(test)]
mod tests;

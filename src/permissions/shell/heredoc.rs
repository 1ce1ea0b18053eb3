//! Here-documents.

use super::line::Unreadable;
use super::reader::{Read, Reader, ends_word};
use super::word::Building;

/// A here-document whose text is still to come.
pub(super) struct Pending {
    end: String,
    is_quoted: bool,
    /// Tabs at the beginning of its lines do not count.
    is_indented: bool,
}

impl Reader<'_> {
    /// Reads the name that ends a here-document, after `<<` or `<<-`.
    pub(super) fn heredoc_name(&mut self) -> Read<()> {
        const STRANGE: Unreadable = Unreadable("a here-document has a strange name");
        let is_indented = self.eat("-");
        self.skip_blanks();
        let quote = self.peek().filter(|c| matches!(c, '\'' | '"'));
        self.skip(usize::from(quote.is_some()));
        let end = self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '!' | '+'));
        let is_closed = quote.is_none_or(|quote| self.next() == Some(quote));
        if end.is_empty() || !is_closed || !self.peek().is_some_and(ends_word) {
            return Err(STRANGE);
        }
        if self.substitutions > 0 {
            // Bash writes substitutions anew before it runs them, and not always as they were.
            self.line.doubt("has a here-document inside of a substitution");
        }
        self.pending.push(Pending { end, is_quoted: quote.is_some(), is_indented });
        Ok(())
    }

    /// Reads the here-documents that were named on the line that has just ended.
    pub(super) fn take_pending(&mut self) -> Read<()> {
        for pending in std::mem::take(&mut self.pending) {
            let text = self.heredoc_text(&pending)?;
            if !pending.is_quoted {
                self.inside(&text, read_expansions)?;
            }
        }
        Ok(())
    }

    fn heredoc_text(&mut self, pending: &Pending) -> Read<String> {
        let mut text = String::new();
        loop {
            let line = self.take_line().ok_or(Unreadable("a here-document does not end"))?;
            let shown = if pending.is_indented { line.trim_start_matches('\t') } else { &line };
            if shown == pending.end {
                return Ok(text);
            }
            if !pending.is_quoted && line.ends_with('\\') {
                return Err(Unreadable("a line feed is hidden inside of a here-document"));
            }
            text.push_str(&line);
            text.push('\n');
        }
    }
}

fn read_expansions(reader: &mut Reader<'_>) -> Read<()> {
    let mut ignored = Building::new();
    while reader.peek().is_some() {
        reader.quoted_part(&mut ignored)?;
    }
    Ok(())
}

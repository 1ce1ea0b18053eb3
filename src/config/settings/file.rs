//! What a `config.toml` says.
//!
//! A statement that is no TOML is passed over and told; what stands around it holds. A key that is not known, or whose
//! value cannot be used, stops nothing but itself.

use std::ops::Range;

use agentd_protocol::methods::{ConfigFault, ConfigSource, Origin};
use toml_edit::{Document, Item, TableLike, TomlError, Value as Toml};

use super::key::Key;
use super::keys::KEYS;
use super::kind::Raw;
use super::layer::Layer;
use super::lookup::unknown;
use crate::constants::MAX_SYNTAX_FAULTS;

/// How many lines are gone back for the beginning of a statement that is no TOML; longer ones are not written by hand.
const MAX_BACKWARD_LINES: usize = 64;

/// Reads the text of a file, which is called `path` in what is told of it.
pub fn parse_file(source: ConfigSource, path: &str, text: &str) -> Layer {
    let at = |line: Option<usize>| Origin {
        source,
        file: Some(path.to_owned()),
        line: line.and_then(|line| u32::try_from(line).ok()),
        variable: None,
    };
    let mut layer = Layer::default();
    let (document, faults) = parse_sound(text.strip_prefix('\u{feff}').unwrap_or(text));
    for (line, message) in faults {
        layer.faults.push(ConfigFault { origin: at(Some(line)), key: None, message });
    }
    let mut walk = Walk { text: document.raw(), at: &at, layer };
    walk.table(document.as_table(), "");
    walk.layer.faults.sort_by_key(|fault| fault.origin.line);
    walk.layer
}

/// Parses a text, leaving out the statements that are no TOML. Returns what was wrong, by line.
fn parse_sound(text: &str) -> (Document<String>, Vec<(usize, String)>) {
    let mut text = text.to_owned();
    let mut faults = Vec::new();
    loop {
        let error = match Document::parse(text.clone()) {
            Ok(document) => return (document, faults),
            Err(error) => error,
        };
        let lines: Vec<&str> = text.lines().collect();
        let (at, _) = place(&text, &error);
        match whole(&lines, at) {
            Some(start) if faults.len() < MAX_SYNTAX_FAULTS => {
                let end = end_of_statement(&lines, start);
                // Of several faults the parser tells any; this is the one of the statement that is left out.
                let own = Document::parse(lines[..end].join("\n")).err().unwrap_or(error);
                let (line, message) = place(&text, &own);
                // The parser's words quote names and punctuation at most, but no value.
                faults.push((line, format!("is no TOML: {message}; this statement is passed over")));
                text = without(&lines, &(start..end));
            }
            start => {
                faults.push((at, "too many faults: nothing from here on is used".to_owned()));
                text = lines[..start.unwrap_or(0)].join("\n");
            }
        }
    }
}

/// Returns the line of an error, from 1, and what it says.
fn place(text: &str, error: &TomlError) -> (usize, String) {
    (line_of(text, error.span().map_or(0, |span| span.start)), one_line(error.message()))
}

/// Returns how many of the lines up to `line` are whole TOML, as many as there are. `None`: it takes too long to find out.
fn whole(lines: &[&str], line: usize) -> Option<usize> {
    let mut nearest = (0..=line.min(lines.len())).rev().take(MAX_BACKWARD_LINES);
    nearest.find(|count| Document::parse(lines[..*count].join("\n")).is_ok())
}

/// Returns where the statement that begins with a line ends; that of the heading of a table with the table, whose keys
/// would be taken for those of another one.
fn end_of_statement(lines: &[&str], start: usize) -> usize {
    let is_heading = lines.get(start).is_some_and(|line| line.trim_start().starts_with('['));
    let ends = |text: &str| if is_heading { text.trim_start().starts_with('[') } else { begins_statement(text) };
    (start + 1..lines.len()).find(|at| ends(lines[*at])).unwrap_or(lines.len())
}

fn begins_statement(line: &str) -> bool {
    let line = line.trim_start();
    let is_key = |key: &str| {
        let key = key.trim();
        !key.is_empty()
            && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '\'' | ' '))
    };
    line.starts_with('[') || line.split_once('=').is_some_and(|(key, _)| is_key(key))
}

/// Returns a text without some lines; the others keep their numbers.
fn without(lines: &[&str], left_out: &Range<usize>) -> String {
    let kept = lines.iter().enumerate().map(|(at, line)| if left_out.contains(&at) { "" } else { line });
    kept.collect::<Vec<_>>().join("\n")
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

struct Walk<'a> {
    text: &'a str,
    at: &'a dyn Fn(Option<usize>) -> Origin,
    layer: Layer,
}

impl Walk<'_> {
    /// Reads a table. Its depth is bounded: only tables that keys stand in are entered.
    fn table(&mut self, table: &dyn TableLike, prefix: &str) {
        for (name, item) in table.iter() {
            let full = format!("{prefix}{name}");
            let span = table.key(name).and_then(toml_edit::Key::span).or_else(|| item.span());
            let origin = (self.at)(span.map(|span| line_of(self.text, span.start)));
            if let Some(key) = KEYS.iter().copied().find(|key: &&Key| key.name == full) {
                self.layer.take(key, &raw(item), origin);
            } else if KEYS.iter().any(|key| key.name.strip_prefix(&*full).is_some_and(|rest| rest.starts_with('.'))) {
                match item.as_table_like() {
                    Some(table) => self.table(table, &format!("{full}.")),
                    None => self.layer.fault(origin, &full, format!("{full} is a table: write [{full}]")),
                }
            } else {
                let message = unknown(&full);
                self.layer.fault(origin, &full, message);
            }
        }
    }
}

fn raw(item: &Item) -> Raw {
    match item.as_value() {
        Some(Toml::Boolean(flag)) => Raw::Flag(*flag.value()),
        Some(Toml::Integer(number)) => Raw::Number(*number.value()),
        Some(Toml::String(text)) => Raw::Text(text.value().clone()),
        Some(Toml::Array(items)) => {
            let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
            texts.map_or(Raw::Other("a list"), Raw::List)
        }
        Some(Toml::Float(_)) => Raw::Other("a number with a fraction"),
        Some(Toml::Datetime(_)) => Raw::Other("a date"),
        Some(Toml::InlineTable(_)) | None => Raw::Other("a table"),
    }
}

#[cfg(test)]
mod tests;

//! Colours, widths and figures for people.

use std::io::IsTerminal;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Whether one stream shows colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    color: bool,
}

impl Style {
    /// Decides for a stream: a terminal that knows colours, and a user who has not said no.
    pub(crate) fn of(stream: &impl IsTerminal, env: &dyn Fn(&str) -> Option<String>) -> Self {
        let no_color = env("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        Self { color: stream.is_terminal() && !no_color && !dumb }
    }

    /// Shows something as less important.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Shows something as important.
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Shows something as wrong.
    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Shows what a person said.
    pub(crate) fn cyan(self, text: &str) -> String {
        self.paint("36", text)
    }

    /// Shows something that runs.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Returns the columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to `columns`, with an ellipsis where something is missing.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > columns {
            break;
        }
        out.push(c);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// Cuts a path to `columns` at its beginning: the end tells more.
pub(crate) fn cut_start(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = 0;
    let mut used = 1;
    for c in text.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        kept += c.len_utf8();
    }
    if columns == 0 { String::new() } else { format!("…{}", &text[text.len() - kept..]) }
}

/// Fills a text up with blanks to `columns`.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Returns a time span in its largest unit, such as `5m`.
pub(crate) fn age(ms: i64) -> String {
    let seconds = (ms / 1000).max(0);
    let units = [(365 * 86_400, "y"), (7 * 86_400, "w"), (86_400, "d"), (3600, "h"), (60, "m")];
    match units.iter().find(|(length, _)| seconds >= *length) {
        Some((length, name)) => format!("{}{name}", seconds / length),
        None => format!("{seconds}s"),
    }
}

/// Returns a short time span, such as `120 ms` or `3.2 s`.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        _ => format!("{}m{:02}s", ms / 60_000, ms / 1000 % 60),
    }
}

/// Returns a number of tokens, such as `200k`.
pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}k", count / 1000),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// Returns a size in bytes, such as `1.5 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn texts_are_cut_to_columns() {
        for (text, columns, front, back) in [
            ("abc", 3, "abc", "abc"),
            ("abcd", 3, "ab…", "…cd"),
            ("世界世界", 5, "世界…", "…世界"),
            ("世界世界", 4, "世…", "…界"),
            ("abc", 1, "…", "…"),
            ("abc", 0, "", ""),
        ] {
            assert_eq!((cut(text, columns).as_str(), cut_start(text, columns).as_str()), (front, back));
        }
        assert_eq!(pad("世", 4), "世  ");
    }

    #[test]
    fn figures_are_short() {
        let ages = [(-5, "0s"), (59_999, "59s"), (60_000, "1m"), (7_200_000, "2h"), (86_400_000, "1d")];
        for (ms, text) in ages {
            assert_eq!(age(ms), text);
        }
        assert_eq!((age(8 * 86_400_000), age(800 * 86_400_000)), ("1w".into(), "2y".into()));
        assert_eq!([duration(999), duration(1500), duration(61_000)], ["999 ms", "1.5 s", "1m01s"]);
        assert_eq!([tokens(8192), tokens(128_000), tokens(1_048_576)], ["8192", "128k", "1.0M"]);
        assert_eq!([bytes(5), bytes(1536), bytes(3 << 20)], ["5 B", "1.5 KiB", "3.0 MiB"]);
    }
}

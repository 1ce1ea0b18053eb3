//! One line about a tool call, and one about its end.

use agentd_protocol::message::ContentBlock;
use agentd_protocol::session_view::text_of;
use serde_json::Value;

use super::clean::one_line;
use super::style::{cut, duration};

/// Longest line about a call, in columns; what runs is shown further when it is asked about, here it is a hint.
const MAX_COLUMNS: usize = 200;
/// Arguments that say best what a call is about, the first found is shown.
const TELLING_ARGUMENTS: [&str; 5] = ["command", "path", "pattern", "query", "url"];

/// Names a call, such as `[bash] cargo test`.
pub(crate) fn call_line(name: &str, args: &Value) -> String {
    let name = one_line(name);
    let told: Vec<_> =
        TELLING_ARGUMENTS.iter().filter_map(|key| args.get(key)?.as_str()).map(one_line).take(2).collect();
    let about = match (told.is_empty(), args) {
        (false, _) => told.join(" "),
        (true, Value::Null) => String::new(),
        (true, Value::Object(map)) if map.is_empty() => String::new(),
        (true, other) => one_line(&other.to_string()),
    };
    cut(format!("[{name}] {about}").trim_end(), MAX_COLUMNS)
}

/// Tells how a call ended, such as `12 lines, 1.2 s` or `failed: no such file`.
pub(crate) fn end_line(content: &[ContentBlock], is_error: bool, duration_ms: Option<u64>) -> String {
    let mut text = result_line(content, is_error);
    if let Some(ms) = duration_ms {
        text = format!("{text}, {}", duration(ms));
    }
    if is_error { format!("failed: {text}") } else { text }
}

fn result_line(content: &[ContentBlock], is_error: bool) -> String {
    let text = text_of(content);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let images = content.iter().filter(|block| matches!(block, ContentBlock::Image { .. })).count();
    let line = match (lines.next(), lines.next_back()) {
        (None, _) if images == 0 => "no output".to_owned(),
        (None, _) => format!("{images} image(s)"),
        (Some(line), None) => one_line(line),
        // The last line of a failure tells the exit code or the time limit.
        (Some(_), Some(last)) if is_error => one_line(last),
        (Some(_), Some(_)) => format!("{} lines", text.lines().count()),
    };
    cut(&line, MAX_COLUMNS)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_named_by_what_they_are_about() {
        for (name, args, expected) in [
            ("bash", json!({"command": "ls -la\nwc\x1b", "timeout": 3}), "[bash] ls -la wc␛"),
            ("edit", json!({"path": "a.rs", "edits": []}), "[edit] a.rs"),
            ("grep", json!({"pattern": "fn", "path": "src"}), "[grep] src fn"),
            ("x", json!({"n": 1}), "[x] {\"n\":1}"),
            ("x", json!({}), "[x]"),
            ("x", Value::Null, "[x]"),
        ] {
            assert_eq!(call_line(name, &args), expected);
        }
        assert_eq!(call_line("bash", &json!({"command": "x".repeat(1000)})).chars().count(), MAX_COLUMNS);
    }

    #[test]
    fn ends_are_told_in_a_line() {
        let text = |text: &str| vec![ContentBlock::text(text)];
        let image = ContentBlock::Image { data: String::new(), mime_type: String::new() };
        for (content, is_error, ms, expected) in [
            (text("one\n"), false, Some(5), "one, 5 ms"),
            (text("a\nb\nc"), false, None, "3 lines"),
            (text("out\n\nCommand exited with code 2"), true, Some(1200), "failed: Command exited with code 2, 1.2 s"),
            (text("not found"), true, None, "failed: not found"),
            (vec![], false, None, "no output"),
            (vec![image], false, None, "1 image(s)"),
        ] {
            assert_eq!(end_line(&content, is_error, ms), expected);
        }
    }
}

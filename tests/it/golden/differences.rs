//! The table of accepted differences: `differences.json`, shown as a page of `proto-docs`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::Value;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Lane {
    /// Events.
    Events,
    /// Answers to requests.
    Answers,
    /// Entries of the session file.
    Entries,
    /// Requests to the model.
    Requests,
}

/// Whose step is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Whose {
    /// pi has it, agentd has not.
    Pi,
    /// agentd has it, pi has not.
    Agentd,
}

/// One accepted difference: a step that one side has alone (`only`), or a member that differs (`at`).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Row {
    lane: Lane,
    /// Kind of the step: an event's or entry's type, `message/ROLE`, a command, `request`.
    of: String,
    /// Recordings it is about; all when left out.
    #[serde(default)]
    recordings: Vec<String>,
    #[serde(default)]
    only: Option<Whose>,
    /// JSON pointer of the member; `*` stands for one part of it, `**` at the end for all below.
    #[serde(default)]
    at: Option<String>,
    /// What pi has there: an object has at least these members, texts may hold `*`. Anything when left out.
    #[serde(default)]
    pi: Option<Value>,
    /// What agentd has there. Anything when left out.
    #[serde(default)]
    agentd: Option<Value>,
    /// Why it differs.
    reason: String,
    #[serde(skip)]
    uses: AtomicUsize,
}

/// What stands for a member that is not there.
pub(super) const ABSENT: &str = "<absent>";

/// The table.
pub(super) struct Differences {
    rows: Vec<Row>,
}

impl Differences {
    /// Reads the table.
    pub(super) fn load() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/differences.json");
        let text = std::fs::read_to_string(path).expect("differences.json");
        Self { rows: serde_json::from_str(&text).expect("rows in the known form") }
    }

    /// Tells whether a step that one side has alone is accepted.
    pub(super) fn is_dropped(&self, recording: &str, lane: Lane, whose: Whose, kind: &str, value: &Value) -> bool {
        let fits = |row: &&Row| {
            let wanted = if whose == Whose::Pi { &row.pi } else { &row.agentd };
            row.only == Some(whose)
                && row.is_about(recording, lane, kind)
                && wanted.as_ref().is_none_or(|wanted| is_part(wanted, value))
        };
        self.take(fits)
    }

    /// Tells whether an entry that one side has alone is accepted.
    pub(super) fn is_dropped_entry(&self, recording: &str, whose: Whose, entry: &Value) -> bool {
        self.is_dropped(recording, Lane::Entries, whose, &entry_kind(entry), entry)
    }

    /// Tells whether a differing member is accepted.
    pub(super) fn accepts(
        &self,
        recording: &str,
        lane: Lane,
        kind: &str,
        path: &str,
        pi: &Value,
        agentd: &Value,
    ) -> bool {
        let fits = |row: &&Row| {
            row.is_about(recording, lane, kind)
                && row.at.as_ref().is_some_and(|at| path_fits(at, path))
                && row.pi.as_ref().is_none_or(|wanted| is_part(wanted, pi))
                && row.agentd.as_ref().is_none_or(|wanted| is_part(wanted, agentd))
        };
        self.take(fits)
    }

    fn take(&self, fits: impl FnMut(&&Row) -> bool) -> bool {
        let row = self.rows.iter().find(fits);
        row.inspect(|row| {
            row.uses.fetch_add(1, Ordering::Relaxed);
        })
        .is_some()
    }

    /// Returns the rows that no recording needed.
    pub(super) fn unused(&self) -> Vec<String> {
        let unused = self.rows.iter().filter(|row| row.uses.load(Ordering::Relaxed) == 0);
        unused.map(|row| format!("{:?} {} {:?}: {}", row.lane, row.of, row.at, row.reason)).collect()
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the page that shows the table to people.
    pub(super) fn page(&self) -> String {
        let mut page = PAGE_HEAD.to_owned();
        for row in &self.rows {
            let lane = format!("{:?}", row.lane).to_lowercase();
            let place = match (row.only, &row.at) {
                (Some(_), _) => "the whole step".to_owned(),
                (None, at) => format!("`{}`", at.as_deref().unwrap_or_default()),
            };
            let shown = |value: &Option<Value>, there: bool| match value {
                Some(Value::String(text)) if text == ABSENT => "absent".to_owned(),
                Some(value) => format!("`{}`", value.to_string().replace('|', "\\|")),
                None if there => "another value".to_owned(),
                None => "absent".to_owned(),
            };
            let pi = shown(&row.pi, row.only != Some(Whose::Agentd));
            let agentd = shown(&row.agentd, row.only != Some(Whose::Pi));
            let scope = if row.recordings.is_empty() { "all".to_owned() } else { row.recordings.join(", ") };
            let cells = [&lane, &format!("`{}`", row.of), &place, &pi, &agentd, &row.reason, &scope];
            page.push_str(&format!("| {} |\n", cells.map(String::as_str).join(" | ")));
        }
        page
    }

    /// Returns where that page lies.
    pub(super) fn page_path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("proto-docs/differences.md")
    }
}

/// Returns the kind of an entry: its type, and of a message also the role.
pub(super) fn entry_kind(entry: &Value) -> String {
    let kind = entry["type"].as_str().unwrap_or_default();
    let role = entry["message"]["role"].as_str().map(|role| format!("/{role}")).unwrap_or_default();
    format!("{kind}{role}")
}

const PAGE_HEAD: &str = "\
# Where agentd differs from pi 1.6.0 on purpose

A golden runner plays recordings of pi 1.6.0 against the daemon and accepts nothing but the rows below. The page is made
from `tests/it/golden/differences.json`; a test says whether it is current, and whether every row is still needed.

Not rows, because they follow from the `full` view: `message_update` carries `usage` only when it changed, and its
`*_end` events neither text nor call again; `message_end` of a tool result carries `entryId` and `toolCallId` only;
`turn_end` and `agent_end` refer to entry ids; `tool_execution_update` carries new output instead of the whole tail.
Prompt wording and tool descriptions are each program's own, and an answer may say more than pi's. A user message of
text only goes to the model as a string, not as a list of one part: local servers' chat templates know nothing else.

| compared | step | where | pi 1.6.0 | agentd | why | recordings |
| --- | --- | --- | --- | --- | --- | --- |
";

impl Row {
    fn is_about(&self, recording: &str, lane: Lane, kind: &str) -> bool {
        self.lane == lane
            && text_fits(&self.of, kind)
            && (self.recordings.is_empty() || self.recordings.iter().any(|name| name == recording))
    }
}

fn path_fits(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    for wanted in pattern.split('/') {
        if wanted == "**" {
            return true;
        }
        match parts.next() {
            Some(part) if wanted == "*" || wanted == part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

fn value_fits(wanted: &Value, value: &Value) -> bool {
    match (wanted, value) {
        (Value::String(wanted), Value::String(text)) => text_fits(wanted, text),
        _ => wanted == value,
    }
}

/// Tells whether an object has at least the members wanted.
fn is_part(wanted: &Value, value: &Value) -> bool {
    match (wanted, value) {
        (Value::Object(wanted), Value::Object(value)) => {
            wanted.iter().all(|(key, wanted)| value.get(key).is_some_and(|value| is_part(wanted, value)))
        }
        _ => value_fits(wanted, value),
    }
}

/// Matches a text with `*` for any characters.
fn text_fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        let Some(place) = rest.find(part) else { return false };
        rest = &rest[place + part.len()..];
        last = Some(part);
    }
    match last {
        None => rest.is_empty(),
        Some(part) => part.is_empty() || rest.is_empty() || text.ends_with(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_they_say() {
        for (pattern, text, expected) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*", "abcd", true),
            ("*d", "abcd", true),
            ("a*c*", "abcd", true),
            ("a*d", "abcde", false),
            ("*", "", true),
            ("a*d", "adxd", true),
        ] {
            assert_eq!(text_fits(pattern, text), expected, "{pattern} {text}");
        }
        assert!(path_fits("/a/*/c", "/a/0/c") && !path_fits("/a/*", "/a/0/c") && path_fits("/a/**", "/a/0/c"));
    }
}

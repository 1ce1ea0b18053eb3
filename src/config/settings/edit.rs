//! Changes in the text of a `config.toml`: one key, and nothing else of the text.

use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value as Toml};

use super::key::Key;
use super::kind::Value;

/// Returns the text with a key set, or without it for `None`.
///
/// # Errors
/// The text is no TOML, or something else stands where the key's table should: the line, and what is wrong, for people.
pub fn edit(text: &str, key: &Key, value: Option<&Value>) -> Result<String, (usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let at = error.span().map_or(0, |span| span.start);
        let line = 1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
        (line, "is no TOML".to_owned())
    })?;
    if document.is_empty() && value.is_some() && !text.trim().is_empty() {
        // Comments alone: what is new comes behind them.
        return Ok(format!("{}\n{}", text.trim_end(), edit("", key, value)?));
    }
    let mut table: &mut dyn TableLike = document.as_table_mut();
    let mut name = key.name;
    while let Some((first, rest)) = name.split_once('.') {
        if value.is_none() && !table.contains_key(first) {
            return Ok(text.to_owned());
        }
        let inner = table.entry(first).or_insert_with(|| Item::Table(Table::new()));
        table = inner.as_table_like_mut().ok_or_else(|| (1, format!("{first} is no table")))?;
        name = rest;
    }
    match value {
        Some(value) => put(table, name, value),
        None => drop(table.remove(name)),
    }
    Ok(document.to_string())
}

fn put(table: &mut dyn TableLike, name: &str, value: &Value) {
    let mut new = toml(value);
    match table.get_mut(name) {
        Some(Item::Value(old)) => {
            // The comment behind it stays.
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        Some(other) => *other = Item::Value(new),
        None => drop(table.insert(name, Item::Value(new))),
    }
}

fn toml(value: &Value) -> Toml {
    match value {
        Value::Flag(flag) => Toml::from(*flag),
        // Numbers of all keys are far below the largest of TOML.
        Value::Number(number) => Toml::from(i64::try_from(*number).unwrap_or(i64::MAX)),
        Value::Text(text) => Toml::from(text.as_ref()),
        Value::List(items) => Toml::from(items.iter().map(String::as_str).collect::<Array>()),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::config::settings::read_assignment;

    #[track_caller]
    fn check(text: &str, assignment: &str, expected: &str) {
        let (key, value) = read_assignment(assignment).unwrap();
        assert_eq!(edit(text, key, Some(&value)).unwrap(), expected, "{assignment}");
    }

    #[test]
    fn one_key_is_set_and_all_else_stays() {
        check("", "max_turns=5", "max_turns = 5\n");
        check("# all\n# mine", "retry.max_retries=5", "# all\n# mine\n[retry]\nmax_retries = 5\n");
        check("", "retry.max_retries=5", "[retry]\nmax_retries = 5\n");
        check("# mine\nmax_turns = 1 # few\n\n# end\n", "max_turns=5", "# mine\nmax_turns = 5 # few\n\n# end\n");
        check(
            "a = 'kept'\n[retry]\n  enabled=false\n",
            "max_turns=5",
            "a = 'kept'\nmax_turns = 5\n[retry]\n  enabled=false\n",
        );
        check(
            "[retry]\nenabled=false # no\n\n[images]\n",
            "retry.max_retries=2",
            "[retry]\nenabled=false # no\nmax_retries = 2\n\n[images]\n",
        );
        check("retry.enabled = false\n", "retry.max_retries=2", "retry.enabled = false\nretry.max_retries = 2\n");
        check(
            "retry = { enabled = false }\n",
            "retry.max_retries=2",
            "retry = { enabled = false , max_retries = 2 }\n",
        );
        check("max_turns = \"wrong\"\n", "max_turns=2", "max_turns = 2\n");
        check("", "model=", "model = \"\"\n");
        check("", "local_models=localhost:1,[::1]:2", "local_models = [\"localhost:1\", \"[::1]:2\"]\n");
    }

    #[test]
    fn a_key_is_taken_out() {
        let (key, _) = read_assignment("retry.max_retries=1").unwrap();
        let without = |text: &str| edit(text, key, None).unwrap();
        assert_eq!(without("[retry]\nenabled = true\nmax_retries = 5\n"), "[retry]\nenabled = true\n");
        assert_eq!(without("# nothing\n"), "# nothing\n");
        assert_eq!(without("[retry]\nenabled = true\n"), "[retry]\nenabled = true\n");
    }

    #[test]
    fn a_broken_text_is_left_alone() {
        let (key, value) = read_assignment("max_turns=1").unwrap();
        assert_eq!(edit("a = 1\nb = \n", key, Some(&value)).unwrap_err(), (2, "is no TOML".to_owned()));
        let (key, value) = read_assignment("retry.enabled=1").unwrap();
        assert_eq!(edit("retry = 1", key, Some(&value)).unwrap_err(), (1, "retry is no table".to_owned()));
    }
}

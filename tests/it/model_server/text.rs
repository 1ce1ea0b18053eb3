//! Texts as the recordings' server wrote them: cut into deltas, and JSON in its spelling.

use serde_json::{Value, json};

/// Cuts a text into deltas of `size` characters; one delta when left out, none for an empty text.
pub(crate) fn pieces(text: &str, size: Option<usize>) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    match size {
        Some(size) => characters.chunks(size).map(|piece| piece.iter().collect()).collect(),
        None if text.is_empty() => Vec::new(),
        None => vec![text.to_owned()],
    }
}

/// The recordings' server wrote arguments as Python does, with a blank after `:` and `,`; pieces must match theirs.
pub(crate) fn arguments(args: Option<&Value>, raw: Option<String>) -> String {
    raw.unwrap_or_else(|| spaced(args.unwrap_or(&json!({}))))
}

fn spaced(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let members: Vec<_> = map.iter().map(|(key, value)| format!("{}: {}", ascii(key), spaced(value))).collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        Value::String(text) => ascii(text),
        other => other.to_string(),
    }
}

/// A JSON string with everything outside ASCII escaped, as Python writes it.
fn ascii(text: &str) -> String {
    let quoted = Value::String(text.to_owned()).to_string();
    let mut out = String::with_capacity(quoted.len());
    for character in quoted.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            let mut units = [0_u16; 2];
            for unit in character.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

//! JSON schemas of tool parameters, and arguments made to fit them.
//!
//! Pure. Models write numbers as strings, arrays as JSON text and `null` for "nothing"; what can only mean one thing
//! is accepted (pi: the same), everything else is named. Unknown keys are left out.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// Something wrong with the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Where, such as `edits.0.newText`.
    pub(crate) path: String,
    /// What.
    pub(crate) what: String,
}

/// Returns the schema of a parameter struct: `type`, `required`, `properties` with descriptions, and nothing else.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    tidy(schema.as_value(), false)
}

/// Keeps what tells a model something, in the order in which pi writes it.
fn tidy(schema: &Value, describe: bool) -> Value {
    let mut clean = Map::new();
    let kind = main_type(schema);
    if let Some(kind) = kind {
        clean.insert("type".to_owned(), Value::from(kind));
    }
    for key in ["enum", "required"] {
        if let Some(value) = schema.get(key) {
            clean.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let properties = properties.iter().map(|(name, part)| (name.clone(), tidy(part, true))).collect();
        clean.insert("properties".to_owned(), Value::Object(properties));
    }
    if let Some(items) = schema.get("items") {
        clean.insert("items".to_owned(), tidy(items, false));
    }
    if describe && let Some(description) = schema.get("description") {
        clean.insert("description".to_owned(), description.clone());
    }
    Value::Object(clean)
}

/// The type besides `null`, which only says that a parameter may be left out.
fn main_type(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        _ => None,
    }
}

/// Returns the arguments as the schema wants them.
///
/// # Errors
/// All that is missing or of another type.
pub(crate) fn coerce_arguments(schema: &Value, arguments: &Value) -> Result<Value, Vec<Problem>> {
    let mut problems = Vec::new();
    let empty = Value::Object(Map::new());
    let arguments = if arguments.is_null() { &empty } else { arguments };
    let value = coerce(schema, arguments, "", &mut problems);
    if problems.is_empty() { Ok(value) } else { Err(problems) }
}

fn coerce(schema: &Value, value: &Value, path: &str, problems: &mut Vec<Problem>) -> Value {
    let Some(kind) = main_type(schema) else { return value.clone() };
    match (kind, value) {
        ("object", Value::Object(map)) => coerce_object(schema, map, path, problems),
        ("array", Value::Array(items)) => coerce_array(schema, items, path, problems),
        ("object" | "array", Value::String(text)) => match serde_json::from_str::<Value>(text) {
            Ok(parsed) if parsed.is_object() && kind == "object" || parsed.is_array() && kind == "array" => {
                coerce(schema, &parsed, path, problems)
            }
            _ => mismatch(kind, path, problems),
        },
        ("string", Value::String(_)) | ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("integer", Value::Number(number)) if number.as_f64().is_some_and(|n| n.fract() == 0.0) => value.clone(),
        ("string", Value::Number(number)) => Value::from(number.to_string()),
        ("string", Value::Bool(flag)) => Value::from(flag.to_string()),
        ("number" | "integer", Value::String(text)) => {
            number_in(text, kind).unwrap_or_else(|| mismatch(kind, path, problems))
        }
        ("boolean", Value::String(text)) if text == "true" || text == "false" => Value::from(text == "true"),
        _ => mismatch(kind, path, problems),
    }
}

fn number_in(text: &str, kind: &str) -> Option<Value> {
    let text = text.trim();
    if let Ok(integer) = text.parse::<i64>() {
        return Some(Value::from(integer));
    }
    let number = text.parse::<f64>().ok().filter(|n| n.is_finite() && (kind == "number" || n.fract() == 0.0))?;
    serde_json::Number::from_f64(number).map(Value::Number)
}

fn mismatch(kind: &str, path: &str, problems: &mut Vec<Problem>) -> Value {
    let path = if path.is_empty() { "arguments" } else { path };
    problems.push(Problem { path: path.to_owned(), what: format!("expected {kind}") });
    Value::Null
}

fn coerce_object(schema: &Value, map: &Map<String, Value>, path: &str, problems: &mut Vec<Problem>) -> Value {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Value::Object(map.clone());
    };
    let is_required = |name: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|other| other == name))
    };
    let mut result = Map::new();
    for (name, part) in properties {
        let path = join(path, name);
        match map.get(name) {
            // `null` for an optional parameter means that it was left out; it is never read as 0 or "".
            Some(Value::Null) | None if !is_required(name) => {}
            None => problems.push(Problem { path, what: "missing".to_owned() }),
            Some(value) => {
                result.insert(name.clone(), coerce(part, value, &path, problems));
            }
        }
    }
    Value::Object(result)
}

fn coerce_array(schema: &Value, items: &[Value], path: &str, problems: &mut Vec<Problem>) -> Value {
    let Some(part) = schema.get("items") else { return Value::Array(items.to_vec()) };
    items.iter().enumerate().map(|(at, item)| coerce(part, item, &join(path, &at.to_string()), problems)).collect()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests;

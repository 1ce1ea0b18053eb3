//! JSON schemas as tables.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use agentd_protocol::event::{EventParams, ListEventParams};
use agentd_protocol::methods::{FrontParams, REGISTRY};
use schemars::SchemaGenerator;
use serde_json::{Map, Value};

use super::flow;

/// All shapes of the wire.
pub(super) struct Types {
    definitions: Map<String, Value>,
    /// Where a type is described.
    places: BTreeMap<String, String>,
    /// Types that have no page of their own.
    rest: Vec<String>,
    generator: RefCell<SchemaGenerator>,
}

impl Types {
    /// Collects the shapes; `places` tells on which page each generated part stands.
    pub(super) fn new(places: &BTreeMap<&str, &str>) -> Self {
        let mut generator = schemars::generate::SchemaSettings::draft2020_12().for_serialize().into_generator();
        let mut inline = BTreeMap::new();
        for info in REGISTRY {
            for schema in [(info.params)(&mut generator), (info.result)(&mut generator)] {
                inline.insert(name_of(schema.as_value()), info.name);
            }
        }
        generator.subschema_for::<EventParams>();
        generator.subschema_for::<ListEventParams>();
        generator.subschema_for::<FrontParams>();
        let definitions = generator.definitions().clone();
        let mut of_types = BTreeMap::new();
        let mut rest = Vec::new();
        for (name, definition) in &definitions {
            let method = inline.get(name.as_str()).filter(|_| name.ends_with("Params") || name.ends_with("Result"));
            if let Some(page) = places.get(format!("type {name}").as_str()) {
                of_types.insert(name.clone(), format!("{page}#{}", name.to_lowercase()));
            } else if let Some(method) = method {
                let page = places.get(format!("method {method}").as_str()).unwrap_or(&"");
                of_types.insert(name.clone(), format!("{page}#{method}"));
            } else if !is_plain(definition) && name != "Empty" {
                let page = places.get("types").unwrap_or(&"");
                of_types.insert(name.clone(), format!("{page}#{}", name.to_lowercase()));
                rest.push(name.clone());
            }
        }
        Self { definitions, places: of_types, rest, generator: RefCell::new(generator) }
    }

    pub(super) fn generator(&self) -> std::cell::RefMut<'_, SchemaGenerator> {
        self.generator.borrow_mut()
    }

    /// Describes one type under a heading of its own.
    pub(super) fn one(&self, name: &str) -> String {
        let definition = self.definitions.get(name).unwrap_or_else(|| panic!("no type {name}"));
        format!("### {name}\n\n{}", self.body(name, definition))
    }

    /// Describes the types that no other page does.
    pub(super) fn rest(&self) -> String {
        self.rest.iter().map(|name| self.one(name)).collect::<Vec<_>>().join("\n")
    }

    /// Describes the fields of a method's parameters or result.
    pub(super) fn fields(&self, title: &str, schema: &schemars::Schema, more: &[(&str, &str, &str)]) -> String {
        let name = name_of(schema.as_value());
        if title == "Result" && self.is_described_elsewhere(&name) {
            let seq = if more.is_empty() { "" } else { ", and `seq`" };
            return format!("Result: {}{seq}.\n", self.link(&name));
        }
        let definition = &self.definitions[&name];
        let own = definition.get("properties").and_then(Value::as_object);
        let more: Vec<_> = more.iter().filter(|(field, ..)| own.is_none_or(|own| !own.contains_key(*field))).collect();
        if own.is_none_or(Map::is_empty) && more.is_empty() {
            return format!("{title}: none.\n\n");
        }
        let mut out = format!("| {title} | Type | |\n| --- | --- | --- |\n");
        out += &self.rows(definition);
        for (field, kind, text) in more {
            writeln!(out, "| `{field}` | {kind} | {text} |").unwrap();
        }
        out + "\n"
    }

    fn is_described_elsewhere(&self, name: &str) -> bool {
        self.places.get(name).is_some_and(|place| place.ends_with(&format!("#{}", name.to_lowercase())))
    }

    fn body(&self, name: &str, definition: &Value) -> String {
        let mut out = format!("{}\n\n", self.text(definition));
        let variants = ["oneOf", "anyOf"].iter().find_map(|key| definition.get(key)?.as_array());
        match variants {
            Some(variants) if variants.iter().all(|variant| variant.get("const").is_some()) => {
                out += "| Value | |\n| --- | --- |\n";
                for variant in variants {
                    writeln!(out, "| `{}` | {} |", word(&variant["const"]), self.text(variant)).unwrap();
                }
            }
            Some(variants) => variants.iter().for_each(|variant| out += &self.variant(name, variant)),
            None if definition.get("properties").is_some() => {
                out += "| Field | Type | |\n| --- | --- | --- |\n";
                out += &self.rows(definition);
            }
            None => {}
        }
        out
    }

    /// Describes one of several shapes that differ by their `type` or `role`.
    fn variant(&self, of: &str, variant: &Value) -> String {
        let properties = variant.get("properties").and_then(Value::as_object);
        let tag = properties.and_then(|properties| {
            let (name, value) = properties.iter().find(|(_, value)| value.get("const").is_some())?;
            Some((name.clone(), word(&value["const"])))
        });
        let Some((tag, word)) = tag else { return format!("- anything else: {}\n", self.text(variant)) };
        let mut out = format!("- `{tag}: \"{word}\"`: {}", self.text(variant));
        if let Some(reference) = variant.get("$ref").and_then(Value::as_str) {
            let name = reference.rsplit('/').next().unwrap_or_default();
            if name != of {
                out += &format!(" The fields of {}.", self.link(name));
            }
        }
        out.push('\n');
        let required = required(variant);
        for (field, schema) in properties.into_iter().flatten().filter(|(field, _)| **field != tag) {
            let kind = self.kind(schema, required.contains(field.as_str()));
            out += &format!("  - `{field}`: {kind}. {}\n", self.text(schema));
        }
        out
    }

    fn rows(&self, definition: &Value) -> String {
        let required = required(definition);
        let mut out = String::new();
        for (field, schema) in definition["properties"].as_object().into_iter().flatten() {
            let is_required = required.contains(field.as_str());
            let kind = self.kind(schema, is_required);
            let optional = if is_required { "" } else { ", optional" };
            writeln!(out, "| `{field}` | {kind}{optional} | {} |", self.text(schema)).unwrap();
        }
        out
    }

    /// Names a type. `null` stands for an absent field unless it is `required`.
    fn kind(&self, schema: &Value, is_required: bool) -> String {
        let or_null = |kind: String| if is_required { format!("{kind} or null") } else { kind };
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.link(reference.rsplit('/').next().unwrap_or_default());
        }
        if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
            let others: Vec<&Value> = choices.iter().filter(|choice| choice["type"] != "null").collect();
            return or_null(others.iter().map(|choice| self.kind(choice, true)).collect::<Vec<_>>().join(" or "));
        }
        match schema.get("type") {
            Some(Value::String(name)) if name == "array" => format!("array of {}", self.kind(&schema["items"], true)),
            Some(Value::String(name)) if name == "object" => match schema.get("additionalProperties") {
                Some(values @ Value::Object(_)) => format!("object of {}", self.kind(values, true)),
                _ => "object".to_owned(),
            },
            Some(Value::String(name)) => name.clone(),
            Some(Value::Array(names)) => match names.iter().find(|name| *name != "null") {
                Some(name) if name == "array" => or_null(format!("array of {}", self.kind(&schema["items"], true))),
                Some(name) => or_null(word(name)),
                None => "null".to_owned(),
            },
            _ => "any JSON".to_owned(),
        }
    }

    fn link(&self, name: &str) -> String {
        match self.places.get(name) {
            Some(place) => format!("[{name}]({place})"),
            None if name == "Empty" => "object".to_owned(),
            None => {
                self.definitions.get(name).map_or_else(|| name.to_owned(), |definition| self.kind(definition, true))
            }
        }
    }

    /// Returns a description without what only means something to a reader of the code.
    fn text(&self, schema: &Value) -> String {
        let text = flow(schema["description"].as_str().unwrap_or_default());
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("[`") {
            let (name, after) = after.split_once("`]").unwrap_or((after, ""));
            out += before;
            let name = name.rsplit("::").next().unwrap_or(name);
            let wire = REGISTRY.iter().map(|info| info.name).find(|method| camel(method) == name);
            match wire {
                Some(method) => out += &format!("`{method}`"),
                None if self.definitions.contains_key(name) => out += &self.link(name),
                None => out += &format!("`{}`", lower_first(name)),
            }
            rest = after;
        }
        (out + rest).replace('|', "\\|")
    }
}

/// Tells whether a type is only a string or the like under another name.
fn is_plain(definition: &Value) -> bool {
    ["properties", "oneOf", "anyOf", "additionalProperties"].iter().all(|key| definition.get(key).is_none())
}

fn name_of(schema: &Value) -> String {
    schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()).unwrap_or_default().to_owned()
}

fn required(definition: &Value) -> BTreeSet<&str> {
    definition["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn camel(snake: &str) -> String {
    snake.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

fn lower_first(name: &str) -> String {
    name.char_indices().map(|(at, c)| if at == 0 { c.to_ascii_lowercase() } else { c }).collect()
}

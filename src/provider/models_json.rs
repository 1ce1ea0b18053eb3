//! `models.json`: providers and models that the user describes, in pi's schema.
//!
//! Pure: text in, definitions and faults out. A fault in one provider or model costs only that one; unknown fields
//! are ignored, so that files for newer versions of pi work. Comments and trailing commas are tolerated.

use std::fmt;
use std::marker::PhantomData;

use agentd_protocol::model::ModelCost;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A provider as a file defines it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderDef {
    /// Its id.
    pub id: String,
    /// Where its API is.
    pub base_url: Option<String>,
    /// Its dialect.
    pub api: Option<String>,
    /// Where its key comes from, in the file's notation.
    pub api_key: Option<String>,
    /// Headers of its requests, in the file's notation.
    pub headers: Vec<(String, String)>,
    /// Whether the key is sent as `Authorization: Bearer` in any case.
    pub auth_header: bool,
    /// Quirks of its server.
    pub compat: Option<Value>,
    /// Its models.
    pub models: Vec<ModelDef>,
    /// Changes to models that are built in.
    pub overrides: Vec<ModelDef>,
    /// Whether it takes requests without a key. No file says so.
    pub is_keyless: bool,
}

/// A model as a file defines it; what is left out gets a default.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelDef {
    /// Its id at the provider.
    pub id: String,
    /// Its name for people.
    pub name: Option<String>,
    /// Its dialect, where it is not the provider's.
    pub api: Option<String>,
    /// Where its API is, where that is not the provider's.
    pub base_url: Option<String>,
    /// Whether it can be asked to think.
    pub reasoning: Option<bool>,
    /// The provider's words for thinking levels.
    pub thinking_level_map: Option<Value>,
    /// How long the provider keeps prompts in its cache.
    pub prompt_cache: Option<Value>,
    /// Kinds of input.
    pub input: Option<Vec<String>>,
    /// Prices.
    pub cost: Option<CostDef>,
    /// Context window in tokens.
    pub context_window: Option<u64>,
    /// Most tokens in one response.
    pub max_tokens: Option<u64>,
    /// Further members of its request bodies, such as `temperature`.
    pub sampling_params: Option<Map<String, Value>>,
    /// The same for single thinking levels, over those.
    pub sampling_params_by_thinking_level: Option<Map<String, Value>>,
    /// Headers of its requests, in the file's notation.
    pub headers: OrderedMap<String>,
    /// Quirks of its server, over the provider's.
    pub compat: Option<Value>,
}

/// Prices as a file gives them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CostDef {
    /// Uncached prompt tokens.
    pub input: Option<f64>,
    /// Generated tokens.
    pub output: Option<f64>,
    /// Cached prompt tokens read.
    pub cache_read: Option<f64>,
    /// Prompt tokens written to a cache.
    pub cache_write: Option<f64>,
    /// Other prices for large prompts.
    pub tiers: Vec<TierDef>,
}

/// Prices of large prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TierDef {
    /// They hold for prompts of more tokens than this.
    pub input_tokens_above: u64,
    /// The prices.
    #[serde(flatten)]
    pub cost: ModelCost,
}

/// Something wrong in a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// Parses a file.
pub fn parse(text: &str) -> (Vec<ProviderDef>, Vec<Fault>) {
    let text = blank_comments(text.strip_prefix('\u{feff}').unwrap_or(text));
    let mut faults = Vec::new();
    let definitions = match definitions(&text) {
        Ok(definitions) => definitions,
        Err(fault) => return (Vec::new(), vec![fault]),
    };
    let mut providers = Vec::new();
    for (id, raw) in definitions.0 {
        match serde_json::from_str::<ProviderJson<'_>>(raw.get()) {
            Ok(json) => providers.push(json.define(id, &text, &mut faults)),
            Err(error) => faults.push(fault(&text, raw.get(), &error, &format!("provider {id}: "))),
        }
    }
    (providers, faults)
}

/// Finds the providers; a file without any defines nothing.
fn definitions(text: &str) -> Result<OrderedMap<&RawValue>, Fault> {
    let members: OrderedMap<&RawValue> = serde_json::from_str(text).map_err(|error| fault(text, text, &error, ""))?;
    let Some((_, providers)) = members.0.into_iter().find(|(name, _)| name == "providers") else {
        return Ok(OrderedMap::default());
    };
    serde_json::from_str(providers.get()).map_err(|error| fault(text, providers.get(), &error, "providers: "))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProviderJson<'a> {
    base_url: Option<String>,
    api: Option<String>,
    api_key: Option<String>,
    #[serde(default)]
    headers: OrderedMap<String>,
    #[serde(default)]
    auth_header: bool,
    compat: Option<Value>,
    #[serde(borrow, default)]
    models: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    model_overrides: OrderedMap<&'a RawValue>,
}

impl ProviderJson<'_> {
    fn define(self, id: String, text: &str, faults: &mut Vec<Fault>) -> ProviderDef {
        let mut models = Vec::new();
        for raw in self.models {
            match serde_json::from_str::<ModelDef>(raw.get()) {
                Ok(model) if model.id.is_empty() => {
                    faults.push(fault_at(text, raw.get(), 1, 1, format!("provider {id}: a model without id")));
                }
                Ok(model) => models.push(model),
                Err(error) => faults.push(fault(text, raw.get(), &error, &format!("provider {id}: model: "))),
            }
        }
        let mut overrides = Vec::new();
        for (model_id, raw) in self.model_overrides.0 {
            match serde_json::from_str::<ModelDef>(raw.get()) {
                Ok(model) => overrides.push(ModelDef { id: model_id, ..model }),
                Err(error) => {
                    faults.push(fault(text, raw.get(), &error, &format!("provider {id}: override of {model_id}: ")));
                }
            }
        }
        ProviderDef {
            id,
            base_url: self.base_url,
            api: self.api,
            api_key: self.api_key,
            headers: self.headers.0,
            auth_header: self.auth_header,
            compat: self.compat,
            models,
            overrides,
            is_keyless: false,
        }
    }
}

/// An object whose members keep their order.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderedMap<V>(pub Vec<(String, V)>);

impl<V> Default for OrderedMap<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for OrderedMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Members<V> {
            type Value = OrderedMap<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(String, V)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, V>()? {
                    // As in JavaScript: the last one wins, in the place of the first.
                    match members.iter_mut().find(|(known, _)| *known == name) {
                        Some(member) => member.1 = value,
                        None => members.push((name, value)),
                    }
                }
                Ok(OrderedMap(members))
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

/// Places an error of a piece of the text in the whole text.
fn fault(text: &str, piece: &str, error: &serde_json::Error, context: &str) -> Fault {
    let message = error.to_string();
    // serde_json appends the place in the piece, which would contradict ours.
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(before, _)| before);
    fault_at(text, piece, error.line(), error.column(), format!("{context}{}", without_values(message)))
}

/// Takes quoted values out of a message of serde: one of them may be a key in the wrong place.
fn without_values(message: &str) -> String {
    match (message.find("string \""), message.rfind("\", expected ")) {
        (Some(start), Some(end)) if start < end => format!("{}a string{}", &message[..start], &message[end + 1..]),
        _ => message.to_owned(),
    }
}

/// `piece` is a slice of `text`; `line` and `column` are places in it.
fn fault_at(text: &str, piece: &str, line: usize, column: usize, message: String) -> Fault {
    let offset = (piece.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let before = text.get(..offset).unwrap_or_default();
    let lines_before = before.bytes().filter(|b| *b == b'\n').count();
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let first_column = if line <= 1 { before.len() - line_start } else { 0 };
    Fault { line: lines_before + line.max(1), column: first_column + column.max(1), message }
}

/// Replaces comments and trailing commas by blanks, so that all places stay where they are.
fn blank_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut last_comma = None;
    let mut at = 0;
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => end_of_string(&bytes, at),
            (b'/', Some(b'/')) => {
                let end = find(&bytes, at, b"\n");
                bytes[at..end].fill(b' ');
                end
            }
            (b'/', Some(b'*')) => {
                let end = (find(&bytes, at + 2, b"*/") + 2).min(bytes.len());
                bytes[at..end].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
                end
            }
            _ => at + 1,
        };
        match bytes[at] {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b',' => last_comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = last_comma.take() {
                    bytes[comma] = b' ';
                }
            }
            _ => last_comma = None,
        }
        at = end;
    }
    // Whole ASCII bytes and whole comments were replaced by blanks, so this is UTF-8 as before.
    String::from_utf8(bytes).unwrap_or_default()
}

fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn find(bytes: &[u8], from: usize, needle: &[u8]) -> usize {
    let from = from.min(bytes.len());
    memchr::memmem::find(&bytes[from..], needle).map_or(bytes.len(), |at| from + at)
}

#[cfg(test)]
mod tests;

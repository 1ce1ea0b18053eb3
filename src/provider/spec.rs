//! What is known of a provider and a model, and where keys and header values come from.
//!
//! Pure: sources are described here and resolved elsewhere, against the environment of a session.

use std::sync::Arc;

use agentd_protocol::message::ThinkingLevel;
use agentd_protocol::model::{Model, ModelCost};
use serde_json::{Map, Value};

use super::anthropic_messages;
use super::known_keys::shown_url;
use super::openai_completions::compat::Compat;
use super::secret::Secret;
use crate::config::env::SessionEnv;

/// Name of the OpenAI Chat Completions dialect in `models.json`.
pub const API_OPENAI_COMPLETIONS: &str = "openai-completions";
/// Name of the Anthropic Messages dialect in `models.json`.
pub const API_ANTHROPIC_MESSAGES: &str = "anthropic-messages";
/// Name of the dialect of the built-in demo provider.
pub const API_DEMO: &str = "demo";

/// A model that can be asked.
#[derive(Clone, Debug)]
pub struct ModelSpec {
    /// The model, with the address that requests go to; clients see it as [`ModelSpec::shown`].
    pub model: Model,
    /// Its provider.
    pub provider: Arc<ProviderSpec>,
    /// Headers of its requests, the provider's and its own.
    pub headers: Vec<(String, ValueSource)>,
    /// Other prices for large prompts, by rising threshold.
    pub tiers: Vec<CostTier>,
    /// Further members of request bodies.
    pub sampling: SamplingParams,
    /// Quirks of the server where it speaks Chat Completions.
    pub compat: Compat,
    /// Quirks of the server where it speaks Anthropic Messages.
    pub anthropic: anthropic_messages::compat::Compat,
}

impl ModelSpec {
    /// Returns the model's name as it is written everywhere: `provider/id`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.model.provider, self.model.id)
    }

    /// Returns the model as clients see it: its address without what may be a key.
    pub fn shown(&self) -> Model {
        Model { base_url: shown_url(&self.model.base_url), ..self.model.clone() }
    }

    /// Tells whether it is the built-in demo model.
    pub fn is_demo(&self) -> bool {
        self.model.api == API_DEMO
    }
}

/// Further members of request bodies, such as `temperature`; `null` takes a member away.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingParams {
    /// For all requests.
    pub always: Map<String, Value>,
    /// For requests with a thinking level: objects by the level's word, over those.
    pub by_level: Map<String, Value>,
}

impl SamplingParams {
    /// Returns the members for a request with `level`.
    pub fn at(&self, level: ThinkingLevel) -> Map<String, Value> {
        let mut params = self.always.clone();
        if let Some(Value::Object(over)) = self.by_level.get(level.as_str()) {
            params.extend(over.clone());
        }
        params
    }
}

/// A provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderSpec {
    /// Its id.
    pub id: String,
    /// Where its keys may come from; the first that gives one wins.
    pub keys: Vec<ValueSource>,
    /// Whether the key is sent as `Authorization: Bearer` even where headers say how to authenticate.
    pub auth_header: bool,
    /// Whether it takes requests without a key, as servers on this machine do.
    pub is_keyless: bool,
}

/// Prices of a prompt of more than some number of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostTier {
    /// The prices hold for prompts of more tokens than this.
    pub input_tokens_above: u64,
    /// The prices.
    pub cost: ModelCost,
}

/// A key or header value as configured.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueSource {
    /// The value itself.
    Literal(Secret),
    /// Text in which variables of the session's environment stand.
    Template(Vec<Part>),
    /// The output of a shell command.
    Command(Arc<str>),
}

/// A piece of a [`ValueSource::Template`].
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text as it is.
    Text(Secret),
    /// The value of a variable.
    Variable(String),
}

impl ValueSource {
    /// Reads the notation of `models.json`: `!command`, text with `$NAME` or `${NAME}` (`$$` is a dollar sign), or a
    /// literal.
    pub fn parse(text: &str) -> Self {
        if let Some(command) = text.strip_prefix('!') {
            return Self::Command(Arc::from(command.trim()));
        }
        let parts = template(text);
        match parts.as_slice() {
            [] => Self::Literal(Secret::new("")),
            [Part::Text(only)] => Self::Literal(only.clone()),
            _ => Self::Template(parts),
        }
    }

    /// Returns the source that is one variable.
    pub fn variable(name: &str) -> Self {
        Self::Template(vec![Part::Variable(name.to_owned())])
    }

    /// Returns the names of the variables that it reads.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let parts: &[Part] = if let Self::Template(parts) = self { parts } else { &[] };
        parts.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// Tells whether it can be expected to give a value; commands are not run for this.
    pub fn is_usable(&self, env: &SessionEnv) -> bool {
        match self {
            Self::Literal(value) => !value.expose().is_empty(),
            Self::Template(_) => self.variables().all(|name| env.get(name).is_some()),
            Self::Command(command) => !command.is_empty(),
        }
    }

    /// Returns the value, unless a command has to be run or a variable is missing.
    pub fn value(&self, env: &SessionEnv) -> Option<Secret> {
        match self {
            Self::Literal(value) if !value.expose().is_empty() => Some(value.clone()),
            Self::Template(parts) => {
                let pieces: Option<Vec<&str>> = parts
                    .iter()
                    .map(|part| match part {
                        Part::Text(text) => Some(text.expose()),
                        Part::Variable(name) => env.get(name),
                    })
                    .collect();
                Some(Secret::new(pieces?.concat()))
            }
            Self::Literal(_) | Self::Command(_) => None,
        }
    }
}

/// Splits text at its variables.
fn template(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        literal.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        match variable_name(after) {
            Some((name, tail)) => {
                if !literal.is_empty() {
                    parts.push(Part::Text(Secret::verbatim(std::mem::take(&mut literal))));
                }
                parts.push(Part::Variable(name.to_owned()));
                rest = tail;
            }
            None => {
                literal.push('$');
                rest = after.strip_prefix('$').unwrap_or(after);
            }
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(Part::Text(Secret::verbatim(literal)));
    }
    parts
}

/// Splits `NAME…` or `{NAME}…` into the name and what follows.
fn variable_name(text: &str) -> Option<(&str, &str)> {
    if let Some(braced) = text.strip_prefix('{') {
        let (name, tail) = braced.split_once('}')?;
        return is_name(name).then_some((name, tail));
    }
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (name, tail) = text.split_at(end);
    is_name(name).then_some((name, tail))
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use agentd_protocol::methods::EnvSource;
    use pretty_assertions::assert_eq;

    use super::*;

    fn env(vars: &[(&str, &str)]) -> SessionEnv {
        let vars: BTreeMap<_, _> = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        SessionEnv::new(vars, EnvSource::Client)
    }

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let env = env(&[("KEY", "k1"), ("EMPTY", "")]);
        let value = ValueSource::parse(text).value(&env);
        assert_eq!(value.as_ref().map(Secret::expose), expected, "{text}");
    }

    #[test]
    fn notations() {
        for (text, expected) in [
            ("test-key", Some("test-key")),
            ("$KEY", Some("k1")),
            ("${KEY}", Some("k1")),
            ("Bearer $KEY", Some("Bearer k1")),
            ("a${KEY}b", Some("ak1b")),
            ("$$KEY", Some("$KEY")),
            ("cost $5", Some("cost $5")),
            ("${not a name}", Some("${not a name}")),
            ("$MISSING", None),
            ("$EMPTY", None),
            ("", None),
        ] {
            check(text, expected);
        }
        assert_eq!(ValueSource::parse("!op read x"), ValueSource::Command("op read x".into()));
    }

    #[test]
    fn usable_without_running_anything() {
        let env = env(&[("KEY", "k1")]);
        for (text, usable) in
            [("x", true), ("$KEY", true), ("$OTHER", false), ("!cmd", true), ("!", false), ("", false)]
        {
            assert_eq!(ValueSource::parse(text).is_usable(&env), usable, "{text}");
        }
    }

    #[test]
    fn nothing_prints_a_value() {
        let shown = format!("{:?}", [ValueSource::parse("sk-CANARY123"), ValueSource::parse("Bearer sk-CANARY123 $X")]);
        assert!(!shown.contains("CANARY"), "{shown}");
    }
}

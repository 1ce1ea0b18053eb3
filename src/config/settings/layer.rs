//! What one place sets.

use agentd_protocol::methods::{ConfigFault, ConfigSource, Origin};
use serde_json::{Map, Value as Json};

use super::key::{Key, Scope};
use super::keys::KEYS;
use super::kind::{Raw, Value};
use super::lookup::key_named;

/// What one place sets, and what in it cannot be used.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// What is set, each key at most once.
    pub set: Vec<(&'static Key, Value, Origin)>,
    /// What cannot be used.
    pub faults: Vec<ConfigFault>,
}

impl Layer {
    /// Returns what the place says of a key.
    pub fn get(&self, key: &Key) -> Option<(&Value, &Origin)> {
        self.set.iter().find(|(set, ..)| set.name == key.name).map(|(_, value, origin)| (value, origin))
    }

    /// Takes a value over, or the fault that it is none for this key.
    pub(super) fn take(&mut self, key: &'static Key, raw: &Raw, origin: Origin) {
        match key.kind.take(raw) {
            Some(value) => self.set.push((key, value, origin)),
            None => self.fault(origin, key.name, wrong(key, raw)),
        }
    }

    pub(super) fn fault(&mut self, origin: Origin, key: &str, message: String) {
        self.faults.push(ConfigFault { origin, key: Some(key.to_owned()), message });
    }

    /// Reads the variables of an environment that set keys of a scope. An empty one counts as unset, as in shells'
    /// `${X:-}` and everywhere else where sessions look at their environment.
    pub fn of_env(get: &dyn Fn(&str) -> Option<String>, scope: Scope) -> Self {
        let mut layer = Self::default();
        for key in KEYS.iter().filter(|key| key.scope == scope) {
            let Some(text) = get(key.variable).filter(|text| !text.is_empty()) else { continue };
            let variable = Some(key.variable.to_owned());
            let origin = Origin { source: ConfigSource::Environment, variable, ..Origin::default() };
            match key.kind.parse(&text) {
                Some(value) => layer.set.push((key, value, origin)),
                None => layer.fault(origin, key.name, format!("{} must be {}", key.name, key.kind.expects())),
            }
        }
        layer
    }

    /// Reads keys and values that a client gives to a session: values of their own types, or as text.
    ///
    /// # Errors
    /// The first key that cannot be used, and why.
    pub fn of_session(settings: &Map<String, Json>) -> Result<Self, (String, String)> {
        let mut layer = Self::default();
        for (name, value) in settings {
            let (key, value) = read_json(name, value).map_err(|why| (name.clone(), why))?;
            if key.scope == Scope::Daemon {
                let why =
                    format!("{name} is a setting of the daemon, not of a session; set it in the user's config.toml");
                return Err((name.clone(), why));
            }
            layer.put(key, value, Origin { source: ConfigSource::Session, ..Origin::default() });
        }
        Ok(layer)
    }

    /// Reads what a session was given when it was made, as its file keeps it. What cannot be used comes from another
    /// version and is told as a fault.
    pub fn of_stored(settings: &Map<String, Json>) -> Self {
        let mut layer = Self::default();
        for (name, value) in settings {
            let origin = Origin { source: ConfigSource::Session, ..Origin::default() };
            match read_json(name, value) {
                Ok((key, value)) => layer.put(key, value, origin),
                Err(why) => layer.fault(origin, name, why),
            }
        }
        layer
    }

    /// Returns what is set, by key.
    pub fn to_json(&self) -> Map<String, Json> {
        self.set.iter().map(|(key, value, _)| (key.name.to_owned(), value.to_json())).collect()
    }

    /// Reads the `KEY=VALUE` of the daemon's command line. Of two that set the same, the later one counts.
    ///
    /// # Errors
    /// The first one that cannot be used, and why.
    pub fn of_command_line(assignments: &[String]) -> Result<Self, String> {
        let mut layer = Self::default();
        for assignment in assignments {
            let (key, value) = read_assignment(assignment)?;
            layer.put(key, value, Origin { source: ConfigSource::CommandLine, ..Origin::default() });
        }
        Ok(layer)
    }

    /// Sets a key, whatever was set before.
    pub fn put(&mut self, key: &'static Key, value: Value, origin: Origin) {
        self.set.retain(|(set, ..)| set.name != key.name);
        self.set.push((key, value, origin));
    }
}

/// Reads `KEY=VALUE`. An empty value is an empty text, list or the like where the key takes one.
///
/// # Errors
/// It is no such thing, there is no such key, or it does not take such a value; for people.
pub fn read_assignment(text: &str) -> Result<(&'static Key, Value), String> {
    let (name, value) = text.split_once('=').ok_or("give KEY=VALUE, such as retry.max_retries=5")?;
    let key = key_named(name.trim())?;
    let value = key.kind.parse(value).ok_or_else(|| format!("{} must be {}", key.name, key.kind.expects()))?;
    Ok((key, value))
}

/// Reads a value that is given with its name, with its own type or as text.
///
/// # Errors
/// There is no such key, or it does not take such a value; for people.
pub fn read_json(name: &str, value: &Json) -> Result<(&'static Key, Value), String> {
    let key = key_named(name)?;
    let raw = Raw::of_json(value);
    let parsed = value.as_str().and_then(|text| key.kind.parse(text));
    parsed.or_else(|| key.kind.take(&raw)).map(|value| (key, value)).ok_or_else(|| wrong(key, &raw))
}

/// Says what a key must be. The value is not quoted: somebody may have written a secret at the wrong place.
fn wrong(key: &Key, raw: &Raw) -> String {
    // One of the right type is out of range, or none of the words.
    let found = if key.kind.takes_type(raw) { String::new() } else { format!(", not {}", raw.type_name()) };
    format!("{} must be {}{found}", key.name, key.kind.expects())
}

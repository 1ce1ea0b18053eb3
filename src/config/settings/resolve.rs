//! What holds, when all places have spoken.

use agentd_protocol::methods::{Assigned, ConfigFault, Origin};

use super::key::{Key, Project};
use super::keys::KEYS;
use super::kind::Value;
use super::layer::Layer;

/// Every key, and what holds for it.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// In the order of [`KEYS`].
    settled: Vec<Settled>,
}

/// One key, and what holds for it.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The key.
    pub key: &'static Key,
    /// Its value; `None` when nobody sets it and it has no default.
    pub value: Option<Value>,
    /// Who says so.
    pub origin: Origin,
    /// Who says otherwise, or the same, and does not count; the one that would count next first.
    pub overridden: Vec<(Option<Value>, Origin)>,
}

/// Puts layers over one another, key by key. The first one counts most; below the last there are the defaults.
pub fn resolve(layers: &[&Layer]) -> Resolved {
    let settled = KEYS.iter().copied().map(|key| {
        let said = layers.iter().filter_map(|layer| layer.get(key));
        let said = said.map(|(value, origin)| (Some(value.clone()), origin.clone()));
        let mut said = said.chain([(key.default.clone(), Origin::default())]);
        let (value, origin) = said.next().unwrap_or_default();
        Settled { key, value, origin, overridden: said.collect() }
    });
    Resolved { settled: settled.collect() }
}

/// Returns what of a project's file may count. `without` is what holds without it: a project that may only be stricter
/// is measured by that.
pub fn admit_project(project: &Layer, without: &Resolved) -> Layer {
    let mut admitted = Layer { set: Vec::new(), faults: project.faults.clone() };
    for (key, value, origin) in &project.set {
        let refusal = match (key.project, without.value(key)) {
            (Project::Any, _) => None,
            (Project::Stricter, Some(own)) if key.kind.is_at_most(value, own) => None,
            (Project::Stricter, _) => Some("a project may only be stricter than the user's own settings"),
            (Project::Never, _) => Some("a project may not set it"),
        };
        match refusal {
            None => admitted.set.push((key, value.clone(), origin.clone())),
            Some(why) => {
                let message = format!("{}: {why}", key.name);
                admitted.faults.push(ConfigFault { origin: origin.clone(), key: Some(key.name.to_owned()), message });
            }
        }
    }
    admitted
}

impl Default for Resolved {
    /// What holds when nobody says anything.
    fn default() -> Self {
        resolve(&[])
    }
}

impl Resolved {
    /// Returns all keys.
    pub fn all(&self) -> &[Settled] {
        &self.settled
    }

    /// Returns what holds for a key.
    pub fn of(&self, key: &Key) -> Option<&Settled> {
        self.settled.iter().find(|settled| settled.key.name == key.name)
    }

    /// Returns the value of a key; `None` when it is not set.
    pub fn value(&self, key: &Key) -> Option<&Value> {
        self.of(key)?.value.as_ref()
    }
}

impl Settled {
    /// Returns it as clients are told.
    pub fn assigned(&self) -> Assigned {
        assigned(self.value.as_ref(), &self.origin)
    }
}

/// Returns a value and who says so, as clients are told.
pub fn assigned(value: Option<&Value>, origin: &Origin) -> Assigned {
    let value = value.map_or(serde_json::Value::Null, Value::to_json);
    Assigned { value, origin: origin.clone() }
}

#[cfg(test)]
mod tests;

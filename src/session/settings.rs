//! Settings of a session that pi's format has no entry for. They must outlive the daemon: a session that may not write
//! stays so.

use agentd_protocol::methods::{Headless, Mode, QueueMode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::entry::EntryBody;
use super::tree::SessionTree;
use crate::constants::SETTINGS_ENTRY;

/// What one `custom` entry sets, or all entries of a branch together. What is left out stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StoredSettings {
    /// Names of the tools the model may call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Most turns of one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// What tools may do without a question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// What becomes of questions when nobody is there to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headless: Option<Headless>,
    /// How long questions wait, in milliseconds; 0: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask_timeout_ms: Option<u64>,
    /// The rules that people have granted for this session, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Vec<Value>>,
    /// How steering is taken out of its queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steering_mode: Option<QueueMode>,
    /// How follow-ups are taken out of their queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow_up_mode: Option<QueueMode>,
    /// Whether failed requests are tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_retry: Option<bool>,
    /// Settings that the session was given when it was made, by key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Map<String, Value>>,
}

impl StoredSettings {
    /// Returns what the active branch sets; of two entries that set the same, the later one counts.
    pub fn of(tree: &SessionTree) -> Self {
        tree.branch().into_iter().fold(Self::default(), |before, entry| match &entry.body {
            EntryBody::Custom { custom_type, data } if custom_type == SETTINGS_ENTRY => {
                match serde_json::from_value::<Self>(data.clone()) {
                    Ok(set) => set.over(before),
                    // It comes from a later version.
                    Err(_) => before,
                }
            }
            _ => before,
        })
    }

    fn over(self, before: Self) -> Self {
        Self {
            tools: self.tools.or(before.tools),
            max_turns: self.max_turns.or(before.max_turns),
            mode: self.mode.or(before.mode),
            headless: self.headless.or(before.headless),
            ask_timeout_ms: self.ask_timeout_ms.or(before.ask_timeout_ms),
            grants: self.grants.or(before.grants),
            steering_mode: self.steering_mode.or(before.steering_mode),
            follow_up_mode: self.follow_up_mode.or(before.follow_up_mode),
            auto_retry: self.auto_retry.or(before.auto_retry),
            settings: self.settings.or(before.settings),
        }
    }

    /// Returns the entry that keeps these settings.
    pub fn entry(&self) -> EntryBody {
        // Names, numbers and words: nothing that JSON cannot hold.
        let data = serde_json::to_value(self).unwrap_or(Value::Null);
        EntryBody::Custom { custom_type: SETTINGS_ENTRY.to_owned(), data }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::session::entry::{Entry, Header};

    fn tree(data: &[Value]) -> SessionTree {
        let header = Header { version: 3, id: "s".into(), timestamp: 0, cwd: "/".into(), parent_session: None };
        let mut tree = SessionTree::new(header);
        for (number, data) in data.iter().enumerate() {
            let body = EntryBody::Custom { custom_type: SETTINGS_ENTRY.to_owned(), data: data.clone() };
            let raw = serde_json::value::to_raw_value(&json!({})).unwrap();
            let (id, parent_id) = (format!("e{number}").as_str().into(), tree.leaf().cloned());
            tree.push(Entry { id, parent_id, timestamp: 0, body, raw: Arc::from(raw) });
        }
        tree
    }

    #[test]
    fn later_entries_add_to_earlier_ones() {
        let first = StoredSettings { max_turns: Some(3), tools: Some(vec!["read".into()]), ..Default::default() };
        let EntryBody::Custom { data, .. } = first.entry() else { panic!("a custom entry") };
        assert_eq!(data, json!({"tools": ["read"], "maxTurns": 3}));
        let tree = tree(&[data, json!({"tools": null, "steeringMode": "all", "more": 1}), json!({"maxTurns": "odd"})]);
        let expected = StoredSettings { steering_mode: Some(QueueMode::All), ..first };
        assert_eq!(StoredSettings::of(&tree), expected);
    }
}

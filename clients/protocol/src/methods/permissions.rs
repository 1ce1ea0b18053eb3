//! What tools may do without being asked about.

use super::*;

/// What the tools of a session may do without a question, where no rule says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Tools look at files. Everything else is denied, and nobody is asked.
    ReadOnly,
    /// Tools look at files. What changes files, runs commands or talks to the network is asked about.
    #[default]
    Ask,
    /// As `ask`, but files inside the working directory are changed without a question.
    AutoEdit,
    /// Everything that no rule denies.
    Full,
}

impl Mode {
    /// Every mode, the strictest first.
    pub const ALL: [Self; 4] = [Self::ReadOnly, Self::Ask, Self::AutoEdit, Self::Full];

    /// Returns the word of the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Ask => "ask",
            Self::AutoEdit => "auto-edit",
            Self::Full => "full",
        }
    }

    /// Returns the mode that a word of the wire names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// Reads the mode that a daemon tells; one of a later version, and none, count as not known.
pub(super) fn known_mode<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Mode>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}

/// What becomes of a question when no client is attached that lets somebody answer (`capabilities.answers`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Headless {
    /// It is taken for answered with no at once.
    #[default]
    Deny,
    /// It waits for somebody.
    Wait,
}

impl Headless {
    /// Returns the policy that a word of the wire names.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "deny" => Some(Self::Deny),
            "wait" => Some(Self::Wait),
            _ => None,
        }
    }
}

/// Parameters of [`SetMode`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetModeParams {
    /// The session; the connection's current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The mode. Questions that are open stay open.
    pub mode: Mode,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_wire() {
        for mode in Mode::ALL {
            assert_eq!(serde_json::to_value(mode).expect("a word"), mode.as_str());
            assert_eq!(Mode::from_word(mode.as_str()), Some(mode));
        }
        assert_eq!(Mode::from_word("yolo"), None);
    }
}

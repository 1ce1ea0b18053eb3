//! Which folders are trusted.

use super::*;

/// Whether a folder is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TrustDecision {
    /// What is in it may be loaded.
    Yes,
    /// It may not, and nobody is asked.
    No,
}

impl TrustDecision {
    /// Returns the word of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
        }
    }
}

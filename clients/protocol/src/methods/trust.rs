//! Which folders are trusted.

use super::*;

/// What was decided about a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TrustDecision {
    /// What is in it may be loaded.
    #[default]
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

/// Whether a session loads what its folder brings along.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectTrust {
    /// What holds for the working directory; absent while nothing is decided, which counts as `no`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<TrustDecision>,
    /// The folder that was decided about: the working directory or one above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Files and folders of the project that are not loaded because the folders that hold them are not trusted.
    pub withheld: Vec<String>,
    /// Why no decision holds at all, when the file of decisions cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Parameters of [`Trust`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TrustParams {
    /// The session whose working directory is meant when there is no `path`; the connection's current one when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The folder, an absolute path; the session's working directory when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The decision; `yes` when left out.
    pub decision: TrustDecision,
}

/// Result of [`Trust`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustResult {
    /// The canonical path for which it is kept.
    pub path: String,
    /// The decision.
    pub decision: TrustDecision,
}

/// Parameters of [`Untrust`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UntrustParams {
    /// The session whose working directory is meant when there is no `path`; the connection's current one when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The folder, an absolute path; the session's working directory when left out. It may be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Result of [`Untrust`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UntrustResult {
    /// The canonical path of the folder.
    pub path: String,
    /// What had been decided about this very folder; absent when nothing had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<TrustDecision>,
}

/// Result of [`ListTrust`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListTrustResult {
    /// The file of decisions. It can be edited by hand.
    pub file: String,
    /// The decisions, in the order of their paths.
    pub folders: Vec<FolderTrust>,
}

/// What was decided about a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FolderTrust {
    /// Its canonical path. The decision holds for everything below it, unless a folder in between has one of its own.
    pub path: String,
    /// The decision.
    pub decision: TrustDecision,
    /// When it was made, in milliseconds since the epoch; absent when somebody wrote it by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<i64>,
    /// Name of the client that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

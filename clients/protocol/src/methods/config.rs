//! Settings: what holds, and which place says so.

use super::*;

/// Parameters of [`GetConfig`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GetConfigParams {
    /// What holds for this session. When left out, what would hold for a new one of this connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Working directory of that new one, absolute; the connection's when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Settings given to that new one, as for `new_session`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Map<String, Value>>,
    /// Only this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Result of [`GetConfig`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GetConfigResult {
    /// Every key, in the order of the table.
    pub settings: Vec<Setting>,
    /// The files that were looked at, the one that counts most first.
    pub files: Vec<ConfigFile>,
    /// What is wrong in the files and variables. None of it stops what is right beside it.
    pub faults: Vec<ConfigFault>,
}

/// One key and what it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Setting {
    /// Its name, such as `retry.max_retries`.
    pub key: String,
    /// What holds; null when nothing sets it and it has no default, which an empty text is not.
    pub value: Value,
    /// Who says so.
    pub origin: Origin,
    /// Who says otherwise and does not count, the one that would count next first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<Assigned>,
    /// What will hold once the daemon has been started again, where that is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_restart: Option<Assigned>,
    /// What it may be, for people.
    pub expects: String,
    /// What it means.
    pub doc: String,
    /// The environment variable that sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// Whose environment that is, and what can set it for itself: `session` or `daemon`.
    pub scope: String,
    /// From when on a change holds: `start` of the daemon, `session` (new ones) or `run` (the next one).
    pub applies: String,
    /// What a project may say: `never`, `stricter` (only what allows less than the user does) or `any`.
    pub project: String,
}

/// A value, and who says so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Assigned {
    /// The value; null when it is not set.
    pub value: Value,
    /// Who says so.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Origin {
    /// The kind of place.
    pub source: ConfigSource,
    /// The file, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The environment variable, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

/// The places that settings come from, the one that counts most first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConfigSource {
    /// Given to the session when it was made (`agentctl run --set`, `settings` of `new_session`).
    Session,
    /// Given to the daemon when it was started (`agentd serve --set`).
    CommandLine,
    /// An environment variable.
    Environment,
    /// `.agentd/config.toml` of a trusted project.
    Project,
    /// The user's `config.toml`.
    User,
    /// pi's `settings.json`.
    Pi,
    /// Nobody says anything else.
    #[default]
    Default,
}

/// A file of settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigFile {
    /// Whose it is.
    pub source: ConfigSource,
    /// Its path.
    pub path: String,
    /// Whether it is there.
    pub exists: bool,
    /// Why nothing of it holds, although it is there: a project that is not trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored: Option<String>,
}

/// Something in a file or variable that cannot be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigFault {
    /// Where.
    pub origin: Origin,
    /// The key at fault, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What is wrong and what to do. It quotes no value.
    pub message: String,
}

/// Parameters of [`SetConfig`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetConfigParams {
    /// The key.
    pub key: String,
    /// Its value, of its own type or as text; null takes the key out of the file.
    pub value: Value,
    /// Whether to write the project's file instead of the user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<bool>,
    /// Working directory whose project is meant, absolute; the connection's when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Result of [`SetConfig`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SetConfigResult {
    /// The file.
    pub file: String,
    /// What holds now, for a new session of this connection: another place may count more.
    pub setting: Setting,
}

impl std::fmt::Display for Origin {
    /// Writes it as people are told: `/path/config.toml:12`, `AGENTD_MAX_TURNS`, `default`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.file, self.line, &self.variable) {
            (Some(file), Some(line), _) => write!(f, "{file}:{line}"),
            (Some(file), None, _) => f.write_str(file),
            (None, _, Some(variable)) => f.write_str(variable),
            (None, _, None) => f.write_str(match self.source {
                ConfigSource::Session => "given to the session",
                ConfigSource::CommandLine => "agentd serve --set",
                ConfigSource::Environment => "environment",
                ConfigSource::Project => "project",
                ConfigSource::User => "user",
                ConfigSource::Pi => "pi",
                ConfigSource::Default => "default",
            }),
        }
    }
}

impl std::fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

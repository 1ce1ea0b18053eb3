//! What is known of a key.

use super::kind::{Kind, Value};

/// A row of the table.
#[derive(Debug)]
pub struct Key {
    /// Its name, with a dot between table and key of a `config.toml`.
    pub name: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// What holds when nobody says anything; `None` where that is a state of its own.
    pub default: Option<Value>,
    /// The environment variable that sets it.
    pub variable: &'static str,
    /// Whose environment and command line count.
    pub scope: Scope,
    /// When a change begins to hold.
    pub applies: Applies,
    /// What a project may say.
    pub project: Project,
    /// Where in pi's `settings.json` it stands, as JSON pointers; the first that says something counts.
    pub pi: &'static [&'static str],
    /// What it means, a sentence or two.
    pub doc: &'static str,
}

/// Whose environment and command line count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The client's that makes the session; a project can have its own.
    Session,
    /// The daemon's.
    Daemon,
}

/// When a change begins to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// With the next start of the daemon.
    Start,
    /// With the next session.
    Session,
    /// With the next run; the one that goes on keeps what it began with.
    Run,
}

/// What a trusted project may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Project {
    /// Nothing.
    Never,
    /// What allows no more than holds without it.
    Stricter,
    /// Anything.
    Any,
}

impl Scope {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Daemon => "daemon",
        }
    }
}

impl Applies {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Session => "session",
            Self::Run => "run",
        }
    }
}

impl Project {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Stricter => "stricter",
            Self::Any => "any",
        }
    }
}

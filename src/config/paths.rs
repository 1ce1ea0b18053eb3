//! Where the daemon's files are.

use std::path::PathBuf;

use agentd_protocol::paths::{self as rules, Lookup};

use super::load::ConfigError;
use crate::constants;

/// Every file and directory of the daemon. Nothing here is made by looking: who writes first makes the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Sessions, index, journals, outputs and logs.
    pub state_dir: PathBuf,
    /// The user's settings.
    pub config_dir: PathBuf,
    /// Directory of the socket and of the lock that keeps a second daemon out; 0700.
    pub runtime_dir: PathBuf,
    /// The socket.
    pub socket: PathBuf,
    /// Session files, in one folder per working directory.
    pub sessions_dir: PathBuf,
    /// The SQLite index: a cache that can be deleted at any time.
    pub index_db: PathBuf,
    /// Crash journals, one for each session with a run going on.
    pub journal_dir: PathBuf,
    /// Complete outputs of tools whose result was cut.
    pub outputs_dir: PathBuf,
    /// Records of files that tools are overwriting in place.
    pub overwrites_dir: PathBuf,
    /// Log of a daemon that a client started in the background.
    pub log: PathBuf,
    /// pi's directory (`$PI_CODING_AGENT_DIR` or `~/.pi/agent`), if it is there: its models and keys are read.
    pub pi_agent_dir: Option<PathBuf>,
}

impl Paths {
    /// Works out all paths from environment variables. Looks at the disk only to see which of several places is there.
    ///
    /// # Errors
    /// When no directory can be found, for lack of a home, or when the socket's path is too long for the system.
    pub fn resolve(lookup: Lookup<'_>) -> Result<Self, ConfigError> {
        let state_dir = rules::state_dir(lookup).ok_or(ConfigError::NoHome { variable: "XDG_STATE_HOME" })?;
        let config_dir = rules::config_dir(lookup).ok_or(ConfigError::NoHome { variable: "XDG_CONFIG_HOME" })?;
        let socket = rules::socket_path(lookup).ok_or(ConfigError::NoHome { variable: "XDG_RUNTIME_DIR" })?;
        let Some(runtime_dir) = socket.parent().map(PathBuf::from) else {
            return Err(ConfigError::NoHome { variable: "AGENTD_SOCKET" });
        };
        if socket.as_os_str().len() > rules::MAX_SOCKET_PATH_BYTES {
            return Err(ConfigError::SocketPathTooLong { path: socket });
        }
        Ok(Self {
            sessions_dir: state_dir.join(constants::SESSIONS_DIR),
            index_db: state_dir.join(constants::INDEX_FILE),
            journal_dir: state_dir.join(constants::JOURNAL_DIR),
            outputs_dir: state_dir.join(constants::OUTPUTS_DIR),
            overwrites_dir: state_dir.join(constants::OVERWRITES_DIR),
            log: rules::log_path(&state_dir),
            pi_agent_dir: pi_agent_dir(lookup).filter(|dir| dir.is_dir()),
            state_dir,
            config_dir,
            runtime_dir,
            socket,
        })
    }

    /// Returns the folders whose AGENTS.md holds for every session, widest first.
    pub fn context_dirs(&self) -> Vec<PathBuf> {
        self.pi_agent_dir.iter().chain([&self.config_dir]).cloned().collect()
    }

    /// Returns where the writers of session files leave their names: beside the socket, never beside the sessions.
    pub fn owners_dir(&self) -> PathBuf {
        self.runtime_dir.join(constants::OWNERS_DIR)
    }
}

fn pi_agent_dir(lookup: Lookup<'_>) -> Option<PathBuf> {
    let home = rules::home(lookup);
    match lookup("PI_CODING_AGENT_DIR").filter(|value| !value.is_empty()) {
        None => home.map(|home| home.join(".pi/agent")),
        Some(value) => {
            let path = PathBuf::from(value);
            match path.strip_prefix("~") {
                Ok(rest) => home.map(|home| home.join(rest)),
                Err(_) => Some(path),
            }
        }
    }
}

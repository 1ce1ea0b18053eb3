//! What the daemon tells the helper, and what the helper answers when it fails.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How the helper prepares the process and what it becomes; JSON on its stdin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExecPolicy {
    /// Program (looked up in the `PATH` of `env` when it holds no slash) and arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Working directory as bytes: a name need not be UTF-8.
    cwd: Vec<u8>,
    /// Soft and hard limit of open files, as they were before the daemon raised its own.
    pub nofile: Option<(u64, u64)>,
    /// The daemon's process id: if it is gone before the parent-death signal is set, the helper ends.
    pub parent: u32,
}

impl ExecPolicy {
    /// Returns a policy.
    pub fn new(
        argv: Vec<String>,
        env: Vec<(String, String)>,
        cwd: &Path,
        nofile: Option<(u64, u64)>,
        parent: u32,
    ) -> Self {
        Self { argv, env, cwd: cwd.as_os_str().as_bytes().to_vec(), nofile, parent }
    }

    /// Returns the working directory.
    pub fn cwd(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.cwd.clone()))
    }

    /// Returns the program.
    pub fn program(&self) -> &OsStr {
        self.argv.first().map_or(OsStr::new(""), OsStr::new)
    }
}

/// The step at which the helper failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// Reading the policy.
    Policy,
    /// Preparing the process: descriptors, signals, session, limits.
    Prepare,
    /// Entering the working directory.
    Chdir,
    /// Becoming the program.
    Exec,
}

/// The helper's last words, JSON on its status pipe. Nothing there means that the program runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExecFailure {
    /// Where it failed.
    pub(crate) step: Step,
    /// The system's error number, 0 where there is none.
    pub(crate) errno: i32,
    /// What failed.
    pub(crate) message: String,
}

impl ExecFailure {
    /// Describes an error of the system.
    pub(crate) fn new(step: Step, error: &std::io::Error) -> Self {
        Self { step, errno: error.raw_os_error().unwrap_or(0), message: error.to_string() }
    }
}

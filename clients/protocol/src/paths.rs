//! Where the daemon's socket and files are. The daemon and every client use these same rules, so they meet.
//!
//! Every function takes a look-up of environment variables instead of reading them, so that it can be tested.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Reads one environment variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Folder name under the XDG directories.
const APP: &str = "agentd";
/// File name of the socket.
const SOCKET: &str = "agentd.sock";
/// Longest path of a Unix socket, in bytes: the system's `sun_path` without its final NUL.
pub const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Looks a variable up in the environment of this process.
pub fn process_env(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns the home directory: `HOME`, else that of the password database.
pub fn home(lookup: Lookup<'_>) -> Option<PathBuf> {
    absolute(lookup("HOME")).or_else(std::env::home_dir).filter(|path| path.is_absolute())
}

/// Returns where sessions, the index and logs are kept: `$XDG_STATE_HOME/agentd`, else `~/.local/state/agentd`.
/// `None` when there is neither such a variable nor a home directory.
pub fn state_dir(lookup: Lookup<'_>) -> Option<PathBuf> {
    xdg(lookup, "XDG_STATE_HOME", ".local/state")
}

/// Returns where the user's settings are: `$XDG_CONFIG_HOME/agentd`, else `~/.config/agentd`.
pub fn config_dir(lookup: Lookup<'_>) -> Option<PathBuf> {
    xdg(lookup, "XDG_CONFIG_HOME", ".config")
}

/// Returns the directory of the default socket.
///
/// In this order: `$XDG_RUNTIME_DIR/agentd`; `/run/user/UID/agentd` if that user directory is there (a program
/// started by cron or `su` lacks the variable and must still meet the user's daemon); `run` in the state directory,
/// so that another home has another daemon; where that path is too long for a socket, `/tmp/agentd-UID` unless
/// somebody else has taken that name.
pub fn runtime_dir(lookup: Lookup<'_>) -> Option<PathBuf> {
    if let Some(dir) = absolute(lookup("XDG_RUNTIME_DIR")) {
        return Some(dir.join(APP));
    }
    let uid = nix::unistd::geteuid().as_raw();
    runtime_fallback(Path::new("/run/user"), Path::new("/tmp"), uid, state_dir(lookup))
}

/// Returns the socket's path: `AGENTD_SOCKET`, else `agentd.sock` in the runtime directory. A relative
/// `AGENTD_SOCKET` counts from the working directory.
pub fn socket_path(lookup: Lookup<'_>) -> Option<PathBuf> {
    match lookup("AGENTD_SOCKET").filter(|value| !value.is_empty()) {
        Some(path) => std::path::absolute(path).ok(),
        None => runtime_dir(lookup).map(|dir| dir.join(SOCKET)),
    }
}

/// Returns the log of a daemon that was started in the background.
pub fn log_path(state_dir: &Path) -> PathBuf {
    state_dir.join("agentd.log")
}

/// Tells whether `path` is a directory (no link) that belongs to user `uid` and is closed to everybody else.
///
/// # Errors
/// What is wrong with it, for people; the error kind is `NotFound` when there is nothing at `path`.
pub fn check_private_dir(path: &Path, uid: u32) -> std::io::Result<()> {
    let meta = std::fs::symlink_metadata(path)?;
    let refuse = |why: String| Err(std::io::Error::other(format!("{} {why}", path.display())));
    if !meta.is_dir() {
        return refuse("is not a directory; remove it or set AGENTD_SOCKET".to_owned());
    }
    if meta.uid() != uid {
        return refuse(format!("belongs to user {}; set AGENTD_SOCKET to a path in a directory of yours", meta.uid()));
    }
    if meta.mode() & 0o077 != 0 {
        return refuse(format!("is open to other users (mode {:o}); run chmod 700 on it", meta.mode() & 0o7777));
    }
    Ok(())
}

fn runtime_fallback(run_user: &Path, temp: &Path, uid: u32, state: Option<PathBuf>) -> Option<PathBuf> {
    let user_dir = run_user.join(uid.to_string());
    if check_private_dir(&user_dir, uid).is_ok() {
        return Some(user_dir.join(APP));
    }
    let own = state.map(|dir| dir.join("run"));
    if own.as_ref().is_some_and(|dir| dir.join(SOCKET).as_os_str().len() <= MAX_SOCKET_PATH_BYTES) {
        return own;
    }
    let shared = temp.join(format!("{APP}-{uid}"));
    // A name that nobody has taken is as good as one of ours: the daemon makes it and checks it again.
    let usable = match check_private_dir(&shared, uid) {
        Ok(()) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if usable { Some(shared) } else { own }
}

fn xdg(lookup: Lookup<'_>, variable: &str, under_home: &str) -> Option<PathBuf> {
    let base = absolute(lookup(variable)).or_else(|| home(lookup).map(|home| home.join(under_home)))?;
    Some(base.join(APP))
}

/// The XDG rules say that a relative value is to be ignored.
fn absolute(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests;

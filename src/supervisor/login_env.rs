//! The login shell's environment: what a session's tools see when no client has sent one since the daemon started.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use agentd_protocol::methods::EnvSource;
use nix::unistd::{Uid, User};
use tokio::io::AsyncReadExt;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::agent::services::Services;
use crate::config::env::SessionEnv;
use crate::constants::{LOGIN_ENV_RETRY, LOGIN_ENV_TIMEOUT, MAX_LOGIN_ENV_BYTES};
use crate::exec::{ExecCommand, Spawner};

/// Asks the login shell once, when first needed; again after a while if it did not tell.
pub(super) struct LoginEnv {
    services: Arc<Services>,
    env: OnceCell<SessionEnv>,
    failed: Mutex<Option<Instant>>,
}

impl LoginEnv {
    pub(super) fn new(services: Arc<Services>) -> Self {
        Self { services, env: OnceCell::new(), failed: Mutex::default() }
    }

    /// Returns the environment; a bare one when the shell does not tell in time.
    pub(super) async fn get(&self) -> SessionEnv {
        match self.env.get_or_try_init(|| self.ask()).await {
            Ok(env) => env.clone(),
            Err(bare) => bare,
        }
    }

    /// Returns the bare environment as the error.
    async fn ask(&self) -> Result<SessionEnv, SessionEnv> {
        let bare = bare_env();
        if self.has_just_failed() {
            return Err(SessionEnv::new(bare, EnvSource::LoginShell));
        }
        let asked = tokio::time::timeout(LOGIN_ENV_TIMEOUT, ask_shell(&self.services.spawner, &bare)).await;
        let vars = match asked {
            Ok(Ok(output)) => parse(&output),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the login shell did not tell its environment");
                BTreeMap::new()
            }
            Err(_) => {
                tracing::warn!("the login shell did not tell its environment in time");
                BTreeMap::new()
            }
        };
        if vars.contains_key("PATH") {
            return Ok(SessionEnv::new(vars, EnvSource::LoginShell));
        }
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Err(SessionEnv::new(bare, EnvSource::LoginShell))
    }

    fn has_just_failed(&self) -> bool {
        let failed = *self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|at| at.elapsed() < LOGIN_ENV_RETRY)
    }
}

/// Runs the shell as a login does. What it leaves running when time is up is ended with the dropped process group.
async fn ask_shell(spawner: &Spawner, bare: &BTreeMap<String, String>) -> std::io::Result<Vec<u8>> {
    let shell = bare.get("SHELL").cloned().unwrap_or_else(|| "/bin/sh".to_owned());
    let command = ExecCommand {
        // NUL-separated, so that values with line ends come through whole.
        argv: vec![shell, "-l".to_owned(), "-c".to_owned(), "env -0".to_owned()],
        env: bare.clone().into_iter().collect(),
        cwd: PathBuf::from("/"),
        call_id: "login-env".to_owned(),
    };
    let mut running = spawner.spawn(command).await.map_err(std::io::Error::other)?;
    let mut output = Vec::new();
    let mut limited = running.output().take(MAX_LOGIN_ENV_BYTES);
    limited.read_to_end(&mut output).await?;
    running.wait().await?;
    Ok(output)
}

fn parse(output: &[u8]) -> BTreeMap<String, String> {
    output
        .split(|byte| *byte == 0)
        .filter_map(|pair| {
            // A start-up file may print something before the first variable: it ends at its last line end.
            let (name, value) = std::str::from_utf8(pair).ok()?.split_once('=')?;
            let name = name.rsplit('\n').next().unwrap_or(name);
            (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
        })
        .collect()
}

/// Returns what a login begins with.
fn bare_env() -> BTreeMap<String, String> {
    let user = User::from_uid(Uid::current()).ok().flatten();
    let mut env = BTreeMap::new();
    env.insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    env.insert("LANG".to_owned(), "C.UTF-8".to_owned());
    if let Some(user) = user {
        env.insert("HOME".to_owned(), user.dir.display().to_string());
        env.insert("SHELL".to_owned(), user.shell.display().to_string());
        env.insert("LOGNAME".to_owned(), user.name.clone());
        env.insert("USER".to_owned(), user.name);
    }
    env
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn variables_come_through_whole() {
        let found = parse(b"Welcome!\nA=1\0B=two\nlines=x\0=odd\0C=\0");
        let expected = [("A", "1"), ("B", "two\nlines=x"), ("C", "")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found, BTreeMap::from(expected));
    }
}

//! Turns key sources into keys, for one session's environment.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use super::error::{ErrorClass, ProviderError};
use super::secret::Secret;
use super::spec::{ModelSpec, ValueSource};
use crate::config::env::SessionEnv;
use crate::constants::KEY_COMMAND_TIMEOUT;
use crate::redact::KeyBook;

/// Most output of a key command that is read, in bytes.
const MAX_KEY_BYTES: u64 = 64 * 1024;
/// Most keys that are remembered; the memory is emptied when there are more.
const MAX_CACHED: usize = 256;

/// Remembers what key commands printed: they may ask a person, and a run makes many requests.
///
/// A key is remembered for the command *and* the environment it ran in, so that no session gets another's.
#[derive(Clone, Default)]
pub(super) struct KeyRing {
    cached: Arc<Mutex<Cached>>,
    /// Learns what commands print.
    pub(super) book: KeyBook,
}

/// Keys by command and fingerprint of the environment.
type Cached = HashMap<(Arc<str>, u64), Secret>;

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyRing")
    }
}

impl KeyRing {
    /// Returns the key for a model: that of the first source that gives one; an empty one where none is needed.
    ///
    /// # Errors
    /// What is missing, or why the command failed. Keys are never in it.
    pub(super) async fn key(
        &self,
        spec: &ModelSpec,
        env: &SessionEnv,
        cancel: &CancellationToken,
    ) -> Result<Secret, ProviderError> {
        if let Some(source) = spec.provider.keys.iter().find(|source| source.is_usable(env)) {
            return self.value(source, env, cancel).await.map_err(|fault| fault.of("key", &spec.provider.id));
        }
        if spec.provider.is_keyless {
            return Ok(Secret::new(""));
        }
        let variables: Vec<&str> = spec.provider.keys.iter().flat_map(ValueSource::variables).collect();
        let remedy = match variables.as_slice() {
            [] => "give it an apiKey in models.json".to_owned(),
            names => format!("set {} in the environment of the session", names.join(" or ")),
        };
        let message = format!("no key for provider {}: {remedy}", spec.provider.id);
        Err(ProviderError::new(ErrorClass::Auth, message))
    }

    /// Returns the headers of a model's requests.
    ///
    /// # Errors
    /// As for [`KeyRing::key`].
    pub(super) async fn headers(
        &self,
        spec: &ModelSpec,
        env: &SessionEnv,
        cancel: &CancellationToken,
    ) -> Result<Vec<(String, Secret)>, ProviderError> {
        let mut headers = Vec::with_capacity(spec.headers.len());
        for (name, source) in &spec.headers {
            let value = self.value(source, env, cancel).await;
            headers
                .push((name.clone(), value.map_err(|fault| fault.of(&format!("header {name}"), &spec.provider.id))?));
        }
        Ok(headers)
    }

    /// Forgets a provider's keys, because one was refused: it may have been renewed.
    pub(super) fn forget(&self, spec: &ModelSpec) {
        let sources = spec.provider.keys.iter().chain(spec.headers.iter().map(|(_, source)| source));
        let commands: Vec<&Arc<str>> = sources
            .filter_map(|source| if let ValueSource::Command(command) = source { Some(command) } else { None })
            .collect();
        self.lock().retain(|(command, _), _| !commands.contains(&command));
    }

    async fn value(&self, source: &ValueSource, env: &SessionEnv, cancel: &CancellationToken) -> Result<Secret, Fault> {
        let ValueSource::Command(command) = source else {
            return source.value(env).ok_or_else(|| Fault::Missing(source.variables().map(str::to_owned).collect()));
        };
        let cache_key = (Arc::clone(command), fingerprint(env));
        if let Some(known) = self.lock().get(&cache_key) {
            return Ok(known.clone());
        }
        let value = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Fault::Cancelled),
            // Dropping the run kills the command.
            value = run(command, env, KEY_COMMAND_TIMEOUT) => value.map_err(Fault::Command)?,
        };
        self.book.learn([("output of a key command".to_owned(), value.expose().to_owned())]);
        let mut cached = self.lock();
        if cached.len() >= MAX_CACHED {
            cached.clear();
        }
        cached.insert(cache_key, value.clone());
        Ok(value)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cached> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a source gave nothing.
enum Fault {
    Missing(Vec<String>),
    Command(String),
    Cancelled,
}

impl Fault {
    fn of(self, what: &str, provider: &str) -> ProviderError {
        let why = match self {
            Self::Cancelled => return ProviderError::cancelled(),
            Self::Command(why) => format!("its command {why}"),
            Self::Missing(names) if names.is_empty() => "it is empty".to_owned(),
            Self::Missing(names) => format!("set {} in the environment of the session", names.join(" and ")),
        };
        ProviderError::new(ErrorClass::Auth, format!("no {what} for provider {provider}: {why}"))
    }
}

/// Tells environments apart without keeping them.
fn fingerprint(env: &SessionEnv) -> u64 {
    let mut hasher = DefaultHasher::new();
    env.vars().hash(&mut hasher);
    hasher.finish()
}

/// Runs a command of the user's configuration and returns what it prints.
///
/// It runs in the home directory: a relative path in the configuration must not mean a file of the project.
#[expect(
    clippy::disallowed_methods,
    reason = "the user's own command, outside any session's confinement; `exec` stands above this module"
)]
async fn run(command: &str, env: &SessionEnv, limit: Duration) -> Result<Secret, String> {
    let mut child = tokio::process::Command::new("sh")
        .args(["-c", command])
        .env_clear()
        .envs(env.vars())
        .current_dir(env.get("HOME").filter(|home| std::path::Path::new(home).is_dir()).unwrap_or("/"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // What it complains about may quote the secret.
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot be started: {error}"))?;
    let _group = child.id().and_then(|id| i32::try_from(id).ok()).map(|id| KillGroup(Pid::from_raw(id)));
    let Some(stdout) = child.stdout.take() else { return Err("has no output".to_owned()) };
    let mut output = Vec::new();
    let finished = async {
        let read = stdout.take(MAX_KEY_BYTES).read_to_end(&mut output).await;
        (read, child.wait().await)
    };
    let status = match tokio::time::timeout(limit, finished).await {
        Err(_) => return Err(format!("took more than {} s", limit.as_secs())),
        Ok((Err(error), _) | (_, Err(error))) => return Err(format!("failed: {error}")),
        Ok((Ok(_), Ok(status))) => status,
    };
    if !status.success() {
        return Err(format!("failed: {status}"));
    }
    let key = Secret::new(String::from_utf8_lossy(&output));
    if key.expose().is_empty() { Err("printed nothing".to_owned()) } else { Ok(key) }
}

/// Ends what a command left behind.
struct KillGroup(Pid);

impl Drop for KillGroup {
    fn drop(&mut self) {
        // Nothing left to kill is the usual case.
        let _ = killpg(self.0, Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use agentd_protocol::methods::EnvSource;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::provider::demo;
    use crate::provider::spec::ProviderSpec;

    fn env(vars: &[(&str, &str)]) -> SessionEnv {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut all = BTreeMap::from([("PATH".to_owned(), path)]);
        all.extend(vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        SessionEnv::new(all, EnvSource::Client)
    }

    fn spec(keys: &[&str]) -> ModelSpec {
        let mut spec = demo::spec();
        let keys = keys.iter().map(|text| ValueSource::parse(text)).collect();
        spec.provider = Arc::new(ProviderSpec { id: "p".into(), keys, auth_header: false, is_keyless: false });
        spec
    }

    async fn key(keys: &[&str], vars: &[(&str, &str)]) -> Result<String, String> {
        let found = KeyRing::default().key(&spec(keys), &env(vars), &CancellationToken::new()).await;
        found.map(|key| key.expose().to_owned()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn the_first_source_that_gives_one_wins() {
        assert_eq!(key(&["literal"], &[]).await, Ok("literal".into()));
        assert_eq!(key(&["$A", "$B"], &[("B", "b")]).await, Ok("b".into()));
        assert_eq!(key(&["!echo \"k-$A\"; exit 0", "other"], &[("A", "a")]).await, Ok("k-a".into()));
    }

    #[tokio::test]
    async fn what_is_missing_is_said() {
        let no_key = "no key for provider p: set A or B in the environment of the session";
        assert_eq!(key(&["$A", "$B"], &[]).await, Err(no_key.into()));
        assert_eq!(key(&[], &[]).await, Err("no key for provider p: give it an apiKey in models.json".into()));
        assert_eq!(
            key(&["!echo sk-CANARY123; exit 3"], &[]).await,
            Err("no key for provider p: its command failed: exit status: 3".into())
        );
        assert_eq!(key(&["!true"], &[]).await, Err("no key for provider p: its command printed nothing".into()));
    }

    #[tokio::test]
    async fn a_command_runs_once_per_environment_until_its_key_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        let spec = spec(&[&format!("!echo x >> {0}; wc -l < {0}", count.display())]);
        let ring = KeyRing::default();
        let cancel = CancellationToken::new();
        let mut found = Vec::new();
        for vars in [&[][..], &[], &[("A", "1")], &[]] {
            found.push(ring.key(&spec, &env(vars), &cancel).await.unwrap().expose().to_owned());
        }
        assert_eq!(found, ["1", "1", "2", "1"]);
        ring.forget(&spec);
        assert_eq!(ring.key(&spec, &env(&[]), &cancel).await.unwrap().expose(), "3");
    }

    #[tokio::test]
    async fn a_command_sees_only_the_sessions_environment_and_no_project() {
        let found = run("pwd; env | grep -c ^CARGO; true", &env(&[("HOME", "/usr")]), KEY_COMMAND_TIMEOUT).await;
        assert_eq!(found.unwrap().expose(), "/usr\n0");
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_ended_with_all_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let command = format!("sleep 300 & echo $! > {}; wait", pid_file.display());
        let ended = run(&command, &env(&[]), Duration::from_millis(300)).await;
        assert_eq!(ended, Err("took more than 0 s".into()));
        let pid: i32 = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
        // The child is gone as soon as whoever adopted it has taken note.
        for _ in 0..500 {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            if state.map_or(true, |state| state.contains(") Z ")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{pid} lives on");
    }

    #[tokio::test]
    async fn cancelling_does_not_wait_for_the_command() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let ended = KeyRing::default().key(&spec(&["!sleep 300"]), &env(&[]), &cancel).await;
        assert_eq!(ended, Err(ProviderError::cancelled()));
    }
}

//! A home of the bench's own, and the programs that run in it: never the user's daemon, settings or sessions.
//!
//! The program is copied into the home. So the daemon shares no page of it with the bench, which would make its
//! memory look smaller; and whatever executes the copy is ours, however it was started, and can be ended by that.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agentd_protocol::methods::{Empty, GetDaemonStatus, Shutdown, ShutdownParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::client::Client;
use super::error::BenchError;
use super::process;
use super::server::ModelServer;

/// The model that sessions of the bench use.
pub(super) const MODEL: &str = "bench/scripted";
/// Longest start of a daemon.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Longest ordered stop of a daemon.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How long programs that were told to end are waited for before they are killed.
const END_GRACE: Duration = Duration::from_secs(2);
/// Pause between two looks at a daemon that starts or stops.
const POLL: Duration = Duration::from_millis(1);
/// Most that is quoted of a log.
const LOG_QUOTE_BYTES: usize = 600;

/// The temporary home.
#[derive(Clone, Debug)]
pub(super) struct Home {
    dir: PathBuf,
}

impl Home {
    /// Makes it, with a copy of this program.
    pub(super) fn make() -> Result<Self, BenchError> {
        let home = Self { dir: make_own_dir(&std::env::temp_dir())? };
        home.fill().inspect_err(|_| home.remove())?;
        Ok(home)
    }

    fn fill(&self) -> Result<(), BenchError> {
        for name in ["home", "state", "config/agentd", "run", "tmp", "work"] {
            let path = self.dir.join(name);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(BenchError::io(format!("make {}", path.display())))?;
        }
        // The running program, also when its file has been replaced meanwhile.
        let copied = std::fs::copy("/proc/self/exe", self.program());
        copied.map(drop).map_err(BenchError::io(format!("copy this program to {}", self.dir.display())))
    }

    /// Tells the daemon where the model is.
    pub(super) fn write_models(&self, server: &ModelServer) -> Result<(), BenchError> {
        let models = serde_json::json!({"providers": {"bench": {
            "baseUrl": server.base_url(),
            "api": "openai-completions",
            "apiKey": "none",
            "models": [{"id": "scripted", "contextWindow": 10_000_000, "maxTokens": 100_000}],
        }}});
        let path = self.dir.join("config/agentd/models.json");
        std::fs::write(&path, models.to_string()).map_err(BenchError::io(format!("write {}", path.display())))
    }

    /// Returns where it is.
    pub(super) fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns the working directory of sessions.
    pub(super) fn work_dir(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// Returns the copy of this program.
    pub(super) fn program(&self) -> PathBuf {
        self.dir.join("agentd")
    }

    /// Returns the daemon's socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join("run/agentd/agentd.sock")
    }

    /// Prepares a program to run in this home, with nothing of the user's environment but `PATH`.
    #[expect(clippy::disallowed_methods, reason = "a client or the daemon itself, not a tool's child")]
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.env())
            .current_dir(self.work_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn env(&self) -> Vec<(&'static str, OsString)> {
        let at = |name: &str| self.dir.join(name).into_os_string();
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        vec![
            ("PATH", path),
            ("SHELL", "/bin/sh".into()),
            ("HOME", at("home")),
            ("TMPDIR", at("tmp")),
            ("XDG_STATE_HOME", at("state")),
            ("XDG_CONFIG_HOME", at("config")),
            ("XDG_RUNTIME_DIR", at("run")),
            ("PI_CODING_AGENT_DIR", at("none")),
            ("AGENTD_LOCAL_MODELS", "0".into()),
        ]
    }

    /// Asks the daemon of this home, however it was started, to stop, and waits until it has.
    pub(super) fn stop_daemon(&self) -> Result<(), BenchError> {
        let mut client = Client::connect(&self.socket())?;
        let pid = client.call::<GetDaemonStatus>(&Empty {})?.pid;
        client.call::<Shutdown>(&ShutdownParams::default())?;
        wait_for("the daemon's stop", STOP_LIMIT, || !process::is_alive(pid))
    }

    /// Ends every program that runs in this home and removes it. May be called at any time, from any thread.
    pub(super) fn remove(&self) {
        // First of all, so that nothing new is started.
        let _ = std::fs::remove_file(self.program());
        let ours = || process::running(&self.program()).into_iter().filter(|pid| *pid != own_pid());
        let signal = |signal| {
            for pid in ours() {
                // One that has ended meanwhile is what was wanted.
                let _ = kill(Pid::from_raw(pid), signal);
            }
        };
        signal(Signal::SIGTERM);
        if wait_for("the end", END_GRACE, || ours().next().is_none()).is_err() {
            signal(Signal::SIGKILL);
            let _ = wait_for("the end", END_GRACE, || ours().next().is_none());
        }
        // What cannot be removed is in the temporary directory, where it is looked for.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn own_pid() -> i32 {
    nix::unistd::getpid().as_raw()
}

fn make_own_dir(parent: &Path) -> Result<PathBuf, BenchError> {
    for number in 0.. {
        let dir = parent.join(format!("agentd-bench-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&dir) {
            // Left behind by another one of the same id, or put there by somebody.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 100 => {}
            Err(error) => return Err(BenchError::io(format!("make {}", dir.display()))(error)),
            Ok(()) => return dir.canonicalize().map_err(BenchError::io("find the temporary directory")),
        }
    }
    Err(BenchError::Failed)
}

/// A daemon of the bench. Ends with the value.
pub(super) struct Daemon {
    child: Child,
    home: Home,
}

impl Daemon {
    /// Starts one and waits until it answers.
    pub(super) fn start(home: &Home, env: &[(&str, &str)]) -> Result<Self, BenchError> {
        let log_path = home.dir.join("daemon.log");
        let log = File::create(&log_path).map_err(BenchError::io("make a log file"))?;
        let child = home
            .command(&home.program())
            // Whoever makes the sessions: their tools run without questions.
            .args(["serve", "--set", "mode=full"])
            .envs(env.iter().copied())
            .stderr(log)
            .spawn()
            .map_err(BenchError::io("start a daemon"))?;
        let mut daemon = Self { child, home: home.clone() };
        let deadline = Instant::now() + START_LIMIT;
        while Client::connect(&home.socket()).is_err() {
            if !matches!(daemon.child.try_wait(), Ok(None)) {
                return Err(BenchError::Ended { log: quote_log(&log_path) });
            }
            if Instant::now() > deadline {
                return Err(BenchError::TooSlow { what: "the daemon's start", limit: START_LIMIT });
            }
            std::thread::sleep(POLL);
        }
        daemon.connect()?.call::<GetDaemonStatus>(&Empty {})?;
        Ok(daemon)
    }

    /// Makes a new connection to it.
    pub(super) fn connect(&self) -> Result<Client, BenchError> {
        Client::connect(&self.home.socket())
    }

    /// Returns its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the home that it runs in.
    pub(super) fn home(&self) -> &Home {
        &self.home
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(0)), Signal::SIGTERM);
        let ended = wait_for("the daemon's stop", STOP_LIMIT, || !matches!(self.child.try_wait(), Ok(None)));
        if ended.is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Waits until `done`.
pub(super) fn wait_for(what: &'static str, limit: Duration, mut done: impl FnMut() -> bool) -> Result<(), BenchError> {
    let deadline = Instant::now() + limit;
    while !done() {
        if Instant::now() > deadline {
            return Err(BenchError::TooSlow { what, limit });
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

fn quote_log(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_QUOTE_BYTES)..]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_closed_to_others_and_leaves_nothing() {
        use std::os::unix::fs::MetadataExt;
        let home = Home::make().unwrap();
        assert_eq!(home.path().metadata().unwrap().mode() & 0o777, 0o700);
        assert!(home.program().is_file());
        home.remove();
        assert!(!home.path().exists());
    }

    #[test]
    fn what_executes_the_copy_is_ended() {
        let home = Home::make().unwrap();
        std::fs::copy("/bin/sleep", home.program()).unwrap();
        let mut child = home.command(&home.program()).arg("600").spawn().unwrap();
        let waiter = std::thread::spawn(move || child.wait().unwrap());
        wait_for("the start", END_GRACE, || !process::running(&home.program()).is_empty()).unwrap();
        home.remove();
        assert!(!waiter.join().unwrap().success());
    }
}

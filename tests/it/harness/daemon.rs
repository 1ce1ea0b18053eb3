//! A running `agentd serve`.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Client, Home, PATIENCE};

/// Number of the first start of a daemon beside another one; it names files.
const FIRST_BESIDE: usize = 1000;

/// A daemon in a home.
pub(crate) struct Daemon {
    home: Arc<Home>,
    extra: BTreeMap<String, String>,
    /// What a shell does before it becomes the daemon.
    before: &'static str,
    child: Child,
    starts: usize,
}

impl Daemon {
    /// Starts a daemon and waits until it says that it is ready.
    pub(crate) fn start(home: Home) -> Self {
        Self::start_with(home, [])
    }

    /// Starts a daemon with more variables in its environment.
    pub(crate) fn start_with<const N: usize>(home: Home, extra: [(&str, &str); N]) -> Self {
        let home = Arc::new(home);
        let extra = extra.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let child = spawn(&home, &extra, "", 0);
        Self { home, extra, before: "", child, starts: 1 }
    }

    /// Starts a daemon from a shell that does something first: to its limits, its umask, its environment, or (by `set --`) to
    /// the arguments of `serve`.
    pub(crate) fn start_after(home: Home, before: &'static str) -> Self {
        let home = Arc::new(home);
        let child = spawn(&home, &BTreeMap::new(), before, 0);
        Self { home, extra: BTreeMap::new(), before, child, starts: 1 }
    }

    /// Starts a second daemon beside this one, with the same home and a socket of its own, and connects to it.
    pub(crate) async fn start_second(&self) -> (Self, Client) {
        let home = Arc::clone(&self.home);
        let runtime = home.root().join("run2");
        DirBuilder::new().mode(0o700).create(&runtime).expect("make a runtime folder");
        let socket = runtime.join("b.sock");
        let path = |path: &Path| path.to_str().expect("a UTF-8 path").to_owned();
        let extra = [("XDG_RUNTIME_DIR", path(&runtime)), ("AGENTD_SOCKET", path(&socket))];
        let extra = extra.map(|(name, value)| (name.to_owned(), value)).into();
        let child = spawn(&home, &extra, "", FIRST_BESIDE);
        (Self { home, extra, before: "", child, starts: FIRST_BESIDE + 1 }, Client::connect(&socket).await)
    }

    /// Returns the home.
    pub(crate) fn home(&self) -> &Arc<Home> {
        &self.home
    }

    /// Returns the daemon's process id.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Returns how much memory the daemon has by one of the lines of its `/proc/PID/status`, in bytes.
    pub(crate) fn memory(&self, line: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the daemon's status");
        let size = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':')).expect("the line");
        size.trim().trim_end_matches(" kB").parse::<usize>().expect("a size") * 1024
    }

    /// Connects over the socket and says who the client is. Its environment is the home's, with what was set for the
    /// daemon of agentd's own variables: many of them are the client's to set.
    pub(crate) async fn connect(&self) -> Client {
        let mut client = Client::connect(&self.home.socket()).await;
        let mut env = self.home.env();
        env.extend(self.extra.clone().into_iter().filter(|(name, _)| name.starts_with("AGENTD_")));
        client.front(&self.home.cwd(), &env).await;
        client
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("signal the daemon");
    }

    /// Kills the daemon as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        let status = self.wait();
        assert_eq!(status.signal(), Some(9), "the daemon had ended by itself: {status}");
    }

    /// Starts it again on the same home.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.home, &self.extra, self.before, self.starts);
        self.starts += 1;
    }

    /// Asks the daemon to stop and returns how it ended.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Waits until it has ended.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for_exit(&mut self.child, "the daemon")
    }

    /// Returns what the daemon of the latest start wrote to its standard error.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(log_path(&self.home, self.starts - 1)).unwrap_or_default()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Already ended, or killed now; either way there is nothing to report.
        let _ended = self.child.kill();
        let _status = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the daemon's log ---\n{}--- end of the log ---", self.log());
        }
    }
}

/// Waits until a child has ended.
#[track_caller]
pub(crate) fn wait_for_exit(child: &mut Child, what: &str) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("wait for a child") {
            return status;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for the end of {what}");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

fn log_path(home: &Home, start: usize) -> PathBuf {
    home.root().join(format!("stderr.{start}"))
}

/// Starts `agentd serve` and waits for its readiness message (the one that systemd gets).
fn spawn(home: &Home, extra: &BTreeMap<String, String>, before: &str, start: usize) -> Child {
    let notify_path = home.root().join(format!("notify.{start}"));
    let notify = UnixDatagram::bind(&notify_path).expect("bind the readiness socket");
    notify.set_read_timeout(Some(std::time::Duration::from_millis(50))).expect("bound the wait for readiness");
    let log = File::create(log_path(home, start)).expect("create the log file");
    let line = format!(r#"{before}; exec "$0" serve "$@""#);
    let mut command = Command::new(if before.is_empty() { env!("CARGO_BIN_EXE_agentd") } else { "sh" });
    match before {
        "" => command.arg("serve"),
        _ => command.args(["-c", &line, env!("CARGO_BIN_EXE_agentd")]),
    };
    let mut child = command
        .env_clear()
        .envs(home.env())
        .env("NOTIFY_SOCKET", &notify_path)
        .envs(extra)
        .current_dir(home.user())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
        .expect("start agentd serve");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut message = [0; 512];
        if let Ok(length) = notify.recv(&mut message)
            && message[..length].split(|byte| *byte == b'\n').any(|line| line == b"READY=1")
        {
            return child;
        }
        let log = || fs::read_to_string(log_path(home, start)).unwrap_or_default();
        if let Some(status) = child.try_wait().expect("wait for the daemon") {
            panic!("the daemon ended before it was ready: {status}\n{}", log());
        }
        if Instant::now() > deadline {
            let _killed = child.kill();
            panic!("waited {PATIENCE:?} in vain for the daemon's readiness\n{}", log());
        }
    }
}

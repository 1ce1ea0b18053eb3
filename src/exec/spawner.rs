//! The daemon's side: one thread that starts all children.
//!
//! One thread for all and as long as there is a [`Spawner`] or a [`Running`], because the parent-death signal of a child is tied to the
//! thread that started it.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::memfd::{MFdFlags, memfd_create};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::group::{ProcessGroup, end_tagged};
use super::helper::HELPER_ARGUMENT;
use super::policy::{ExecFailure, ExecPolicy, Step};
use super::procfs::{CALL_MARKER, MetProcess, Process, line_of_descent};
use crate::constants::SPAWN_QUEUE;
use crate::tasks::Tasks;

/// A program to be started.
#[derive(Clone, Debug)]
pub struct ExecCommand {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The whole environment, but for the marker.
    pub env: Vec<(String, String)>,
    /// Working directory.
    pub cwd: PathBuf,
    /// What it is started for; shows in the marker.
    pub call_id: String,
}

/// A program that runs, with no input and its output in one pipe.
#[derive(Debug)]
pub struct Running {
    /// The process.
    pub(crate) child: Child,
    /// Its stdout and stderr, in the order in which they are written.
    pub(crate) output: Receiver,
    /// It and all that it starts.
    pub(crate) group: ProcessGroup,
    /// Keeps the thread that started it, with which it would end.
    keep_thread: Option<mpsc::Sender<Request>>,
}

impl Running {
    /// Waits for the program's end; what it left in the background runs on.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.group.disarm();
        Ok(status)
    }

    /// Ends the program and all that it started.
    pub async fn terminate(&mut self) {
        self.group.terminate(&mut self.child).await;
    }

    /// Returns the pipe that holds its output.
    pub fn output(&mut self) -> &mut Receiver {
        &mut self.output
    }
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The working directory cannot be entered.
    #[error("working directory {}: {source}", path.display())]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The program cannot be run.
    #[error("cannot run {program}: {source}")]
    Program {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The helper did not do its work.
    #[error("the exec helper failed: {0}")]
    Helper(String),
    /// The helper could not be started.
    #[error("cannot start a process: {0}")]
    Start(#[source] io::Error),
    /// There is no thread to start it.
    #[error("the daemon is ending")]
    Ended,
}

/// Settings of a spawner.
#[derive(Clone, Debug)]
pub struct SpawnerOptions {
    /// The binary that has the helper in it.
    pub exe: PathBuf,
    /// Soft and hard limit of open files for children.
    pub nofile: Option<(u64, u64)>,
}

impl Default for SpawnerOptions {
    /// Our own binary, also after it was replaced on disk; limits as they are.
    fn default() -> Self {
        Self { exe: PathBuf::from("/proc/self/exe"), nofile: None }
    }
}

/// Starts child processes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Spawner {
    requests: mpsc::Sender<Request>,
    nofile: Option<(u64, u64)>,
    /// Begins the marker of all children: the daemon's id, when it was started, and a number.
    tag: Arc<str>,
    calls: Arc<AtomicU64>,
    /// A tracker of its own: looking at /proc must not hold up the daemon's end.
    tasks: Tasks,
}

struct Request {
    policy: ExecPolicy,
    marker: String,
    runtime: Handle,
    tasks: Tasks,
    reply: oneshot::Sender<io::Result<Started>>,
}

struct Started {
    running: Running,
    status: Receiver,
}

impl Spawner {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no room for a thread.
    pub fn new(options: SpawnerOptions) -> io::Result<Self> {
        static SPAWNERS: AtomicU64 = AtomicU64::new(0);
        let pid = std::process::id();
        let started = i32::try_from(pid).ok().and_then(Process::read).map_or(0, |own| own.started);
        let tag = format!("{pid}-{started}-{}", SPAWNERS.fetch_add(1, Ordering::Relaxed));
        let (requests, inbox) = mpsc::channel(SPAWN_QUEUE);
        let exe = options.exe;
        std::thread::Builder::new().name("spawn".to_owned()).spawn(move || serve(inbox, &exe))?;
        Ok(Self { requests, nofile: options.nofile, tag: tag.into(), calls: Arc::default(), tasks: Tasks::default() })
    }

    /// Starts a program and returns once it runs. Dropping the future or the result kills it.
    ///
    /// # Errors
    /// See [`SpawnError`].
    pub async fn spawn(&self, command: ExecCommand) -> Result<Running, SpawnError> {
        let marker = self.marker(&command.call_id);
        let mut env = command.env;
        env.retain(|(name, _)| name != CALL_MARKER);
        env.push((CALL_MARKER.to_owned(), marker.clone()));
        let policy = ExecPolicy::new(command.argv, env, &command.cwd, self.nofile, std::process::id());
        let program = policy.argv.first().cloned().unwrap_or_default();
        let (reply, answer) = oneshot::channel();
        let request = Request { policy, marker, runtime: Handle::current(), tasks: self.tasks.clone(), reply };
        self.requests.send(request).await.map_err(|_| SpawnError::Ended)?;
        let Started { mut running, mut status } =
            answer.await.map_err(|_| SpawnError::Ended)?.map_err(SpawnError::Start)?;
        running.keep_thread = Some(self.requests.clone());
        let mut last_words = Vec::new();
        status.read_to_end(&mut last_words).await.map_err(SpawnError::Start)?;
        if last_words.is_empty() { Ok(running) } else { Err(failure(&last_words, program, command.cwd)) }
    }

    /// Ends all processes that were started, also those that commands left in the background. Takes up to a few
    /// seconds.
    pub async fn end_all(&self) {
        let tag = self.tag.clone();
        // A panic there was logged by the panic hook; there is nothing more to do.
        let _ = self.tasks.spawn_blocking(move || end_tagged(&tag)).await;
    }

    /// Tells whether a process may be one that was started here, or come from one: itself or an ancestor carries the
    /// variable of our calls. Of one that has ended nobody can tell any more, so that it may be. One that both left its
    /// ancestors and cleaned its environment is not known.
    pub async fn may_have_started(&self, process: MetProcess) -> bool {
        let tag = format!("{}:", self.tag);
        let look = move || {
            let is_ours = |marker: String| marker.starts_with(&tag);
            let comes_from_us =
                line_of_descent(process.pid()).any(|ancestor| ancestor.call_marker().is_some_and(is_ours));
            // Asked last: what was read of one that ended meanwhile says nothing.
            comes_from_us || !process.is_alive()
        };
        // A panic there was logged by the panic hook. What is not known for sure is not trusted.
        self.tasks.spawn_blocking(look).await.unwrap_or(true)
    }

    fn marker(&self, call_id: &str) -> String {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let call_id: String = call_id.chars().filter(plain).take(64).collect();
        format!("{}:{number}:{call_id}", self.tag)
    }
}

fn failure(last_words: &[u8], program: String, cwd: PathBuf) -> SpawnError {
    let Ok(failure) = serde_json::from_slice::<ExecFailure>(last_words) else {
        return SpawnError::Helper(String::from_utf8_lossy(last_words).trim().to_owned());
    };
    let source = io::Error::from_raw_os_error(failure.errno);
    match failure.step {
        Step::Chdir => SpawnError::WorkingDirectory { path: cwd, source },
        Step::Exec if failure.errno != 0 => SpawnError::Program { program, source },
        _ => SpawnError::Helper(failure.message),
    }
}

fn serve(mut inbox: mpsc::Receiver<Request>, exe: &Path) {
    while let Some(request) = inbox.blocking_recv() {
        let Request { policy, marker, runtime, tasks, reply } = request;
        let _context = runtime.enter();
        // If nobody waits any more, dropping the answer kills the process.
        let _ = reply.send(start(exe, &policy, &marker, &tasks));
    }
}

fn start(exe: &Path, policy: &ExecPolicy, marker: &str, tasks: &Tasks) -> io::Result<Started> {
    let (output, output_end) = io::pipe()?;
    let (status, status_end) = io::pipe()?;
    let mut command = helper_command(exe);
    command.stdin(policy_file(policy)?).stdout(output_end).stderr(status_end);
    let child = tokio::process::Command::from(command).spawn()?;
    let leader = child.id().ok_or(io::ErrorKind::NotFound)?;
    let group = ProcessGroup::new(leader, &policy.argv, marker, tasks)?;
    let output = Receiver::from_owned_fd(OwnedFd::from(output))?;
    let status = Receiver::from_owned_fd(OwnedFd::from(status))?;
    Ok(Started { running: Running { child, output, group, keep_thread: None }, status })
}

#[expect(clippy::disallowed_methods, reason = "this is where children are started")]
fn helper_command(exe: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(exe);
    // The helper needs no environment, and its own must not be found by the marker of somebody else.
    command.arg(HELPER_ARGUMENT).env_clear();
    command
}

/// The policy as a file in memory: unlike a pipe it takes any size without somebody reading.
fn policy_file(policy: &ExecPolicy) -> io::Result<Stdio> {
    let mut file = File::from(memfd_create(c"exec-policy", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&serde_json::to_vec(policy)?)?;
    file.rewind()?;
    Ok(Stdio::from(file))
}

#[cfg(test)]
mod tests;

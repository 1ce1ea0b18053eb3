//! Reaching the daemon: connect to its socket, and start it when nobody listens there.
//!
//! Blocking, so that a program of one request needs no runtime. The socket's path comes from [`crate::paths`].
//! Whether a daemon is ready is told by a connection that succeeds, never by a file that exists.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::methods::FrontParams;
use crate::paths::{self, Lookup};

/// Exit code of `agentd serve` when another daemon runs already.
pub const EXIT_ALREADY_RUNNING: i32 = 69;
/// Exit code of a client that found no daemon and could not start one.
pub const EXIT_NO_DAEMON: i32 = 75;
/// Longest wait for a place in the queue of a daemon that does not accept; the queue is long, so it is then stuck.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Longest wait for a daemon that was just started: a loaded machine with a cold disk takes seconds.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Pause between two looks at a daemon that is starting; short, because people wait for it.
const START_POLL: Duration = Duration::from_millis(1);
/// Pause before starting again when the daemon that ran is just ending.
const RESTART_PAUSE: Duration = Duration::from_millis(50);
/// Size of the log at which a start begins a new one and keeps one old one.
const MAX_LOG_BYTES: u64 = 8 * 1024 * 1024;
/// Longest wait for the answer to an introduction, and to the first question of whoever sends none; a daemon that is
/// only busy needs a small part of it.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Connections tried when the daemon ends just as it is reached.
const INTRODUCE_TRIES: u32 = 5;
/// Most bytes of the answer to the introduction.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// Most bytes of the log that an error message quotes.
const LOG_QUOTE_BYTES: usize = 600;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens.
    #[error("no daemon listens on {}; start one with `agentctl daemon start` or `agentd serve`", socket.display())]
    NoDaemon {
        /// The socket.
        socket: PathBuf,
    },
    /// Something else has the socket's name.
    #[error("{} is not a socket; move it away or set AGENTD_SOCKET", socket.display())]
    NotASocket {
        /// The path.
        socket: PathBuf,
    },
    /// Another user's program listens: it must not be sent keys.
    #[error("{} is served by user {uid}, not by you; set AGENTD_SOCKET to a path of yours", socket.display())]
    ForeignDaemon {
        /// The socket.
        socket: PathBuf,
        /// Who listens.
        uid: u32,
    },
    /// The daemon does not take connections, or takes them and does not answer.
    #[error("the daemon on {} does not answer; it may be stopped or stuck{}", socket.display(), what_to_do(*pid))]
    NotAnswering {
        /// The socket.
        socket: PathBuf,
        /// Its process, where that is known.
        pid: Option<i32>,
    },
    /// The daemon ended while it was being reached, again and again.
    #[error("the daemon on {} ends as soon as it is reached; its log may say why", socket.display())]
    Ending {
        /// The socket.
        socket: PathBuf,
    },
    /// The daemon answers, but does not want this client.
    #[error("the daemon refuses this client: {message}")]
    Refused {
        /// Its words.
        message: String,
    },
    /// The daemon was started and ended at once.
    #[error("{} serve ended at once ({status}){log}", program.display())]
    StartFailed {
        /// What was started.
        program: PathBuf,
        /// How it ended.
        status: String,
        /// What it wrote to its log, or empty.
        log: String,
    },
    /// The daemon was started and did not listen in time.
    #[error("the daemon did not listen on {} within {} s; its log is {}", socket.display(), START_LIMIT.as_secs(), log.display())]
    StartTimeout {
        /// The socket.
        socket: PathBuf,
        /// Its log.
        log: PathBuf,
    },
    /// The program is nowhere.
    #[error("the program agentd was not found beside this one or in PATH; set AGENTD_BIN to its path")]
    NoProgram,
    /// Without a home directory there is no path.
    #[error("there is no home directory; set HOME, XDG_RUNTIME_DIR or AGENTD_SOCKET")]
    NoHome,
    /// The system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Returns what a person can do about a daemon that does not answer.
fn what_to_do(pid: Option<i32>) -> String {
    pid.map(|pid| format!(": `kill -CONT {pid}` wakes a stopped one, `kill -KILL {pid}` ends it and loses no session"))
        .unwrap_or_default()
}

/// Returns the error for a daemon that took a connection and does not answer on it.
pub fn not_answering(socket: &Path, stream: &UnixStream) -> ConnectError {
    let peer = socket::getsockopt(stream, sockopt::PeerCredentials);
    ConnectError::NotAnswering { socket: socket.to_owned(), pid: peer.ok().map(|peer| peer.pid()) }
}

/// Returns the path of the daemon's socket for this process.
///
/// # Errors
/// [`ConnectError::NoHome`].
pub fn socket_path() -> Result<PathBuf, ConnectError> {
    paths::socket_path(&paths::process_env).ok_or(ConnectError::NoHome)
}

/// Connects to a daemon that runs. The peer is checked to be of the same user.
///
/// # Errors
/// [`ConnectError::NoDaemon`] when nobody listens; other variants for what a start would not mend.
pub fn connect(socket: &Path) -> Result<UnixStream, ConnectError> {
    connect_within(socket, CONNECT_LIMIT)
}

/// As [`connect`], with the longest wait for a daemon whose queue of connections is full.
///
/// # Errors
/// As [`connect`].
pub fn connect_within(socket: &Path, limit: Duration) -> Result<UnixStream, ConnectError> {
    let io = |action: &'static str, errno: nix::errno::Errno| ConnectError::Io {
        action,
        path: socket.to_owned(),
        source: errno.into(),
    };
    let address = UnixAddr::new(socket).map_err(|errno| io("use the socket path", errno))?;
    let fd = socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
        .map_err(|errno| io("make a socket for", errno))?;
    // On Linux this limit also holds for connect, which otherwise waits for ever at a full queue.
    let limit = TimeVal::milliseconds(i64::try_from(limit.as_millis()).unwrap_or(i64::MAX).max(1));
    socket::setsockopt(&fd, sockopt::SendTimeout, &limit).map_err(|errno| io("set a limit on", errno))?;
    connect_retrying(fd.as_raw_fd(), &address).map_err(|errno| refusal(socket, errno))?;
    socket::setsockopt(&fd, sockopt::SendTimeout, &TimeVal::seconds(0)).map_err(|errno| io("set a limit on", errno))?;
    let peer = socket::getsockopt(&fd, sockopt::PeerCredentials).map_err(|errno| io("ask who serves", errno))?;
    if peer.uid() != nix::unistd::geteuid().as_raw() {
        return Err(ConnectError::ForeignDaemon { socket: socket.to_owned(), uid: peer.uid() });
    }
    Ok(UnixStream::from(fd))
}

fn connect_retrying(fd: std::os::fd::RawFd, address: &UnixAddr) -> nix::Result<()> {
    loop {
        match socket::connect(fd, address) {
            Err(nix::errno::Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// Tells a daemon that is not there from one that is there and busy, and both from something that is no daemon.
fn refusal(socket: &Path, errno: nix::errno::Errno) -> ConnectError {
    use nix::errno::Errno;
    let path = socket.to_owned();
    match errno {
        Errno::ENOENT | Errno::ENOTDIR => ConnectError::NoDaemon { socket: path },
        Errno::EAGAIN | Errno::ETIMEDOUT | Errno::EINPROGRESS => ConnectError::NotAnswering { socket: path, pid: None },
        // The system says the same of a dead socket and of a regular file.
        Errno::ECONNREFUSED => match std::fs::symlink_metadata(socket) {
            Ok(meta) if !meta.file_type().is_socket() => ConnectError::NotASocket { socket: path },
            _ => ConnectError::NoDaemon { socket: path },
        },
        errno => ConnectError::Io { action: "connect to", path, source: errno.into() },
    }
}

/// Connects, and starts `program serve` in the background when nobody listens.
///
/// Any number of clients may do this at once: one of them starts the daemon, the others meet it. The daemon gets a
/// session of its own and a log in the state directory, and outlives the caller.
///
/// # Errors
/// What [`connect`] reports, and the variants about starting.
pub fn connect_or_start(socket: &Path, program: &Path) -> Result<UnixStream, ConnectError> {
    match connect(socket) {
        Err(ConnectError::NoDaemon { .. }) => start(socket, program),
        other => other,
    }
}

/// Makes the directory of the socket, closed to others, or checks that it is ours.
///
/// # Errors
/// [`ConnectError::Io`] when it cannot be made, or is open to others.
pub fn prepare_socket_dir(socket: &Path) -> Result<(), ConnectError> {
    let dir = socket.parent().unwrap_or(Path::new("/"));
    let io = |action| move |source| ConnectError::Io { action, path: dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io("make"))?;
    paths::check_private_dir(dir, nix::unistd::geteuid().as_raw()).map_err(io("use"))
}

fn start(socket: &Path, program: &Path) -> Result<UnixStream, ConnectError> {
    prepare_socket_dir(socket)?;
    let lock = open_start_lock(socket)?;
    let deadline = Instant::now() + START_LIMIT;
    let mut holding = false;
    let mut daemon: Option<Starting> = None;
    loop {
        match connect(socket) {
            Err(ConnectError::NoDaemon { .. }) => {}
            other => return other,
        }
        if !holding {
            holding = lock.try_lock().is_ok();
            if holding {
                // Whoever held the lock may have started a daemon since we looked.
                continue;
            }
        } else if let Some(starting) = &mut daemon {
            if starting.is_refused_by_another()? {
                // The other one is ending (nobody listens); its lock is free in a moment.
                daemon = None;
                std::thread::sleep(RESTART_PAUSE);
            }
        } else {
            daemon = Some(Starting::spawn(socket, program)?);
        }
        if Instant::now() > deadline {
            let log = daemon.and_then(|starting| starting.log_path.clone()).unwrap_or_default();
            return Err(ConnectError::StartTimeout { socket: socket.to_owned(), log });
        }
        std::thread::sleep(START_POLL);
    }
}

fn open_start_lock(socket: &Path) -> Result<File, ConnectError> {
    let mut name = socket.as_os_str().to_owned();
    name.push(".start");
    let path = PathBuf::from(name);
    private_file().open(&path).map_err(|source| ConnectError::Io { action: "open", path, source })
}

/// A file that others cannot read and that is no link.
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600).custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits());
    options
}

/// A daemon that was spawned and does not listen yet.
struct Starting {
    child: Option<Child>,
    program: PathBuf,
    log_path: Option<PathBuf>,
    log: Option<File>,
    log_start: u64,
}

impl Starting {
    #[expect(clippy::disallowed_methods, reason = "the daemon is no tool: it gets no limits and outlives us")]
    fn spawn(socket: &Path, program: &Path) -> Result<Self, ConnectError> {
        let log_path = paths::state_dir(&paths::process_env).map(|dir| paths::log_path(&dir));
        // A daemon without a log is better than none.
        let log = log_path.as_deref().and_then(open_log);
        let log_start = log.as_ref().and_then(|log| log.metadata().ok()).map_or(0, |meta| meta.len());
        let stderr = log.as_ref().and_then(|log| log.try_clone().ok()).map_or_else(Stdio::null, Stdio::from);
        let child = Command::new(program)
            .args(["serve", "--detached"])
            .env("AGENTD_SOCKET", socket)
            // They speak of the service that started us, if any, not of this daemon.
            .env_remove("LISTEN_FDS")
            .env_remove("LISTEN_PID")
            .env_remove("LISTEN_FDNAMES")
            .env_remove("NOTIFY_SOCKET")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map_err(|source| ConnectError::Io { action: "start", path: program.to_owned(), source })?;
        Ok(Self { child: Some(child), program: program.to_owned(), log_path, log, log_start })
    }

    /// Tells whether it gave way to another daemon. An end for any other reason is an error.
    fn is_refused_by_another(&mut self) -> Result<bool, ConnectError> {
        let Some(child) = &mut self.child else { return Ok(false) };
        match child.try_wait() {
            Ok(None) => Ok(false),
            Ok(Some(status)) if status.code() == Some(EXIT_ALREADY_RUNNING) => Ok(true),
            Ok(Some(status)) => Err(ConnectError::StartFailed {
                program: self.program.clone(),
                status: status.to_string(),
                log: self.quote_log(),
            }),
            Err(source) => Err(ConnectError::Io { action: "wait for", path: self.program.clone(), source }),
        }
    }

    /// Returns the end of what was logged since the start.
    fn quote_log(&self) -> String {
        let mut text = Vec::new();
        if let Some(mut log) = self.log.as_ref()
            && log.seek(SeekFrom::Start(self.log_start)).is_ok()
        {
            // What can be read is quoted; the error itself is reported in any case.
            let _ = log.take(64 * 1024).read_to_end(&mut text);
        }
        let tail = text.len().saturating_sub(LOG_QUOTE_BYTES);
        let quote = String::from_utf8_lossy(&text[tail..]).trim().to_owned();
        if quote.is_empty() { quote } else { format!(": {quote}") }
    }
}

impl Drop for Starting {
    /// Leaves nobody unreaped: a caller that lives long would otherwise keep a dead daemon's process entry.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            std::thread::spawn(move || child.wait());
        }
    }
}

fn open_log(path: &Path) -> Option<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(path.parent()?).ok()?;
    // Before a start nobody writes to it; a daemon that runs for months adds little at the default level.
    if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.len() > MAX_LOG_BYTES) {
        let _ = std::fs::rename(path, path.with_extension("log.old"));
    }
    private_file().open(path).ok()
}

/// Finds the program `agentd`: `AGENTD_BIN`, else beside the running program, else in `PATH`.
///
/// # Errors
/// [`ConnectError::NoProgram`].
pub fn agentd_program() -> Result<PathBuf, ConnectError> {
    let exe = std::env::current_exe().ok();
    find_program(&paths::process_env, exe.as_deref()).ok_or(ConnectError::NoProgram)
}

/// Returns the program that runs, for one that is agentd itself.
///
/// # Errors
/// [`ConnectError::NoProgram`] when it was removed and no other is found.
pub fn own_program() -> Result<PathBuf, ConnectError> {
    // One that was replaced while it runs is seen as "… (deleted)".
    std::env::current_exe().ok().filter(|exe| exe.is_file()).map_or_else(agentd_program, Ok)
}

fn find_program(lookup: Lookup<'_>, exe: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = lookup("AGENTD_BIN").filter(|value| !value.is_empty()) {
        return Some(PathBuf::from(path));
    }
    let beside = exe.and_then(Path::parent).map(|dir| dir.join("agentd"));
    let path = lookup("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("agentd"));
    beside.into_iter().chain(in_path).find(|candidate| candidate.is_file())
}

/// Returns what a front tells the daemon first: working directory and environment of this process.
///
/// Variables and directories that are not UTF-8 cannot be sent and are left out.
pub fn front_params(name: &str, version: &str) -> FrontParams {
    FrontParams {
        cwd: std::env::current_dir().ok().and_then(|dir| dir.into_os_string().into_string().ok()),
        env: Some(environment()),
        name: Some(name.to_owned()),
        version: Some(version.to_owned()),
    }
}

/// Returns the environment of this process, without what is not UTF-8.
pub fn environment() -> BTreeMap<String, String> {
    let utf8 = |text: OsString| text.into_string().ok();
    std::env::vars_os().filter_map(|(name, value)| Some((utf8(name)?, utf8(value)?))).collect()
}

/// Connects, introduces this process with `front`, and returns once the daemon has taken the introduction. With a
/// `program`, a daemon is started when nobody listens.
///
/// That the daemon answers is worth the round trip: a connection can also be made to one that was killed a moment
/// ago, whose socket the system has not closed yet. Nothing was asked of that one, so another try does no harm.
///
/// # Errors
/// What [`connect_or_start`] reports, and that the daemon does not answer or does not want this client.
pub fn open(socket: &Path, program: Option<&Path>, front: &FrontParams) -> Result<UnixStream, ConnectError> {
    let line = front_request(front);
    for _ in 0..INTRODUCE_TRIES {
        let mut stream = match program {
            Some(program) => connect_or_start(socket, program)?,
            None => connect(socket)?,
        };
        match introduce(&mut stream, &line, ANSWER_LIMIT) {
            Ok(answer) => return accepted(&answer).map(|()| stream),
            Err(error) if is_gone(&error) => std::thread::sleep(RESTART_PAUSE),
            Err(error) if is_timeout(&error) => return Err(not_answering(socket, &stream)),
            Err(source) => return Err(ConnectError::Io { action: "talk to", path: socket.to_owned(), source }),
        }
    }
    Err(ConnectError::Ending { socket: socket.to_owned() })
}

/// Sends the introduction and returns the line that answers it.
fn introduce(stream: &mut UnixStream, line: &[u8], limit: Duration) -> io::Result<Vec<u8>> {
    stream.set_write_timeout(Some(limit))?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(line)?;
    let mut answer = Vec::new();
    // Byte by byte, so that nothing after the answer is taken from whoever reads next.
    let mut byte = [0];
    while answer.len() < MAX_ANSWER_BYTES {
        stream.read_exact(&mut byte)?;
        if byte[0] == b'\n' {
            break;
        }
        answer.push(byte[0]);
    }
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok(answer)
}

fn accepted(answer: &[u8]) -> Result<(), ConnectError> {
    #[derive(serde::Deserialize)]
    struct Answer {
        error: Option<Refusal>,
    }
    #[derive(serde::Deserialize)]
    struct Refusal {
        message: String,
    }
    match serde_json::from_slice::<Answer>(answer) {
        Ok(Answer { error: None }) => Ok(()),
        Ok(Answer { error: Some(Refusal { message }) }) => Err(ConnectError::Refused { message }),
        Err(_) => Err(ConnectError::Refused { message: "its answer is not JSON-RPC; is it agentd?".to_owned() }),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Tells whether the other end closed or died.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Returns the introduction as one line with its LF. It has an id, so that it is answered.
fn front_request(front: &FrontParams) -> Vec<u8> {
    #[derive(serde::Serialize)]
    struct Request<'a> {
        jsonrpc: &'static str,
        id: &'static str,
        method: &'static str,
        params: &'a FrontParams,
    }
    let request = Request { jsonrpc: "2.0", id: "front", method: "front", params: front };
    let mut line = serde_json::to_vec(&request).expect("maps of strings always encode");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests;

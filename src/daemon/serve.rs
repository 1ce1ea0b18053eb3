//! `agentd serve`: the order of starting, and the exit code.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agentd_protocol::connect::{self, ConnectError, EXIT_ALREADY_RUNNING};
use agentd_protocol::{paths, version};

use super::instance::{InstanceError, InstanceLock};
use super::listen::{self, ListenError, Listening};
use super::parts::Parts;
use super::service::StopHandle;
use super::{detach, lifecycle, limits, logging, signals, systemd};
use crate::config::settings::Layer;
use crate::config::{self, Config, ConfigError};
use crate::constants::{MAX_WORKER_THREADS, SHUTDOWN_RUNTIME_LIMIT};
use crate::tasks::Tasks;

/// Exit code for a command line that makes no sense, as clap's.
const EXIT_USAGE: u8 = 2;

/// How to serve.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Whether a client started this daemon in the background: it then leaves the client's session and descriptors.
    pub detached: bool,
    /// Settings, `KEY=VALUE` each; they count more than those of files and variables.
    pub set: Vec<String>,
}

/// Why the daemon ended otherwise than in order.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Directory(ConnectError),
    #[error(transparent)]
    Instance(#[from] InstanceError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl ServeError {
    fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    fn exit_code(&self) -> ExitCode {
        let running =
            matches!(self, Self::Instance(InstanceError::Running(_)) | Self::Listen(ListenError::Live { .. }));
        if running { ExitCode::from(u8::try_from(EXIT_ALREADY_RUNNING).unwrap_or(1)) } else { ExitCode::FAILURE }
    }
}

/// Runs the daemon until it is told to stop.
///
/// Returns 0 after an ordered stop, [`EXIT_ALREADY_RUNNING`] when another daemon serves the socket, 2 when a setting of
/// the command line cannot be used, else 1.
pub fn serve(options: ServeOptions) -> ExitCode {
    if options.detached {
        detach::detach();
    }
    let set = match Layer::of_command_line(&options.set) {
        Ok(set) => set,
        Err(why) => {
            report(&format!("--set: {why}"));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    match try_serve(set) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error.to_string());
            error.exit_code()
        }
    }
}

/// A person may have the log turned off and must still learn why nothing runs.
#[expect(clippy::print_stderr, reason = "the last words of a daemon that could not start")]
fn report(error: &str) {
    eprintln!("agentd serve: {error}");
}

fn try_serve(set: Layer) -> Result<(), ServeError> {
    let mut config = config::load(&paths::process_env, set)?;
    logging::start(&config.settings.log_level);
    tracing::info!(version = version::VERSION, build = version::BUILD, "starting");
    // What is wrong in the settings is logged by this.
    config.live.of_daemon();
    let open_files = limits::raise_open_files();
    make_state_dir(&config.paths.state_dir)?;
    let (listening, _lock) = listen_alone(&mut config)?;
    // The directory that we were started in must not be kept from being removed or unmounted.
    std::env::set_current_dir("/").map_err(ServeError::io("enter", "/"))?;
    let stop = StopHandle::default();
    signals::watch(stop.clone()).map_err(ServeError::io("listen for", "signals"))?;
    let runtime = build_runtime().map_err(ServeError::io("start", "the runtime"))?;
    let tasks = Tasks::default();
    let ended = runtime.block_on(async {
        let parts = Parts::new(config, &tasks, stop.clone(), open_files)?;
        lifecycle::run(listening, parts, tasks, stop).await
    });
    runtime.shutdown_timeout(SHUTDOWN_RUNTIME_LIMIT);
    ended.map_err(ServeError::io("serve", "the socket"))
}

/// Becomes the one daemon of the socket and listens on it: ours, or the one that systemd passed.
fn listen_alone(config: &mut Config) -> Result<(Listening, InstanceLock), ServeError> {
    let passed = systemd::passed_listener().map_err(ServeError::io("use", "the socket from systemd"))?;
    if let Some(listener) = passed {
        let listening = listen::adopt(listener)?;
        let socket = listening.file.path().to_owned();
        connect::prepare_socket_dir(&socket).map_err(ServeError::Directory)?;
        let lock = InstanceLock::take(&socket)?;
        config.paths.runtime_dir = socket.parent().map(Path::to_owned).unwrap_or_default();
        config.paths.socket = socket;
        return Ok((listening, lock));
    }
    let socket = &config.paths.socket;
    connect::prepare_socket_dir(socket).map_err(ServeError::Directory)?;
    let lock = InstanceLock::take(socket)?;
    Ok((listen::bind(socket)?, lock))
}

fn make_state_dir(path: &Path) -> Result<(), ServeError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(ServeError::io("make", path))
}

fn build_runtime() -> io::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.clamp(2, MAX_WORKER_THREADS))
        .thread_name("agentd")
        .enable_all()
        .build()
}

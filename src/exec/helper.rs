//! The child's side: from `agentd __exec` to the program.
//!
//! Runs before anything else in `main`, single-threaded. stdin holds the policy, stdout is where the program's stdout
//! and stderr go, and stderr is the status pipe: the program never sees it, and an empty one tells the daemon that
//! the program runs.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;

use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::{dup2_stderr, dup2_stdin, getppid, setsid};

use super::policy::{ExecFailure, ExecPolicy, Step};

/// First argument of the helper.
pub const HELPER_ARGUMENT: &str = "__exec";

/// Exit code when the program was found but could not be started, as in shells.
const EXIT_CANNOT_RUN: i32 = 126;
/// Exit code when there is no such program, as in shells.
const EXIT_NOT_FOUND: i32 = 127;

/// Becomes the program that the policy on stdin names. Must be called first thing in `main` when the first argument is
/// [`HELPER_ARGUMENT`].
pub fn run_exec_helper() -> ! {
    let failure = match take_status_pipe() {
        Ok(status) => {
            let failure = run();
            // Should the daemon be gone, nobody is left to be told.
            let _ = serde_json::to_writer(&status, &failure);
            failure
        }
        Err(error) => ExecFailure::new(Step::Prepare, &error),
    };
    std::process::exit(if failure.errno == Errno::ENOENT as i32 { EXIT_NOT_FOUND } else { EXIT_CANNOT_RUN })
}

/// Moves the status pipe out of the way of the program: closed by exec, and stderr goes where stdout goes.
fn take_status_pipe() -> io::Result<File> {
    let status: OwnedFd = io::stderr().as_fd().try_clone_to_owned()?;
    dup2_stderr(io::stdout())?;
    Ok(File::from(status))
}

/// Returns only when it failed.
fn run() -> ExecFailure {
    let policy = match read_policy() {
        Ok(policy) => policy,
        Err(error) => return ExecFailure::new(Step::Policy, &error),
    };
    if let Err(error) = prepare(&policy) {
        return ExecFailure::new(Step::Prepare, &error);
    }
    if let Err(error) = std::env::set_current_dir(policy.cwd()) {
        return ExecFailure::new(Step::Chdir, &error);
    }
    ExecFailure::new(Step::Exec, &exec(&policy))
}

fn read_policy() -> io::Result<ExecPolicy> {
    let mut json = Vec::new();
    io::stdin().read_to_end(&mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

fn prepare(policy: &ExecPolicy) -> io::Result<()> {
    dup2_stdin(File::open("/dev/null")?)?;
    close_other_files_on_exec();
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if u32::try_from(getppid().as_raw()) != Ok(policy.parent) {
        return Err(io::Error::other("the daemon is gone"));
    }
    // A session of its own has no controlling terminal: nothing can stop to ask for a password.
    setsid()?;
    reset_signals()?;
    if let Some((soft, hard)) = policy.nofile {
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
    }
    Ok(())
}

/// Keeps from the program whatever the daemon itself had inherited (our own files close by themselves).
#[expect(unsafe_code, reason = "close_range has no wrapper")]
fn close_other_files_on_exec() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: sets a flag on descriptors, which closes none and touches no memory. Kernels before 5.11 answer with an
    // error, which leaves things as they would be without the call.
    unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

/// Undoes ignored signals: a daemon started with `nohup` or in the background of a script ignores some, and ignoring
/// is inherited for ever. (`exec` below resets SIGPIPE and the mask.)
#[expect(unsafe_code, reason = "sigaction can install handlers, which this does not")]
fn reset_signals() -> io::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2] {
        // SAFETY: installs no handler, only the default action.
        unsafe { sigaction(signal, &default)? };
    }
    Ok(())
}

/// Returns only when it failed.
#[expect(clippy::disallowed_methods, reason = "this is where children are started")]
fn exec(policy: &ExecPolicy) -> io::Error {
    let variables = policy.env.iter().map(|(name, value)| (name, value));
    std::process::Command::new(policy.program()).args(policy.argv.iter().skip(1)).env_clear().envs(variables).exec()
}

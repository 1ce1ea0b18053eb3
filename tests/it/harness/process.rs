//! Processes: finding those of a home, and ending them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Returns the living processes whose environment names `root`.
///
/// A home's path is unique and in the environment of all that is started in it, also of what has left its process group.
pub(crate) fn with_marker(root: &Path) -> Vec<i32> {
    let needle = root.as_os_str().as_bytes();
    let own = i32::try_from(std::process::id()).expect("a process id");
    let mut found: Vec<i32> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own && names(*pid, needle))
        .collect();
    found.sort_unstable();
    found
}

fn names(pid: i32, needle: &[u8]) -> bool {
    // A zombie's environment is empty, so only living processes are found.
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.windows(needle.len()).any(|window| window == needle))
}

/// Kills the processes whose environment names `root`, and those they start meanwhile; returns what is left.
pub(crate) fn kill_all(root: &Path) -> Vec<i32> {
    let deadline = Instant::now() + super::PATIENCE;
    loop {
        let found = with_marker(root);
        if found.is_empty() || Instant::now() > deadline {
            return found;
        }
        for pid in found {
            // It may have ended by itself since.
            let _gone = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the `agentctl` binary: it lies beside the daemon's.
#[track_caller]
pub(crate) fn agentctl() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_agentd")).with_file_name("agentctl");
    assert!(path.exists(), "{} is missing: test the whole workspace (cargo test --workspace)", path.display());
    path
}

/// What a process holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Open descriptors.
    pub(crate) descriptors: usize,
    /// Threads.
    pub(crate) threads: usize,
    /// Memory in RAM.
    pub(crate) resident_kib: u64,
    /// CPU time used so far, in hundredths of a second.
    pub(crate) cpu_ticks: u64,
}

/// Returns what a process holds now.
#[track_caller]
pub(crate) fn usage_of(pid: i32) -> Usage {
    let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).expect("a living process");
    let status = file("status");
    let field = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).expect("a field of the status");
        line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number")
    };
    let stat = file("stat");
    // After the name, which may hold anything: state is the first, utime and stime are the 12th and 13th.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
    Usage {
        descriptors: fs::read_dir(format!("/proc/{pid}/fd")).expect("a living process").count(),
        threads: usize::try_from(field("Threads:")).expect("a count"),
        resident_kib: field("VmRSS:"),
        cpu_ticks: ticks(11) + ticks(12),
    }
}

//! What the system knows of a process: its CPU time and its memory.

use std::path::Path;
use std::time::Duration;

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use super::error::BenchError;

/// Memory of a process, in bytes, shared pages by their share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// All of it.
    pub(super) pss: u64,
    /// Of which not backed by a file.
    pub(super) anonymous: u64,
}

/// Returns the CPU time (user and system) of all threads that the process has or had, to the nanosecond: the ticks of
/// `/proc/PID/stat` would be as long as some of what is measured here.
pub(super) fn cpu_time(pid: u32) -> Result<Duration, BenchError> {
    let read = || -> nix::Result<Duration> {
        let pid = i32::try_from(pid).map_err(|_| nix::errno::Errno::ESRCH)?;
        Ok(clock_gettime(clock_getcpuclockid(Pid::from_raw(pid))?)?.into())
    };
    read().map_err(|errno| BenchError::io("read the CPU clock of the daemon")(errno.into()))
}

/// Returns the memory of a process.
pub(super) fn memory(pid: u32) -> Result<Memory, BenchError> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .map_err(BenchError::io("read the memory of the daemon"))?;
    Ok(parse_rollup(&text))
}

/// The lines are `Name:   123 kB` (proc_pid_smaps(5)); the system's kB are 1024 bytes.
fn parse_rollup(text: &str) -> Memory {
    Memory { pss: kilobytes(text, "Pss:"), anonymous: kilobytes(text, "Pss_Anon:") }
}

fn kilobytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}

/// Forgets how much memory this process ever had in use, and returns how much it is now, in bytes.
pub(super) fn start_peak() -> Result<u64, BenchError> {
    // proc_pid_clear_refs(5): 5 resets the peak.
    std::fs::write("/proc/self/clear_refs", "5").map_err(BenchError::io("reset the peak of memory"))?;
    peak()
}

/// Returns the most memory (RSS) that this process had in use since then, in bytes.
pub(super) fn peak() -> Result<u64, BenchError> {
    let text = std::fs::read_to_string("/proc/self/status").map_err(BenchError::io("read the peak of memory"))?;
    Ok(kilobytes(&text, "VmHWM:"))
}

/// Returns the processes that execute `program`, whose file may have been removed.
pub(super) fn running(program: &Path) -> Vec<i32> {
    let mut removed = program.as_os_str().to_owned();
    removed.push(" (deleted)");
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let exe = std::fs::read_link(format!("/proc/{pid}/exe"));
            exe.is_ok_and(|exe| exe == program || exe.as_os_str() == removed)
        })
        .collect()
}

/// Tells whether a process is there and has not ended.
pub(super) fn is_alive(pid: u32) -> bool {
    // A zombie executes nothing any more.
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rollup_is_read() {
        let text =
            "55d0-7ffc ---p 00000000 00:00 0    [rollup]\nRss:    9000 kB\nPss:    1234 kB\nPss_Anon:    1000 kB\n";
        assert_eq!(parse_rollup(text), Memory { pss: 1234 * 1024, anonymous: 1000 * 1024 });
    }

    #[test]
    fn this_process_is_found_and_has_used_cpu() {
        let pid = std::process::id();
        assert!(is_alive(pid));
        assert!(cpu_time(pid).unwrap() > Duration::ZERO);
        assert!(memory(pid).unwrap().pss > 0);
        assert!(running(&std::env::current_exe().unwrap()).contains(&i32::try_from(pid).unwrap()));
    }
}

//! Looks at processes through /proc.

use std::fs;

use memchr::memmem;

/// Environment variable by which the processes of a tool call are known, wherever they went.
pub const CALL_MARKER: &str = "AGENTD_CALL";

/// Ancestors looked at: while one looks, ids can be given anew, and a line could come back to its beginning.
const MAX_ANCESTORS: usize = 256;

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Its id.
    pub(crate) pid: i32,
    /// The id of its parent.
    pub(crate) parent: i32,
    /// Its process group.
    pub(crate) group: i32,
    /// Its session, which it only leaves for one of its own.
    pub(crate) session: i32,
    /// State letter: `R`, `S`, `D`, `T`, `Z` …
    pub(crate) state: u8,
    /// When it was started, in ticks since boot; with the id it names a process for good.
    pub(crate) started: u64,
}

impl Process {
    /// Reads one process.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The fields follow the name, which stands in parentheses and may hold anything (proc_pid_stat(5)).
    fn parse(pid: i32, stat: &[u8]) -> Option<Self> {
        let end = memchr::memrchr(b')', stat)?;
        let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            pid,
            state: *fields.first()?.as_bytes().first()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether it has not ended yet.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }

    /// Returns the value of [`CALL_MARKER`] it was started with.
    pub(crate) fn call_marker(&self) -> Option<String> {
        // Reading the memory of a process that hangs in the kernel can hang as well.
        if self.state == b'D' {
            return None;
        }
        let environ = fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        marker_in(&environ)
    }
}

/// A process as it was met, which may have ended since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetProcess {
    pid: i32,
    /// When it was started, in ticks since boot; `None` when it had ended already.
    started: Option<u64>,
}

impl MetProcess {
    /// Notes which process has this id now.
    pub fn new(pid: i32) -> Self {
        Self { pid, started: Process::read(pid).map(|process| process.started) }
    }

    /// Returns its id, which another process can have by now.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it has not ended yet.
    pub(crate) fn is_alive(&self) -> bool {
        Process::read(self.pid).is_some_and(|now| now.is_alive() && Some(now.started) == self.started)
    }
}

fn marker_in(environ: &[u8]) -> Option<String> {
    let name = format!("{CALL_MARKER}=");
    let at = memmem::find_iter(environ, name.as_bytes()).find(|at| *at == 0 || environ[at - 1] == 0)?;
    let value = environ[at + name.len()..].split(|byte| *byte == 0).next()?;
    String::from_utf8(value.to_vec()).ok()
}

/// Returns a process and those that it comes from, itself first.
pub(crate) fn line_of_descent(pid: i32) -> impl Iterator<Item = Process> {
    std::iter::successors(Process::read(pid), |process| Process::read(process.parent)).take(MAX_ANCESTORS)
}

/// Returns the processes there are. A snapshot that is already old.
pub(crate) fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(Process::read)
}

/// Returns the command line with NUL after each argument.
pub(crate) fn command_line(pid: i32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/cmdline")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_names_with_anything_in_them() {
        let stat = b"42 (a) S (b) c) T 1 40 39 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1000 2 3";
        assert_eq!(
            Process::parse(42, stat),
            Some(Process { pid: 42, parent: 1, group: 40, session: 39, state: b'T', started: 987_654 })
        );
        assert_eq!(Process::parse(42, b"42 (a"), None);
        assert_eq!(Process::parse(42, b"42 (a) S 1 2"), None);
    }

    #[test]
    fn finds_the_marker_as_a_whole_variable() {
        assert_eq!(marker_in(b"A=1\0AGENTD_CALL=x:1:\0B=2\0").as_deref(), Some("x:1:"));
        assert_eq!(marker_in(b"AGENTD_CALL=y\0").as_deref(), Some("y"));
        assert_eq!(marker_in(b"NOT_AGENTD_CALL=y\0Z=AGENTD_CALL=z\0"), None);
        assert_eq!(marker_in(b""), None);
    }

    #[test]
    fn another_process_with_the_same_id_is_not_the_one_that_was_met() {
        let own = MetProcess::new(i32::try_from(std::process::id()).unwrap());
        assert!(own.is_alive());
        let earlier = MetProcess { started: own.started.map(|started| started - 1), ..own };
        assert!(!earlier.is_alive());
        assert!(!MetProcess { started: None, ..own }.is_alive());
    }

    #[test]
    fn sees_itself() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(processes().any(|process| process.pid == own && process.is_alive()));
    }
}

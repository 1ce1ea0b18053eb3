//! A file that another program holds back: opening it waits until that program gives it up, as on a slow network mount.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What the holder does when somebody wants the file.
#[derive(Clone, Copy, Debug)]
pub(super) enum WhenAsked {
    GiveBack,
    RemoveIt,
    KeepIt,
}

/// Holds a lease as file servers do. Python, because the system sends the holder a signal.
const HOLDER: &str = r#"
import fcntl, os, signal, sys
path, then = sys.argv[1:]
file = open(path)
def asked(*_):
    if then == "RemoveIt": os.remove(path)
    if then != "KeepIt": fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    print("asked", flush=True)
signal.signal(signal.SIGIO, asked)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
sys.stdin.read()
"#;

/// A file that is held; given back when dropped.
pub(super) struct Lease {
    holder: Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Lease {
    /// Tells whether there is Python here.
    pub(super) fn can_be_taken() -> bool {
        Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Takes hold of a file that nobody has open.
    pub(super) fn take(path: &Path, when_asked: WhenAsked) -> Self {
        let mut holder = Command::new("python3")
            .args(["-c", HOLDER])
            .arg(path)
            .arg(format!("{when_asked:?}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start python3");
        let (stdin, stdout) = (holder.stdin.take(), holder.stdout.take().expect("its output"));
        let mut lease = Self { holder, stdin, lines: BufReader::new(stdout) };
        lease.until("held");
        lease
    }

    /// Waits until somebody has wanted the file.
    pub(super) fn until_asked(mut self) -> Self {
        self.until("asked");
        self
    }

    fn until(&mut self, line: &str) {
        let mut read = String::new();
        self.lines.read_line(&mut read).expect("a line of the holder");
        assert_eq!(read.trim_end(), line);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _status = self.holder.wait();
    }
}

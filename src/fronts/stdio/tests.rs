use std::os::unix::net::UnixListener;
use std::thread;

use super::*;

/// A pump between two pipes and the far end of its socket.
struct Pump {
    stdin: Option<std::fs::File>,
    stdout: Option<std::fs::File>,
    daemon: UnixStream,
    ended: thread::JoinHandle<io::Result<End>>,
}

impl Pump {
    fn start() -> Self {
        let (near, daemon) = UnixStream::pair().unwrap();
        let (input, stdin) = nix::unistd::pipe().unwrap();
        let (stdout, output) = nix::unistd::pipe().unwrap();
        let ended = thread::spawn(move || pump(&near, input, &output));
        Self { stdin: Some(stdin.into()), stdout: Some(stdout.into()), daemon, ended }
    }

    fn daemon_line(&mut self) -> String {
        line(&mut self.daemon)
    }

    fn type_in(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn answer(&mut self, text: &str) {
        self.daemon.write_all(text.as_bytes()).unwrap();
    }

    fn printed_line(&mut self) -> String {
        line(self.stdout.as_mut().unwrap())
    }

    fn end(self) -> End {
        self.ended.join().unwrap().unwrap()
    }
}

fn line(from: &mut impl Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while from.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

#[test]
fn bytes_pass_both_ways_unchanged() {
    let mut pump = Pump::start();
    pump.type_in("ask\r\n");
    assert_eq!(pump.daemon_line(), "ask\r");
    pump.answer("answer\n");
    assert_eq!(pump.printed_line(), "answer");
}

#[test]
fn after_the_end_of_stdin_answers_still_come() {
    let mut pump = Pump::start();
    pump.type_in("ask\n");
    pump.stdin = None;
    let mut asked = String::new();
    pump.daemon.read_to_string(&mut asked).unwrap();
    assert_eq!(asked, "ask\n");
    pump.answer("late answer\n");
    assert_eq!(pump.printed_line(), "late answer");
    pump.daemon.shutdown(Shutdown::Both).unwrap();
    assert_eq!(pump.end(), End::Finished);
}

#[test]
fn a_daemon_that_goes_is_told_from_an_orderly_end() {
    let pump = Pump::start();
    pump.daemon.shutdown(Shutdown::Both).unwrap();
    assert_eq!(pump.end(), End::DaemonGone);
}

#[test]
fn a_reader_that_leaves_ends_it_while_an_answer_is_pending() {
    let mut pump = Pump::start();
    pump.type_in("wait\n");
    pump.stdin = None;
    pump.stdout = None;
    assert_eq!(pump.end(), End::ReaderLeft);
}

#[test]
fn a_reader_that_leaves_ends_it_while_events_flow() {
    let mut pump = Pump::start();
    pump.stdout = None;
    let _ = pump.daemon.write_all(b"event\n");
    assert_eq!(pump.end(), End::ReaderLeft);
}

#[test]
fn non_blocking_descriptors_of_the_client_are_no_fault() {
    let (near, mut daemon) = UnixStream::pair().unwrap();
    // As some runtimes do, one non-blocking socket serves as stdin and stdout.
    let (client, ours) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let output: OwnedFd = ours.try_clone().unwrap().into();
    let ended = thread::spawn(move || pump(&near, ours.into(), &output));
    let big = "x".repeat(4 * BUFFER_BYTES) + "\n";
    let writer = {
        let (mut daemon, big) = (daemon.try_clone().unwrap(), big.clone());
        thread::spawn(move || daemon.write_all(big.as_bytes()).unwrap())
    };
    let mut client = client;
    assert_eq!(line(&mut client).len() + 1, big.len());
    writer.join().unwrap();
    client.write_all(b"ask\n").unwrap();
    assert_eq!(line(&mut daemon), "ask");
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(line(&mut daemon), "");
    drop(daemon);
    assert_eq!(ended.join().unwrap().unwrap(), End::Finished);
}

#[test]
fn a_killed_daemon_is_no_error_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("s")).unwrap();
    let near = UnixStream::connect(dir.path().join("s")).unwrap();
    let (daemon, _) = listener.accept().unwrap();
    let (input, mut stdin) = nix::unistd::pipe().map(|(read, write)| (read, std::fs::File::from(write))).unwrap();
    let (_stdout, output) = nix::unistd::pipe().unwrap();
    let ended = thread::spawn(move || pump(&near, input, &output));
    stdin.write_all(b"never read\n").unwrap();
    // Closing with unread bytes resets the connection, as the end of a killed process does.
    drop(daemon);
    assert_eq!(ended.join().unwrap().unwrap(), End::DaemonGone);
}

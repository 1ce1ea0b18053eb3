//! `agentd stdio`: the native wire on stdin and stdout.
//!
//! Two blocking threads and no runtime: this runs between an editor's spawn and its first answer. Bytes pass as they
//! are, whatever framing the client speaks; only the introduction (`front`, with its answer) goes before them. The end
//! of stdin closes one direction: the daemon still answers what was sent, then closes the other.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentd_protocol::connect::{self, ConnectError, EXIT_NO_DAEMON};
use agentd_protocol::version;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Room for one read; a full socket buffer fits.
const BUFFER_BYTES: usize = 64 * 1024;

/// How the pumping ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// All answers to what came before the end of stdin were passed on.
    Finished,
    /// Nobody reads our stdout any more.
    ReaderLeft,
    /// The daemon closed although stdin is still open.
    DaemonGone,
}

/// Speaks for the client on stdin and stdout, starting the daemon if need be; `name` is how the daemon lists it.
pub fn run(name: &str) -> ExitCode {
    match pump_standard_streams(name) {
        Ok(End::Finished | End::ReaderLeft) => ExitCode::SUCCESS,
        Ok(End::DaemonGone) => fail("the daemon closed the connection; its sessions are on disk, start again to go on"),
        Err(error) => fail(&error.to_string()),
    }
}

#[expect(clippy::print_stderr, reason = "stdout is the protocol's, stderr is for people")]
fn fail(message: &str) -> ExitCode {
    eprintln!("agentd stdio: {message}");
    ExitCode::from(u8::try_from(EXIT_NO_DAEMON).unwrap_or(u8::MAX))
}

fn pump_standard_streams(name: &str) -> Result<End, ConnectError> {
    let socket = connect::socket_path()?;
    let front = connect::front_params(name, version::VERSION);
    let stream = connect::open(&socket, Some(&connect::own_program()?), &front)?;
    let io = |action, path: &str| {
        let path = path.into();
        move |source| ConnectError::Io { action, path, source }
    };
    // Plain descriptors instead of std's buffered handles: what arrives is passed on at once, half a message too.
    let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(io("read", "stdin"))?;
    let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(io("write", "stdout"))?;
    pump(&stream, stdin, &stdout).map_err(io("pass on", "the daemon's answers"))
}

fn pump(stream: &UnixStream, input: OwnedFd, output: &OwnedFd) -> io::Result<End> {
    let input_ended = Arc::new(AtomicBool::new(false));
    let (to_daemon, ended) = (stream.try_clone()?, Arc::clone(&input_ended));
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        if copy_input(&input, &to_daemon) {
            ended.store(true, Ordering::SeqCst);
            // Fails only when the daemon is gone, which the other thread sees.
            let _ = to_daemon.shutdown(Shutdown::Write);
        }
    })?;
    let end = copy_output(stream, output)?;
    Ok(if end == End::DaemonGone && input_ended.load(Ordering::SeqCst) { End::Finished } else { end })
}

/// Passes the client's bytes on. Returns whether its end was reached, rather than that of the daemon.
fn copy_input(input: &OwnedFd, mut daemon: &UnixStream) -> bool {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match read_some(input, &mut buffer) {
            // An error (a terminal that hung up, for one) means that nothing will follow, as the end does.
            Ok(0) | Err(_) => return true,
            Ok(count) => {
                if daemon.write_all(&buffer[..count]).is_err() {
                    return false;
                }
            }
        }
    }
}

/// Passes the daemon's bytes on. Notices a reader that leaves even while there is nothing to write: after the end of
/// stdin an answer may take hours, and an editor that died must not leave us behind.
fn copy_output(mut daemon: &UnixStream, output: &OwnedFd) -> io::Result<End> {
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let mut fds = [PollFd::new(daemon.as_fd(), PollFlags::POLLIN), PollFd::new(output.as_fd(), PollFlags::empty())];
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
            Ok(_) => {}
        }
        if fds[1].revents().is_some_and(|events| events.intersects(gone)) {
            return Ok(End::ReaderLeft);
        }
        if fds[0].revents().is_none_or(|events| events.is_empty()) {
            continue;
        }
        match daemon.read(&mut buffer) {
            Ok(0) => return Ok(End::DaemonGone),
            Ok(count) => match write_all(output, &buffer[..count]) {
                Ok(()) => {}
                Err(Errno::EPIPE) => return Ok(End::ReaderLeft),
                Err(errno) => return Err(errno.into()),
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Killed with our bytes unread, it resets the connection.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(End::DaemonGone),
            Err(error) => return Err(error),
        }
    }
}

/// Reads what is there, also from a descriptor that the client left in non-blocking mode.
fn read_some(fd: &OwnedFd, buffer: &mut [u8]) -> nix::Result<usize> {
    loop {
        match nix::unistd::read(fd, buffer) {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => wait(fd, PollFlags::POLLIN)?,
            other => return other,
        }
    }
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8]) -> nix::Result<()> {
    while !bytes.is_empty() {
        match nix::unistd::write(fd, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => wait(fd, PollFlags::POLLOUT)?,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn wait(fd: &OwnedFd, events: PollFlags) -> nix::Result<()> {
    match poll(&mut [PollFd::new(fd.as_fd(), events)], PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests;

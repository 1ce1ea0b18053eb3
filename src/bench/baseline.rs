//! What this machine needs for things that nobody can avoid, to hold the daemon's figures against.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::BenchError;
use super::home::Home;
use super::measure::median;

/// A program that does nothing.
const TRIVIAL: &str = "/bin/true";
/// About the size of a user message in its file.
const APPEND_BYTES: usize = 400;
const ROUNDS: usize = 20;
const ROUND_TRIPS: usize = 1000;

/// The baselines, each the median of many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Baseline {
    /// Spawning a trivial program and waiting for its end.
    pub(super) spawn: Duration,
    /// A byte there and back over a Unix socket, between two threads.
    pub(super) round_trip: Duration,
    /// Appending a few hundred bytes to a file of the home and fdatasync.
    pub(super) sync: Duration,
}

impl Baseline {
    /// Measures them.
    pub(super) fn measure(home: &Home) -> Result<Self, BenchError> {
        Ok(Self { spawn: spawn(home)?, round_trip: round_trip()?, sync: sync(home.path())? })
    }
}

fn spawn(home: &Home) -> Result<Duration, BenchError> {
    median(ROUNDS, || {
        let started = Instant::now();
        home.command(Path::new(TRIVIAL)).status().map_err(BenchError::io("start a trivial program"))?;
        Ok(started.elapsed())
    })
}

fn round_trip() -> Result<Duration, BenchError> {
    let fail = || BenchError::io("use a socket pair");
    let (mut ours, mut theirs) = UnixStream::pair().map_err(fail())?;
    let echo = move || {
        let mut byte = [0];
        while matches!(theirs.read(&mut byte), Ok(1)) && theirs.write_all(&byte).is_ok() {}
    };
    std::thread::Builder::new().name("echo".into()).spawn(echo).map_err(fail())?;
    median(ROUND_TRIPS, || {
        let started = Instant::now();
        let mut byte = [0];
        ours.write_all(&byte).and_then(|()| ours.read_exact(&mut byte)).map_err(fail())?;
        Ok(started.elapsed())
    })
}

fn sync(dir: &Path) -> Result<Duration, BenchError> {
    let fail = || BenchError::io("write a file");
    let path = dir.join("sync");
    let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path).map_err(fail())?;
    median(ROUNDS, || {
        let started = Instant::now();
        file.write_all(&[b'x'; APPEND_BYTES]).and_then(|()| file.sync_data()).map_err(fail())?;
        Ok(started.elapsed())
    })
}

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::daemon::listen;
use crate::daemon::service::Peer;

/// Echoes, and notes what it is told.
#[derive(Clone, Default)]
struct Echo {
    steps: Arc<Mutex<Vec<&'static str>>>,
    goodbye: CancellationToken,
    /// Makes aborting hang, as a tool does that cannot be killed.
    stuck: bool,
}

impl Echo {
    fn note(&self, step: &'static str) {
        self.steps.lock().unwrap().push(step);
    }
}

impl Service for Echo {
    async fn serve(&self, mut stream: UnixStream, peer: Peer) {
        assert_eq!(peer.pid, Some(i32::try_from(std::process::id()).unwrap()));
        let mut buffer = [0; 64];
        loop {
            tokio::select! {
                () = self.goodbye.cancelled() => return,
                read = stream.read(&mut buffer) => match read {
                    Ok(0) | Err(_) => return,
                    Ok(count) => stream.write_all(&buffer[..count]).await.unwrap(),
                },
            }
        }
    }

    fn refuse_requests(&self) {
        self.note("refuse");
    }

    async fn abort_runs(&self) {
        self.note("abort");
        if self.stuck {
            std::future::pending::<()>().await;
        }
    }

    async fn end_processes(&self) {
        self.note("processes");
    }

    async fn flush(&self) {
        self.note("flush");
    }

    async fn say_goodbye(&self) {
        self.note("goodbye");
        self.goodbye.cancel();
    }
}

struct Running {
    dir: tempfile::TempDir,
    stop: StopHandle,
    ended: tokio::task::JoinHandle<io::Result<()>>,
}

impl Running {
    fn start(service: Echo) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listening = listen::bind(&dir.path().join("s")).unwrap();
        let stop = StopHandle::default();
        let tasks = Tasks::default();
        let ended = Tasks::default().spawn("daemon", run(listening, service, tasks, stop.clone()));
        Self { dir, stop, ended }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }
}

async fn echo(stream: &mut UnixStream, text: &[u8]) {
    stream.write_all(text).await.unwrap();
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, text);
}

async fn connect(socket: &Path) -> UnixStream {
    UnixStream::connect(socket).await.unwrap()
}

#[tokio::test]
async fn clients_are_served_at_the_same_time() {
    let daemon = Running::start(Echo::default());
    let (mut a, mut b) = (connect(&daemon.socket()).await, connect(&daemon.socket()).await);
    echo(&mut b, b"second").await;
    echo(&mut a, b"first").await;
}

#[tokio::test]
async fn the_drain_goes_in_order_and_removes_the_socket() {
    let service = Echo::default();
    let daemon = Running::start(service.clone());
    let mut client = connect(&daemon.socket()).await;
    echo(&mut client, b"hello").await;
    daemon.stop.stop("test");
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0, "the client sees an ordered end");
    let socket = daemon.socket();
    daemon.ended.await.unwrap().unwrap();
    assert_eq!(*service.steps.lock().unwrap(), ["refuse", "abort", "processes", "flush", "goodbye"]);
    assert!(!socket.exists());
}

/// The drain must end also when the accept loop and the drain run on different threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_drain_ends_on_many_threads() {
    let daemon = Running::start(Echo::default());
    echo(&mut connect(&daemon.socket()).await, b"hello").await;
    daemon.stop.stop("test");
    tokio::time::timeout(SHUTDOWN_ABORT_LIMIT, daemon.ended).await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stuck_step_is_left_behind() {
    let service = Echo { stuck: true, ..Echo::default() };
    let daemon = Running::start(service.clone());
    let started = tokio::time::Instant::now();
    daemon.stop.stop("test");
    daemon.ended.await.unwrap().unwrap();
    assert_eq!(*service.steps.lock().unwrap(), ["refuse", "abort", "processes", "flush", "goodbye"]);
    assert!(started.elapsed() >= SHUTDOWN_ABORT_LIMIT);
    assert!(started.elapsed() < SHUTDOWN_ABORT_LIMIT * 2);
}

#[tokio::test]
async fn a_connection_that_panics_harms_no_other() {
    #[derive(Clone)]
    struct Faulty(Echo);
    impl Service for Faulty {
        async fn serve(&self, mut stream: UnixStream, peer: Peer) {
            let mut first = [0; 1];
            stream.read_exact(&mut first).await.unwrap();
            assert_ne!(first[0], b'!', "asked for");
            self.0.serve(stream, peer).await;
        }
        fn refuse_requests(&self) {}
        async fn abort_runs(&self) {}
        async fn end_processes(&self) {}
        async fn flush(&self) {}
        async fn say_goodbye(&self) {}
    }
    let dir = tempfile::tempdir().unwrap();
    let listening = listen::bind(&dir.path().join("s")).unwrap();
    let service = Faulty(Echo::default());
    drop(Tasks::default().spawn("daemon", run(listening, service, Tasks::default(), StopHandle::default())));
    let mut bad = connect(&dir.path().join("s")).await;
    bad.write_all(b"!").await.unwrap();
    assert_eq!(bad.read(&mut [0; 1]).await.unwrap(), 0);
    let mut good = connect(&dir.path().join("s")).await;
    good.write_all(b".").await.unwrap();
    echo(&mut good, b"still here").await;
}

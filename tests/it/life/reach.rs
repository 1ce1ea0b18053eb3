//! Reaching a daemon that is stopped, dying, starved or being started.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getsid};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Client, Daemon, Home, PATIENCE};

#[tokio::test]
async fn b198_a_stopped_daemon_keeps_its_socket() {
    let daemon = Daemon::start(Home::new());
    let inode = || fs::metadata(daemon.home().socket()).unwrap().ino();
    let before = inode();
    daemon.signal(Signal::SIGSTOP);
    let second = super::single::serve(daemon.home()).await;
    assert_eq!(second.status.code(), Some(69));
    assert_eq!(inode(), before);
    daemon.signal(Signal::SIGCONT);
    daemon.connect().await.ok("ping", json!({})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fronts_that_meet_a_dying_daemon_find_the_next_one() {
    let home = Home::new();
    for _ in 0..5 {
        let pid = Client::stdio(&home).ok("get_daemon_status", json!({})).await["pid"].as_i64().unwrap();
        // Not waited for: its socket may take connections for a moment yet.
        kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
        let mut fronts: Vec<_> = (0..5).map(|_| Client::stdio(&home)).collect();
        for front in &mut fronts {
            let next = front.ok("get_daemon_status", json!({})).await["pid"].as_i64().unwrap();
            assert!(next != pid);
        }
    }
}

#[tokio::test]
async fn a_daemon_that_a_client_starts_keeps_nothing_of_it() {
    let home = Home::new();
    let pipe = home.root().join("held");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let script = format!(r#"exec 7<>'{}'; exec "$0" stdio </dev/null"#, pipe.display());
    let status = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_agentd")])
        .env_clear()
        .envs(home.env())
        .current_dir(home.cwd())
        .status()
        .unwrap();
    assert!(status.success());
    let pid = Client::stdio(&home).ok("get_daemon_status", json!({})).await["pid"].as_i64().unwrap();
    let held: Vec<PathBuf> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .collect();
    assert!(!held.contains(&pipe), "{held:?}");
    assert_eq!(fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), PathBuf::from("/"));
    let pid = Pid::from_raw(i32::try_from(pid).unwrap());
    assert_eq!(getsid(Some(pid)).unwrap(), pid, "a session of its own");
}

#[tokio::test]
async fn b195_without_descriptors_clients_wait_and_the_daemon_does_not_spin() {
    let home = Home::new();
    let log = home.root().join("log");
    let mut daemon = Command::new("sh")
        .args(["-c", r#"ulimit -n 48; exec "$0" serve"#, env!("CARGO_BIN_EXE_agentd")])
        .env_clear()
        .envs(home.env())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    while UnixStream::connect(home.socket()).is_err() {
        assert!(Instant::now() < deadline, "the daemon does not listen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut waiting: Vec<_> = (0..100).map(|_| UnixStream::connect(home.socket()).unwrap()).collect();
    let complaints = || fs::read_to_string(&log).unwrap().matches("too many open files").count();
    // Three complaints are some pauses apart.
    while complaints() < 3 {
        assert!(Instant::now() < deadline, "no complaint in the log");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(complaints() < 10, "it pauses between tries");
    waiting.truncate(1);
    Client::connect(&home.socket()).await.ok("ping", json!({})).await;
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

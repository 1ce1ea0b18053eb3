//! One daemon a home: whoever comes second, and however many come at once.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Client, Daemon, Home, bounded};

/// Runs `agentd serve` to its end, which it must come to by itself.
pub(super) async fn serve(home: &Home) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentd"));
    command.arg("serve").env_clear().envs(home.env()).current_dir(home.user());
    let run = tokio::task::spawn_blocking(move || command.output().expect("start agentd serve"));
    bounded("the end of a second daemon", run).await.expect("no panic")
}

/// Returns the processes of a home that are daemons.
fn daemons(home: &Home) -> usize {
    let is_daemon = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"serve")
    };
    home.processes().iter().filter(|pid| is_daemon(pid)).count()
}

#[tokio::test]
async fn a_second_serve_says_who_runs_and_fails() {
    let daemon = Daemon::start(Home::new());
    let second = serve(daemon.home()).await;
    assert!(!second.status.success());
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains(&daemon.pid().to_string()), "it names the process: {said}");
    assert_eq!(second.stdout, b"", "nothing on stdout but protocol");
    let mut client = daemon.connect().await;
    client.ok("ping", json!({})).await;
}

#[tokio::test]
async fn the_socket_is_closed_to_other_users() {
    let daemon = Daemon::start(Home::new());
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(daemon.home().socket()), 0o600);
    assert_eq!(mode(daemon.home().runtime()), 0o700);
}

/// Returns what below a folder others may use, with the modes.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
            if mode & 0o077 != 0 {
                found.push(format!("{} {mode:o}", path.display()));
            }
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

#[tokio::test]
async fn b202_whatever_the_umask_all_is_closed_to_others() {
    let before = r#"umask 000; export AGENTD_SOCKET="$XDG_RUNTIME_DIR/new/deep/a.sock""#;
    let mut daemon = Daemon::start_after(Home::new(), before);
    let socket = daemon.home().runtime().join("new/deep/a.sock");
    let mut client = Client::connect(&socket).await;
    client.ok("new_session", json!({"cwd": daemon.home().cwd(), "model": "demo"})).await;
    client.run("hello").await;
    assert_eq!(open_to_others(&daemon.home().runtime()), Vec::<String>::new());
    assert_eq!(open_to_others(&daemon.home().state()), Vec::<String>::new());
    assert!(daemon.terminate().success());
    assert_eq!(open_to_others(&daemon.home().state()), Vec::<String>::new(), "and after the end");
}

#[tokio::test]
async fn b202_a_place_that_others_can_change_is_refused() {
    let home = Home::new();
    let elsewhere = home.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).unwrap();
    let refused = async |why: &str| {
        let end = serve(&home).await;
        let said = String::from_utf8(end.stderr).unwrap();
        assert!(!end.status.success() && said.contains(why), "{why}: {said}");
        assert!(fs::read_dir(&elsewhere).unwrap().next().is_none(), "{why}: nothing is made there");
    };
    let runtime = home.runtime();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o777)).unwrap();
    refused("is open to other users").await;
    fs::remove_dir(&runtime).unwrap();
    symlink(&elsewhere, &runtime).unwrap();
    refused("is not a directory").await;
    fs::remove_file(&runtime).unwrap();
    fs::create_dir(&runtime).unwrap();
    // Only root can make a folder that is somebody else's.
    if chown(&runtime, Some(65_534), None).is_ok() {
        refused("belongs to user 65534").await;
        chown(&runtime, Some(0), None).unwrap();
    }
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    // Instead of the socket itself: a link to something precious, and one to nothing.
    fs::write(elsewhere.join("precious"), "as it was").unwrap();
    for target in ["precious", "absent"] {
        symlink(elsewhere.join(target), home.socket()).unwrap();
        let end = serve(&home).await;
        assert!(!end.status.success(), "{target}");
        assert_eq!(fs::read_to_string(elsewhere.join("precious")).unwrap(), "as it was");
        assert!(!elsewhere.join("absent").exists());
        fs::remove_file(home.socket()).unwrap();
    }
}

#[tokio::test]
async fn b198_a_stale_socket_is_replaced_and_other_files_are_not() {
    let home = Home::new();
    drop(UnixListener::bind(home.socket()).unwrap());
    assert!(home.socket().exists(), "a socket nobody listens on");
    let mut daemon = Daemon::start(home);
    daemon.connect().await.ok("ping", json!({})).await;
    daemon.kill();
    daemon.restart();
    daemon.connect().await.ok("ping", json!({})).await;
    assert!(daemon.terminate().success());

    fs::write(daemon.home().socket(), "precious").unwrap();
    let refused = serve(daemon.home()).await;
    assert!(!refused.status.success());
    assert_eq!(fs::read_to_string(daemon.home().socket()).unwrap(), "precious", "what is no socket is never deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b200_twenty_fronts_at_once_start_one_daemon() {
    for stale in [false, true] {
        let home = Home::new();
        if stale {
            drop(UnixListener::bind(home.socket()).unwrap());
        }
        let mut fronts: Vec<_> = (0..20).map(|_| Client::stdio(&home)).collect();
        let mut pids = Vec::new();
        for front in &mut fronts {
            pids.push(front.ok("get_daemon_status", json!({})).await["pid"].as_i64().unwrap());
        }
        pids.dedup();
        assert_eq!(pids.len(), 1, "all reach the same daemon");
        assert_eq!(daemons(&home), 1);
    }
}

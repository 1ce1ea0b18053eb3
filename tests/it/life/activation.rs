//! Socket activation: systemd listens, we serve.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::harness::{Client, Home, wait_for_exit};

/// Starts a daemon as systemd does: with the listening socket as descriptor 3.
fn activate(home: &Home, listener: &UnixListener) -> Child {
    let socket = OwnedFd::from(listener.try_clone().unwrap());
    Command::new("sh")
        .args(["-c", r#"exec "$0" serve 3<&0 </dev/null"#, env!("CARGO_BIN_EXE_agentd")])
        .env_clear()
        .envs(home.env())
        .env("LISTEN_FDS", "1")
        .stdin(socket)
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn terminate(mut child: Child) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert!(wait_for_exit(&mut child, "an activated daemon").success());
}

#[tokio::test]
async fn the_socket_is_served_and_left_to_systemd() {
    let home = Home::new();
    let listener = UnixListener::bind(home.socket()).unwrap();
    fs::set_permissions(home.socket(), fs::Permissions::from_mode(0o600)).unwrap();
    let daemon = activate(&home, &listener);
    let status = Client::connect(&home.socket()).await.ok("get_daemon_status", json!({})).await;
    assert_eq!(status["pid"], daemon.id());
    assert_eq!(status["socket"], json!(home.socket()));
    terminate(daemon);
    assert!(home.socket().exists(), "the socket is systemd's");

    // A client that comes now waits for the next activation.
    let mut early = Client::connect(&home.socket()).await;
    early.request("ping", json!({})).await;
    let next = activate(&home, &listener);
    early.ok("ping", json!({})).await;
    terminate(next);
}

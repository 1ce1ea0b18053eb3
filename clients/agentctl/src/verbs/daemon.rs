//! `daemon`: starting, stopping and looking at it.

use std::path::Path;
use std::time::{Duration, Instant};

use agentd_protocol::connect::{self, ConnectError};
use agentd_protocol::methods::{DaemonStatus, Empty, GetDaemonStatus, Shutdown, ShutdownParams};
use anyhow::{Context, Result};

use crate::cli::DaemonAction;
use crate::console::Console;
use crate::exit::Exit;
use crate::link::{Link, Start};
use crate::show::clean::one_line;
use crate::show::style::{age, bytes};

/// Longest wait for a daemon that was told to stop: it aborts runs and flushes files first.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// Pause between two looks whether its process has ended.
const STOP_POLL: Duration = Duration::from_millis(5);

/// Runs the verb.
///
/// # Errors
/// There is no daemon (to stop or to look at), or it cannot be started or does not stop.
pub(crate) async fn run(console: &mut Console, action: DaemonAction) -> Result<Exit> {
    match action {
        DaemonAction::Start => start(console).await?,
        DaemonAction::Stop => stop(console).await?,
        DaemonAction::Restart => {
            match stop(console).await {
                Err(error) if is_no_daemon(&error) => {}
                other => other?,
            }
            start(console).await?;
        }
        DaemonAction::Status => status(console).await?,
    }
    Ok(Exit::Done)
}

fn is_no_daemon(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<ConnectError>(), Some(ConnectError::NoDaemon { .. }))
}

async fn start(console: &mut Console) -> Result<()> {
    let mut link = Link::open(Start::IfNeeded, console).await?;
    let status = link.call::<GetDaemonStatus>(&Empty {}).await?;
    if console.json {
        console.json_line(&status)?;
    } else {
        console.note(&first_line(&status))?;
    }
    Ok(())
}

async fn stop(console: &mut Console) -> Result<()> {
    // Its build does not matter any more: no warning.
    let socket = connect::socket_path()?;
    let stream = connect::connect(&socket)?;
    stream.set_nonblocking(true)?;
    let silent = connect::not_answering(&socket, &stream);
    let (client, _events) = agentd_protocol::client::Client::spawn(tokio::net::UnixStream::from_std(stream)?);
    let asked = tokio::time::timeout(connect::ANSWER_LIMIT, client.call::<GetDaemonStatus>(&Empty {})).await;
    let Ok(status) = asked else { return Err(silent.into()) };
    let status = status?;
    if status.running_sessions > 0 && !console.json {
        console.note(&format!("{} run(s) are aborted and recorded first", status.running_sessions))?;
    }
    let reason = ShutdownParams { reason: Some("agentctl daemon stop".to_owned()) };
    let told = tokio::time::timeout(connect::ANSWER_LIMIT, client.call::<Shutdown>(&reason)).await;
    let Ok(told) = told else { return Err(silent.into()) };
    told?;
    drop(client);
    wait_for_end(status.pid).await?;
    if !console.json {
        console.note(&format!("stopped (pid {})", status.pid))?;
    }
    Ok(())
}

/// Waits until the process has ended, so that whoever comes next meets no socket of the dead.
async fn wait_for_end(pid: u32) -> Result<()> {
    let process = Path::new("/proc").join(pid.to_string());
    let deadline = Instant::now() + STOP_LIMIT;
    while is_alive(&process) {
        if Instant::now() > deadline {
            anyhow::bail!("the daemon (pid {pid}) has not ended within {} s", STOP_LIMIT.as_secs());
        }
        tokio::time::sleep(STOP_POLL).await;
    }
    Ok(())
}

/// Tells whether a process runs; one that has ended and waits for its parent does not.
fn is_alive(process: &Path) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may hold any character.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

async fn status(console: &mut Console) -> Result<()> {
    let mut link = Link::open(Start::Never, console).await?;
    let status = link.call::<GetDaemonStatus>(&Empty {}).await.context("the daemon does not tell its status")?;
    if console.json {
        return Ok(console.json_line(&status)?);
    }
    console.line(&first_line(&status))?;
    for line in details(&status) {
        console.line(&line)?;
    }
    Ok(console.out.flush()?)
}

fn first_line(status: &DaemonStatus) -> String {
    let info = &status.server_info;
    let build = info.build.as_deref().map(|build| format!(" (build {build})")).unwrap_or_default();
    one_line(&format!("{} {}{build}, pid {}, listens on {}", info.name, info.version, status.pid, status.socket))
}

fn details(status: &DaemonStatus) -> Vec<String> {
    let up = age(i64::try_from(status.uptime_ms).unwrap_or(i64::MAX));
    let mut lines = vec![
        format!("up        {up}"),
        format!(
            "sessions  {} loaded, {} running, in {}",
            status.loaded_sessions,
            status.running_sessions,
            one_line(&status.sessions_dir)
        ),
        format!("events    {} held for replay", bytes(status.ring_bytes)),
        format!("index     {}", one_line(&status.index)),
        format!("tools     {}", confinement(&status.confinement)),
    ];
    if status.abandoned_tools > 0 {
        lines.push(format!("          {} did not stop when told and were abandoned", status.abandoned_tools));
    }
    for (at, fault) in status.config_faults.iter().enumerate() {
        let head = if at == 0 { "settings " } else { "         " };
        lines.push(format!("{head} {}", one_line(&fault.to_string())));
    }
    lines.push(format!("clients   {}", status.clients.len()));
    for client in &status.clients {
        let name = if client.name.is_empty() { "(unnamed)" } else { &client.name };
        let pid = client.pid.map(|pid| format!(" pid {pid}")).unwrap_or_default();
        let lag: u64 = client.attached.iter().map(|attachment| attachment.lag).sum();
        let behind = match (lag, client.bytes_unsent) {
            (0, 0) => String::new(),
            (lag, unsent) => format!(", {lag} events and {} behind", bytes(unsent)),
        };
        lines.push(one_line(&format!(
            "{name}{pid}, {} attached, {} sent{behind}",
            client.attached.len(),
            bytes(client.bytes_out)
        )));
        if let Some(line) = lines.last_mut() {
            line.insert_str(0, "          ");
        }
    }
    lines
}

/// Says how tools are confined.
pub(crate) fn confinement(word: &str) -> String {
    if word == "none" { "run unconfined".to_owned() } else { format!("confined by {}", one_line(word)) }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_is_a_block() {
        let status: DaemonStatus = serde_json::from_value(json!({
            "serverInfo": {"name": "agentd", "version": "0.1.0", "build": "b1"}, "pid": 7, "uptimeMs": 65_000,
            "socket": "/run/a.sock", "sessionsDir": "/s", "loadedSessions": 3, "runningSessions": 1,
            "ringBytes": 2048, "clients": [{"name": "", "pid": 9, "attached": [], "bytesOut": 10}],
            "abandonedTools": 1, "index": "ready", "confinement": "none",
            "configFaults": [{"origin": {"source": "user", "file": "/c.toml", "line": 3}, "message": "no key x"}],
        }))
        .expect("a status");
        assert_eq!(first_line(&status), "agentd 0.1.0 (build b1), pid 7, listens on /run/a.sock");
        let expected = "\
up        1m
sessions  3 loaded, 1 running, in /s
events    2.0 KiB held for replay
index     ready
tools     run unconfined
          1 did not stop when told and were abandoned
settings  /c.toml:3: no key x
clients   1
          (unnamed) pid 9, 0 attached, 10 B sent";
        assert_eq!(details(&status).join("\n"), expected);
    }

    #[test]
    fn the_dead_are_told_from_the_living() {
        assert!(is_alive(Path::new("/proc/self")));
        assert!(!is_alive(Path::new("/proc/4194305")));
    }
}

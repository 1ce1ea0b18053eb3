//! Memory, and what doing nothing costs.

use std::time::Duration;

use super::plan::Bench;
use super::session::{exchange, new_session};
use super::start;
use crate::bench::client::Client;
use crate::bench::error::BenchError;
use crate::bench::home::Daemon;
use crate::bench::process;
use crate::bench::report::Row;
use crate::bench::server::Script;

/// What a daemon does after its last client's wish is done in this time.
const REST: Duration = Duration::from_millis(1000);
/// Sessions at which the first slope is taken, and the second.
const FEW: usize = 50;
const MANY: usize = 200;

/// Memory of a daemon without and with sessions; CPU while they all do nothing; listing them.
pub(super) fn sessions(bench: &Bench<'_>) -> Result<Vec<Row>, BenchError> {
    bench.server.set(Script::word());
    let daemon = Daemon::start(bench.home, &[])?;
    let mut client = daemon.connect()?;
    let idle = rested(&daemon)?;
    // The first exchange also makes what all sessions share, such as the HTTP client.
    add_sessions(&daemon, &mut client, 1)?;
    let one = rested(&daemon)?;
    add_sessions(&daemon, &mut client, FEW - 1)?;
    let few = rested(&daemon)?;
    add_sessions(&daemon, &mut client, MANY - FEW)?;
    let many = rested(&daemon)?;
    let mut rows = vec![
        megabytes("idle memory", idle).target(12.0),
        megabytes("memory after the first exchange", one),
        slope("memory of one more idle session, 1 → 50", one, few, FEW - 1),
        slope("memory of one more idle session, 50 → 200", few, many, MANY - FEW),
        megabytes("memory with 200 sessions", many),
    ];
    if let Some(time) = bench.plan.idle_time {
        rows.push(idle_cpu(&daemon, time)?);
    }
    rows.extend(start::agentctl(bench)?);
    Ok(rows)
}

fn add_sessions(daemon: &Daemon, client: &mut Client, count: usize) -> Result<(), BenchError> {
    for _ in 0..count {
        let session = new_session(client, &daemon.home().work_dir())?;
        exchange(client, &session)?;
    }
    Ok(())
}

fn rested(daemon: &Daemon) -> Result<process::Memory, BenchError> {
    std::thread::sleep(REST);
    process::memory(daemon.pid())
}

fn megabytes(name: &str, memory: process::Memory) -> Row {
    Row::new(name, memory.pss as f64 / 1e6, "MB")
        .note(format!("PSS, of which {:.1} MB anonymous", memory.anonymous as f64 / 1e6))
}

fn slope(name: &str, before: process::Memory, after: process::Memory, sessions: usize) -> Row {
    let bytes = (after.pss as f64 - before.pss as f64) / sessions as f64;
    Row::new(name, bytes / 1e3, "kB").target(50.0).note("PSS, one exchange in each, nobody attached")
}

fn idle_cpu(daemon: &Daemon, time: Duration) -> Result<Row, BenchError> {
    let before = process::cpu_time(daemon.pid())?;
    std::thread::sleep(time);
    let used = process::cpu_time(daemon.pid())?.saturating_sub(before);
    let in_a_minute = used.as_secs_f64() * 60.0 / time.as_secs_f64();
    Ok(Row::new("idle with 200 sessions for 60 s", in_a_minute, "CPU s")
        .target(0.05)
        .note(format!("from {} s", time.as_secs())))
}

//! From a prompt to the end of its run.

use std::time::{Duration, Instant};

use agentd_protocol::methods::{Prompt, View};

use super::plan::Bench;
use super::session::{attach, new_session, prompt};
use super::start::wall;
use super::statistics::middle;
use crate::bench::error::BenchError;
use crate::bench::home::Daemon;
use crate::bench::process;
use crate::bench::report::{Row, millis};
use crate::bench::server::Script;

/// The syncs of a run with the default durability: the user message and the end of the turn.
const SYNCS: u32 = 2;
/// Target without the disk.
const TARGET_MS: f64 = 2.0;

/// Prompts that are answered with one word at once.
pub(super) fn prompts(bench: &Bench<'_>) -> Result<Vec<Row>, BenchError> {
    let name = "prompt → settled beyond the model";
    let with_disk = settled(bench, &[])?;
    let without = settled(bench, &[("AGENTD_DURABILITY", "flush")])?;
    let syncs = millis(bench.baseline.sync * SYNCS);
    Ok(vec![
        Row::ms(name, with_disk.wall)
            .target(TARGET_MS + syncs)
            .note(format!("{}; the target is 2 ms and {SYNCS} × fdatasync", wall(bench.plan.repeats))),
        Row::ms("prompt → settled beyond the model, durability flush", without.wall)
            .target(TARGET_MS)
            .note(format!("{}; nothing waits for the disk", wall(bench.plan.repeats))),
        Row::ms("  CPU of one exchange", with_disk.cpu),
    ])
}

struct Exchange {
    wall: Duration,
    cpu: Duration,
}

fn settled(bench: &Bench<'_>, env: &[(&str, &str)]) -> Result<Exchange, BenchError> {
    bench.check_interest()?;
    bench.server.set(Script::word());
    let daemon = Daemon::start(bench.home, env)?;
    let mut client = daemon.connect()?;
    let session = new_session(&mut client, &daemon.home().work_dir())?;
    attach(&mut client, &session, View::Full)?;
    let mut exchange = || {
        let started = Instant::now();
        client.send::<Prompt>(&prompt(&session))?;
        client.watch(1)?;
        Ok(started.elapsed().saturating_sub(bench.server.last_busy()))
    };
    // The first one makes the file and the connection to the model.
    exchange()?;
    let before = process::cpu_time(daemon.pid())?;
    let mut walls = (0..bench.plan.repeats).map(|_| exchange()).collect::<Result<Vec<_>, BenchError>>()?;
    let cpu = process::cpu_time(daemon.pid())?.saturating_sub(before);
    let times = u32::try_from(bench.plan.repeats).unwrap_or(u32::MAX);
    Ok(Exchange { wall: middle(&mut walls), cpu: cpu / times })
}

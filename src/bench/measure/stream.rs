//! Streaming: CPU of the daemon and bytes to its clients.

use std::time::{Duration, Instant};

use agentd_protocol::methods::{Prompt, View};

use super::plan::Bench;
use super::session::{attach, new_session, prompt};
use super::statistics::middle;
use crate::bench::client::Seen;
use crate::bench::error::BenchError;
use crate::bench::home::Daemon;
use crate::bench::process;
use crate::bench::report::{Row, millis};
use crate::bench::server::Script;

/// Deltas of one long answer.
const DELTAS: usize = 20_000;
const PER_WRITE: usize = 20;
/// A fast model: deltas in a second.
const PACE: u32 = 460;
const CLIENTS: usize = 8;
/// Many sessions at once, and the deltas of each.
const SESSIONS: usize = 50;
const SESSION_DELTAS: usize = 2_000;
/// What is left to do after a run has settled is done in this time.
const REST: Duration = Duration::from_millis(100);

/// What one stream cost.
struct Cost {
    cpu: Duration,
    /// Bytes to one client.
    bytes: u64,
    lagged: u64,
}

/// A long answer as fast as it is taken.
pub(super) fn bursts(bench: &Bench<'_>) -> Result<Vec<Row>, BenchError> {
    let daemon = Daemon::start(bench.home, &[])?;
    let script = || Script::deltas(DELTAS, PER_WRITE, None);
    let run = |view, clients| repeated(bench, bench.plan.rounds, || stream(bench, &daemon, script(), view, clients));
    // The first stream of a daemon also pays for what is made once.
    run(View::Full, 1)?;
    let [full, full_many] = [run(View::Full, 1)?, run(View::Full, CLIENTS)?];
    let [merged, merged_many] = [run(View::Coalesced, 1)?, run(View::Coalesced, CLIENTS)?];
    let seconds = |cost: &Cost| cost.cpu.as_secs_f64();
    let further = (seconds(&full_many) - seconds(&full)) / (CLIENTS - 1) as f64;
    let rounds = format!("median of {}", bench.plan.rounds);
    Ok(vec![
        Row::new("20,000 deltas in bursts, 1 client, full", seconds(&full), "CPU s")
            .target(0.10)
            .note(noted(&rounds, &full)),
        Row::new("20,000 deltas in bursts, 8 clients, full", seconds(&full_many), "CPU s")
            .note(noted(&rounds, &full_many)),
        Row::new("  each further client", further, "CPU s").target(0.02),
        Row::new("20,000 deltas in bursts, 1 client, coalesced", seconds(&merged), "CPU s")
            .note(noted(&rounds, &merged)),
        Row::new("20,000 deltas in bursts, 8 clients, coalesced", seconds(&merged_many), "CPU s")
            .note(noted(&rounds, &merged_many)),
        megabytes("bytes to a client for 20,000 deltas, full", full.bytes).target(4.6),
        megabytes("bytes to a client for 20,000 deltas in bursts, coalesced", merged.bytes).target(0.5),
    ])
}

/// A long answer at the pace of a fast model.
pub(super) fn paced(bench: &Bench<'_>) -> Result<Vec<Row>, BenchError> {
    let daemon = Daemon::start(bench.home, &[])?;
    let deltas = bench.plan.paced_deltas;
    let script = || Script::deltas(deltas, 1, Some(Duration::from_secs(1) / PACE));
    let micros = |cost: &Cost| cost.cpu.as_secs_f64() * 1e6 / deltas as f64;
    let run = |view, clients| stream(bench, &daemon, script(), view, clients);
    // The first stream of a daemon also pays for what is made once; its bytes are those of every run.
    let of_a_run = stream(bench, &daemon, Script::word(), View::Coalesced, 1)?.bytes;
    let [full, full_many] = [run(View::Full, 1)?, run(View::Full, CLIENTS)?];
    let [merged, merged_many] = [run(View::Coalesced, 1)?, run(View::Coalesced, CLIENTS)?];
    let of_deltas = merged.bytes.saturating_sub(of_a_run) * DELTAS as u64 / deltas as u64;
    let note = format!("{PACE}/s, {deltas} deltas");
    Ok(vec![
        Row::new("paced delta, 1 client, full", micros(&full), "µs CPU").note(noted(&note, &full)),
        Row::new("paced delta, 8 clients, full", micros(&full_many), "µs CPU").note(noted(&note, &full_many)),
        Row::new("paced delta, 1 client, coalesced", micros(&merged), "µs CPU")
            .target(25.0)
            .note(noted(&note, &merged)),
        Row::new("paced delta, 8 clients, coalesced", micros(&merged_many), "µs CPU").note(noted(&note, &merged_many)),
        Row::new("  8 clients as a multiple of 1", micros(&merged_many) / micros(&merged), "×").target(1.3),
        megabytes("bytes to a client for 20,000 paced deltas, coalesced", of_a_run + of_deltas)
            .target(0.5)
            .note(format!("from {deltas}")),
    ])
}

fn megabytes(name: &str, bytes: u64) -> Row {
    Row::new(name, bytes as f64 / 1e6, "MB")
}

fn noted(note: &str, cost: &Cost) -> String {
    if cost.lagged == 0 { note.to_owned() } else { format!("{note}; {} × lagged", cost.lagged) }
}

/// Returns the cost of the run with the median CPU.
fn repeated(
    bench: &Bench<'_>,
    times: usize,
    mut run: impl FnMut() -> Result<Cost, BenchError>,
) -> Result<Cost, BenchError> {
    bench.check_interest()?;
    let mut costs = (0..times).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
    costs.sort_by_key(|cost| cost.cpu);
    let at = (costs.len() - 1) / 2;
    Ok(costs.swap_remove(at))
}

/// Streams one answer to some clients.
fn stream(bench: &Bench<'_>, daemon: &Daemon, script: Script, view: View, clients: usize) -> Result<Cost, BenchError> {
    let script = bench.server.set(script);
    let mut first = daemon.connect()?;
    let session = new_session(&mut first, &daemon.home().work_dir())?;
    attach(&mut first, &session, view)?;
    let mut others = Vec::new();
    for _ in 1..clients {
        let mut client = daemon.connect()?;
        attach(&mut client, &session, view)?;
        others.push(client);
    }
    std::thread::sleep(REST);
    let before = process::cpu_time(daemon.pid())?;
    let watchers: Vec<_> = others.into_iter().map(|mut client| std::thread::spawn(move || client.watch(1))).collect();
    first.send::<Prompt>(&prompt(&session))?;
    let seen = first.watch(1)?;
    let mut lagged = seen.lagged;
    check(&seen, script.text_bytes)?;
    for watcher in watchers {
        let seen = watcher.join().map_err(|_| BenchError::Failed)??;
        lagged += seen.lagged;
        check(&seen, script.text_bytes)?;
    }
    std::thread::sleep(REST);
    let cpu = process::cpu_time(daemon.pid())?.saturating_sub(before);
    Ok(Cost { cpu, bytes: seen.bytes, lagged })
}

/// A client that was not left behind has all of the text.
fn check(seen: &Seen, wrote: u64) -> Result<(), BenchError> {
    if seen.lagged == 0 && seen.text_bytes != wrote {
        return Err(BenchError::Lost { got: seen.text_bytes, wrote });
    }
    Ok(())
}

/// Many sessions that stream at once.
pub(super) fn many_sessions(bench: &Bench<'_>) -> Result<Vec<Row>, BenchError> {
    let daemon = Daemon::start(bench.home, &[])?;
    let mut rows = at_once(bench, &daemon, 1, "to one client")?;
    rows.extend(at_once(bench, &daemon, SESSIONS, "to a client each")?);
    Ok(rows)
}

fn at_once(bench: &Bench<'_>, daemon: &Daemon, clients: usize, to: &str) -> Result<Vec<Row>, BenchError> {
    bench.check_interest()?;
    let script = bench.server.set(Script::deltas(SESSION_DELTAS, PER_WRITE, None));
    let mut connections = (0..clients).map(|_| daemon.connect()).collect::<Result<Vec<_>, _>>()?;
    let mut sessions = vec![Vec::new(); clients];
    for number in 0..SESSIONS {
        let client = &mut connections[number % clients];
        let session = new_session(client, &daemon.home().work_dir())?;
        attach(client, &session, View::Full)?;
        sessions[number % clients].push(session);
    }
    std::thread::sleep(REST);
    let before = process::cpu_time(daemon.pid())?;
    let started = Instant::now();
    let watchers: Vec<_> = connections
        .into_iter()
        .zip(sessions)
        .map(|(mut client, sessions)| {
            let mut requests = Vec::new();
            let encoded =
                sessions.iter().try_for_each(|id| client.encode::<Prompt>(&prompt(id), &mut requests).map(drop));
            std::thread::spawn(move || {
                encoded?;
                client.write(&requests)?;
                client.watch(sessions.len())
            })
        })
        .collect();
    let mut first_deltas = Vec::new();
    for watcher in watchers {
        let seen = watcher.join().map_err(|_| BenchError::Failed)??;
        check(&seen, script.text_bytes * (SESSIONS / clients) as u64)?;
        first_deltas.extend(seen.first_deltas.values().map(|at| millis(at.saturating_duration_since(started))));
    }
    let took = started.elapsed();
    std::thread::sleep(REST);
    let cpu = process::cpu_time(daemon.pid())?.saturating_sub(before);
    let worst = first_deltas.iter().copied().fold(0.0, f64::max);
    Ok(vec![
        Row::new(format!("50 sessions × 2,000 deltas {to}"), cpu.as_secs_f64(), "CPU s")
            .target(1.0)
            .note(format!("{:.1} s wall", took.as_secs_f64())),
        Row::new("  first delta, median", middle(&mut first_deltas), "ms")
            .target(50.0)
            .note("wall, from the prompts on"),
        Row::new("  first delta, last session", worst, "ms").note("wall, from the prompts on"),
    ])
}

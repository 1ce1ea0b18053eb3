//! Many requests at once on one connection.

use std::io::Write;
use std::time::Instant;

use agentd_protocol::methods::{Empty, GetState, Ping, SessionParams};

use super::plan::Bench;
use super::session::new_session;
use crate::bench::error::BenchError;
use crate::bench::home::Daemon;
use crate::bench::process;
use crate::bench::report::Row;

const REQUESTS: u64 = 3_000;

/// Writes all requests before reading an answer, and counts what does not come back in its turn.
pub(super) fn at_once(bench: &Bench<'_>) -> Result<Vec<Row>, BenchError> {
    let daemon = Daemon::start(bench.home, &[])?;
    let mut client = daemon.connect()?;
    let session = new_session(&mut client, &daemon.home().work_dir())?;
    let state = SessionParams { session_id: Some(session) };
    let mut requests = Vec::new();
    let first = client.encode::<Ping>(&Empty {}, &mut requests)?;
    for number in 1..REQUESTS {
        if number % 2 == 0 {
            client.encode::<Ping>(&Empty {}, &mut requests)?;
        } else {
            client.encode::<GetState>(&state, &mut requests)?;
        }
    }
    let before = process::cpu_time(daemon.pid())?;
    let started = Instant::now();
    let mut writer = client.try_clone_writer()?;
    // A thread of its own: the daemon stops reading while too many answers wait.
    let writing = std::thread::spawn(move || writer.write_all(&requests));
    let (mut answered, mut out_of_turn) = (0, 0);
    for number in 0..REQUESTS {
        let answer = match client.next_answer() {
            Ok(answer) => answer,
            Err(BenchError::TooSlow { .. } | BenchError::Closed) => break,
            Err(error) => return Err(error),
        };
        answered += 1;
        out_of_turn += u64::from(answer.id != Some(first + number));
    }
    let took = started.elapsed();
    writing.join().map_err(|_| BenchError::Failed)?.map_err(BenchError::io("write requests"))?;
    let cpu = process::cpu_time(daemon.pid())?.saturating_sub(before);
    Ok(vec![
        Row::new("3,000 requests at once: unanswered", (REQUESTS - answered) as f64, "").target(0.0),
        Row::new("3,000 requests at once: out of order", out_of_turn as f64, "").target(0.0),
        Row::new("  each of them", cpu.as_secs_f64() * 1e6 / REQUESTS as f64, "µs CPU")
            .note(format!("all of them {:.0} ms wall", took.as_secs_f64() * 1e3)),
    ])
}

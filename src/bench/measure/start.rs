//! From a spawn to the first answer, and the small client.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::plan::Bench;
use super::statistics::median;
use crate::bench::error::BenchError;
use crate::bench::home::{Daemon, Home};
use crate::bench::report::Row;

const FIRST_REQUEST: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\
    \"params\":{\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"},\"protocolVersion\":1}}\n";

/// An editor's way in, while a daemon runs.
pub(super) fn warm(bench: &Bench<'_>) -> Result<Vec<Row>, BenchError> {
    let _daemon = Daemon::start(bench.home, &[])?;
    let value = median(bench.plan.repeats, || first_answer(bench.home))?;
    Ok(vec![Row::ms("spawn → first answer, daemon running", value).target(10.0).note(wall(bench.plan.repeats))])
}

/// An editor's way in, while none runs: `agentd stdio` starts it.
pub(super) fn cold(bench: &Bench<'_>) -> Result<Vec<Row>, BenchError> {
    let value = median(bench.plan.repeats, || {
        let value = first_answer(bench.home)?;
        bench.home.stop_daemon()?;
        Ok(value)
    })?;
    Ok(vec![Row::ms("spawn → first answer, daemon not running", value).target(40.0).note(wall(bench.plan.repeats))])
}

/// Says how a wall figure was made.
pub(super) fn wall(times: usize) -> String {
    format!("wall, median of {times}")
}

fn first_answer(home: &Home) -> Result<Duration, BenchError> {
    let fail = || BenchError::io("talk to agentd stdio");
    let started = Instant::now();
    let mut child = home
        .command(&home.program())
        .arg("stdio")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(BenchError::io("start agentd stdio"))?;
    let answered =
        child.stdin.as_mut().zip(child.stdout.as_mut()).ok_or(BenchError::Failed).and_then(|(input, output)| {
            input.write_all(FIRST_REQUEST).map_err(fail())?;
            let mut piece = [0; 16 * 1024];
            loop {
                match output.read(&mut piece).map_err(fail())? {
                    0 => return Err(BenchError::Closed),
                    count if piece[..count].contains(&b'\n') => return Ok(started.elapsed()),
                    _ => {}
                }
            }
        });
    drop(child.stdin.take());
    child.wait().map_err(fail())?;
    answered
}

/// Listing with the small client, and its size. The daemon has sessions to list.
pub(super) fn agentctl(bench: &Bench<'_>) -> Result<Vec<Row>, BenchError> {
    let name = "agentctl ls";
    let Some(program) = beside_this_program("agentctl") else {
        return Ok(vec![Row::failed(name, "agentctl is not beside this program".to_owned())]);
    };
    let size = program.metadata().map_err(BenchError::io("look at agentctl"))?.len();
    let value = median(bench.plan.repeats, || {
        let started = Instant::now();
        let status = bench.home.command(&program).arg("ls").status().map_err(BenchError::io("start agentctl"))?;
        let took = started.elapsed();
        if status.success() {
            Ok(took)
        } else {
            Err(BenchError::Ended { log: format!("agentctl ls: {status} ({:?})", status.signal()) })
        }
    })?;
    Ok(vec![
        Row::ms(name, value).target(10.0).note(wall(bench.plan.repeats)),
        Row::new("size of agentctl", size as f64 / 1e6, "MB")
            .target(3.0)
            .note("as built; symbols included unless stripped"),
    ])
}

fn beside_this_program(name: &str) -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name(name);
    path.is_file().then_some(path)
}

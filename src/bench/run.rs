//! The command: options, signals, order and exit code.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::baseline::Baseline;
use super::error::BenchError;
use super::home::Home;
use super::measure::{Filter, Plan, measure_all};
use super::report::Report;
use super::server::ModelServer;

/// Exit code after Ctrl-C, as shells have it.
const EXIT_INTERRUPTED: u8 = 130;

/// Options of `agentd bench`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BenchOptions {
    /// Say of each measurement with a target whether it is met
    #[arg(long)]
    pub targets: bool,
    /// Repeat less and leave out what takes long
    #[arg(long)]
    pub quick: bool,
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Only the groups of measurements whose name contains this, such as "paced"
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Folder for the group "search", which is left out without one; sources of programs are what it is made for
    #[arg(long, value_name = "FOLDER")]
    pub tree: Option<PathBuf>,
}

/// Measures and prints. Returns 0 when everything could be measured, whatever came out.
pub fn run(options: &BenchOptions) -> ExitCode {
    match try_run(options) {
        Ok(code) => code,
        Err(error) => {
            say(&format!("agentd bench: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn try_run(options: &BenchOptions) -> Result<ExitCode, BenchError> {
    let fail = || BenchError::io("start");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail())?;
    // Signals are caught from here on, so that the home never stays behind.
    let mut interrupts = {
        let _inside = runtime.enter();
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal)
    };
    let home = Home::make()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    let (done_tx, done) = oneshot::channel();
    let (work_home, work_options, work_interrupted) = (home.clone(), options.clone(), Arc::clone(&interrupted));
    let work = std::thread::Builder::new().name("bench".into()).spawn(move || {
        // Nobody waits any more after an interrupt.
        let _ = done_tx.send(measure(&work_home, &work_options, &work_interrupted));
    });
    let outcome = match work {
        Err(error) => Some(Err(fail()(error))),
        Ok(_) => runtime.block_on(async {
            let [interrupt, terminate, hangup] = &mut interrupts;
            tokio::select! {
                outcome = done => Some(outcome.unwrap_or(Err(BenchError::Failed))),
                () = received(interrupt) => None,
                () = received(terminate) => None,
                () = received(hangup) => None,
            }
        }),
    };
    interrupted.store(true, Ordering::Relaxed);
    home.remove();
    let Some(report) = outcome else {
        say("agentd bench: interrupted; its daemon and files are gone");
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    };
    let report = report?;
    let mut out = io::stdout().lock();
    let written =
        if options.json { report.write_json(&mut out) } else { report.write_table(&mut out, options.targets) };
    written.map_err(BenchError::io("print the report"))?;
    Ok(if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn received(signal: &mut io::Result<tokio::signal::unix::Signal>) {
    match signal {
        Ok(signal) => drop(signal.recv().await),
        // One that cannot be caught ends the program by itself.
        Err(_) => std::future::pending().await,
    }
}

fn measure(home: &Home, options: &BenchOptions, interrupted: &AtomicBool) -> Result<Report, BenchError> {
    let server = ModelServer::start()?;
    home.write_models(&server)?;
    let plan = if options.quick { Plan::QUICK } else { Plan::FULL };
    let show = !options.json && io::stderr().is_terminal();
    let progress = |name: &str| {
        if show {
            say(&format!("measuring: {name}"));
        }
    };
    progress("baselines");
    let baseline = Baseline::measure(home)?;
    let (only, tree) = (options.only.as_deref().unwrap_or_default(), options.tree.as_deref());
    let rows = measure_all(home, &server, baseline, plan, Filter { only, tree, interrupted }, progress);
    Ok(Report::new(baseline, rows))
}

/// Tells a person something, apart from the report.
fn say(text: &str) {
    // There is nowhere else to tell it.
    let _ = writeln!(io::stderr(), "{text}");
}

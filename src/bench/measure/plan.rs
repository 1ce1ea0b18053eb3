//! What is measured, in which order and how often.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{decode, latency, memory, requests, search, start, stream};
use crate::bench::baseline::Baseline;
use crate::bench::error::BenchError;
use crate::bench::home::Home;
use crate::bench::report::Row;
use crate::bench::server::ModelServer;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Plan {
    /// How often wall times are taken.
    pub(super) repeats: usize,
    /// How often streams are played.
    pub(super) rounds: usize,
    /// Deltas of a paced stream.
    pub(super) paced_deltas: usize,
    /// Bytes of each response that is decoded.
    pub(super) decoded_bytes: usize,
    /// How long nothing is done to see what that costs.
    pub(super) idle_time: Option<Duration>,
}

impl Plan {
    /// Everything, in one to two minutes.
    pub(in crate::bench) const FULL: Self = Self {
        repeats: 20,
        rounds: 3,
        paced_deltas: 2_000,
        decoded_bytes: 100_000_000,
        idle_time: Some(Duration::from_secs(20)),
    };
    /// Everything that needs no waiting, a few times.
    pub(in crate::bench) const QUICK: Self =
        Self { repeats: 5, rounds: 1, paced_deltas: 460, decoded_bytes: 10_000_000, idle_time: None };
}

/// What of the plan is still wanted.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Filter<'a> {
    /// Only groups whose name contains this.
    pub(in crate::bench) only: &'a str,
    /// What is searched, if anything.
    pub(in crate::bench) tree: Option<&'a Path>,
    /// Set when nobody waits any more.
    pub(in crate::bench) interrupted: &'a AtomicBool,
}

/// What measurements use.
pub(super) struct Bench<'a> {
    pub(super) home: &'a Home,
    pub(super) server: &'a ModelServer,
    pub(super) baseline: Baseline,
    pub(super) plan: Plan,
    filter: Filter<'a>,
}

impl Bench<'_> {
    /// Returns the folder to be searched, if one was given.
    pub(super) fn tree(&self) -> Option<&Path> {
        self.filter.tree
    }

    /// Ends a series of measurements that nobody wants any more.
    pub(super) fn check_interest(&self) -> Result<(), BenchError> {
        if self.filter.interrupted.load(Ordering::Relaxed) { Err(BenchError::Failed) } else { Ok(()) }
    }
}

type Measurement = fn(&Bench<'_>) -> Result<Vec<Row>, BenchError>;

const MEASUREMENTS: [(&str, Measurement); 10] = [
    ("start with a daemon", start::warm),
    ("start without a daemon", start::cold),
    ("memory of sessions", memory::sessions),
    ("deltas in bursts", stream::bursts),
    ("paced deltas", stream::paced),
    ("many sessions at once", stream::many_sessions),
    ("prompt → settled", latency::prompts),
    ("many requests at once", requests::at_once),
    ("decode", decode::speed),
    ("search", search::tree),
];

/// Measures everything; `progress` is told what comes next. What cannot be measured becomes a row that says why.
pub(in crate::bench) fn measure_all(
    home: &Home,
    server: &ModelServer,
    baseline: Baseline,
    plan: Plan,
    filter: Filter<'_>,
    progress: impl Fn(&str),
) -> Vec<Row> {
    let bench = Bench { home, server, baseline, plan, filter };
    let mut rows = Vec::new();
    for (name, measure) in MEASUREMENTS.into_iter().filter(|(name, _)| name.contains(filter.only)) {
        if bench.check_interest().is_err() {
            break;
        }
        progress(name);
        rows.extend(measure(&bench).unwrap_or_else(|error| vec![Row::failed(name, error.to_string())]));
    }
    rows
}

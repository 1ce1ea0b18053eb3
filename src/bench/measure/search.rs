//! What `grep` and `find` cost, over a tree of the user's choice, without the limits that end them early.
//!
//! Done in process, so that the figures can be held against those of another program over the same tree. The first round
//! is not counted: it fills the system's cache.

use std::path::Path;
use std::time::Instant;

use super::plan::Bench;
use super::statistics::middle;
use crate::bench::error::BenchError;
use crate::bench::process;
use crate::bench::report::{Row, millis};
use crate::tools::search::{MeasureError, count_lines, count_paths};

type Count = fn(&Path, &str) -> Result<usize, MeasureError>;

/// Chosen for sources of Rust programs: nothing, little, much, and what no single literal stands for.
const SEARCHES: [(&str, Count, &str); 6] = [
    ("grep, no such line", count_lines, "no source has this [0-9] text"),
    ("grep, rare word", count_lines, "PhantomPinned"),
    ("grep, common word", count_lines, "unsafe"),
    ("grep, one of several words", count_lines, r"(Mutex|RwLock|Condvar|Barrier)::new\("),
    ("grep, no literal", count_lines, r"\b[A-Z]\w{3,8}Kind\b"),
    ("find", count_paths, "**/*.rs"),
];

/// Wall times are taken so often.
const ROUNDS: usize = 5;

/// Searches the tree, if one was given.
pub(super) fn tree(bench: &Bench<'_>) -> Result<Vec<Row>, BenchError> {
    let Some(tree) = bench.tree() else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    for (name, count, pattern) in SEARCHES {
        bench.check_interest()?;
        let mut hits = count(tree, pattern)?;
        let (mut walls, mut cpus) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (cpu, started) = (process::cpu_time(std::process::id())?, Instant::now());
            hits = count(tree, pattern)?;
            walls.push(started.elapsed());
            cpus.push(process::cpu_time(std::process::id())?.saturating_sub(cpu));
        }
        let note = format!("{hits} hits of {pattern}, {:.0} ms CPU of this program", millis(middle(&mut cpus)));
        rows.push(Row::ms(format!("search: {name}"), middle(&mut walls)).note(note));
    }
    Ok(rows)
}

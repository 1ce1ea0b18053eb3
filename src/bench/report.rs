//! The table.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::baseline::Baseline;

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// What was measured.
    pub(super) name: String,
    /// The value; absent when it could not be measured.
    pub(super) value: Option<f64>,
    /// Its unit.
    pub(super) unit: &'static str,
    /// The greatest value that meets the target, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<f64>,
    /// The least value that meets the target, where it is one of that kind.
    #[serde(skip_serializing_if = "Option::is_none", rename = "atLeast")]
    pub(super) at_least: Option<f64>,
    /// Whether it meets the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) holds: Option<bool>,
    /// How it was measured, or why it could not be.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) note: String,
}

impl Row {
    /// Makes a row without a target.
    pub(super) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value: Some(value),
            unit,
            target: None,
            at_least: None,
            holds: None,
            note: String::new(),
        }
    }

    /// Makes a row of a duration in milliseconds.
    pub(super) fn ms(name: impl Into<String>, value: Duration) -> Self {
        Self::new(name, millis(value), "ms")
    }

    /// Makes the row of something that could not be measured.
    pub(super) fn failed(name: impl Into<String>, why: String) -> Self {
        Self { name: name.into(), value: None, unit: "", target: None, at_least: None, holds: None, note: why }
    }

    /// Adds the greatest value that meets the target.
    pub(super) fn target(mut self, most: f64) -> Self {
        self.target = Some(most);
        self.holds = self.value.map(|value| value <= most);
        self
    }

    /// Adds the least value that meets the target.
    pub(super) fn at_least(mut self, least: f64) -> Self {
        self.at_least = Some(least);
        self.holds = self.value.map(|value| value >= least);
        self
    }

    /// Adds how it was measured.
    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    fn value_text(&self) -> String {
        self.value.map_or_else(|| "failed".to_owned(), |value| format!("{} {}", number(value), self.unit))
    }

    fn target_text(&self) -> String {
        match (self.target, self.at_least) {
            (Some(most), _) => format!("≤ {} {}", number(most), self.unit),
            (None, Some(least)) => format!("≥ {} {}", number(least), self.unit),
            (None, None) => String::new(),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.holds {
            Some(true) => "holds",
            Some(false) => "MISSES",
            None => "",
        }
    }
}

/// What was measured, and on what.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    build: &'static str,
    optimized: bool,
    cpus: usize,
    load_average: String,
    /// Milliseconds.
    spawn_baseline_ms: f64,
    round_trip_baseline_ms: f64,
    sync_baseline_ms: f64,
    rows: Vec<Row>,
}

impl Report {
    /// Puts a report together.
    pub(super) fn new(baseline: Baseline, rows: Vec<Row>) -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            build: agentd_protocol::version::LONG_VERSION,
            optimized: !cfg!(debug_assertions),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            load_average: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
            spawn_baseline_ms: millis(baseline.spawn),
            round_trip_baseline_ms: millis(baseline.round_trip),
            sync_baseline_ms: millis(baseline.sync),
            rows,
        }
    }

    /// Tells whether everything could be measured.
    pub(super) fn is_complete(&self) -> bool {
        self.rows.iter().all(|row| row.value.is_some())
    }

    /// Writes it as JSON, in one line.
    pub(super) fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes it for people; `verdicts` adds whether each target is met.
    pub(super) fn write_table(&self, out: &mut impl Write, verdicts: bool) -> io::Result<()> {
        writeln!(out, "agentd {}, {} CPUs, load average {}", self.build, self.cpus, self.load_average)?;
        if !self.optimized {
            writeln!(out, "THIS IS A DEBUG BUILD: its figures say nothing about the targets, which are for --release")?;
        }
        writeln!(out, "\nbaselines (wall, median)")?;
        writeln!(out, "  spawn and wait of a trivial program    {} ms", number(self.spawn_baseline_ms))?;
        writeln!(out, "  round trip over a Unix socket          {} ms", number(self.round_trip_baseline_ms))?;
        writeln!(out, "  append and fdatasync in the home       {} ms", number(self.sync_baseline_ms))?;
        writeln!(out)?;
        let width = |text: &dyn Fn(&Row) -> String, head: &str| {
            self.rows.iter().map(|row| text(row).chars().count()).max().unwrap_or(0).max(head.chars().count())
        };
        let name_width = width(&|row| row.name.clone(), "measurement");
        let value_width = width(&Row::value_text, "value");
        let target_width = width(&Row::target_text, "target");
        let mut line = |name: &str, value: &str, target: &str, verdict: &str, note: &str| {
            let verdict = if verdicts { format!("{verdict:<6}  ") } else { String::new() };
            let text = format!("{name:<name_width$}  {value:>value_width$}  {target:<target_width$}  {verdict}{note}");
            writeln!(out, "{}", text.trim_end())
        };
        line("measurement", "value", "target", "", "")?;
        for row in &self.rows {
            line(&row.name, &row.value_text(), &row.target_text(), row.verdict(), &row.note)?;
        }
        writeln!(
            out,
            "\nCPU is that of the daemon alone. Wall figures depend on what else the machine does: compare them with\n\
             the baselines. Targets are for an optimized build on a machine with two cores."
        )
    }
}

/// Returns milliseconds.
pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Writes a number with three significant digits or so.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 100.0 || value == value.trunc() => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, expected) in
            [(0.0, "0"), (0.0123, "0.012"), (1.239, "1.24"), (12.34, "12.3"), (1234.5, "1234"), (20.0, "20")]
        {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn the_table_says_what_holds() {
        let baseline = Baseline {
            spawn: Duration::from_micros(900),
            round_trip: Duration::from_micros(12),
            sync: Duration::from_millis(1),
        };
        let rows = vec![
            Row::new("a", 1.0, "MB").target(2.0).note("how"),
            Row::ms("b", Duration::from_millis(3)).target(2.0),
            Row::new("c", 5.0, "s"),
            Row::failed("d", "why".to_owned()),
            Row::new("e", 5.0, "MB/s").at_least(4.0),
        ];
        let report = Report::new(baseline, rows);
        assert!(!report.is_complete());
        let mut out = Vec::new();
        report.write_table(&mut out, true).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip_while(|line| !line.starts_with("measurement"))
            .skip(1)
            .take(5)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows,
            [
                vec!["a", "1", "MB", "≤", "2", "MB", "holds", "how"],
                vec!["b", "3", "ms", "≤", "2", "ms", "MISSES"],
                vec!["c", "5", "s"],
                vec!["d", "failed", "why"],
                vec!["e", "5", "MB/s", "≥", "4", "MB/s", "holds"],
            ]
        );
    }
}

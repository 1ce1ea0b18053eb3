//! Runs a property on many cases: a fixed number, or for as long as `AGENTD_FUZZ_SECONDS` says.

use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// Cases without a wish for more, and between two looks at the clock.
const CASES: u32 = 200;

/// Returns how long to search, where somebody wants to know more than the usual cases tell.
pub(super) fn wanted() -> Option<Duration> {
    let seconds = std::env::var("AGENTD_FUZZ_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("AGENTD_FUZZ_SECONDS is a number of seconds")))
}

/// Checks a property. A case that fails is made as small as can be and shown.
#[track_caller]
pub(super) fn search<S: Strategy>(name: &str, strategy: &S, check: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let (started, wanted) = (Instant::now(), wanted());
    let mut cases = 0_u64;
    loop {
        let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
        if let Err(error) = runner.run(strategy, &check) {
            panic!("{name}, after {cases} cases: {error}");
        }
        cases += u64::from(CASES);
        if wanted.is_none_or(|wanted| started.elapsed() >= wanted) {
            break;
        }
    }
    println!("{name}: {cases} cases in {} s", started.elapsed().as_secs());
}

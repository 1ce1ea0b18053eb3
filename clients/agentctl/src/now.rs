//! The wall clock, for ages.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns milliseconds since the epoch.
#[expect(clippy::disallowed_methods, reason = "the one place of this program that reads the clock")]
pub(crate) fn now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

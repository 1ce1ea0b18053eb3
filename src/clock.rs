//! The wall clock. Pure modules get its values passed in.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns milliseconds since the epoch; 0 on a clock set before 1970.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

/// Returns today's date in the system's time zone, `YYYY-MM-DD`.
pub fn today() -> String {
    jiff::ZonedDateTime::now().date().to_string()
}

//! Timestamps of entries: milliseconds since the epoch here, ISO 8601 in UTC with milliseconds in the file.

use jiff::Timestamp;

/// Returns the text of a time as pi writes it, such as `2026-11-30T10:08:22.614Z`.
pub fn format_timestamp(ms: i64) -> String {
    let ms = ms.clamp(Timestamp::MIN.as_millisecond() + 1, Timestamp::MAX.as_millisecond());
    let timestamp = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{timestamp:.3}")
}

/// Returns the time that a text names.
pub fn parse_timestamp(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

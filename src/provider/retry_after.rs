//! When a provider asks to be left alone, and for how long.
//!
//! Pure: the current time is passed in.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::TimeZone;

/// Waits longer than this are taken for nonsense (a date in a field that should hold seconds, an overflow).
const MAX_SENSIBLE: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// Returns how long to wait, from the headers of a response: `retry-after-ms` first (it is finer), then
/// `retry-after` in seconds (decimals too) or as a date.
///
/// `None` when neither is usable: absent, no number and no date, zero, negative, or in the past. The caller's own
/// back-off applies then; a wish for no pause at all would be a storm of requests.
pub fn retry_after<'h>(header: impl Fn(&str) -> Option<&'h str>, now_ms: i64) -> Option<Duration> {
    let millis = header("retry-after-ms").and_then(|value| number(value, 0.001));
    let wait = millis.or_else(|| header("retry-after").and_then(|value| seconds_or_date(value, now_ms)))?;
    (wait > Duration::ZERO && wait <= MAX_SENSIBLE).then_some(wait)
}

fn seconds_or_date(value: &str, now_ms: i64) -> Option<Duration> {
    number(value, 1.0).or_else(|| {
        let until = date_ms(value.trim())?.checked_sub(now_ms)?;
        u64::try_from(until).ok().map(Duration::from_millis)
    })
}

fn number(value: &str, unit_secs: f64) -> Option<Duration> {
    let value = value.trim();
    // `parse` would also take `inf`, `nan` and exponents, which no server means.
    if value.is_empty() || !value.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let secs = value.parse::<f64>().ok()? * unit_secs;
    Duration::try_from_secs_f64(secs).ok()
}

/// Reads the three date forms of HTTP (RFC 9110, section 5.6.7) and RFC 3339, which some gateways send.
fn date_ms(value: &str) -> Option<i64> {
    let imf = || rfc2822::parse(value).ok().map(|date| date.timestamp());
    let rfc3339 = || value.parse::<Timestamp>().ok();
    let rfc850 = || civil_utc("%A, %d-%b-%y %H:%M:%S GMT", value);
    let asctime = || civil_utc("%a %b %e %H:%M:%S %Y", value);
    imf().or_else(rfc3339).or_else(rfc850).or_else(asctime).map(Timestamp::as_millisecond)
}

fn civil_utc(format: &str, value: &str) -> Option<Timestamp> {
    let civil = strtime::parse(format, value).ok()?.to_datetime().ok()?;
    TimeZone::UTC.to_timestamp(civil).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 21 October 2015, 07:27:00 UTC.
    const NOW_MS: i64 = 1_445_412_420_000;

    #[track_caller]
    fn check(headers: &[(&str, &str)], expected_ms: Option<u64>) {
        let wait = retry_after(|name| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value), NOW_MS);
        assert_eq!(wait, expected_ms.map(Duration::from_millis), "{headers:?}");
    }

    #[test]
    fn seconds_decimals_and_dates() {
        for (value, expected_ms) in [
            ("2", Some(2000)),
            (" 2 ", Some(2000)),
            ("1.5", Some(1500)),
            ("0.25", Some(250)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(60_000)),
            ("Wednesday, 21-Oct-15 07:28:00 GMT", Some(60_000)),
            ("Wed Oct 21 07:28:00 2015", Some(60_000)),
            ("2015-10-21T07:28:00Z", Some(60_000)),
        ] {
            check(&[("retry-after", value)], expected_ms);
        }
    }

    #[test]
    fn what_cannot_be_used_is_none() {
        for value in [
            "",
            "soon",
            "-5",
            "0",
            "0.0",
            "1e9",
            "inf",
            "NaN",
            "1.2.3",
            "99999999999999999999999",
            "Wed, 21 Oct 2015 07:26:00 GMT",
            "Wed, 21 Oct 2015",
            "2 seconds",
        ] {
            check(&[("retry-after", value)], None);
        }
        check(&[], None);
    }

    #[test]
    fn milliseconds_win_when_usable() {
        check(&[("retry-after-ms", "300")], Some(300));
        check(&[("retry-after-ms", "300"), ("retry-after", "7")], Some(300));
        check(&[("retry-after-ms", "x"), ("retry-after", "7")], Some(7000));
    }

    proptest! {
        #[test]
        fn never_panics(value in "\\PC{0,40}|[0-9.]{0,400}") {
            let _ = retry_after(|_| Some(value.as_str()), NOW_MS);
        }
    }
}

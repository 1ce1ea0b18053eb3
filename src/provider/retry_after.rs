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
/// `retry-after` in seconds (decimals too) or as a date, then `x-ratelimit-reset-requests` and `-tokens` (OpenAI's,
/// such as `1m6.2s`) of the limit that is used up.
///
/// `None` when none is usable: absent, no number and no date, zero, negative, or in the past. The caller's own
/// back-off applies then; a wish for no pause at all would be a storm of requests.
pub fn retry_after<'h>(header: impl Fn(&str) -> Option<&'h str>, now_ms: i64) -> Option<Duration> {
    let millis = header("retry-after-ms").and_then(|value| number(value, 0.001));
    let asked = millis.or_else(|| header("retry-after").and_then(|value| seconds_or_date(value, now_ms)));
    sensible(asked.or_else(|| limit_reset(header))?)
}

fn sensible(wait: Duration) -> Option<Duration> {
    (wait > Duration::ZERO && wait <= MAX_SENSIBLE).then_some(wait)
}

/// Both limits are told with every response; what is left says which of them was met.
fn limit_reset<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Duration> {
    let reset = |limit: &str| {
        let left = header(&format!("x-ratelimit-remaining-{limit}"));
        let is_used_up = left.is_none_or(|left| left.trim().parse() == Ok(0));
        let value = header(&format!("x-ratelimit-reset-{limit}")).filter(|_| is_used_up)?;
        let (wait, rest) = span(value.trim())?;
        rest.is_empty().then_some(wait)
    };
    reset("requests").max(reset("tokens"))
}

/// Returns how long the words of an error ask to wait, such as `try again in 6.2s` or `retry after 20 seconds`.
pub fn wait_in_text(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase();
    let places = ["try again in ", "try again after ", "retry in ", "retry after "];
    let asked = places.iter().find_map(|words| text.split_once(words).and_then(|(_, rest)| span(rest)));
    sensible(asked?.0)
}

/// Reads a time span (`6.2s`, `1m30.5s`, `20 ms`, `2 minutes`, plain seconds) and returns what follows it.
fn span(text: &str) -> Option<(Duration, &str)> {
    let (mut sum, mut rest, mut found) = (Duration::ZERO, text, false);
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (figure, after) = rest.split_at(digits);
        let unit = after.trim_start_matches(' ');
        let letters = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
        let (secs, is_plain) = match &unit[..letters] {
            "ms" | "millisecond" | "milliseconds" => (0.001, false),
            "s" | "sec" | "secs" | "second" | "seconds" => (1.0, false),
            "m" | "min" | "mins" | "minute" | "minutes" => (60.0, false),
            "h" | "hour" | "hours" => (3600.0, false),
            _ => (1.0, true),
        };
        // The full stop of a sentence is none of the number.
        let Some(part) = number(figure.trim_end_matches('.'), secs).filter(|_| !(found && is_plain)) else { break };
        (sum, found) = (sum.checked_add(part)?, true);
        if is_plain {
            return Some((sum, after));
        }
        rest = &unit[letters..];
    }
    found.then_some((sum, rest))
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

    #[test]
    fn limits_tell_when_they_are_reset() {
        let reset = |limit: &'static str, value: &'static str| (limit, value);
        let (requests, tokens) = ("x-ratelimit-reset-requests", "x-ratelimit-reset-tokens");
        check(&[reset(requests, "6.2s")], Some(6200));
        check(&[reset(requests, "1s"), reset(tokens, "1m6.5s")], Some(66_500));
        check(&[reset(tokens, "120ms"), ("x-ratelimit-remaining-tokens", "0")], Some(120));
        check(&[reset(tokens, "120ms"), ("x-ratelimit-remaining-tokens", "70")], None);
        check(&[reset(tokens, "soon")], None);
        check(&[reset(tokens, "9s"), ("retry-after", "2")], Some(2000));
    }

    #[test]
    fn waits_in_words() {
        for (text, expected_ms) in [
            ("Rate limit reached. Please try again in 6.2s. Visit us", Some(6200)),
            ("try again in 1m30.5s", Some(90_500)),
            ("Please retry after 20 seconds.", Some(20_000)),
            ("Retry in 2 minutes", Some(120_000)),
            ("try again in 350ms", Some(350)),
            ("retry after 7", Some(7000)),
            ("please try again in a while", None),
            ("try again in 0s", None),
            ("slow down", None),
        ] {
            assert_eq!(wait_in_text(text), expected_ms.map(Duration::from_millis), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(value in "\\PC{0,40}|[0-9.]{0,400}") {
            let _ = retry_after(|_| Some(value.as_str()), NOW_MS);
            let _ = wait_in_text(&format!("try again in {value}"));
        }
    }
}

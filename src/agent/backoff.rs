//! Whether and when a failed request is tried again.
//!
//! Pure: the error class, the attempt number and a random number come in, a decision comes out.

use std::time::Duration;

use crate::config::RetrySettings;
use crate::provider::error::ErrorClass;

/// What to do about a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Try again after a pause.
    Retry {
        /// Number of the retry, from 1.
        attempt: u32,
        /// The pause.
        delay: Duration,
    },
    /// The error is final.
    GiveUp,
    /// The provider asks for a longer wait than is allowed: final, and worth telling when it ends.
    WaitTooLong(Duration),
}

/// Decides about a request that failed after `retries` retries. `jitter` is a random number.
///
/// The pause doubles from `base_delay`, is at least what the provider asked for, and is stretched by 1 to 25 % so
/// that many sessions do not come back at the same instant.
pub fn decide(
    settings: &RetrySettings,
    class: ErrorClass,
    retry_after: Option<Duration>,
    retries: u32,
    jitter: u32,
) -> Decision {
    if !settings.enabled || !class.is_retryable() || retries >= settings.max_retries {
        return Decision::GiveUp;
    }
    if let Some(asked) = retry_after.filter(|asked| *asked > settings.max_asked_delay) {
        return Decision::WaitTooLong(asked);
    }
    let doubled = settings.base_delay.saturating_mul(1_u32.checked_shl(retries).unwrap_or(u32::MAX));
    let base = doubled.min(settings.max_delay).max(retry_after.unwrap_or_default());
    let stretch = base / 100 + base * 24 / 100 * (jitter % 1000) / 1000;
    Decision::Retry { attempt: retries + 1, delay: base + stretch }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(class: ErrorClass, retry_after_ms: Option<u64>, retries: u32, expected: Decision) {
        let settings = RetrySettings { base_delay: Duration::from_millis(200), ..RetrySettings::default() };
        let retry_after = retry_after_ms.map(Duration::from_millis);
        assert_eq!(decide(&settings, class, retry_after, retries, 0), expected);
    }

    fn retry(attempt: u32, delay_ms: u64) -> Decision {
        Decision::Retry { attempt, delay: Duration::from_millis(delay_ms) }
    }

    #[test]
    fn pauses_double_and_end_after_three() {
        check(ErrorClass::Transient, None, 0, retry(1, 202));
        check(ErrorClass::Transient, None, 1, retry(2, 404));
        check(ErrorClass::Transient, None, 2, retry(3, 808));
        check(ErrorClass::Transient, None, 3, Decision::GiveUp);
    }

    #[test]
    fn retry_after_is_a_lower_bound_and_capped() {
        check(ErrorClass::RateLimit, Some(5_000), 0, retry(1, 5_050));
        check(ErrorClass::RateLimit, Some(10), 0, retry(1, 202));
        check(ErrorClass::RateLimit, Some(61_000), 0, Decision::WaitTooLong(Duration::from_secs(61)));
    }

    #[test]
    fn final_classes_are_not_retried() {
        for class in [ErrorClass::Quota, ErrorClass::Auth, ErrorClass::BadRequest, ErrorClass::Malformed] {
            check(class, None, 0, Decision::GiveUp);
        }
    }

    #[test]
    fn jitter_stretches_by_less_than_a_quarter() {
        let settings = RetrySettings::default();
        for jitter in [0, 1, 999, 1000, u32::MAX] {
            let Decision::Retry { delay, .. } = decide(&settings, ErrorClass::Transient, None, 0, jitter) else {
                panic!("a transient error is retried");
            };
            assert!(delay > settings.base_delay && delay < settings.base_delay * 5 / 4, "{jitter}: {delay:?}");
        }
    }
}

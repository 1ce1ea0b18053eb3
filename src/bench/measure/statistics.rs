//! Medians.

use std::time::Duration;

use crate::bench::error::BenchError;

/// Measures something some times and returns the median.
pub(in crate::bench) fn median(
    times: usize,
    mut measure: impl FnMut() -> Result<Duration, BenchError>,
) -> Result<Duration, BenchError> {
    let mut values = (0..times).map(|_| measure()).collect::<Result<Vec<_>, _>>()?;
    Ok(middle(&mut values))
}

/// Returns the median of values, the lower one of two.
pub(super) fn middle<T: Copy + Default + PartialOrd>(values: &mut [T]) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_found() {
        assert_eq!(middle(&mut [3, 1, 2]), 2);
        assert_eq!(middle(&mut [4, 1, 2, 3]), 2);
        assert_eq!(middle::<u32>(&mut []), 0);
    }
}

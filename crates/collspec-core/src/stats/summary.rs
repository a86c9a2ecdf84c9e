//! Median, mean, spread and shape of samples.
use serde::{Deserialize, Serialize};

/// The summary of a number of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub count: usize,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// The median of the samples.
    pub median: f64,
    /// The arithmetic mean of the samples.
    pub mean: f64,
    /// The standard deviation of the distribution that they are taken from (with the divisor n - 1); 0 for a single sample.
    pub deviation: f64,
    /// The largest gap between neighbours exceeds the spread on both sides of it (see `is_bimodal`).
    pub bimodal: bool,
}

impl Summary {
    /// Summarises samples; `None` without samples, or if one is not a finite number.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let sorted = sorted(samples)?;
        let (count, total) = (sorted.len() as f64, sorted.iter().sum::<f64>());
        let mean = total / count;
        let squares: f64 = sorted.iter().map(|sample| (sample - mean).powi(2)).sum();
        Some(Self {
            count: sorted.len(),
            min: *sorted.first()?,
            max: *sorted.last()?,
            median: quantile(&sorted, 0.5)?,
            mean,
            deviation: if sorted.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 },
            bimodal: is_bimodal(&sorted),
        })
    }

    /// The coefficient of variation: the standard deviation as a share of the mean. 0 if the mean is 0.
    pub fn variation(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { self.deviation / self.mean.abs() }
    }
}

/// The samples in ascending order; `None` without samples, or if one is not a finite number.
pub fn sorted(samples: &[f64]) -> Option<Vec<f64>> {
    if samples.is_empty() || samples.iter().any(|sample| !sample.is_finite()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// The value below which the fraction `q` of the samples lies, interpolated between neighbours (Hyndman and Fan, type 7). The
/// samples are in ascending order; `None` if there are none.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let at = q.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let below = *sorted.get(at.floor() as usize)?;
    let above = *sorted.get(at.ceil() as usize)?;
    Some(below + (above - below) * at.fract())
}

/// The median; `None` in the same cases as for [`sorted`].
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(&sorted(samples)?, 0.5)
}

/// The median of the distances from the median; `None` in the same cases as for [`sorted`].
pub fn median_absolute_deviation(samples: &[f64]) -> Option<f64> {
    let middle = median(samples)?;
    median(&samples.iter().map(|sample| (sample - middle).abs()).collect::<Vec<_>>())
}

/// The geometric mean of positive numbers; `None` without numbers, or with one that is not positive and finite.
pub fn geometric_mean(numbers: &[f64]) -> Option<f64> {
    if numbers.is_empty() || numbers.iter().any(|number| !number.is_finite() || *number <= 0.0) {
        return None;
    }
    Some((numbers.iter().map(|number| number.ln()).sum::<f64>() / numbers.len() as f64).exp())
}

/// Below this number of samples, their shape is not judged: of few samples some gap is always the largest.
const SHAPE_SAMPLES: usize = 5;

/// Gaps below this fraction of the median are ignored: with few samples, chance alone makes some gap the largest.
const SHAPE_GAP: f64 = 0.10;

/// True if the largest gap between neighbours exceeds the spread of the samples below it and the spread of those above it,
/// neither side is a single outlier, and the gap is at least a tenth of the median. The samples are in ascending order.
pub fn is_bimodal(sorted: &[f64]) -> bool {
    if sorted.len() < SHAPE_SAMPLES {
        return false;
    }
    let gap = |at: usize| sorted[at] - sorted[at - 1];
    let Some(split) = (1..sorted.len()).max_by(|a, b| gap(*a).total_cmp(&gap(*b))) else { return false };
    let (low, high) = sorted.split_at(split);
    let spread = |side: &[f64]| side.last().zip(side.first()).map_or(0.0, |(last, first)| last - first);
    let matters = quantile(sorted, 0.5).is_some_and(|median| gap(split) >= SHAPE_GAP * median.abs());
    matters && low.len() > 1 && high.len() > 1 && gap(split) > spread(low) && gap(split) > spread(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_as_computed_by_hand() {
        let summary = Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((summary.count, summary.min, summary.max), (4, 1.0, 4.0));
        assert_eq!((summary.median, summary.mean), (2.5, 2.5));
        assert!((summary.deviation - (5.0f64 / 3.0).sqrt()).abs() < 1e-15);
        assert!((summary.variation() - (5.0f64 / 3.0).sqrt() / 2.5).abs() < 1e-15);
        assert_eq!(Summary::of(&[7.0]).unwrap().deviation, 0.0);
        assert_eq!((Summary::of(&[]), Summary::of(&[1.0, f64::NAN])), (None, None));
        assert_eq!(Summary::of(&[0.0, 0.0]).unwrap().variation(), 0.0);
    }

    #[test]
    fn quantiles_deviation_and_means_are_as_computed_by_hand() {
        let sorted = [1.0, 2.0, 4.0, 8.0, 16.0];
        assert_eq!(
            (quantile(&sorted, 0.0), quantile(&sorted, 0.25), quantile(&sorted, 1.0)),
            (Some(1.0), Some(2.0), Some(16.0))
        );
        assert_eq!(quantile(&sorted, 0.9), Some(8.0 + 8.0 * 0.6));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(median_absolute_deviation(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
        assert!((geometric_mean(&[1.0, 4.0, 16.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!((geometric_mean(&[]), geometric_mean(&[1.0, 0.0])), (None, None));
    }

    #[test]
    fn two_groups_are_bimodal_and_one_outlier_is_not() {
        // times of small messages as an upgrade showed them: now fast, now slow
        assert!(is_bimodal(&[2.54, 2.57, 2.58, 4.04, 4.16]));
        assert!(!is_bimodal(&[4.09, 4.11, 4.12, 4.15, 4.18, 4.18]));
        assert!(!is_bimodal(&[2.54, 2.57, 2.58, 2.60, 9.0]), "an outlier is no second mode");
        assert!(!is_bimodal(&[1.0, 1.0, 5.0, 5.0]), "four samples say nothing of a shape");
        assert!(!is_bimodal(&[1.0; 9]));
        assert!(!is_bimodal(&[2.54, 2.57, 2.58, 2.74, 2.76]), "a gap of a few hundredths");
    }
}

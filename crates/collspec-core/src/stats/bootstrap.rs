//! Intervals of medians by resampling (Efron and Tibshirani, "An introduction to the bootstrap", 1993; the percentile method).
use super::{Random, median, quantile, sorted};
use serde::{Deserialize, Serialize};

/// Number of times the samples are resampled.
const DRAWS: usize = 1_000;

/// An estimate and the interval around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end of the interval.
    pub low: f64,
    /// The statistic of the samples themselves.
    pub estimate: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The median, and its interval with this confidence (0.95 for 95 %); `None` without samples, or if one is not a finite number.
/// Equal samples and seeds give equal intervals.
pub fn of_median(samples: &[f64], confidence: f64, seed: u64) -> Option<Interval> {
    let estimate = median(samples)?;
    let mut random = Random::new(seed);
    let mut drawn = vec![0.0; samples.len()];
    let mut medians = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        drawn.fill_with(|| samples.get(random.below(samples.len())).copied().unwrap_or(estimate));
        medians.push(median(&drawn)?);
    }
    let medians = sorted(&medians)?;
    let outside = (1.0 - confidence.clamp(0.0, 1.0)) / 2.0;
    Some(Interval { low: quantile(&medians, outside)?, estimate, high: quantile(&medians, 1.0 - outside)? })
}

/// For pairs: the median of the ratios of the second to the first, and its interval. `None` without pairs, or if a number is
/// not positive and finite.
pub fn of_ratio(pairs: &[(f64, f64)], confidence: f64, seed: u64) -> Option<Interval> {
    let usable = |number: f64| number.is_finite() && number > 0.0;
    let ratios = pairs.iter().map(|(first, second)| (usable(*first) && usable(*second)).then(|| second / first));
    let logarithms: Vec<f64> = ratios.map(|ratio| Some(ratio?.ln())).collect::<Option<_>>()?;
    let Interval { low, estimate, high } = of_median(&logarithms, confidence, seed)?;
    Some(Interval { low: low.exp(), estimate: estimate.exp(), high: high.exp() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_its_estimate_and_is_the_same_for_the_same_seed() {
        let samples = [10.0, 11.0, 9.5, 10.2, 10.8, 9.9, 10.1];
        let interval = of_median(&samples, 0.95, 7).unwrap();
        assert!(interval.low <= interval.estimate && interval.estimate <= interval.high, "{interval:?}");
        assert!(interval.low >= 9.5 && interval.high <= 11.0 && interval.low < interval.high, "{interval:?}");
        assert_eq!(of_median(&samples, 0.95, 7), Some(interval));
        assert_eq!(of_median(&[5.0], 0.95, 7), Some(Interval { low: 5.0, estimate: 5.0, high: 5.0 }));
        assert_eq!(of_median(&[], 0.95, 7), None);
    }

    /// The interval should contain the true median about as often as it claims.
    #[test]
    fn the_interval_covers_the_true_median() {
        let mut random = Random::new(11);
        let covered = (0..400)
            .filter(|round| {
                let samples: Vec<f64> = (0..15).map(|_| 100.0 + 5.0 * random.normal()).collect();
                let interval = of_median(&samples, 0.95, *round).unwrap();
                interval.low <= 100.0 && 100.0 <= interval.high
            })
            .count();
        assert!((360..=395).contains(&covered), "{covered} of 400");
    }

    #[test]
    fn a_ratio_is_of_pairs_and_is_the_inverse_the_other_way_round() {
        let pairs = [(10.0, 11.0), (20.0, 22.5), (10.0, 10.9), (40.0, 44.0), (10.0, 11.2)];
        let ratio = of_ratio(&pairs, 0.95, 3).unwrap();
        assert!((ratio.estimate - 1.1).abs() < 1e-12, "{ratio:?}");
        let swapped: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
        assert!((of_ratio(&swapped, 0.95, 3).unwrap().estimate - 1.0 / 1.1).abs() < 1e-12);
        assert_eq!((of_ratio(&[(0.0, 1.0)], 0.95, 3), of_ratio(&[], 0.95, 3)), (None, None));
    }
}

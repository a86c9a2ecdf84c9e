//! Rates of intermittent events: intervals, and whether two rates differ.
use crate::printable::thousands;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The confidence of every interval, for both directions combined.
const CONFIDENCE: f64 = 0.95;

/// An observed rate, and the rates that are compatible with it: the interval of Clopper and Pearson (Biometrika 26, 1934),
/// which contains the true rate with a probability of at least 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Number of times the event happened.
    pub hits: u64,
    /// Number of times it could have happened.
    pub tries: u64,
    /// The smallest rate, from 0 to 1.
    pub low: f64,
    /// The largest rate, from 0 to 1.
    pub high: f64,
}

impl Interval {
    /// The interval for `hits` in `tries`; more hits than tries count as `tries`.
    pub fn of(hits: u64, tries: u64) -> Self {
        let hits = hits.min(tries);
        let outside = (1.0 - CONFIDENCE) / 2.0;
        let low = if hits == 0 { 0.0 } else { bisect(|rate| at_least(hits, tries, rate) > outside) };
        let high = if hits == tries { 1.0 } else { bisect(|rate| at_most(hits, tries, rate) < outside) };
        Self { hits, tries, low, high }
    }

    /// The observed rate; `None` without tries.
    pub fn rate(&self) -> Option<f64> {
        (self.tries > 0).then(|| self.hits as f64 / self.tries as f64)
    }
}

/// `0 of 30: 0 %, at most 11.6 %`, `3 of 30: 10 % (2.1 % to 26.5 %)`, `30 of 30: 100 %, at least 88.4 %`.
impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hits, tries, low, high } = *self;
        write!(f, "{} of {}: ", thousands(hits), thousands(tries))?;
        match self.rate() {
            None => f.write_str("no rate"),
            Some(_) if hits == 0 => write!(f, "0 %, at most {} %", Percent(high)),
            Some(_) if hits == tries => write!(f, "100 %, at least {} %", Percent(low)),
            Some(rate) => write!(f, "{} % ({} % to {} %)", Percent(rate), Percent(low), Percent(high)),
        }
    }
}

/// A percentage with one decimal, or two if it is below one percent; without zeros at the end.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        let text = if percent < 0.95 { format!("{percent:.2}") } else { format!("{percent:.1}") };
        let text = text.trim_end_matches('0').trim_end_matches('.');
        f.write_str(if text.is_empty() { "0" } else { text })
    }
}

/// The number between 0 and 1 from which on `beyond` is true; it is false at 0 and true at 1.
fn bisect(beyond: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        if beyond(middle) { high = middle } else { low = middle }
    }
    (low + high) / 2.0
}

/// The probability of at least this many hits at this rate.
fn at_least(hits: u64, tries: u64, rate: f64) -> f64 {
    (hits..=tries).map(|k| binomial(k, tries, rate)).sum()
}

/// The probability of at most this many hits at this rate.
fn at_most(hits: u64, tries: u64, rate: f64) -> f64 {
    (0..=hits).map(|k| binomial(k, tries, rate)).sum()
}

/// The probability of exactly this many hits at a rate between 0 and 1.
fn binomial(hits: u64, tries: u64, rate: f64) -> f64 {
    (choose(tries, hits) + hits as f64 * rate.ln() + (tries - hits) as f64 * (-rate).ln_1p()).exp()
}

/// The logarithm of the number of ways to choose `k` of `n`.
fn choose(n: u64, k: u64) -> f64 {
    let factorial = |n: u64| libm::lgamma(n as f64 + 1.0);
    factorial(n) - factorial(k) - factorial(n - k)
}

/// The probability that two equal rates would differ at least as much as these (hits, tries): Fisher's exact test in both
/// directions. 1 if one of them has no tries.
pub fn fisher((hits_a, tries_a): (u64, u64), (hits_b, tries_b): (u64, u64)) -> f64 {
    let (hits_a, hits_b) = (hits_a.min(tries_a), hits_b.min(tries_b));
    let (Some(hits), Some(tries)) = (hits_a.checked_add(hits_b), tries_a.checked_add(tries_b)) else { return 1.0 };
    let all = choose(tries, hits);
    let probability = |in_a: u64| (choose(tries_a, in_a) + choose(tries_b, hits - in_a) - all).exp();
    let observed = probability(hits_a);
    // equal probabilities differ in their last bits
    let as_rare = |probability: &f64| *probability <= observed * (1.0 + 1e-7);
    let total: f64 = (hits.saturating_sub(tries_b)..=hits.min(tries_a)).map(probability).filter(as_rare).sum();
    total.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with R's `binom.test`.
    #[test]
    fn the_interval_is_that_of_the_tables() {
        let near = |(hits, tries), low: f64, high: f64| {
            let interval = Interval::of(hits, tries);
            assert!((interval.low - low).abs() < 5e-6 && (interval.high - high).abs() < 5e-6, "{interval:?}");
        };
        near((0, 30), 0.0, 0.115_703);
        near((3, 30), 0.021_117, 0.265_288);
        near((30, 30), 0.884_297, 1.0);
        near((1, 2), 0.012_579, 0.987_421);
        near((7, 20), 0.153_909, 0.592_189);
    }

    #[test]
    fn rates_are_printed_with_what_bounds_them() {
        let text = |hits, tries| Interval::of(hits, tries).to_string();
        assert_eq!(text(0, 30), "0 of 30: 0 %, at most 11.6 %");
        assert_eq!(text(3, 30), "3 of 30: 10 % (2.1 % to 26.5 %)");
        assert_eq!(text(30, 30), "30 of 30: 100 %, at least 88.4 %");
        assert_eq!(text(1, 1000), "1 of 1,000: 0.1 % (0 % to 0.56 %)");
        assert_eq!(text(0, 0), "0 of 0: no rate");
        assert_eq!(text(5, 3), "3 of 3: 100 %, at least 29.2 %");
        assert_eq!(text(0, 20_000), "0 of 20,000: 0 %, at most 0.02 %");
    }

    /// For every true rate, the interval contains it at least as often as promised: the sum of the outcomes' probabilities.
    #[test]
    fn the_interval_covers_every_rate_often_enough() {
        for tries in [1, 5, 12, 40] {
            let intervals: Vec<Interval> = (0..=tries).map(|hits| Interval::of(hits, tries)).collect();
            for rate in (1..100).map(|percent| f64::from(percent) / 100.0) {
                let covering = intervals.iter().filter(|interval| interval.low <= rate && rate <= interval.high);
                let covered: f64 = covering.map(|interval| binomial(interval.hits, tries, rate)).sum();
                assert!(covered >= CONFIDENCE - 1e-9, "{tries} tries with rate {rate}: {covered}");
            }
        }
    }

    /// Fisher's tea tasting, and values computed with R's `fisher.test`.
    #[test]
    fn fishers_test_is_that_of_the_tables() {
        let near = |a, b, p: f64| assert!((fisher(a, b) - p).abs() < 1e-6, "{a:?} {b:?}: {}", fisher(a, b));
        near((3, 4), (1, 4), 0.485_714);
        near((4, 4), (0, 4), 0.028_571);
        near((0, 30), (3, 30), 0.237_288);
        near((0, 10), (10, 10), 0.000_011);
        near((5, 5), (5, 5), 1.0);
        near((0, 0), (3, 5), 1.0);
    }

    #[test]
    fn large_numbers_of_tries_stay_exact() {
        let interval = Interval::of(1_000, 100_000);
        assert!((interval.low - 0.009_39).abs() < 1e-5 && (interval.high - 0.010_64).abs() < 1e-5, "{interval:?}");
    }
}

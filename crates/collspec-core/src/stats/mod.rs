//! Statistics of samples and of rates. Everything here is a function of its arguments: random draws come from a
//! seed, so that equal data gives equal results.

pub mod bootstrap;
use crate::num::{SPLITMIX64_STEP, splitmix64};

pub mod rates;
mod summary;

pub use summary::{Summary, geometric_mean, median, median_absolute_deviation, quantile, sorted};

/// A generator of random numbers (SplitMix64; Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let bits = splitmix64(self.0);
        self.0 = self.0.wrapping_add(SPLITMIX64_STEP);
        bits
    }

    /// A number from 0 up to, and without, `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    /// A number from 0 up to, and without, 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of the normal distribution with mean 0 and standard deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the authors' C code (Vigna, splitmix64.c) for the seed 1234567.
    #[test]
    fn the_generator_is_that_of_its_authors() {
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..5).map(|_| random.bits()).collect();
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(first, published);
    }

    #[test]
    fn numbers_lie_in_their_range_and_reach_both_ends() {
        let mut random = Random::new(1);
        let drawn: Vec<usize> = (0..1000).map(|_| random.below(3)).collect();
        assert!(drawn.iter().all(|n| *n < 3) && (0..3).all(|n| drawn.contains(&n)));
        assert_eq!(random.below(0), 0);
        let normal: Vec<f64> = (0..10_000).map(|_| random.normal()).collect();
        let summary = Summary::of(&normal).unwrap();
        assert!(summary.mean.abs() < 0.05 && (summary.deviation - 1.0).abs() < 0.05, "{summary:?}");
    }
}

//! The generator's choices: the same for the same seed, on every machine.
use collspec_core::stats::Random;

/// Choices drawn at random.
pub struct Rng(Random);

impl Rng {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// A number from 0 to `bound` - 1; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high + 1 - low)
    }

    /// Returns true with a probability of `chance` percent.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// One of a list that is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Puts a list into another order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}

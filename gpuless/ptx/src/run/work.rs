//! The work done by kernels, counted so that it does not depend on the order in which warps take turns.
use std::ops::{Add, AddAssign, Sub};

/// Work of kernels. Instructions of threads that wait for others are not counted: see [`crate::code::waits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Instructions of the text, each for every thread that was at it. Those without effect, such as `prefetch`, are not counted.
    pub instructions: u64,
    /// Bytes loaded from global memory.
    pub loaded: u64,
    /// Number of bytes stored.
    pub stored: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        // A warp subtracts the work that it repeats, perhaps before it has added it.
        self.instructions = self.instructions.wrapping_add(other.instructions);
        self.loaded = self.loaded.wrapping_add(other.loaded);
        self.stored = self.stored.wrapping_add(other.stored);
    }
}

impl Add for Work {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sub for Work {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            instructions: self.instructions.wrapping_sub(other.instructions),
            loaded: self.loaded.wrapping_sub(other.loaded),
            stored: self.stored.wrapping_sub(other.stored),
        }
    }
}

impl std::iter::Sum for Work {
    fn sum<I: Iterator<Item = Self>>(works: I) -> Self {
        works.fold(Self::default(), Add::add)
    }
}

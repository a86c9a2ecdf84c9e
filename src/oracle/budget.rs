//! What searching may cost in one case, counted in operations and not in time, so that verdicts do not depend on the machine.

/// Operations left to a case, and the memory of its searches.
#[derive(Debug)]
pub struct Budget {
    pub(super) joins: u64,
}

impl Budget {
    /// A budget of so many joins of two partial results (some nanoseconds each).
    pub fn new(joins: u64) -> Self {
        Self { joins }
    }

    /// True if it is used up.
    pub fn blown(&self) -> bool {
        self.joins == 0
    }
}

impl Default for Budget {
    /// About half a second in a release build.
    fn default() -> Self {
        Self::new(100_000_000)
    }
}

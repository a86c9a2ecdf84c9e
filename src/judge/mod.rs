//! Observation against answers, invariants, `expect`, `assert` and snapshot text: the verdict.
pub mod verdict;

pub use verdict::*;

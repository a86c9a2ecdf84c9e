//! The oracle: what may come out of a reduction, element by element, in exact arithmetic with rounding of its own.
//!
//! | lane | when | how |
//! |---|---|---|
//! | exact | no order or rounding matters | [`Reduction::exact`], [`Reduction::exact_buffer`] |
//! | admissible | up to [`SEARCH_RANKS`] ranks, or inputs that matter | cheap chains, then dynamic programming over subsets of ranks |
//! | bounded | beyond, with a proof that nothing overflows | exact result and a derived error bound |
//!
//! What NCCL may do is read off its sources; each rule names its place where it is used. It shares no reduction or rounding
//! code with soft-nccl.
mod admissible;
mod answer;
mod bound;
mod budget;
mod buffer;
mod canonical;
mod chains;
pub(crate) mod columns;
pub(crate) mod contents;
mod dyadic;
mod essential;
mod exact;
mod families;
mod fingerprint;
mod float;
pub mod forecast;
mod integer;
mod judge;
mod places;
mod poison;
mod search;
pub(crate) mod walk;
mod ways;

#[cfg(test)]
mod tests;

pub use answer::{Answer, ExactBuffer, Lane, ReduceKind, Reduction, Ruling};
pub use budget::Budget;
pub use families::FamilySet;
#[cfg(test)]
pub use families::{Rounding, Scale, Shape};
pub use fingerprint::Fingerprint;
pub use forecast::Forecast;

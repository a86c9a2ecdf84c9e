//! The oracle: the right results of a reduction, element by element, in exact arithmetic with its own rounding code.
//!
//! | lane | when | how |
//! |---|---|---|
//! | exact | no order or rounding matters | [`ColumnReduction::exact`], [`ColumnReduction::exact_buffer`] |
//! | admissible | up to `SEARCH_RANKS` ranks, or inputs that matter | cheap chains, then dynamic programming over subsets of ranks |
//! | bounded | beyond, with a proof that nothing overflows | exact result and a derived error bound |
//!
//! The rules are from NCCL's sources; each is cited where it is used. The oracle shares no reduction or rounding code with
//! soft-nccl.
mod admissible;
mod answer;

mod bound;
mod budget;
mod canonical;
mod chains;

mod dyadic;
mod element_judge;
mod exact;
mod exact_buffer;
mod families;
mod fingerprint;
mod float;
pub mod forecast;

mod integer;
pub(crate) mod interpreter;
pub(crate) mod memory;
mod neutral_inputs;
pub mod order_map;
mod parts;

mod read_checks;
pub(crate) mod reduced_buffer;
mod reduction_models;
mod regions;
pub(crate) mod rounding_elements;
mod row_exactness;
mod row_models;
mod row_reduction;
mod rows;
mod search;
pub(crate) mod undefined;
mod walk;

#[cfg(test)]
mod tests;

pub use answer::{ColumnReduction, ElementLane, ExactBuffer, JudgedElement, ReduceKind, RightResults, Ruling};
pub use budget::Budget;
pub use families::{FamilySet, Rounding, Scale, Shape};
pub use fingerprint::Fingerprint;
pub use forecast::{Checkpoint, Forecast, NotLookedAt};
pub use memory::Certainty;
pub use order_map::ResultOrder;
pub use walk::{ElementNow, Walk};

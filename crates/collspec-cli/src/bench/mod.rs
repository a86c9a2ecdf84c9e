//! Timing: the parameters, the samples, and the conclusions from them.
//!
//! Data flows one way: a sweep makes [`Row`]s, a [`Sampler`] times them in new processes for each sample, and
//! [`RowResult`] sums up a row's samples for the table, the JSON and the plot.

mod case;
pub use case::{each, scenario as case_text};
pub mod comparison;
mod counts;
mod json;
mod line;
mod operation;
mod plan;
mod plot;
mod result;
pub(crate) mod row;
mod sample;
mod sampler;
mod sweep;
mod table;

pub use counts::{NOTE as COUNTS_NOTE, write as write_counts};
pub use json::{JsonFrame, json};
pub use operation::{Operation, Reduction};
pub use plan::{Plan, Request, Roots, SIZES};
pub use plot::plot;
pub use plot::plot_sides;
pub use result::RowResult;
pub use row::Row;
pub use sample::{OverRanks, RowOutcome, RowSample};
pub use sampler::Sampler;
pub use sweep::{Sizes, Step};
pub use table::Table;

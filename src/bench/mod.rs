//! Timing: what is measured, samples of it, and what follows from them.
//!
//! The data goes one way: a [`Sweep`] makes [`Row`]s, a [`Sampler`] times them in a process group of its own for each sample, and
//! [`RowResult`] sums up a row's samples for the table, the JSON and the plot.
// The comparison of two libraries uses more of this room than `collspec bench` does.
#![cfg_attr(not(feature = "internals"), allow(dead_code, unused_imports))]

mod case;
pub mod comparison;
mod json;
mod line;
mod model;
mod operation;
mod plan;
mod plot;
mod prediction;
mod result;
mod row;
mod sample;
mod sampler;
mod sweep;
mod table;

pub use json::{JsonFrame, json};
pub use model::{Model, Shape};
pub use operation::{Operation, Reduction};
pub use plan::{Plan, Request, Roots, SIZES};
pub use plot::plot;
pub use prediction::{MOST_RANKS, Models};
pub use result::RowResult;
pub use row::Row;
pub use sample::{OverRanks, RowOutcome, RowSample};
pub use sampler::{Sampler, Timing};
pub use sweep::{Sizes, Step, Sweep, SweepError};
pub use table::Table;

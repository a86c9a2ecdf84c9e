//! Two runs of a program are compared, call by call: on two libraries, or on two schedules of one.
//!
//! | file | purpose |
//! |---|---|
//! | `calls` | what a run has done, under names that another run of the program has too |
//! | `names` | those names: processes by rank, communicators by their ranks |
//! | `changes` | what differs between two runs |
//! | `comparison` | whether anything got worse, in words |
//! | `orders` | the orders of summation behind a result that differs |
mod calls;
mod changes;
mod comparison;
mod names;
mod orders;

pub use calls::{Calls, Gathering};
pub use changes::{Changes, changes};
pub use comparison::{ProgramComparison, ProgramRun, ProgramSide, ProgramVerdict};
pub use orders::orders;

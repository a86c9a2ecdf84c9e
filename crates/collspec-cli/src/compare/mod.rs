//! Runs one corpus on two NCCL libraries: what changed, case by case, and whether anything got worse.
//!
//! | file | purpose |
//! |---|---|
//! | `side` | one of the two: a library with settings, or a recorded run |
//! | `execute` | runs the corpus on both in turn, and makes the comparison |
//! | `runs`, `repeats` | the runs of one side; differences and sporadic failures are run again |
//! | `seen` | all runs of a case on one side, counted |
//! | `change`, `classify` | the changes in a case |
//! | `library_changes`, `structures` | the changes in the library itself |
//! | `footprints`, `footprint_changes` | each library's cost for a process and effects on it, and the changes in these |
//! | `speed` | the speed of both |
//! | `work` | the work of both, where it is counted |
//! | `accepted` | changes that a file accepts |
//! | `comparison` | the complete result, and the verdict |
pub mod accepted;
mod change;
mod classify;
mod comparison;
mod execute;
mod footprint_changes;
mod footprints;
mod library_changes;
mod repeats;
pub mod report;
mod runs;
mod seen;
mod side;
pub mod speed;
mod structures;
pub mod work;

pub use change::{Change, Meaning};
pub use comparison::{Comparison, FirstFailures, GateVerdict, Row, SideSummary};
pub use execute::{Observer, Repetition, compare};
pub use footprints::measure_footprints;
pub use seen::Seen;
pub use side::{Side, SideError, SideRequest};

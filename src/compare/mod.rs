//! One corpus on two NCCL libraries: what changed, case by case, and whether anything got worse.
//!
//! | file | purpose |
//! |---|---|
//! | `side` | one of the two: a library with settings, or a recorded run |
//! | `execute` | runs the corpus on both in turn, and makes the comparison |
//! | `runs`, `repeats` | the runs of one side; what differs or comes and goes is run again |
//! | `seen` | all runs of a case on one side, counted |
//! | `change`, `classify` | what changed in a case |
//! | `library_changes`, `structures` | what changed in the library itself |
//! | `footprints`, `footprint_changes` | what each library costs a process and changes in it, and what changed in that |
//! | `speed` | how fast both are |
//! | `work` | what both do, where it is counted |
//! | `accepted` | changes that a file accepts |
//! | `comparison` | all of it, and the verdict |
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

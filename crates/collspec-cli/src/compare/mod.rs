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
//! | `tuning_changes` | what each library decides on a machine that was named |
//! | `speed` | the speed of both |
//! | `work` | the work of both, where it is counted |
//! | `limits` | bus bandwidths that a file requires |
//! | `accepted` | changes that a file accepts |
//! | `rules_file` | reads these files |
//! | `provenance` | when, where and by which program |
//! | `comparison` | the complete result |
//! | `decision` | the verdicts on results and on speed, and the headline |
//! | `coverage` | what the compared cases use of a library |
//! | `advice` | what to do, with its reasons and limits |
//! | `words` | words that reports share |
pub mod accepted;
mod advice;
mod change;
mod classify;
mod comparison;
mod coverage;
mod decision;
mod execute;
#[cfg(test)]
mod fixture;
mod footprint_changes;
mod footprints;
mod library_changes;
pub mod limits;
mod provenance;
mod repeats;
pub mod report;
mod rules_file;
mod runs;
mod seen;
mod side;
pub mod speed;
mod structures;
mod tuning_changes;
pub mod words;
pub mod work;

pub use change::{Change, Meaning};
pub use comparison::{Comparison, FirstFailures, Row, SideSummary};
pub use decision::{Decision, GateVerdict, SOFTWARE_GPUS};
pub use execute::{Observer, Repetition, USUAL_STARTS, compare};
pub use footprints::measure_footprints;
pub use provenance::Provenance;
pub use rules_file::RulesError;
pub use seen::Seen;
pub use side::{OfProgram, Side, SideError, SideRequest, schedule};

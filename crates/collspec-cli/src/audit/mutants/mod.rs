//! Finds the changes of one instruction of NCCL's kernels that a corpus notices.
//!
//! Every case runs on software GPUs as the library is, and must pass; meanwhile the instructions that it executes are noted. Then some of the
//! possible changes of these instructions are made, one at a time, and the cases that execute the instruction run with it, the cheapest first,
//! until one fails.
mod candidates;
mod choose;
mod outcome;
mod report;
mod run;

pub use outcome::{Event, Report, Request};
pub use report::{write_json_lines, write_table};
pub use run::audit_mutants;

//! collspec: collective-communication scenarios written as TOML, run on NCCL or in software, judged rank by rank.
//!
//! Data flows one way: file, scenario, plan, observation, verdict, report.
#![deny(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc)] // an interface

#[cfg(feature = "harness")]
pub mod harness;
mod interface;

#[cfg(feature = "cli")]
pub use collspec_cli::command;
pub use collspec_core::judge::{Lane, LaneResult, Outcome, Status, Subject};
pub use collspec_core::oracle::NotLookedAt;
pub use collspec_run::child::Workers;
pub use collspec_run::enter::enter_if_asked;
#[doc(hidden)]
pub use collspec_run::library::{EmbeddedLibrary, embed};
pub use collspec_suite::report::{
    CaseReport, DiagnosticReport, FindingReport, FingerprintReport, InvalidFileReport, OrderMapReport, OrderRunReport,
    Outputs, Place, RankOutput, ReportLine, RunSummary,
};
pub use collspec_suite::suite::{BackendMissing, OptionError};
pub use interface::{Counts, Error, Options, Suite};

/// Compiles the examples of the README.
#[cfg(all(doctest, feature = "harness"))]
#[doc = include_str!("../README.md")]
struct Readme;

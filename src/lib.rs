//! collspec: collective-communication scenarios written as TOML, run on NCCL or in software, judged rank by rank.
//!
//! Data flows one way: file, scenario, plan, observation, verdict, report.
#![deny(unsafe_code)]
// The command and the harness each use parts of the rooms that the other does not: a build with both finds what nothing uses.
#![cfg_attr(not(all(feature = "cli", feature = "harness")), allow(dead_code, unused_imports))]

#[cfg(feature = "cli")]
mod audit;
mod backend;
#[cfg(feature = "cli")]
mod bench;
mod child;
#[cfg(feature = "cli")]
mod cli;
mod cluster;
#[cfg(feature = "cli")]
mod compare;
mod cores;
mod enter;
mod expr;
mod files;
mod fnv;
#[cfg(feature = "cli")]
mod footprint;
#[cfg(feature = "harness")]
pub mod harness;
mod interface;
mod job;
mod judge;
mod launch;
mod library;
#[cfg(feature = "cli")]
mod minimize;
mod num;
mod ops;
mod oracle;
mod plan;
mod printable;
#[cfg(feature = "cli")]
mod record;
mod report;
mod run;
mod scenario;
mod signals;
#[cfg(feature = "cli")]
mod soak;
#[cfg(feature = "cli")]
mod stats;
mod suggest;
mod suite;
mod worker;

pub use child::Workers;
#[cfg(feature = "cli")]
pub use cli::command;
pub use enter::enter_if_asked;
pub use interface::{Counts, Error, Options, Suite};
pub use judge::{Lane, LaneResult, Outcome, Status, Subject};
pub use oracle::NotLookedAt;
pub use report::{
    CaseReport, DiagnosticReport, FindingReport, FingerprintReport, InvalidFileReport, OrderMapReport, OrderRunReport,
    Outputs, Place, RankOutput, ReportLine, RunSummary,
};
pub use suite::{BackendMissing, OptionError};

/// Compiles the examples of the README.
#[cfg(all(doctest, feature = "harness"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The modules, for this project's own tests. They are not an interface: anything here may change at any time.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    macro_rules! rooms {
        ($($room:ident)*) => {
            $(pub mod $room { pub use crate::$room::*; })*
        };
    }

    #[cfg(feature = "cli")]
    rooms! { audit bench compare record soak stats }
    rooms! { backend child expr job judge library num ops oracle plan printable report run scenario suite }
    pub use crate::enter::enter_with;
}

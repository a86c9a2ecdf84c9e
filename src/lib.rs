//! collspec: collective-communication scenarios written as TOML, run on NCCL or in software, judged rank by rank.
//!
//! Data flows one way: file, [`scenario`] case, [`plan`], observation ([`run`], [`worker`]), verdict ([`judge`]), report.
#![deny(unsafe_code)]

pub mod audit;
pub mod backend;
#[cfg(feature = "harness")]
pub mod harness;
pub mod judge;
pub mod library;
pub mod num;
pub mod ops;
pub mod oracle;
pub mod plan;
pub mod printable;
pub mod report;
pub mod run;
pub mod scenario;
mod signals;
pub mod suite;
pub mod worker;

pub use run::Workers;
pub use suite::Suite;

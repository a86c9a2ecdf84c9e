//! collspec: collective-communication scenarios written as TOML, run on NCCL or in software, judged rank by rank.
//!
//! Data flows one way: file, [`scenario`] case, [`plan`], observation ([`run`], [`worker`]), verdict ([`judge`]), report.
#![deny(unsafe_code)]

pub mod audit;
pub mod backend;
pub mod child;
mod enter;
pub mod expr;
#[cfg(feature = "harness")]
pub mod harness;
pub mod job;
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
mod suggest;
pub mod suite;
pub mod worker;

pub use child::Workers;
pub use enter::{enter_if_asked, enter_with};
pub use suite::Suite;

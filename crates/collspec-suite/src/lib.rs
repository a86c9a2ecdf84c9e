//! Sets of scenario files: opening, running and reporting their cases.
//!
//! It is not an interface: anything may change at any time. The published interface is the crate `collspec`.
#![forbid(unsafe_code)]

pub mod report;
pub mod suite;

//! The judging half of collspec: scenario files become cases, plans and required results, and observations become verdicts.
//!
//! Nothing here starts a process, reads a clock or calls NCCL. It is not an interface: anything may change at any time. The
//! published interface is the crate `collspec`.
#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("collspec runs on Linux only, as NCCL does");

pub mod cores;
pub mod files;
pub mod fnv;
pub mod num;
pub mod ops;
pub mod printable;
pub mod stats;
pub mod suggest;
pub mod expr;
pub mod job;
pub mod scenario;
pub mod plan;
pub mod image;
pub mod oracle;
pub mod judge;

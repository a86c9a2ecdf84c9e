//! Runs planned cases on NCCL libraries, in worker processes.
//!
//! It is not an interface: anything may change at any time. The published interface is the crate `collspec`.
#![deny(unsafe_code)]

pub mod backend;
pub mod child;
pub mod cluster;
pub mod enter;
pub mod job;
pub mod launch;
pub mod library;
pub mod run;
pub mod signals;
pub mod worker;

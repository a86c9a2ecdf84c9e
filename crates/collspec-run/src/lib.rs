//! Runs planned cases on NCCL libraries, in worker processes.
//!
//! It is not an interface: anything may change at any time. The published interface is the crate `collspec`.
#![deny(unsafe_code)]

mod cache_folder;
pub mod job;
pub mod child;
pub mod launch;
pub mod signals;
pub mod machines;
pub mod backend;
pub mod cluster;
pub mod library;
pub mod run;
pub mod worker;
pub mod enter;

//! The command `collspec`, and what only it does.
//!
//! It is not an interface: anything may change at any time. The published interface is the crate `collspec`.
#![deny(unsafe_code)]

pub mod audit;
pub mod bench;
mod explain;
mod explore;
mod faults;
mod fetch;
mod free_memory;
mod footprint;
mod tuning;
mod import;
mod hang;
mod minimize;
mod output_files;
mod corpus;
mod formats;
pub mod record;
pub mod compare;
mod schema;
mod select;
pub mod soak;
mod templates;
pub mod judge;
mod programs;
mod cli;

pub use cli::command;

//! The command `collspec`, and what only it does.
//!
//! It is not an interface: anything may change at any time. The published interface is the crate `collspec`.
#![deny(unsafe_code)]

pub mod audit;
pub mod bench;
mod cli;
pub mod compare;
mod corpus;
mod explain;
mod explore;
mod faults;
mod fetch;
mod footprint;
mod formats;
mod import;
mod minimize;
mod output_files;
pub mod record;
mod schema;
pub mod soak;
mod templates;

pub use cli::command;

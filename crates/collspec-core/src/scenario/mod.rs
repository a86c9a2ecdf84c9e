//! Turns scenario files into cases, or diagnostics.
//!
//! A file becomes a tree of TOML values with their spans. Each point of the matrix is applied to that tree and read as if it
//! had been written that way. Diagnostics are collected, so that a file shows all of them at once.
mod bench;
mod buffers;
pub mod case;
mod comms;
mod defaults;
pub mod diagnostic;
mod different_names;
pub mod discover;
mod elements;
mod exit_status;
mod expressions;
mod file;
mod file_keys;
mod foreign_words;
pub mod forms;
mod history;
pub mod keys;
mod load;
mod matrix;
mod members;
mod mend;
mod mend_values;
mod misplaced;
pub mod names;
mod prescan;
mod reader;
mod register;
pub mod render;
mod statements;
mod step_values;
mod steps;
mod syntax;
mod syntax_numbers;
mod tree;
mod units;
mod values;
pub mod variables;

pub use crate::expr::Expr;
pub use bench::MOST_ITERATIONS;
pub use case::*;
pub use diagnostic::{Diagnostic, SourceFile, Span, dedupe};
pub use discover::{DiscoverError, Discovered, PassedOver, ScenarioFile, find_exact, search};
pub use elements::fit_dtype;
pub use forms::FormOrigin;
pub use load::{MAX_BYTES, Rejected, load_found, parse, parse_with};
pub use names::{bad_name, file_part};
pub use render::render;
pub use units::bytes as size_in_bytes;
pub use variables::AllowEnv;
pub use {
    discover::discover,
    load::{load, read},
};

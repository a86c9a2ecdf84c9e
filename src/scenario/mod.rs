//! File to cases: a reader that keeps spans, one table of keys, expressions, the matrix, and diagnostics.
//!
//! A file becomes a raw tree that keeps every place; each point of the matrix is an overlay on that tree and is read as if
//! it had been written there; faults are collected, never thrown, so that a file shows all of them at once.
mod buffers;
pub mod case;
mod comms;
mod defaults;
pub mod diagnostic;
pub mod discover;
mod elements;
mod file;
pub mod forms;
mod header;
pub mod keys;
mod load;
mod matrix;
pub mod names;
mod prescan;
mod reader;
pub mod render;
mod statements;
mod step_values;
mod steps;
mod tree;
mod values;
pub mod variables;

pub use crate::expr::Expr;
pub use case::*;
pub use diagnostic::{Diagnostic, SourceFile, Span};
pub use discover::{DiscoverError, Discovered, PassedOver, Scenario, find_exact, search};
pub use elements::fit;
#[cfg(test)]
pub use forms::Derived;
pub use load::{MAX_BYTES, load_found, parse};
pub use render::render;
pub use variables::AllowEnv;
#[cfg(any(test, feature = "internals"))]
pub use {
    discover::discover,
    load::{Rejected, load, parse_with, read},
};

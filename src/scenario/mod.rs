//! File to cases: a reader that keeps spans, one table of keys, expressions, the matrix, and diagnostics.
pub mod case;
pub mod diagnostic;
pub mod expr;

pub use case::*;
pub use diagnostic::{Diagnostic, SourceFile, Span};
pub use expr::Expr;

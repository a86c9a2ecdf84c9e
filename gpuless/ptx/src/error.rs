//! Errors in a PTX text, with their places.
use std::fmt;
use std::sync::Arc;

/// A place in a unit of PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the unit.
    pub unit: Arc<str>,
    /// Number of the line, from 1.
    pub line: usize,
    /// Number of the character in the line, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.unit, self.line, self.column)
    }
}

/// A text that is not PTX, or PTX that this crate cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Error {
    /// The place of the error.
    pub place: Place,
    /// A description of the error.
    pub what: String,
}

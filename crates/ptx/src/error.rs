//! What is wrong with a text, and where.
use std::fmt;
use std::sync::Arc;

/// A place in a unit of PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The unit's name.
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
    /// Where it is.
    pub place: Place,
    /// What is wrong there.
    pub what: String,
}

//! The reasons for which nothing is imported.
use collspec_core::files::Refused;
use std::io;

/// Why an input does not become a scenario.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refuses.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file or folder.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{place}: {message}")]
    At {
        /// The file, and the line, byte or value in it.
        place: String,
        /// What is wrong, and what to do.
        message: String,
    },
    /// The input as a whole does not become a scenario.
    #[error("{0}")]
    Input(String),
}

impl Error {
    pub(super) fn at(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self::At { place: place.into(), message: message.into() }
    }

    pub(super) fn refused(path: &str, refused: Refused) -> Self {
        Self::Read { path: path.to_owned(), source: refused.into() }
    }
}

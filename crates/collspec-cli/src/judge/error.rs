//! The reasons for which files are not judged.
use collspec_core::files::Refused;
use std::io;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refuses.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// A line is not one that the recorder writes.
    #[error("{path}:{line}: {message}")]
    Line {
        /// The file.
        path: String,
        /// The number of the line, from 1 on.
        line: u64,
        /// What is wrong with it.
        message: String,
    },
}

impl Error {
    pub(super) fn read(path: &Path, refused: Refused) -> Self {
        Self::Read { path: path.display().to_string(), source: refused.into() }
    }
}

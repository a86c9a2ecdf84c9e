//! Errors of reading the device code of a library.
use super::header::Section;
use std::io;
use std::path::PathBuf;

/// The reason a library's fat binaries cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FatbinError {
    /// The file cannot be opened.
    #[error("{}: {error}", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// The error from the system.
        #[source]
        error: io::Error,
    },
    /// The file is not an ELF file.
    #[error("it is not a 64-bit little-endian ELF file: {0}")]
    NotElf(String),
    /// It is a library, but not one with device code.
    #[error("it carries no device code: it has neither a section {} nor {}", Section::Linked, Section::Whole)]
    NoDeviceCode,
    /// A fat binary does not have the expected format.
    #[error("device code in {section} at {offset:#x}: {what}")]
    Damaged {
        /// The section with the error.
        section: Section,
        /// Offset of the error in the section, in bytes.
        offset: u64,
        /// A description of the error.
        what: String,
    },
}

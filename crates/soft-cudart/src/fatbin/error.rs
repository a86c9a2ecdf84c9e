//! Why the device code of a library cannot be had.
use super::header::Section;
use std::io;
use std::path::PathBuf;

/// Why a library's fat binaries cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FatbinError {
    /// The file cannot be opened.
    #[error("{}: {error}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// What was opened is something else.
    #[error("it is not a 64-bit little-endian ELF file: {0}")]
    NotElf(String),
    /// It is a library, but not one with device code.
    #[error("it carries no device code: it has neither a section {} nor {}", Section::Linked, Section::Whole)]
    NoDeviceCode,
    /// A fat binary is not as it has to be.
    #[error("device code in {section} at {offset:#x}: {what}")]
    Damaged {
        /// The section.
        section: Section,
        /// Where in the section, in bytes.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
}

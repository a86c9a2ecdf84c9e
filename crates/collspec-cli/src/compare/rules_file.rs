//! Files of rules for a comparison: TOML, whose mistakes are told with their places.
use collspec_core::files;
use collspec_core::scenario::{SourceFile, Span};
use collspec_suite::report::source_place::path_line_column;
use serde::de::DeserializeOwned;
use std::io;
use std::ops::Range;
use std::path::Path;
use thiserror::Error;

/// Bytes of the largest file that is read.
const MAX_FILE: u64 = 4 << 20;
/// Number of wrong entries that are shown.
const MAX_SHOWN: usize = 20;

/// The reason a file of rules cannot be used.
#[derive(Debug, Error)]
pub enum RulesError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// Path of the file.
        path: String,
        /// The error from the system.
        source: io::Error,
    },
    /// Entries are wrong, or match nothing.
    #[error("{}", .0.join("\n"))]
    Entries(Vec<String>),
}

/// Reads a file.
///
/// # Errors
///
/// The file cannot be read.
pub fn read(path: &Path) -> Result<SourceFile, RulesError> {
    let name = path.display().to_string();
    let text = files::read_text(path, MAX_FILE)
        .map_err(|refused| RulesError::Read { path: name.clone(), source: refused.into() })?;
    Ok(SourceFile { path: name, text: text.into() })
}

/// The content of a file.
///
/// # Errors
///
/// The file is not TOML, or has other keys or values than `T`.
pub fn parse<T: DeserializeOwned>(file: &SourceFile) -> Result<T, RulesError> {
    toml::from_str(&file.text).map_err(|error| {
        let message = error.message().to_owned();
        at_places(file, &[(error.span().unwrap_or_default(), message)])
    })
}

/// The mistakes in entries with their places; if there are many, the first ones.
pub fn at_places(file: &SourceFile, faults: &[(Range<usize>, String)]) -> RulesError {
    RulesError::Entries(lines_at(file, faults))
}

/// The lines of [`at_places`].
pub fn lines_at(file: &SourceFile, faults: &[(Range<usize>, String)]) -> Vec<String> {
    let place = |range: &Range<usize>| path_line_column(file, Span { start: range.start, end: range.end });
    let mut lines: Vec<String> =
        faults.iter().take(MAX_SHOWN).map(|(range, why)| format!("{}: {why}", place(range))).collect();
    if let Some(more) = faults.len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
        lines.push(format!("and {more} more"));
    }
    lines
}

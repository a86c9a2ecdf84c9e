//! Reads a recording.
use super::{Closing, FORMAT, Header, MAX_LINE, RecordedCase, Recording};
use collspec_core::files;
use serde::Deserialize;
use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use thiserror::Error;

/// The reason a file cannot be read as a recording.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// Path of the file.
        path: String,
        /// The error from the system.
        source: io::Error,
    },
    /// The file is not a recording.
    #[error(
        "{0} is not a recording: the first line of a file that `collspec run --record` writes has `collspec_recording`"
    )]
    NoRecording(String),
    /// A later version of this program wrote it.
    #[error("{path} is a recording of format {format}; this version of collspec reads formats up to {FORMAT}")]
    TooNew {
        /// Path of the file.
        path: String,
        /// The file's format version.
        format: u32,
    },
    /// A line has an error.
    #[error("{path}, line {line}: {why}")]
    Line {
        /// Path of the file.
        path: String,
        /// The line's number, from 1.
        line: usize,
        /// The error in the line.
        why: String,
    },
}

/// The member by which the first line is known.
#[derive(Deserialize)]
struct Mark {
    collspec_recording: u32,
}

/// A line after the header.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Case(Box<RecordedCase>),
    Closing(Closing),
}

/// True if the file's first line is that of a recording, of any format.
pub fn is_recording(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = files::open(path).map_err(io::Error::from).and_then(|file| file.take(64).read_to_end(&mut start));
    // The header's first member; every format begins with it.
    read.is_ok() && start.starts_with(b"{\"collspec_recording\":")
}

/// Reads a recording.
///
/// # Errors
///
/// The file cannot be read, is not a recording, or has a later format.
pub fn read(path: &Path) -> Result<Recording, ReadError> {
    let name = path.display().to_string();
    let file = files::open(path).map_err(|refused| ReadError::File { path: name.clone(), source: refused.into() })?;
    from_lines(BufReader::new(file), &name)
}

pub(super) fn from_lines(mut from: impl BufRead, name: &str) -> Result<Recording, ReadError> {
    let path = || name.to_owned();
    let wrong = |line: usize, why: String| ReadError::Line { path: path(), line, why };
    let first = next_line(&mut from, name, 1)?.unwrap_or_default();
    let mark: Mark = serde_json::from_slice(&first).map_err(|_| ReadError::NoRecording(path()))?;
    if !(1..=FORMAT).contains(&mark.collspec_recording) {
        return Err(ReadError::TooNew { path: path(), format: mark.collspec_recording });
    }
    let header: Header = serde_json::from_slice(&first).map_err(|error| wrong(1, error.to_string()))?;
    let (mut cases, mut names, mut closing) = (Vec::<RecordedCase>::new(), HashSet::new(), None);
    let mut number = 1;
    while let Some(line) = next_line(&mut from, name, number + 1)? {
        number += 1;
        if closing.is_some() {
            return Err(wrong(number, "there is a line after the closing line".to_owned()));
        }
        let cut_short = !line.ends_with(b"\n");
        match serde_json::from_slice(&line) {
            Ok(Line::Case(case)) => {
                if !names.insert(case.case.clone()) {
                    return Err(wrong(number, format!("the case `{}` is here twice", case.case.escape_debug())));
                }
                cases.push(*case);
            }
            Ok(Line::Closing(last)) if last.recorded == cases.len() => closing = Some(last),
            Ok(Line::Closing(last)) => {
                let why = format!("the closing line speaks of {} cases, but there are {}", last.recorded, cases.len());
                return Err(wrong(number, why));
            }
            // The program was killed while it wrote this line.
            Err(_) if cut_short => break,
            Err(_) => return Err(wrong(number, line_error(&line))),
        }
    }
    Ok(Recording { header, cases, closing })
}

/// The error in a line that should be a case. The error of the untagged enum does not name the wrong member.
fn line_error(line: &[u8]) -> String {
    match serde_json::from_slice::<RecordedCase>(line) {
        Err(error) => error.to_string(),
        Ok(_) => "neither a case nor the closing line".to_owned(),
    }
}

/// The next line with its end; `None` at the end of the file.
fn next_line(from: &mut impl BufRead, name: &str, number: usize) -> Result<Option<Vec<u8>>, ReadError> {
    let mut line = Vec::new();
    let read = from.take(MAX_LINE).read_until(b'\n', &mut line);
    read.map_err(|source| ReadError::File { path: name.to_owned(), source })?;
    if line.len() as u64 == MAX_LINE {
        let why = format!("longer than {} MiB", MAX_LINE >> 20);
        return Err(ReadError::Line { path: name.to_owned(), line: number, why });
    }
    Ok((!line.is_empty()).then_some(line))
}

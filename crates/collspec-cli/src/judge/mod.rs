//! Copies of a program's inputs and outputs, as `collspec judge` has the recorder write them, are matched over the ranks and judged by the oracle.
//!
//! The files are a stranger's input: they are read in steps, side by side, and of a job of any length only the calls that are not whole yet
//! are kept.
mod call;
mod error;
mod files;
mod line;
mod matching;
mod rule;
mod scenario;
mod tally;

pub use call::{Call, Key, Op, Side};
pub use error::Error;
pub use matching::{Launch, NOT_ENDED, REFUSED, Watch};
pub use rule::{Elements, Member, Place, columns, reduction, shown};
pub use tally::Tally;

use matching::Matcher;
use std::path::PathBuf;

/// Reads the files of a job and judges what is in them. `watch` is told of each call.
///
/// # Errors
///
/// A file cannot be read, or is not what the recorder writes.
pub fn judge(paths: &[PathBuf], watch: Option<&mut dyn Watch>) -> Result<Tally, Error> {
    let mut matcher = Matcher::watched(watch);
    files::read(paths, &mut |line| matcher.line(line))?;
    Ok(matcher.end())
}

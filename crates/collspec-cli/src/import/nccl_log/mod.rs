//! NCCL's log becomes a scenario: the different calls in it, or the program of all ranks.
//!
//! The log is read line by line, and only what differs is kept.
mod bench;
mod build;
mod collect;
mod line;
mod period;
mod place;
mod processes;
mod read;
mod rounds;
mod streams;
#[cfg(test)]
mod tests;
mod unique;
mod world;

use super::{Error, Imported};
use collect::Collector;
use std::path::PathBuf;

/// What is made of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every different call, as a variant.
    Unique {
        /// Add a table `[bench]` of the most frequent calls.
        bench: bool,
    },
    /// The program in its order.
    Rounds,
}

/// Reads the logs of a job. `progress` gets the number of bytes read so far, now and then.
///
/// # Errors
///
/// A file cannot be read, the log does not say what is needed, or there is more in it than a scenario can have.
pub fn import(files: &[PathBuf], form: Form, progress: &mut dyn FnMut(u64)) -> Result<Imported, Error> {
    let mut collector = Collector::new(form == Form::Rounds);
    read::read_files(files, &mut collector, progress)?;
    build::build(&collector, files, form)
}

//! The dumps of PyTorch's Flight Recorder become the program of all ranks, up to where it stood still.
mod build;
mod comment;
mod dump;
mod entry;
mod files;
mod groups;
mod json;
mod launches;
mod lost;
mod pickle;
mod pieces;
mod remembered;
mod restart;
#[cfg(test)]
mod tests;
mod value;

pub use dump::Dump;
pub use entry::{Stack, State};
pub use files::{DumpFile, files, rank_of};
pub use launches::{AllToAlls, Launch, Unfit};
pub use remembered::{Remembered, remembered};
pub use restart::{newer_of_rank, newest};

use super::source::Source;
use super::{Error, Imported};

/// Reads dumps. `last` steps are kept before the first one that was not completed; with `hang` the scenario says that it hangs.
///
/// # Errors
///
/// A file cannot be read or is not a dump, or there is more in them than a scenario can have.
pub fn import(files: &[DumpFile], last: usize, hang: bool) -> Result<Imported, Error> {
    let dumps = files.iter().map(dump::read).collect::<Result<Vec<_>, Error>>()?;
    let (dumps, older) = restart::newest(dumps)?;
    let files: Vec<DumpFile> =
        files.iter().filter(|file| dumps.iter().any(|dump| dump.rank == file.rank)).cloned().collect();
    let mut imported = build::build(&files, dumps, last, hang)?;
    older.iter().for_each(|remark| imported.tell(remark));
    Ok(imported)
}

/// Reads the dump of a rank.
///
/// # Errors
///
/// It cannot be read, or is not a dump.
pub fn read(rank: usize, source: &Source) -> Result<Dump, Error> {
    dump::read_from(rank, source)
}

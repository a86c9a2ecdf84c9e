//! NCCL libraries: those of this machine, the functions of each, and which one a run takes.
//!
//! No library is loaded into the process that asks: each is opened by a child, which may crash ([`probe`]).
mod cache;
mod candidates;
mod choose;
mod embedded;
mod private_folder;
mod probe;
pub mod program;
pub mod standin;
mod version;

pub use crate::cache_folder::{NoCacheFolder, cache_folder, programs_folder};
pub use cache::{CudaRelease, LibraryCache, Wanted};
pub use candidates::{Candidate, LibrarySource, SearchPlaces, candidates};
pub use choose::{ChooseError, ChosenLibrary, choose};
pub use embedded::{EmbeddedLibrary, embed, unpack_files};
pub use probe::{LibraryInfo, ProbeError, enter_if_asked, probe, probe_within};
pub(crate) use program::{absolute_folders, loader_path};

use crate::child::Workers;
use std::path::PathBuf;

/// A library that was found, with its version and functions.
#[derive(Debug)]
pub struct FoundLibrary {
    /// The file, with links resolved.
    pub path: PathBuf,
    /// The place in which it was found first.
    pub source: LibrarySource,
    /// Its version and functions, or why it cannot be used.
    pub probed: Result<LibraryInfo, ProbeError>,
}

/// Every NCCL library in the places where this machine keeps libraries, the preferred ones first. `workers` says which
/// program asks them (the same that can be a worker).
pub fn find_libraries(workers: &Workers) -> Vec<FoundLibrary> {
    find_some(workers, |_| true)
}

/// The same for those that may be the right ones. The others are not opened.
fn find_some(workers: &Workers, may_be: impl Fn(&Candidate) -> bool) -> Vec<FoundLibrary> {
    let ask = |candidate: Candidate| FoundLibrary {
        probed: probe(&candidate.path, workers),
        path: candidate.path,
        source: candidate.source,
    };
    candidates(&SearchPlaces::of_this_machine()).into_iter().filter(may_be).map(ask).collect()
}

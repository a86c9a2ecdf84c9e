//! NCCL libraries: which ones this machine has, what each can do, and how another one comes here.
//!
//! No library is loaded into the process that asks: each is opened by a child, which may crash ([`probe`]).
mod cache;
mod choose;
#[cfg(feature = "cli")]
mod fetch;
mod places;
mod probe;
mod program;
mod version;
#[cfg(feature = "cli")]
mod wheel;

pub use cache::{Cache, Cuda};
pub use choose::choose;
#[cfg(feature = "internals")]
pub use choose::{ChooseError, Chosen};
#[cfg(feature = "cli")]
pub use fetch::{fetch, is_version};
pub use places::{Candidate, Machine, Source, candidates};
#[cfg(feature = "internals")]
pub use probe::probe_within;
pub use probe::{ProbeError, Probed, enter_if_asked, probe};
pub(crate) use program::{absolute, loader_path};

use crate::child::Workers;
use std::path::PathBuf;

/// A library that was found, and what it said when it was asked.
#[derive(Debug)]
pub struct Found {
    /// The file, with links resolved.
    pub path: PathBuf,
    /// Where it was seen first.
    pub source: Source,
    /// Its version and functions, or why it has none to offer.
    pub probed: Result<Probed, ProbeError>,
}

/// Every NCCL library in the places where this machine keeps libraries, in the order in which they would be taken.
/// `workers` says which program asks them (the same that can be a worker).
pub fn find(workers: &Workers) -> Vec<Found> {
    let ask = |candidate: Candidate| Found {
        probed: probe(&candidate.path, workers),
        path: candidate.path,
        source: candidate.source,
    };
    candidates(&Machine::this()).into_iter().map(ask).collect()
}

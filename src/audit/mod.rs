//! Which faults a corpus notices: its cases are run on the software library made wrong in every known way, and what they
//! caught is judged again by judges that are wrong themselves.
//!
//! First every case runs soundly: it must pass, and the library says which faults would have changed something. Then each
//! case runs under each fault that it meets. A case that fails under a fault has caught it; what the failing run left
//! behind is shown to every flawed judge, and one that passes it is caught as well.
pub mod cover;
pub mod peers;
pub mod report;
mod run;
mod select;
mod sight;
mod tally;
mod way;

#[cfg(test)]
mod tests;

pub use run::{Bench, SoundFailure, Step};
pub use select::{Item, NoSelection, Selection};
pub use tally::{FileRow, ItemRow, Report};
pub use way::{Ours, Way};

use crate::run::PoolLimits;
use crate::suite::Suite;
use crate::suite::{RunOptions, Runner};
use std::io;
use std::num::NonZeroUsize;
use thiserror::Error;

/// How many cases are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Under each fault, a file's cases until two have caught it: which files catch what is exact, how many cases do is
    /// a lower bound.
    #[default]
    Files,
    /// Every case under every fault that it meets.
    Cases,
    /// Under each fault, cases of all files in turn until 20 have caught it: both are lower bounds.
    Quick,
}

impl Depth {
    /// Cases that catch a fault, in a file or in all, after which no more are run under it.
    fn enough(self) -> usize {
        match self {
            Self::Files => 2,
            Self::Cases => usize::MAX,
            Self::Quick => 20,
        }
    }
}

/// Idle processes: as many as files have environments, so that none has to be started again for the next case. Cases in
/// processes have several to a worker.
const PROCESSES: usize = 192;
/// Bytes of idle workers' arenas.
const ARENAS: u64 = 1 << 30;

/// How an audit is done.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Which faults and flaws.
    pub selection: Selection,
    /// How many cases are run.
    pub depth: Depth,
    /// Runs at a time.
    pub jobs: usize,
}

/// Why there is no report.
#[derive(Debug, Error)]
pub enum Error {
    /// Files have faults; nothing was run.
    #[error("{} with faults; nothing was run", crate::suite::files_in_words(*.0))]
    Faults(usize),
    /// Nothing to run.
    #[error("there is nothing to run")]
    Empty,
    /// Cases fail where nothing is wrong with the library.
    #[error("{} without any fault, so it cannot be said what they catch", failing(.0))]
    Unsound(Vec<SoundFailure>),
    /// The runner could not be set up.
    #[error("cannot run cases")]
    Runner(#[from] crate::run::Error),
    /// Whoever listens to the steps has gone.
    #[error("cannot tell how far the audit is")]
    Told(#[from] io::Error),
}

fn failing(failures: &[SoundFailure]) -> String {
    match failures {
        [one] => format!("`{}` fails", one.verdict.case),
        more => format!("{} cases fail", more.len()),
    }
}

/// Audits the suite's cases on the software library; `options` say which program is started as a worker and how long a
/// case may take. `tell` hears of every step, on the calling thread.
pub fn audit(
    suite: &Suite,
    way: &dyn Way,
    options: RunOptions,
    settings: &Settings,
    tell: impl FnMut(&Step) -> io::Result<()>,
) -> Result<Report, Error> {
    if !suite.faults.is_empty() {
        return Err(Error::Faults(suite.faults.len()));
    }
    if suite.cases.is_empty() {
        return Err(Error::Empty);
    }
    let jobs = settings.jobs.max(1);
    let limits = PoolLimits { workers: PROCESSES, processes: PROCESSES, bytes: ARENAS };
    let runner = Runner::soft(RunOptions { jobs: NonZeroUsize::new(jobs), ..options })?.with_pool_limits(limits);
    audit_on(suite, way, &runner, settings, tell)
}

/// The same on whatever runs the cases.
pub fn audit_on(
    suite: &Suite,
    way: &dyn Way,
    bench: &dyn Bench,
    settings: &Settings,
    tell: impl FnMut(&Step) -> io::Result<()>,
) -> Result<Report, Error> {
    let mut cases = suite.cases.clone();
    cases.extend(way.own());
    let outcomes = run::run(&cases, way, bench, settings, tell)?;
    let mut report = tally::report(way, settings, outcomes);
    if way.errs() {
        // its judge is not this project's, nor are that one's flaws
        report.items.retain(|row| matches!(row.item, Item::Fault(_)));
    }
    Ok(report)
}

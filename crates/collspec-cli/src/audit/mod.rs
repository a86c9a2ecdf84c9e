//! Finds the faults of the library and the flaws of the judge that a corpus catches.
//!
//! First every case runs without a fault: it must pass, and the library reports which faults would have changed something.
//! Then each case runs with each of these faults. A case that fails with a fault has caught it. Its observations are judged
//! again with each flaw of the judge, and a flaw with which the case passes is caught as well.
mod baseline;
pub mod cover;
mod detected_by;
mod flaw;
pub mod examples;
pub mod mutants;
mod repair;
pub mod report;
mod run;
mod select;
mod tally;

#[cfg(test)]
mod flaw_tests;
#[cfg(test)]
mod tests;

pub use baseline::{AtLeast, Baseline};
pub use flaw::Flaw;
pub use run::{AuditEvent, CaseRunner, SoundFailure};
pub use select::{FaultOrFlaw, Selection, UnknownId};
pub use tally::{AuditReport, FileRow, ItemRow};

use collspec_run::run::PoolLimits;
use collspec_suite::suite::CaseSet;
use collspec_suite::suite::{RunOptions, Runner};
use std::io;
use std::num::NonZeroUsize;
use thiserror::Error;

/// Number of cases that are run with each fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// With each fault, a file's cases until two have caught it: which files catch it is exact, the number of cases is a
    /// lower bound.
    #[default]
    Files,
    /// Every case with every fault that it reaches.
    Cases,
    /// With each fault, cases of all files in turn until 20 have caught it: both are lower bounds.
    Quick,
}

impl Depth {
    /// Number of cases that catch a fault, in a file or in all, after which no more are run with it.
    fn max_catches(self) -> usize {
        match self {
            Self::Files => 2,
            Self::Cases => usize::MAX,
            Self::Quick => 20,
        }
    }
}

/// Idle processes that are kept: enough for the environments of all files, so that few are started again. Cases with
/// `placement = "processes"` have several per worker.
const MAX_IDLE_PROCESSES: usize = 192;
/// Bytes of idle workers' arenas.
const MAX_IDLE_BYTES: u64 = 1 << 30;

#[derive(Clone, Debug, Default)]
pub struct AuditSettings {
    /// The faults and flaws.
    pub selection: Selection,
    /// Number of cases that are run with each fault.
    pub depth: Depth,
    /// Number of cases that run at a time.
    pub jobs: usize,
}

/// An audit that has no report.
#[derive(Debug, Error)]
pub enum AuditError {
    /// Files are invalid; nothing was run.
    #[error("errors in {}; nothing was run", collspec_suite::suite::files_in_words(*.0))]
    InvalidFiles(usize),
    /// There are no cases to audit.
    #[error("there are no cases to run")]
    Empty,
    /// Cases fail on the library without a fault.
    #[error("{} on the library without a fault, so the audit cannot tell what they catch; correct them first", failing_cases(.0))]
    FailsWithoutFault(Vec<SoundFailure>),
    /// The runner could not be set up.
    #[error("cannot run cases")]
    Runner(#[from] collspec_run::run::Error),
    /// Reporting an event failed.
    #[error("cannot report the audit's progress")]
    Progress(#[from] io::Error),
}

fn failing_cases(failures: &[SoundFailure]) -> String {
    match failures {
        [one] => format!("`{}` fails", one.verdict.case),
        more => format!("{} cases fail", more.len()),
    }
}

/// Audits the suite's cases on the software library; `options` say which program is started as a worker and how long a
/// case may take. `report_event` is called for every event, on the calling thread.
///
/// # Errors
///
/// Invalid files, no cases, cases that fail without a fault, a runner that cannot be set up, or an error of `report_event`.
pub fn audit(
    suite: &CaseSet,
    options: RunOptions,
    settings: &AuditSettings,
    report_event: impl FnMut(&AuditEvent) -> io::Result<()>,
) -> Result<AuditReport, AuditError> {
    if !suite.invalid_files.is_empty() {
        return Err(AuditError::InvalidFiles(suite.invalid_files.len()));
    }
    if suite.cases.is_empty() {
        return Err(AuditError::Empty);
    }
    let jobs = settings.jobs.max(1);
    let limits = PoolLimits { workers: MAX_IDLE_PROCESSES, processes: MAX_IDLE_PROCESSES, bytes: MAX_IDLE_BYTES };
    let runner = Runner::soft(RunOptions { jobs: NonZeroUsize::new(jobs), ..options })?.with_pool_limits(limits);
    audit_on(suite, &runner, settings, report_event)
}

/// Audits the suite's cases on this runner.
///
/// # Errors
///
/// Cases that fail without a fault, or an error of `report_event`.
pub fn audit_on(
    suite: &CaseSet,
    runner: &dyn CaseRunner,
    settings: &AuditSettings,
    report_event: impl FnMut(&AuditEvent) -> io::Result<()>,
) -> Result<AuditReport, AuditError> {
    let outcomes = run::run_all(&suite.cases, runner, settings, report_event)?;
    Ok(tally::build_report(settings, outcomes))
}

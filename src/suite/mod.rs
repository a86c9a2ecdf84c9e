//! Scenario files to run together: their cases, their diagnostics, and one call that runs them all.
mod attempt;
pub mod backend;
pub mod diagnostics;
pub mod drive;
mod finish;
#[cfg(test)]
pub(crate) mod fixture;
pub mod foresee;
pub mod forms;
mod lacking;
mod observer;
pub mod options;
mod requires;
mod runner;
pub mod select;
mod time_limits;
mod worker_environment;
mod works;

pub use backend::{BackendChoice, BackendMissing, BackendRequest, ChosenBackend};
pub use diagnostics::InvalidFile;
pub use drive::Executor;
pub use forms::Forms;
pub use observer::Experiment;
pub use options::{OptionError, RunOptions};
pub use runner::{Prepared, Ready, Runner};
pub use select::Filter;

use crate::plan::{Limits, cost};
use crate::printable::printable;
use crate::report::Event;
use crate::report::{Reporter, Tally};
use crate::scenario::{AllowEnv, Case, Diagnostic, PassedOver};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use works::Works;

/// The cases of some files and folders, and what is wrong with the files that have none.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    /// In the order in which they are best run: those that can share a worker together, then by name.
    pub cases: Vec<Arc<Case>>,
    /// Files that cannot be used as they are.
    pub invalid_files: Vec<InvalidFile>,
    /// What a case may cost.
    pub limits: Limits,
    /// Entries that look like a file of the suite but were not taken.
    pub passed_over: Vec<PassedOver>,
}

/// Diagnostics of planning.
struct Planned {
    /// Of cases that cannot be run as written.
    faulty: Vec<(Arc<Case>, Vec<Diagnostic>)>,
    /// Of files whose cases are too much work together, with the first case of each.
    overworked: Vec<(Arc<Case>, Vec<Diagnostic>)>,
}

/// How files are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Forms in which cases are run too.
    pub forms: Forms,
    /// Variables that files may set beyond the usual ones.
    pub allow_env: AllowEnv,
    /// What a file and a case may cost.
    pub limits: Limits,
}

impl From<&Forms> for Reading {
    fn from(forms: &Forms) -> Self {
        Self { forms: forms.clone(), ..Self::default() }
    }
}

/// Messages about entries that were passed over; of many entries only the first.
pub fn passed_over(entries: &[PassedOver]) -> Vec<String> {
    const SHOWN: usize = 20;
    let mut lines: Vec<_> =
        entries.iter().take(SHOWN).map(|entry| printable(&entry.to_string()).into_owned()).collect();
    if let Some(more) = entries.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        lines.push(format!("{more} more entries are passed over"));
    }
    lines
}

/// Why a suite could not be opened or run.
#[derive(Debug, Error)]
pub enum Error {
    /// A path that cannot be read.
    #[error(transparent)]
    Read(#[from] crate::scenario::DiscoverError),
    /// Files are invalid; nothing was run.
    #[error("{} with faults; nothing was run", files_in_words(*.0))]
    InvalidFiles(usize),
    /// Nothing to run.
    #[error("there is nothing to run")]
    Empty,
    /// This process is a worker.
    #[error("a worker process cannot run scenarios itself: `main` must begin with `collspec::enter_if_asked()`")]
    InsideWorker,
    /// The runner could not be set up.
    #[error("cannot run cases")]
    Runner(#[from] crate::run::Error),
    /// The report could not be written.
    #[error("cannot write the report")]
    Report(#[from] io::Error),
}

/// `1 file`, `2 files`.
pub fn files_in_words(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// An error with what caused it, unless its own words say that already.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !words.contains(&text) {
            words.push_str(": ");
            words.push_str(&text);
        }
        source = cause.source();
    }
    words
}

impl Suite {
    /// Reads files, and folders with all the files in them; their cases, and the forms of them that the files name.
    #[cfg(feature = "internals")]
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self, Error> {
        Self::open_in(paths, &Forms::Named)
    }

    /// The same with these forms.
    #[cfg(feature = "internals")]
    pub fn open_in<P: AsRef<Path>>(paths: &[P], forms: &Forms) -> Result<Self, Error> {
        Self::open_with(paths, &forms.into())
    }

    /// The same, read in this way.
    pub fn open_with<P: AsRef<Path>>(paths: &[P], reading: &Reading) -> Result<Self, Error> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        select::open(&paths, reading)
    }

    /// Reads the one file under `root` that can hold the case `name`; the suite is empty if there is none.
    pub fn open_exact(root: &Path, name: &str, reading: &Reading) -> Result<Self, Error> {
        select::open_exact(root, name, reading)
    }

    /// Keeps the cases that `filter` admits.
    pub fn select(&mut self, filter: &Filter) {
        self.cases.retain(|case| filter.admits(case));
    }

    /// Plans every case on `jobs` threads and adds to the invalid files the cases that cannot be run as written, and the files
    /// whose cases are too much work together.
    pub fn plan(&mut self, jobs: usize) {
        let planned = self.planned(jobs);
        for (case, diagnostics) in planned.faulty.into_iter().chain(planned.overworked) {
            diagnostics::add(&mut self.invalid_files, &case, diagnostics);
        }
    }

    /// Plans every case on `jobs` threads, and adds a diagnostic to the files whose cases are too much work together; what is
    /// wrong with a case itself shows when it is run.
    pub fn weigh(&mut self, jobs: usize) {
        for (first, diagnostics) in self.planned(jobs).overworked {
            self.cases.retain(|case| case.file.path != first.file.path);
            diagnostics::add(&mut self.invalid_files, &first, diagnostics);
        }
    }

    fn planned(&self, jobs: usize) -> Planned {
        let patience = diagnostics::InvalidCaseLimit::default();
        let (limits, works) = (&self.limits, Works::of(&self.cases));
        let look = |case: &Arc<Case>| {
            let work = diagnostics::plan(case, limits)?.map_or(0, |plan| plan.cost.work);
            works.add(case, work);
            Ok(())
        };
        let over = |case: &Case| works.total(case) > limits.file_work;
        let plans = drive::map(&self.cases, jobs, |case| if over(case) { Ok(()) } else { patience.look(case, look) });
        let faulty = self.cases.iter().zip(plans).filter_map(|(case, plan)| Some((case.clone(), plan.err()?)));
        let overworked = works.over(limits.file_work).into_iter().map(|(first, cases)| {
            let diagnostic = cost::too_much_work_of_file(first.span, cases, limits);
            (first, vec![diagnostic])
        });
        Planned { faulty: faulty.collect(), overworked: overworked.collect() }
    }

    /// Runs every case on `chosen`, within the suite's limits, and tells `reporter` of it.
    pub fn run(&self, options: RunOptions, chosen: ChosenBackend, reporter: &mut dyn Reporter) -> Result<Tally, Error> {
        if crate::child::is_worker() {
            return Err(Error::InsideWorker);
        }
        if !self.invalid_files.is_empty() {
            return Err(Error::InvalidFiles(self.invalid_files.len()));
        }
        if self.cases.is_empty() {
            return Err(Error::Empty);
        }
        let jobs = options.jobs_on(&chosen);
        let reading = Reading { limits: self.limits, ..options.reading };
        let runner = Runner::new(RunOptions { reading, ..options }, chosen)?;
        let mut tally = Tally::default();
        drive::drive(&self.cases, &runner, jobs, |event| {
            if let Event::CaseDone { verdict, .. } = event {
                tally.add(verdict);
            }
            reporter.event(event)
        })?;
        Ok(tally)
    }
}

impl Executor for Runner {
    fn run_case(&self, case: &Arc<Case>) -> crate::judge::Verdict {
        Runner::run_case(self, case)
    }
}

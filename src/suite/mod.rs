//! Scenario files to run together: their cases, their faults, and one call that runs them all.
pub mod backend;
pub mod drive;
pub mod faults;
#[cfg(test)]
pub(crate) mod fixture;
pub mod foresee;
pub mod forms;
pub mod select;

pub use backend::{BackendChoice, BackendMissing, Choice, Wish};
pub use drive::Executor;
pub use faults::Faulty;
pub use forms::Forms;
pub use select::Filter;

use crate::plan::Limits;
use crate::printable::printable;
use crate::report::{Reporter, Tally};
use crate::run::{Event, Options, Runner};
use crate::scenario::{AllowEnv, Case, PassedOver};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// The cases of some files and folders, and what is wrong with the files that have none.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    /// In the order in which they are best run: those that can share a worker together, then by name.
    pub cases: Vec<Arc<Case>>,
    /// Files that cannot be used as they are.
    pub faults: Vec<Faulty>,
    /// What a case may cost.
    pub limits: Limits,
    /// What looks like a file of the suite and was not taken.
    pub passed_over: Vec<PassedOver>,
}

/// How files are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Forms in which cases are wanted.
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

/// Entries that were passed over, in lines; of many the first.
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
    /// Files have faults; nothing was run.
    #[error("{} with faults; nothing was run", files_in_words(*.0))]
    Faults(usize),
    /// Nothing to run.
    #[error("there is nothing to run")]
    Empty,
    /// This process is a worker.
    #[error(
        "a worker process cannot run scenarios itself: `main` must begin with `collspec::worker::enter_if_asked()`"
    )]
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
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self, Error> {
        Self::open_in(paths, &Forms::Named)
    }

    /// The same with these forms.
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

    /// Plans every case on `jobs` threads and adds those that cannot be run as written to the faults.
    pub fn plan(&mut self, jobs: usize) {
        let patience = faults::Patience::default();
        let limits = &self.limits;
        let look = |case: &Arc<Case>| faults::plan(case, limits).map(drop);
        let plans = drive::map(&self.cases, jobs, |case| patience.look(case, look));
        for (case, plan) in self.cases.iter().zip(plans) {
            if let Err(diagnostics) = plan {
                faults::add(&mut self.faults, case, diagnostics);
            }
        }
    }

    /// Runs every case and tells `reporter` of it.
    pub fn run(&self, options: Options, reporter: &mut dyn Reporter) -> Result<Tally, Error> {
        let options = Options { limits: self.limits, ..options };
        if crate::worker::is_worker() {
            return Err(Error::InsideWorker);
        }
        if !self.faults.is_empty() {
            return Err(Error::Faults(self.faults.len()));
        }
        if self.cases.is_empty() {
            return Err(Error::Empty);
        }
        let jobs = options.jobs;
        let runner = Runner::new(options)?;
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

//! The cases of a set of scenario files, the diagnostics of invalid files, and the call that runs the cases.
//!
//! If memory, threads or room for files run out, the case counts as not run, with that reason, and the run continues.
mod at_least;
mod attempt;
pub mod backend;
mod call_algorithms;
pub mod check_case;
mod coverage;
mod driver;
mod file_work;
mod filter;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod forms;
mod history;
pub mod invalid_files;
mod kept_plans;
mod missing_feature;
mod nccl_memory;
mod observer;
pub mod options;
pub mod parallel;
mod quick;
mod rank_devices;
mod requires;
mod runner;
pub mod select;
mod teardown_failure;
mod time_limits;
mod timed_group;
pub mod variables;
mod waiting;
mod worker_environment;

pub use at_least::AtLeast;
pub use backend::{BackendChoice, BackendMissing, BackendRequest, ChosenBackend, Requirement};
pub use collspec_run::job::Variation;
pub use driver::DriverRequest;
pub use filter::{Filter, FilterTerm, Shard};
pub use forms::Forms;
pub use invalid_files::InvalidFile;
pub use kept_plans::KeptPlans;
pub use missing_feature::functions_of;
pub use missing_feature::skipped_for_functions;
pub use observer::Experiment;
pub use options::{OptionError, RunOptions};
pub use parallel::Executor;
pub use quick::{FILES, QUICK, Quick, SMOKE, hash_of_file};
pub use runner::is_small;
pub use runner::{Prepared, Ready, Runner};
pub use timed_group::TimedRun;

use crate::report::Event;
use crate::report::{Reporter, Tally};
use check_case::CheckResult;
use collspec_core::plan::{Limits, cost};
use collspec_core::printable::printable;
use collspec_core::scenario::{AllowEnv, Case, Diagnostic, PassedOver};
use file_work::FileWork;
use parallel::Lanes;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// The cases of some files and folders, and the diagnostics of invalid files.
#[derive(Clone, Debug, Default)]
pub struct CaseSet {
    /// Cases in the order in which they run: cases that can share a worker are adjacent, then ordered by name.
    pub cases: Vec<Arc<Case>>,
    /// Files that cannot be used.
    pub invalid_files: Vec<InvalidFile>,
    /// Warnings of planning, by file.
    pub warnings: Vec<InvalidFile>,
    /// Limits on the work and memory of a case.
    pub limits: Limits,
    /// Entries that look like a file of the suite but were skipped.
    pub passed_over: Vec<PassedOver>,
    plans: Arc<KeptPlans>,
}

/// The result of planning all cases.
struct Planned {
    /// The predicted ending of each case; `None` for those that cannot run as written or were not planned.
    foreseen: Vec<Option<CheckResult>>,
    /// Cases that may not run everywhere as written.
    warned: Vec<(Arc<Case>, Vec<Diagnostic>)>,
    /// Cases that cannot run as written.
    invalid: Vec<(Arc<Case>, Vec<Diagnostic>)>,
    /// Files whose cases are too much work in total, with the first case of each.
    overworked: Vec<(Arc<Case>, Vec<Diagnostic>)>,
}

/// Options for reading files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Forms in which cases run in addition.
    pub forms: Forms,
    /// Variables that files may set beyond the usual ones.
    pub allow_env: AllowEnv,
    /// Limits on the work and memory of a file and a case.
    pub limits: Limits,
}

impl From<&Forms> for Reading {
    fn from(forms: &Forms) -> Self {
        Self { forms: forms.clone(), ..Self::default() }
    }
}

/// Messages about entries that were passed over; if there are many, only about the first ones.
pub fn passed_over(entries: &[PassedOver]) -> Vec<String> {
    const SHOWN: usize = 20;
    let mut lines: Vec<_> =
        entries.iter().take(SHOWN).map(|entry| printable(&entry.to_string()).into_owned()).collect();
    if let Some(more) = entries.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        lines.push(format!("{more} more entries are passed over"));
    }
    lines
}

/// The reason a suite could not be opened or run.
#[derive(Debug, Error)]
pub enum Error {
    /// A path cannot be read.
    #[error(transparent)]
    Read(#[from] collspec_core::scenario::DiscoverError),
    /// This many files are invalid; nothing was run.
    #[error("errors in {}; nothing was run", files_in_words(*.0))]
    InvalidFiles(usize),
    /// There are no cases to run.
    #[error("there are no cases to run")]
    Empty,
    /// This process is a worker.
    #[error("a worker process cannot run scenarios itself: `main` must begin with `collspec::enter_if_asked()`")]
    InsideWorker,
    /// The runner could not be set up.
    #[error("cannot run cases")]
    Runner(#[from] collspec_run::run::Error),
    /// The report could not be written.
    #[error("cannot write the report")]
    Report(#[from] io::Error),
}

/// A number of files as text: `1 file`, `2 files`.
pub fn files_in_words(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// The messages of an error and its causes; a cause whose message is already part of the text is left out.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        source = cause.source();
    }
    text
}

impl CaseSet {
    /// Reads files, and folders with all files in them: their cases, and the forms that the files name.
    ///
    /// # Errors
    ///
    /// A path cannot be read, or none of them contains a scenario. Errors inside a file are kept with the file.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self, Error> {
        Self::open_in(paths, &Forms::Named)
    }

    /// Like [`CaseSet::open`], with these forms.
    pub fn open_in<P: AsRef<Path>>(paths: &[P], forms: &Forms) -> Result<Self, Error> {
        Self::open_with(paths, &forms.into())
    }

    /// Like [`CaseSet::open`], with these options for reading.
    pub fn open_with<P: AsRef<Path>>(paths: &[P], reading: &Reading) -> Result<Self, Error> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        select::open(&paths, reading)
    }

    /// Reads the one file under `root` that can contain the case `name`; the suite is empty if there is no such file.
    ///
    /// # Errors
    ///
    /// The file could not be read.
    pub fn open_exact(root: &Path, name: &str, reading: &Reading) -> Result<Self, Error> {
        select::open_exact(root, name, reading)
    }

    /// Keeps few cases: of files that were measured, those that were chosen by what they reach in NCCL, and of other files those that
    /// [`CaseSet::keep_covering`] would keep.
    pub fn keep_quick(&mut self, quick: Quick) {
        quick::keep_quick(&mut self.cases, quick);
    }

    /// For each case, the numbers of the factors that concern its calls and its file.
    pub fn call_factors(&self) -> Vec<Vec<usize>> {
        coverage::call_factors(&self.cases)
    }

    /// Keeps a selection of the cases in which every factor that distinguishes cases occurs at least once.
    pub fn keep_covering(&mut self) {
        coverage::keep_covering(&mut self.cases);
    }

    /// Keeps the cases that `filter` admits.
    pub fn select(&mut self, filter: &Filter) {
        self.cases.retain(|case| filter.admits(case));
    }

    /// Removes the invalid files and their cases, so that the other files' cases can run.
    pub fn set_invalid_aside(&mut self) -> Vec<InvalidFile> {
        let invalid = std::mem::take(&mut self.invalid_files);
        self.cases.retain(|case| invalid.iter().all(|faulty| faulty.file.path != case.file.path));
        invalid
    }

    /// Plans every case on `jobs` threads. Cases that cannot run as written, and files whose cases are too much work in total,
    /// are added to the invalid files. Gives the predicted ending of each case that was planned.
    pub fn plan(&mut self, jobs: usize) -> Vec<Option<CheckResult>> {
        let planned = self.planned(jobs);
        for (case, diagnostics) in planned.invalid.into_iter().chain(planned.overworked) {
            invalid_files::add(&mut self.invalid_files, &case, diagnostics);
        }
        for (case, warnings) in planned.warned {
            invalid_files::add(&mut self.warnings, &case, warnings);
        }
        planned.foreseen
    }

    /// Plans every case on `jobs` threads, and adds a diagnostic to files whose cases are too much work in total; errors in a
    /// case itself are reported when it runs.
    pub fn weigh(&mut self, jobs: usize) {
        for (first, diagnostics) in self.planned(jobs).overworked {
            self.cases.retain(|case| case.file.path != first.file.path);
            invalid_files::add(&mut self.invalid_files, &first, diagnostics);
        }
    }

    fn planned(&self, jobs: usize) -> Planned {
        let limit = invalid_files::InvalidCaseLimit::default();
        let (limits, works) = (&self.limits, FileWork::of(&self.cases));
        let plan = |case: &Arc<Case>| {
            let plan = invalid_files::plan(&self.plans, case, limits)?;
            works.add(case, plan.as_ref().map_or(0, |plan| plan.cost.work));
            let foreseen = plan.as_ref().map_or(CheckResult::Refused, |plan| CheckResult::of_plan(plan));
            Ok((Some(foreseen), plan.map_or_else(Vec::new, |plan| plan.warnings.clone())))
        };
        let over = |case: &Case| works.total(case) > limits.file_work;
        let plans =
            parallel::map(
                &self.cases,
                jobs,
                |case| if over(case) { Ok((None, Vec::new())) } else { limit.check(case, plan) },
            );
        let (mut invalid, mut warned, mut foreseen) = (Vec::new(), Vec::new(), Vec::new());
        for (case, plan) in self.cases.iter().zip(plans) {
            let (ending, warnings) = plan.unwrap_or_else(|diagnostics| {
                invalid.push((case.clone(), diagnostics));
                (None, Vec::new())
            });
            foreseen.push(ending);
            if !warnings.is_empty() {
                warned.push((case.clone(), warnings));
            }
        }
        let overworked = works.over(limits.file_work).into_iter().map(|(first, cases)| {
            let diagnostic = cost::too_much_work_of_file(first.span, cases, limits);
            (first, vec![diagnostic])
        });
        Planned { warned, invalid, foreseen, overworked: overworked.collect() }
    }

    /// The plans of these cases.
    pub fn plans(&self) -> &Arc<KeptPlans> {
        &self.plans
    }

    /// A runner on `chosen` for these cases, with the suite's limits.
    pub fn runner(&self, options: RunOptions, chosen: ChosenBackend) -> Result<Runner, collspec_run::run::Error> {
        let reading = Reading { limits: self.limits, ..options.reading };
        let mut runner = Runner::new(RunOptions { reading, ..options }, chosen)?;
        runner.plans = self.plans.clone();
        Ok(runner)
    }

    /// Runs every case on `chosen`, within the suite's limits, and passes the events to `reporter`.
    ///
    /// # Errors
    ///
    /// This process is itself a worker, workers cannot be started, or the reporter fails.
    pub fn run(&self, options: RunOptions, chosen: ChosenBackend, reporter: &mut dyn Reporter) -> Result<Tally, Error> {
        if collspec_run::child::is_worker() {
            return Err(Error::InsideWorker);
        }
        if !self.invalid_files.is_empty() {
            return Err(Error::InvalidFiles(self.invalid_files.len()));
        }
        if self.cases.is_empty() {
            return Err(Error::Empty);
        }
        let (jobs, fail_fast) = (options.jobs_on(&chosen), options.fail_fast);
        let (cases, waiting) = match options.may_run_more_at_a_time(&chosen) {
            true => waiting::in_front(&self.cases, &self.plans, &self.limits, chosen.machine.is_none()),
            false => (self.cases.clone(), 0),
        };
        let runner = self.runner(options, chosen)?;
        let mut tally = Tally::default();
        let lanes = Lanes { jobs, waiting, waiting_threads: 1 };
        parallel::run_all(&cases, &runner, lanes, fail_fast, |event| {
            if let Event::CaseDone { verdict, .. } = event {
                tally.add(verdict);
            }
            reporter.event(event)
        })?;
        Ok(tally)
    }
}

impl Executor for Runner {
    fn run_case(&self, case: &Arc<Case>) -> collspec_core::judge::Verdict {
        Runner::run_case(self, case)
    }
}

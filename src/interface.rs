//! The interface for other programs: a suite of scenarios that is opened, run and reported case by case.
use collspec_core::judge::Verdict;
use collspec_core::plan::SetBy;
use collspec_core::scenario::Case;
use collspec_run::child::Workers;
use collspec_suite::report::{CaseReport, Event, Reporter, Tally};
use collspec_suite::suite::options::{cores, usual_memory};
use collspec_suite::suite::{self, BackendMissing, CaseSet, Filter, OptionError, RunOptions};
use std::io;
use std::path::Path;
use thiserror::Error;

/// Options of a run, by the names that they have on the command line.
#[derive(Clone, Debug)]
pub struct Options(RunOptions);

impl Default for Options {
    fn default() -> Self {
        let mut options = RunOptions::default();
        options.reading.limits.set_by = SetBy::Program;
        options.reading.limits.memory = usual_memory();
        Self(options)
    }
}

impl Options {
    /// The defaults: NCCL if a driver, devices and a library are available, else the software library; as many cases at
    /// a time as there are cores, on GPUs one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option: `backend`, `require`, `nccl`, `driver`, `ranks-per-gpu`, `jobs`, `timeout`, `opening-timeout`, `seed`,
    /// `eager`, `connect`, `placement`, `forms`, `allow-env` (names separated by commas), `fault`, `max-memory`, `max-work`,
    /// `max-file-work`, `max-file` or `fail-fast` (true: no case starts after a failure). It has the same meaning as for
    /// `collspec run`; a second value replaces the first.
    ///
    /// ```
    /// let options = collspec::Options::new().with("backend", "soft")?.with("timeout", "2.5")?;
    /// let error = options.with("seed", "none").unwrap_err();
    /// assert_eq!(error.to_string(), "`seed` = `none`: expected a whole number, 0 or greater");
    /// # Ok::<(), collspec::OptionError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The option does not exist, or cannot have this value.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, OptionError> {
        self.0.set(name, value)?;
        Ok(self)
    }

    /// Sets the program that is started as a worker.
    ///
    /// ```
    /// use collspec::{Options, Workers};
    /// let options = Options::new().workers(Workers::Command("/usr/local/bin/collspec".into()));
    /// ```
    pub fn workers(mut self, workers: Workers) -> Self {
        self.0.workers = workers;
        self
    }
}

/// The reason a suite cannot be opened or run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A path cannot be read, there are no cases, or workers cannot be started.
    #[error("{0}")]
    Run(String),
    /// The errors in the files, with file, line and column, as `collspec check` shows them.
    #[error("{0}")]
    Files(String),
    /// The backend that the options require is not there.
    #[error(transparent)]
    BackendMissing(#[from] BackendMissing),
}

/// Numbers of cases by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Number of cases that passed.
    pub pass: usize,
    /// Number of cases that failed.
    pub fail: usize,
    /// Number of cases that were skipped, because the machine lacks something that they need.
    pub skip: usize,
    /// Number of cases that could not be run to a verdict.
    pub error: usize,
}

/// The cases of some scenario files, checked and ready to run.
///
/// A case runs in a worker process, so that a library that crashes or hangs costs only that case. The worker is the running
/// program, started again; its `main` must therefore begin with [`enter_if_asked`](crate::enter_if_asked).
///
/// ```standalone_crate
/// use collspec::{Options, Status, Suite};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     collspec::enter_if_asked();
///     let folder = tempfile::tempdir()?;
///     let file = folder.path().join("sum.toml");
///     std::fs::write(&file, "world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2], [3, 4]]\n")?;
///
///     let suite = Suite::open(&[file], Options::new().with("backend", "soft")?)?;
///     let counts = suite.run(|report| {
///         assert_eq!((report.case.as_str(), report.status), ("sum", Status::Pass));
///         let outputs = report.outputs.as_ref().expect("a case with few elements has them");
///         assert_eq!(outputs.of("out").expect("a buffer")[1], Some(vec![4.0.into(), 6.0.into()]));
///     })?;
///     assert_eq!((counts.pass, counts.fail, counts.skip), (1, 0, 0));
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Suite {
    all: CaseSet,
    selected: CaseSet,
    options: RunOptions,
}

impl Suite {
    /// Reads scenario files, and folders with all the files in them, and checks every case that is not tagged `long`.
    ///
    /// # Errors
    ///
    /// A path cannot be read, or something is wrong with a file.
    pub fn open<P: AsRef<Path>>(paths: &[P], options: Options) -> Result<Self, Error> {
        let Options(options) = options;
        let all = CaseSet::open_with(paths, &options.reading).map_err(with_causes)?;
        let selected = checked(&all, &Filter::default())?;
        Ok(Self { all, selected, options })
    }

    /// Selects the cases whose name contains `text`, or which have it as a tag, instead of all that are not tagged `long`; with
    /// `not ` before it, the cases without it.
    ///
    /// # Errors
    ///
    /// Something is wrong with a case that was not selected before.
    pub fn filter(&mut self, text: &str) -> Result<(), Error> {
        self.selected = checked(&self.all, &Filter::parse([text]))?;
        Ok(())
    }

    /// Entries of the folders that look like scenario files and were not read, such as links that lead elsewhere, each with
    /// the reason.
    pub fn passed_over(&self) -> impl Iterator<Item = String> {
        self.all.passed_over.iter().map(ToString::to_string)
    }

    /// The names of the selected cases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.selected.cases.iter().map(|case| case.name.as_str())
    }

    /// Runs every selected case; `each` gets the report of each as it ends.
    ///
    /// # Errors
    ///
    /// No case is selected, the backend is missing, or no worker can be started.
    pub fn run(&self, each: impl FnMut(&CaseReport)) -> Result<Counts, Error> {
        let chosen = self.options.backend.resolve(&self.options.workers)?;
        let mut reporter = Each { backend: chosen.backend.name(), each };
        let tally: Tally = self.selected.run(self.options.clone(), chosen, &mut reporter).map_err(with_causes)?;
        Ok(Counts { pass: tally.pass, fail: tally.fail, skip: tally.skip(), error: tally.errors })
    }
}

/// The cases that the filter admits, if nothing is wrong with any of them.
fn checked(all: &CaseSet, filter: &Filter) -> Result<CaseSet, Error> {
    let mut selected = all.clone();
    selected.select(filter);
    selected.plan(cores());
    if selected.invalid_files.is_empty() {
        return Ok(selected);
    }
    let shown: Vec<String> = selected.invalid_files.iter().map(|file| file.render(false)).collect();
    Err(Error::Files(shown.join("\n")))
}

fn with_causes(error: suite::Error) -> Error {
    Error::Run(suite::with_causes(&error))
}

/// Hands every case's report to a function.
struct Each<F> {
    backend: &'static str,
    each: F,
}

impl<F: FnMut(&CaseReport)> Reporter for Each<F> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if let Event::CaseDone { case, verdict } = event {
            let (case, verdict): (&Case, &Verdict) = (case, verdict);
            (self.each)(&CaseReport::new(case, verdict, self.backend));
        }
        Ok(())
    }
}

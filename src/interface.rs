//! What other programs use: a suite of scenarios that is opened, run and reported case by case.
use crate::child::Workers;
use crate::judge::Verdict;
use crate::report::{CaseReport, Event, Reporter, Tally};
use crate::scenario::Case;
use crate::suite::options::cores;
use crate::suite::{self, BackendMissing, Filter, OptionError, RunOptions};
use std::io;
use std::path::Path;
use thiserror::Error;

/// Options of a run, by the names that they have on the command line.
#[derive(Clone, Debug, Default)]
pub struct Options(RunOptions);

impl Options {
    /// The defaults: NCCL if a driver, devices and a library are there, else the software library; a case per core.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this option: `backend`, `nccl`, `driver`, `ranks-per-gpu`, `jobs`, `timeout`, `opening-timeout`, `seed`, `eager`,
    /// `connect`, `placement`, `forms`, `allow-env`, `max-memory` and others that `collspec run --help` lists.
    ///
    /// ```
    /// let options = collspec::Options::new().with("backend", "soft")?.with("timeout", "2.5")?;
    /// let error = options.with("seed", "none").unwrap_err();
    /// assert_eq!(error.to_string(), "expected a whole number, 0 or greater");
    /// # Ok::<(), collspec::OptionError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no such option, or it cannot have this value.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, OptionError> {
        self.0.set(name, value)?;
        Ok(self)
    }

    /// With these programs as workers.
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

/// Why a suite cannot be opened or run.
#[derive(Debug, Error)]
pub enum Error {
    /// A path cannot be read, or the runner cannot do its work.
    #[error("{}", suite::with_causes(.0))]
    Suite(#[source] suite::Error),
    /// What is wrong with the files, with file, line and column, as `collspec check` shows it.
    #[error("{0}")]
    Files(String),
    /// The backend that the options require is not there.
    #[error(transparent)]
    BackendMissing(#[from] BackendMissing),
}

impl From<suite::Error> for Error {
    fn from(error: suite::Error) -> Self {
        Self::Suite(error)
    }
}

/// How many cases passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub pass: usize,
    /// Failed.
    pub fail: usize,
    /// Skipped: the machine lacks what they need.
    pub skip: usize,
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
    suite: suite::CaseSet,
    options: RunOptions,
}

impl Suite {
    /// Reads scenario files, and folders with all the files in them, and checks every case.
    ///
    /// # Errors
    ///
    /// A path cannot be read, or something is wrong with a file.
    pub fn open<P: AsRef<Path>>(paths: &[P], options: Options) -> Result<Self, Error> {
        let Options(options) = options;
        let mut suite = suite::CaseSet::open_with(paths, &options.reading)?;
        suite.select(&Filter::default());
        suite.plan(cores());
        if !suite.invalid_files.is_empty() {
            let shown: Vec<String> = suite.invalid_files.iter().map(|invalid| invalid.render(false)).collect();
            return Err(Error::Files(shown.join("\n")));
        }
        Ok(Self { suite, options })
    }

    /// Keeps the cases whose name contains `text`, or which have it as a tag.
    pub fn filter(&mut self, text: &str) {
        self.suite.select(&Filter { text: Some(text.to_owned()), ..Filter::default() });
    }

    /// The names of the cases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.suite.cases.iter().map(|case| case.name.as_str())
    }

    /// Runs every case; `each` gets the report of each as it ends.
    ///
    /// # Errors
    ///
    /// The suite has no cases, the backend is missing, or no worker can be started.
    pub fn run(&self, each: impl FnMut(&CaseReport)) -> Result<Counts, Error> {
        let chosen = self.options.backend.resolve(&self.options.workers)?;
        let mut reporter = Each { backend: chosen.backend.name(), each };
        let tally: Tally = self.suite.run(self.options.clone(), chosen, &mut reporter)?;
        Ok(Counts { pass: tally.pass, fail: tally.fail, skip: tally.skip() })
    }
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

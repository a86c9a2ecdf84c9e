//! Scenarios as tests: one libtest trial per case, for `cargo test` and nextest, with snapshots kept by insta.
//!
//! A test target of two lines runs a folder of scenarios:
//!
//! ```toml
//! [[test]]                  # Cargo.toml
//! name = "scenarios"
//! harness = false
//! ```
//! ```no_run
//! collspec::harness!("scenarios"); // tests/scenarios.rs
//! ```
//!
//! Variables mean what the options of `collspec run` with their names mean: COLLSPEC_BACKEND, COLLSPEC_REQUIRE,
//! COLLSPEC_NCCL, COLLSPEC_DRIVER, COLLSPEC_RANKS_PER_GPU, COLLSPEC_PLACEMENT, COLLSPEC_TIMEOUT, COLLSPEC_OPENING_TIMEOUT,
//! COLLSPEC_SEED, COLLSPEC_EAGER, COLLSPEC_CONNECT, COLLSPEC_ALLOW_ENV, COLLSPEC_MAX_MEMORY, COLLSPEC_MAX_WORK,
//! COLLSPEC_MAX_FILE_WORK, COLLSPEC_MAX_FILE, COLLSPEC_AT_LEAST, COLLSPEC_NO_SKIPS, COLLSPEC_FORMS, COLLSPEC_FILTER and COLLSPEC_SHARD. Snapshots follow insta's INSTA_UPDATE. Nothing but libtest's own lines
//! goes to the standard output.
mod environment;
mod settings;
mod snapshot;
mod trials;

use collspec_core::judge::Details;
use collspec_core::printable::{printable, printable_lines};
use collspec_suite::suite::options::cores;
use collspec_suite::suite::{AtLeast, CaseSet, Filter, Reading, RunOptions, with_causes};
use libtest_mimic::Arguments;
use settings::HarnessSettings;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};

/// Defines `main` of a test target (with `harness = false`) that runs every scenario under a folder of the package, and
/// keeps snapshots in `snapshots/` next to it.
#[macro_export]
macro_rules! harness {
    ($scenarios:expr) => {
        fn main() -> ::std::process::ExitCode {
            // This comes first: a worker is this program started again.
            $crate::enter_if_asked();
            $crate::harness::main($crate::harness::Site {
                directory: ::std::env!("CARGO_MANIFEST_DIR"),
                package: ::std::env!("CARGO_PKG_NAME"),
                crate_name: ::std::env!("CARGO_CRATE_NAME"),
                file: ::std::file!(),
                scenarios: $scenarios,
            })
        }
    };
}

/// The place where [`harness!`](crate::harness!) was written.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// The package's root directory.
    pub directory: &'static str,
    /// The package's name in Cargo.toml.
    pub package: &'static str,
    /// The test target's name with `-` as `_`.
    pub crate_name: &'static str,
    /// The source file with the macro call.
    pub file: &'static str,
    /// The folder of scenarios, in the package's directory.
    pub scenarios: &'static str,
}

/// The exit code of libtest and libtest-mimic.
const FAILED: u8 = 101;
/// The exit code of the command, also if too few cases were run.
const BACKEND_MISSING: u8 = 3;

impl Site {
    /// The folder of scenarios; relative if tests run in the package's directory, as under cargo.
    fn root(&self) -> PathBuf {
        match std::env::current_dir() {
            Ok(here) if here == Path::new(self.directory) => PathBuf::from(self.scenarios),
            _ => Path::new(self.directory).join(self.scenarios),
        }
    }

    fn snapshots(&self) -> PathBuf {
        Path::new(self.directory).join(self.scenarios).with_file_name("snapshots")
    }

    /// The target's name for cargo: the crate's name has lost its hyphens, the file's name mostly has them.
    fn target(&self) -> String {
        let stem = Path::new(self.file).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if stem.replace('-', "_") == self.crate_name { stem } else { self.crate_name }.to_owned()
    }
}

/// The entry point that [`harness!`](crate::harness!) calls once it is certain that this process is not a worker.
#[doc(hidden)]
pub fn main(site: Site) -> ExitCode {
    let args = Arguments::from_args();
    environment::prepare_insta(Path::new(site.directory));
    snapshot::silence_expected_panics();
    match tests(site, args) {
        Ok(code) => code,
        Err((code, words)) => {
            // The standard error, because nextest reads the standard output.
            eprintln!("collspec: {}", printable_lines(&words));
            ExitCode::from(code)
        }
    }
}

fn tests(site: Site, mut args: Arguments) -> Result<ExitCode, (u8, String)> {
    let failed = |error: &dyn std::error::Error| (FAILED, with_causes(error));
    let settings = HarnessSettings::read(|name| std::env::var(name)).map_err(|words| (FAILED, words))?;
    if collspec_run::child::is_worker() {
        return Err(failed(&collspec_suite::suite::Error::InsideWorker));
    }
    let mut suite = open(&site.root(), &args, &settings.options.reading).map_err(|error| failed(&error))?;
    if suite.cases.is_empty() && suite.invalid_files.is_empty() && !names_one(&args) {
        // A folder that moved must not look like a green run.
        return Err((FAILED, format!("no scenarios in {}", site.root().display())));
    }
    // A case that is named exactly runs even if it is tagged `long`.
    suite.select(&Filter { long: args.exact, ..settings.filter.clone() });
    // nextest runs each test of a list by its exact name: the list alone is divided.
    if let Some(shard) = settings.shard.filter(|_| !args.exact) {
        shard.keep(&mut suite.cases);
    }
    for line in collspec_suite::suite::variables::warnings(None) {
        eprintln!("collspec: {line}");
    }
    for line in collspec_suite::suite::passed_over(&suite.passed_over) {
        eprintln!("collspec: {line}");
    }

    let runner = match settings.options.backend.resolve(&settings.options.workers) {
        // Names are the same on every backend; a missing backend is reported when a case is to run.
        Err(_) if args.list => None,
        Err(missing) => return Err((BACKEND_MISSING, missing.to_string())),
        Ok(chosen) => {
            if !args.list {
                eprintln!("{}", printable(&chosen.banner(&collspec_suite::report::InheritedVariables::here())));
            }
            if chosen.machine.is_some() {
                // Cases on GPUs run one after the other.
                args.test_threads = Some(1);
            }
            let jobs = args.test_threads.unwrap_or_else(cores);
            // For a single case its limits suffice.
            if !args.list && !args.exact {
                suite.weigh(jobs);
            }
            let options =
                RunOptions { jobs: NonZeroUsize::new(jobs), details: Details::None, ..settings.options.clone() };
            let runner = suite.runner(options, chosen).map_err(|error| failed(&error))?;
            Some(Arc::new(runner))
        }
    };
    let (trials, forms) = trials::trials(&site, suite, &args, runner, settings.options.at_least == Some(AtLeast::ALL));
    let selected = trials.len();
    let conclusion = libtest_mimic::run(&args, trials);
    for words in forms.lock().unwrap_or_else(PoisonError::into_inner).disagreements() {
        eprintln!("collspec: forms disagree: {}", printable(&words));
    }
    if let Some(at_least) = settings.options.at_least.filter(|_| !args.list && !args.exact) {
        let ran = conclusion.num_passed + conclusion.num_failed;
        let selected = selected - conclusion.num_filtered_out as usize;
        if let Some(unmet) = at_least.unmet(ran as usize, selected)
            && !conclusion.has_failed()
        {
            return Err((BACKEND_MISSING, unmet));
        }
    }
    Ok(conclusion.exit_code())
}

/// Opens all scenarios, or the file of the selected one: nextest starts a process for each case.
fn open(root: &Path, args: &Arguments, reading: &Reading) -> Result<CaseSet, collspec_suite::suite::Error> {
    match &args.filter {
        Some(name) if args.exact => CaseSet::open_exact(root, name, reading),
        _ => CaseSet::open_with(&[root], reading),
    }
}

/// True if an exact name is given, which may belong to a test of another target.
fn names_one(args: &Arguments) -> bool {
    args.exact && args.filter.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(file: &'static str, crate_name: &'static str) -> Site {
        Site { directory: "/p", package: "p", crate_name, file, scenarios: "scenarios" }
    }

    #[test]
    fn the_target_keeps_its_hyphens() {
        assert_eq!(site("tests/my-cases.rs", "my_cases").target(), "my-cases");
        assert_eq!(site("tests/cases/main.rs", "cases").target(), "cases");
    }

    #[test]
    fn snapshots_lie_beside_the_scenarios() {
        assert_eq!(site("a.rs", "a").snapshots(), Path::new("/p/snapshots"));
        let deeper = Site { scenarios: "gpu/scenarios", ..site("a.rs", "a") };
        assert_eq!(deeper.snapshots(), Path::new("/p/gpu/snapshots"));
    }
}

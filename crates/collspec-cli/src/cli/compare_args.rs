//! The arguments of `collspec compare`; the comments on them are the help text.
use super::args::{LaunchArgs, MANNER, OF_SELECTION, REPORT, SelectionArgs, at_least_one};
use super::backend_args::driver_request;
use super::coverage_args::CoverageArgs;
use super::quick_args::QuickArgs;
use super::report_args::ReportArgs;
use super::settings_args::CommonArgs;
use crate::compare::SideRequest;
use crate::formats::ReportFormat;
use clap::Args as ClapArgs;
use collspec_core::judge::ShowBuffers;
use collspec_run::child::Workers;
use collspec_run::run::seconds;
use collspec_suite::suite::{BackendRequest, Requirement, RunOptions};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Further options that only a comparison of scenarios has, and groups of them.
const OF_CASES: [&str; 16] = [
    "nodes",
    "LaunchArgs",
    "CoverageArgs",
    "require",
    "repeats",
    "starts",
    "repeat_seconds",
    "no_footprint",
    "allow_debug_build",
    "jobs",
    "ranks_per_gpu",
    "opening_timeout",
    "bench",
    "allow",
    "write_allow",
    "verbose",
];

/// Headings of the help.
const SIDES: &str = "What is compared";
const SPEED: &str = "Speed";
const GATE: &str = "What counts";

/// Run the same scenarios, or the same program, on two NCCL libraries and say what changed.
///
/// BASE and CANDIDATE are each `soft`, a version such as 2.30.7, the file of a library, or a file written by
/// `collspec run --record`. Settings can follow a library: variables, as in `"2.30.7 NCCL_ALGO=Ring"`, and options, as in
/// `"soft seed=7"`.
///
/// The two sides take turns running the scenarios, in new processes each time. Cases that fail in only some runs, or whose results
/// differ from run to run, are run again in new processes, and the report gives the rate.
///
/// A program after `--` runs on each library in place of the one that it brings along, its results are judged as by `collspec judge`,
/// and the runs are compared call by call.
///
/// Exit codes: 0 nothing got worse; 1 something did; 2 the files or the command line are wrong; 3 a library is missing; 4 no
/// verdict, because too little was compared or failures come and go too rarely to decide; 130 interrupted.
#[derive(Debug, ClapArgs)]
pub struct CompareArgs {
    /// The library in use, or a recorded run of it.
    #[arg(long, value_name = "BASE", value_parser = SideRequest::parse, help_heading = SIDES)]
    pub base: SideRequest,

    /// The library to move to, or a recorded run of it.
    #[arg(long, value_name = "CANDIDATE", value_parser = SideRequest::parse, help_heading = SIDES)]
    pub candidate: SideRequest,

    #[command(flatten)]
    pub selection: SelectionArgs,

    /// A program and its arguments, instead of scenarios.
    #[arg(last = true, value_name = "PROGRAM", conflicts_with_all = OF_SELECTION, conflicts_with_all = OF_CASES)]
    pub program: Vec<OsString>,

    #[command(flatten)]
    pub quick: QuickArgs,

    /// The devices that both libraries run on, as for `collspec run`: `cuda`, `software`, `stand-in`, or a folder.
    #[arg(long, value_name = "NAME|DIR", help_heading = SIDES)]
    pub driver: Option<String>,

    /// Fail with exit code 3 if either side does not have this backend, as for `collspec run`: `nccl` is a real library on GPUs.
    #[arg(long, value_name = "NAME", value_parser = Requirement::parse, help_heading = SIDES)]
    pub require: Option<Requirement>,

    /// How often the scenarios, or the program, run on each side.
    #[arg(long, value_name = "N", default_value = "2", value_parser = at_least_one, help_heading = MANNER)]
    pub runs: NonZeroUsize,

    /// How often a case that fails or differs in only some runs is run again on each side, in new processes; up to four times as
    /// often if that is not decisive.
    #[arg(long, value_name = "N", default_value_t = 30, help_heading = MANNER)]
    pub repeats: usize,

    /// How often each library is started with one of the passing cases, to find what fails in only some starts; up to four times
    /// as often if that is not decisive. [default: 30, or fewer where they would take longer than 10 seconds and longer than
    /// all other runs]
    #[arg(long, value_name = "N", help_heading = MANNER)]
    pub starts: Option<usize>,

    /// How many seconds repeats and starts may take together.
    #[arg(long, value_name = "S", default_value = "600", value_parser = seconds, help_heading = MANNER)]
    pub repeat_seconds: f64,

    /// Do not measure what each library costs a process (the time of its first calls, memory, and what it changes and leaves
    /// behind in the process). The measurement takes five processes for each library.
    #[arg(long, help_heading = MANNER, hide_short_help = true)]
    pub no_footprint: bool,

    /// Compare even a library that was compiled without optimisation, which is refused by default.
    #[arg(long, help_heading = SIDES, hide_short_help = true)]
    pub allow_debug_build: bool,

    /// How many cases run at the same time [default: one per core, two per core on software GPUs, 1 on GPUs].
    #[arg(long, short, value_name = "N", value_parser = at_least_one, help_heading = MANNER)]
    pub jobs: Option<NonZeroUsize>,

    #[command(flatten)]
    pub common: CommonArgs,

    #[command(flatten)]
    pub launch: LaunchArgs,

    /// Also compare the speed of both: arguments of `collspec bench` as one argument, for example
    /// `--bench "all_reduce all_gather -b 1K -e 64M -f 4"`, or files with a table `[bench]`.
    ///
    /// The sides take turns: 10 samples of each, unless the argument has `--samples`, and as many again of the base. These show
    /// how much the base differs from itself, which does not count against the candidate.
    #[arg(long, value_name = "WHAT", help_heading = SPEED)]
    pub bench: Option<String>,

    /// Also require a bus bandwidth of the candidate: a file of limits in GB/s by operation, type and size, in which `64M = 180` below
    /// `[all_reduce.float]` is one. A row below its limit is worse.
    #[arg(long, value_name = "FILE", requires = "bench", help_heading = SPEED)]
    pub min_busbw: Option<PathBuf>,

    /// Count every change as worse, including different results that are right and different error codes and texts.
    #[arg(long, help_heading = GATE)]
    pub bits: bool,

    #[command(flatten)]
    pub coverage: CoverageArgs,

    /// A file of accepted changes, each with a reason. An entry that matches no change is an error.
    #[arg(long, value_name = "FILE", help_heading = GATE)]
    pub allow: Option<PathBuf>,

    /// Write such a file, with an entry for every change that is not accepted yet.
    #[arg(long, value_name = "FILE", help_heading = GATE)]
    pub write_allow: Option<PathBuf>,

    #[command(flatten)]
    pub report: ReportArgs,

    /// Name every case of every change.
    #[arg(long, short, help_heading = REPORT)]
    pub verbose: bool,
}

impl CompareArgs {
    /// The options that both sides share.
    pub fn options(&self) -> RunOptions {
        self.common.apply(RunOptions {
            backend: BackendRequest {
                driver: driver_request(self.driver.as_deref()),
                require: self.require,
                ..BackendRequest::default()
            },
            jobs: self.jobs,
            ranks_per_process: self.launch.ranks_per_process,
            reading: self.selection.reading(),
            workers: Workers::CurrentExe,
            show_buffers: if self.report.has(ReportFormat::Html) {
                ShowBuffers::OfFailures
            } else {
                ShowBuffers::Never
            },
            ..RunOptions::default()
        })
    }
}

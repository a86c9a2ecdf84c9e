//! The arguments of `collspec explore`; the comments on them are the help text.
use super::args::{AloneArgs, MANNER, OF_SELECTION, SelectionArgs};
use super::backend_args::BackendArgs;
use super::quick_args::QuickArgs;
use super::settings_args::SettingsArgs;
use clap::Args as ClapArgs;
use collspec_core::judge::Details;
use collspec_run::child::Workers;
use collspec_run::run::seconds;
use collspec_suite::suite::RunOptions;
use std::ffi::OsString;
use std::num::NonZeroU64;

/// Further options that only cases have.
const OF_CASES: [&str; 8] =
    ["require", "placement", "fault", "eager", "connect", "ranks_per_gpu", "opening_timeout", "nodes"];

/// Run cases, or a program, on many schedules, and find one on which a case fails.
///
/// A schedule is the order in which warps of software GPUs, or tasks of the software library, take turns; a seed decides it. Most give every warp
/// the same chance, some let one run far ahead, and some hold one back for a long time. Results must be right on each of them, and
/// those of schedules that run together, up to 100, must have the same bits. A case that fails is reported with its seed and not continued; `collspec run --seed N` runs it on that schedule again.
///
/// The threads of the library's host code run as the machine lets them, so a schedule need not fail every time.
///
/// A program after `--` runs whole on each schedule of software GPUs, and its results are judged as by `collspec judge`. Each of its
/// processes has the schedule; the machine decides between them.
///
/// Exit codes: 0 no schedule failed; 1 one did; 2 a file or the command line is wrong; 3 a required backend is missing; 130 interrupted.
#[derive(Debug, ClapArgs)]
pub struct ExploreArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,

    /// A program and its arguments, instead of cases.
    #[arg(last = true, value_name = "PROGRAM", conflicts_with_all = OF_SELECTION, conflicts_with_all = OF_CASES)]
    pub program: Vec<OsString>,

    #[command(flatten)]
    pub quick: QuickArgs,

    /// How many schedules of each case to run [default: 100, without --seconds; 10 of a program].
    #[arg(long, value_name = "N", help_heading = MANNER)]
    pub schedules: Option<NonZeroU64>,

    /// Start no further schedule after this many seconds.
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = MANNER)]
    pub seconds: Option<f64>,

    /// How often to run a schedule again that failed.
    #[arg(long, value_name = "N", default_value = "5", help_heading = MANNER)]
    pub confirmations: u32,

    #[command(flatten)]
    pub backend: BackendArgs,

    #[command(flatten)]
    pub alone: AloneArgs,

    #[command(flatten)]
    pub settings: SettingsArgs,
}

impl ExploreArgs {
    /// The options given, with defaults for everything else.
    pub fn options(&self) -> RunOptions {
        self.settings.apply(RunOptions {
            backend: self.backend.request(),
            reading: self.selection.reading(),
            details: Details::None,
            workers: Workers::CurrentExe,
            ..RunOptions::default()
        })
    }
}

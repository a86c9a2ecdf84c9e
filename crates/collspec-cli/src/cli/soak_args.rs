//! The arguments of `collspec soak`; the comments on them are the help text.
use super::args::{AloneArgs, MANNER, REPORT};
use super::backend_args::BackendArgs;
use super::settings_args::SettingsArgs;
use clap::Args as ClapArgs;
use collspec_core::judge::Details;
use collspec_run::child::Workers;
use collspec_run::run::seconds;
use collspec_suite::suite::options::usual_memory;
use collspec_suite::suite::{Reading, RunOptions};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

/// Run random valid programs for as long as you like.
///
/// Every program is made from a seed (the first from --seed, 0 if unset), read like a scenario file, planned, run and judged.
/// A program that fails is written to a file, along with a smaller version of it. Memory and descriptors must not grow with
/// the number of programs. Without --seconds and --programs, 500 programs are tried.
///
/// Exit codes: 0 every accepted program passed and nothing grew; 1 one failed, or something grew; 2 the command line is wrong; 3 a
/// required backend is missing; 130 interrupted.
#[derive(Debug, ClapArgs)]
pub struct SoakArgs {
    /// Keep starting programs for this many seconds. Programs that are running are finished, and a failing one is still made smaller.
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = MANNER)]
    pub seconds: Option<f64>,

    /// Try this many programs.
    #[arg(long, value_name = "N", help_heading = MANNER)]
    pub programs: Option<NonZeroU64>,

    /// How many programs run at the same time [default: one per core on soft, two per core on software GPUs, 1 on GPUs].
    #[arg(short, long, value_name = "N", help_heading = MANNER)]
    pub jobs: Option<NonZeroUsize>,

    /// The folder for programs that fail, created when the first one does.
    #[arg(long, value_name = "DIR", default_value = "soak", help_heading = REPORT)]
    pub output: PathBuf,

    #[command(flatten)]
    pub backend: BackendArgs,

    #[command(flatten)]
    pub alone: AloneArgs,

    #[command(flatten)]
    pub settings: SettingsArgs,
}

impl SoakArgs {
    /// The options given, with defaults for everything else.
    pub fn options(&self) -> RunOptions {
        let mut reading = Reading::default();
        reading.limits.memory = usual_memory();
        self.settings.apply(RunOptions {
            backend: self.backend.request(),
            jobs: self.jobs,
            reading,
            details: Details::None,
            workers: Workers::CurrentExe,
            ..RunOptions::default()
        })
    }
}

//! The arguments of `collspec minimize`; the comments on them are the help text.
use super::args::{AloneArgs, LIMITS, MANNER, REPORT};
use super::backend_args::BackendArgs;
use super::settings_args::SettingsArgs;
use clap::Args as ClapArgs;
use collspec_core::judge::Details;
use collspec_core::scenario::AllowEnv;
use collspec_run::child::Workers;
use collspec_run::run::seconds;
use collspec_suite::suite::options::usual_memory;
use collspec_suite::suite::{Reading, RunOptions};
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Make a failing case smaller while it still fails in the same way.
///
/// Ranks, elements, steps, keys, axes and variables are left out or made smaller as long as outcome, lane and operation of
/// the first finding stay the same. The scenario that is left goes to the standard output or to --output, and the nearest command
/// of nccl-tests is named.
///
/// A case that fails in some runs only is run until it is known how often, and smaller ones are run several times.
///
/// Exit codes: 0 the case was made as small as the time allowed; 1 the case does not fail; 2 the file or the command line is wrong; 3 a
/// required backend is missing.
#[derive(Debug, ClapArgs)]
pub struct MinimizeArgs {
    /// The scenario file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The case, as reports name it. Not needed for a file with one case.
    #[arg(long, value_name = "NAME")]
    pub case: Option<String>,

    /// Seconds for making the case smaller, once it has failed; the smallest case that was found until then is written.
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds, help_heading = MANNER)]
    pub budget: f64,

    /// How often the case is run at most until it fails, and each smaller one if the case fails in some runs only.
    #[arg(long, value_name = "N", default_value = "20", help_heading = MANNER)]
    pub repeats: NonZeroU32,

    /// Write the scenario to this file instead of the standard output.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub backend: BackendArgs,

    #[command(flatten)]
    pub alone: AloneArgs,

    #[command(flatten)]
    pub settings: SettingsArgs,

    /// Let the file set this NCCL_* variable too. May be given several times.
    #[arg(long, value_name = "NAME", value_parser = AllowEnv::parse_name, help_heading = LIMITS)]
    pub allow_env: Vec<String>,
}

impl MinimizeArgs {
    /// The options given, with defaults for everything else.
    pub fn options(&self) -> RunOptions {
        let mut reading = Reading { allow_env: AllowEnv::from_names(&self.allow_env), ..Reading::default() };
        reading.limits.memory = usual_memory();
        self.settings.apply(RunOptions {
            backend: self.backend.request(),
            reading,
            details: Details::None,
            workers: Workers::CurrentExe,
            ..RunOptions::default()
        })
    }
}

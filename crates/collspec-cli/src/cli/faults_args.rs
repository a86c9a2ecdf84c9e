//! The arguments of `collspec faults`; the comments on them are the help text.
use super::args::{AloneArgs, MANNER, REPORT, SelectionArgs};
use super::backend_args::BackendArgs;
use super::quick_args::QuickArgs;
use super::settings_args::CommonArgs;
use clap::Args as ClapArgs;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use collspec_core::job::FaultKind;
use collspec_core::judge::Details;
use collspec_run::child::Workers;
use collspec_suite::suite::RunOptions;
use std::num::NonZeroU64;
use std::path::PathBuf;

/// Run cases while memory, GPUs or connections fail, and see whether NCCL returns an error, hangs or gives wrong results.
///
/// Each case runs on software GPUs once without a fault, and then several times with each kind of fault. A fault strikes once, at a place and
/// a time that a seed decides. The table counts how these runs ended. Faults of the network need ranks on separate hosts: the case then
/// runs with each rank in a process with its own NCCL_HOSTID, so that NCCL uses sockets between them. Those of network adapters (ib_...) need
/// nodes that have some: --machine dgx-h100 --nodes 2.
///
/// Exit codes: 0 done, and nothing became worse than in --against; 1 something became worse; 2 a file or the command line is wrong, or no
/// case could be tried; 3 a required backend is missing; 130 interrupted.
#[derive(Debug, ClapArgs)]
pub struct FaultsArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,

    #[command(flatten)]
    pub quick: QuickArgs,

    /// Only this kind of fault. Can be given several times [default: all kinds].
    #[arg(long = "kind", value_name = "KIND", value_parser = kinds(), help_heading = MANNER)]
    pub kinds: Vec<FaultKind>,

    /// How often to run each case with each kind of fault.
    #[arg(long, value_name = "N", default_value = "10", help_heading = MANNER)]
    pub runs: NonZeroU64,

    /// The first seed; each further run has the next one.
    #[arg(long, value_name = "S", default_value = "0", help_heading = MANNER)]
    pub seed: u64,

    /// Write everything to this file as JSON, for --against; `-` is the standard output, which the table then does not go to.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub json: Option<PathBuf>,

    /// Compare with the results in this file, which --json wrote with another library and the same seeds.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub against: Option<PathBuf>,

    #[command(flatten)]
    pub backend: BackendArgs,

    #[command(flatten)]
    pub alone: AloneArgs,

    #[command(flatten)]
    pub common: CommonArgs,
}

fn kinds() -> impl TypedValueParser<Value = FaultKind> {
    let values = FaultKind::all().map(|kind| PossibleValue::new(kind.name()).help(kind.describe()));
    PossibleValuesParser::new(values)
        .try_map(|name| FaultKind::named(&name).ok_or_else(|| format!("no kind of fault is called `{name}`")))
}

impl FaultsArgs {
    /// The options given, with defaults for everything else.
    pub fn options(&self) -> RunOptions {
        self.common.apply(RunOptions {
            backend: self.backend.request(),
            reading: self.selection.reading(),
            details: Details::None,
            workers: Workers::CurrentExe,
            ..RunOptions::default()
        })
    }
}

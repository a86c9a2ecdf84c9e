//! What can be typed behind `collspec minimize`; the comments here are the help text.
use super::args::{BACKEND, LIMITS, LibraryArgs, MANNER, REPORT, SOFTWARE, fault, whole_number};
use crate::child::Workers;
use crate::run::{RanksPerGpu, seconds};
use crate::scenario::{AllowEnv, Placement};
use crate::suite::options::usual_memory;
use crate::suite::{BackendChoice, BackendRequest, Reading, RunOptions};
use clap::Args as ClapArgs;
use soft_nccl::Connect;
use soft_nccl::fault::FaultMode as Fault;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

/// Make a failing case smaller while it still fails in the same way.
///
/// Ranks, elements, steps, keys, axes and variables are left out or made smaller as long as outcome, lane and operation of
/// the first finding stay the same. The scenario that is left goes to the standard output or to --output, and the nearest command
/// of nccl-tests is named.
///
/// Exit codes: 0 it was made smaller as far as possible; 1 the case does not fail; 2 the file or the command line is wrong; 3 a
/// required backend is missing.
#[derive(Debug, ClapArgs)]
pub struct MinimizeArgs {
    /// The scenario file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The case, as reports name it. Not needed for a file with one case.
    #[arg(long, value_name = "NAME")]
    pub case: Option<String>,

    /// Time in seconds for making the case smaller, once it has failed; what is smallest then is written.
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds, help_heading = MANNER)]
    pub budget: f64,

    /// How often a case is run at most until it fails, for those that fail now and then.
    #[arg(long, value_name = "N", default_value = "20", help_heading = MANNER)]
    pub repeats: NonZeroU32,

    /// Write the scenario to this file instead of the standard output.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub output: Option<PathBuf>,

    /// What runs the cases: `nccl`, `soft`, or `auto`, as for `collspec run`.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = BackendChoice::parse, help_heading = BACKEND)]
    pub backend: BackendChoice,

    #[command(flatten)]
    pub place: LibraryArgs,

    /// How many ranks may share a GPU: a number, or auto.
    #[arg(long, value_name = "N", default_value = "1", value_parser = RanksPerGpu::parse, help_heading = BACKEND)]
    pub ranks_per_gpu: RanksPerGpu,

    /// Time limit in seconds for cases that name none. A case that hangs costs this much in every run.
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = MANNER)]
    pub timeout: Option<f64>,

    /// Time limit for what comes before and after a case, in seconds [default: 60].
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = MANNER)]
    pub opening_timeout: Option<f64>,

    /// Placement of the ranks for files that name none: threads, processes or one_thread.
    #[arg(long, value_name = "NAME", value_parser = Placement::parse, help_heading = MANNER)]
    pub placement: Option<Placement>,

    /// Shuffle the order in which the software library's tasks run; the same number gives the same order.
    #[arg(long, value_name = "N", value_parser = whole_number, help_heading = SOFTWARE)]
    pub seed: Option<u64>,

    /// Messages of up to this many bytes are sent without waiting for their receive (soft backend).
    #[arg(long, value_name = "BYTES", help_heading = SOFTWARE)]
    pub eager: Option<u64>,

    /// When ranks of the software library connect: `init` or `lazy`.
    #[arg(long, value_name = "WHEN", help_heading = SOFTWARE)]
    pub connect: Option<Connect>,

    /// Put the software library's ranks on machines of N (soft backend).
    #[arg(long, value_name = "N", help_heading = SOFTWARE)]
    pub ranks_per_node: Option<NonZeroUsize>,

    /// Give the software library this deliberate bug.
    #[arg(long, value_name = "FAULT", value_parser = fault, help_heading = SOFTWARE)]
    pub fault: Option<Fault>,

    /// Let the file set this NCCL_* variable too. May be given several times.
    #[arg(long, value_name = "NAME", value_parser = AllowEnv::parse_name, help_heading = LIMITS)]
    pub allow_env: Vec<String>,
}

impl MinimizeArgs {
    /// What was typed, and the default of everything else.
    pub fn options(&self) -> RunOptions {
        let mut reading = Reading { allow_env: AllowEnv::from_names(&self.allow_env), ..Reading::default() };
        reading.limits.memory = usual_memory();
        RunOptions {
            backend: BackendRequest {
                backend: self.backend,
                require: None,
                nccl: self.place.nccl.clone(),
                driver: self.place.driver.clone(),
            },
            ranks_per_gpu: self.ranks_per_gpu,
            timeout: self.timeout,
            opening_timeout: self.opening_timeout,
            seed: self.seed,
            eager: self.eager,
            connect: self.connect,
            ranks_per_node: self.ranks_per_node,
            fault: self.fault.unwrap_or_default(),
            placement: self.placement,
            reading,
            // No report shows them, and they would cost as much as the rest of the judging.
            without_order_maps: true,
            workers: Workers::CurrentExe,
            ..RunOptions::default()
        }
    }
}

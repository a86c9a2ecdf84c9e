//! The options of `collspec tuning`; the comments here are the help text.
use super::headings::{BACKEND, REPORT};
use crate::footprint::OPERATIONS;
use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use collspec_core::num::DType;
use collspec_run::child::Workers;
use collspec_run::run::seconds;
use collspec_suite::suite::options::{machine_name, nodes, size};
use collspec_suite::suite::{BackendRequest, DriverRequest, RunOptions};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Show what NCCL decides on a machine: algorithm, protocol and channels of each operation by size, and what its search of the topology finds.
///
/// The library is asked on software GPUs whose kernels do nothing, so that large sizes cost no time. NCCL tells its choices since 2.22.
///
/// Example: collspec tuning --nccl 2.32.3 --machine dgx-h100 --nodes 2
#[derive(Debug, ClapArgs)]
pub struct TuningArgs {
    /// Operations, as NCCL's log calls them [default: all that are listed below].
    #[arg(value_name = "OPERATION", value_parser = PossibleValuesParser::new(OPERATIONS.map(|(_, name)| name)))]
    pub operations: Vec<String>,

    /// The smallest size in bytes, for example 8, 32K or 1M.
    #[arg(long, short = 'b', value_name = "SIZE", value_parser = size, default_value = "1K")]
    pub minbytes: u64,

    /// The largest size in bytes.
    #[arg(long, short = 'e', value_name = "SIZE", value_parser = size, default_value = "1G")]
    pub maxbytes: u64,

    /// Each size is the previous one times this.
    #[arg(long, short = 'f', value_name = "N", value_parser = clap::value_parser!(u64).range(2..), default_value = "2")]
    pub stepfactor: u64,

    /// The element type, such as half, bfloat16 or float, or as scenarios call it.
    #[arg(long, short = 'd', value_name = "TYPE", value_parser = dtype, default_value = "float")]
    pub datatype: DType,

    /// Ranks, dealt to the nodes in equal blocks [default: one for each GPU].
    #[arg(long, short = 'g', visible_alias = "ngpus", value_name = "N")]
    pub ranks: Option<NonZeroUsize>,

    /// The library: a file, or one of the versions that `collspec nccl list` shows.
    #[arg(long, value_name = "PATH|VERSION", help_heading = BACKEND)]
    pub nccl: Option<String>,

    /// Have software GPUs be those of this machine, as for `collspec run`.
    #[arg(long, value_name = "NAME|FILE", value_parser = machine_name, help_heading = BACKEND)]
    pub machine: Option<String>,

    /// The number of nodes, as for `collspec run`.
    #[arg(long, value_name = "N", value_parser = nodes, help_heading = BACKEND)]
    pub nodes: Option<NonZeroUsize>,

    /// Time limit in seconds.
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "300", help_heading = BACKEND)]
    pub timeout: f64,

    /// Write everything to this file as JSON, for --against; `-` is the standard output, which the table then does not go to.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub json: Option<PathBuf>,

    /// Also say what is different from this file, which --json wrote with another library or machine.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub against: Option<PathBuf>,
}

fn dtype(text: &str) -> Result<DType, String> {
    DType::parse(text).ok_or_else(|| format!("there is no type `{text}`"))
}

impl TuningArgs {
    /// The options given: software GPUs, also on a machine with others.
    pub fn options(&self) -> RunOptions {
        let backend = BackendRequest {
            nccl: self.nccl.clone(),
            driver: DriverRequest::parse("software"),
            machine: self.machine.clone(),
            nodes: self.nodes,
            ..BackendRequest::default()
        };
        RunOptions { backend, workers: Workers::CurrentExe, ..RunOptions::default() }
    }
}

//! The settings of a run that several commands take; the comments here are their help text.
use super::args::{BACKEND, MANNER, SOFTWARE};
use clap::Args as ClapArgs;
use collspec_core::scenario::Placement;
use collspec_run::job::{EarlyLoads, StoreUnit};
use collspec_run::run::{RanksPerGpu, seconds};
use collspec_suite::suite::RunOptions;
use soft_nccl::Connect;
use soft_nccl::fault::{FaultMode as Fault, NoFault};
use std::num::NonZeroUsize;
use std::str::FromStr;

/// How cases run.
#[derive(Debug, ClapArgs)]
pub struct SettingsArgs {
    #[command(flatten)]
    pub common: CommonArgs,

    #[command(flatten)]
    pub software: SoftwareArgs,

    /// How ranks are placed in files that do not say: threads, processes or one_thread. Cases that cannot run this way run
    /// in the default placement.
    #[arg(long, value_name = "NAME", value_parser = Placement::parse, help_heading = MANNER)]
    pub placement: Option<Placement>,
}

/// What holds for every library.
#[derive(Debug, ClapArgs)]
pub struct CommonArgs {
    /// How many ranks may share a GPU if a case has more ranks than there are GPUs: a number, or auto for as many as the
    /// case needs. Ranks that share a GPU each run in a separate process. With 1, such cases are skipped.
    #[arg(long, value_name = "N", default_value = "1", value_parser = RanksPerGpu::parse, help_heading = BACKEND)]
    pub ranks_per_gpu: RanksPerGpu,

    /// Time limit in seconds for cases whose file sets none [default: 30].
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = MANNER)]
    pub timeout: Option<f64>,

    /// Time limit in seconds for what comes before and after a case: making communicators and filling buffers, and destroying
    /// communicators [default: 60].
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = MANNER)]
    pub opening_timeout: Option<f64>,
}

/// What only the software library has.
#[derive(Debug, ClapArgs)]
pub struct SoftwareArgs {
    /// Shuffle the order in which the software library's tasks run, or the warps of software GPUs take turns; the same number gives the same order.
    #[arg(long, value_name = "N", value_parser = whole_number, help_heading = SOFTWARE)]
    pub seed: Option<u64>,

    /// Let others see the stores of kernels on software GPUs late, and in any order that no fence forbids, as --seed decides [seed: 0 if
    /// unset]. The value is what becomes visible at once: an `element` of a thread's vector, which is all that PTX guarantees; what a
    /// `thread` stores with one instruction; or a `line` of 128 bytes.
    #[arg(long, value_name = "UNIT", value_parser = StoreUnit::from_str, help_heading = SOFTWARE)]
    pub delay_stores: Option<StoreUnit>,

    /// Let loads of kernels on software GPUs find what memory held earlier, as far as no acquire forbids it, as --seed decides [seed: 0 if
    /// unset]: `weak` loads, which a GPU's L1 cache may satisfy; or `all` of them, which PTX permits, so volatile and relaxed ones too.
    #[arg(long, value_name = "LOADS", value_parser = EarlyLoads::from_str, help_heading = SOFTWARE)]
    pub early_loads: Option<EarlyLoads>,

    /// Send messages of up to this many bytes without waiting for their receive (soft backend) [default: 0].
    #[arg(long, value_name = "BYTES", help_heading = SOFTWARE)]
    pub eager: Option<u64>,

    /// When the software library's ranks connect: `init` (the default), while they make a communicator; or `lazy`, in the first
    /// call that needs it, where the host waits for the other ranks' first call, as with NCCL.
    #[arg(long, value_name = "WHEN", help_heading = SOFTWARE)]
    pub connect: Option<Connect>,

    /// Let the software library act as if its ranks were on machines with N ranks each (soft backend). Rings, trees, channels and
    /// chunks are then those of NCCL on such machines, and results that round have the same bits.
    #[arg(long, value_name = "N", help_heading = SOFTWARE)]
    pub ranks_per_node: Option<NonZeroUsize>,

    /// Give the software library this deliberate bug, to see which scenarios catch it: F01 and up (`collspec audit
    /// --list-faults` lists them). `,rank=N` limits it to one rank, and `,algorithm=NAME` to one algorithm.
    #[arg(long, value_name = "FAULT", value_parser = fault, help_heading = SOFTWARE)]
    pub fault: Option<Fault>,
}

impl SettingsArgs {
    /// The options, with what was typed.
    pub fn apply(&self, options: RunOptions) -> RunOptions {
        let options = self.software.apply(self.common.apply(options));
        RunOptions { placement: self.placement, ..options }
    }
}

impl CommonArgs {
    /// The options, with what was typed.
    pub fn apply(&self, options: RunOptions) -> RunOptions {
        RunOptions {
            ranks_per_gpu: self.ranks_per_gpu,
            timeout: self.timeout,
            opening_timeout: self.opening_timeout,
            ..options
        }
    }
}

impl SoftwareArgs {
    /// The options, with what was typed.
    pub fn apply(&self, options: RunOptions) -> RunOptions {
        RunOptions {
            seed: self.seed,
            delay_stores: self.delay_stores,
            early_loads: self.early_loads,
            eager: self.eager,
            connect: self.connect,
            ranks_per_node: self.ranks_per_node,
            fault: self.fault.unwrap_or_default(),
            ..options
        }
    }
}

/// Parses a whole number.
fn whole_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected a whole number, 0 or more".to_owned())
}

fn fault(text: &str) -> Result<Fault, NoFault> {
    text.parse()
}

//! The arguments of `collspec audit` for the kernels of a real library; the comments on them are the help text.
use super::headings::KERNELS;
use clap::Args as ClapArgs;
use collspec_run::job::{EarlyLoads, Mutant, StoreUnit};
use std::num::NonZeroUsize;

/// How the kernels of a real library are audited.
#[derive(Debug, ClapArgs)]
pub struct MutantsArgs {
    /// How many mutants to make, spread over the kinds of change and the functions of the library.
    #[arg(long, value_name = "N", default_value = "100", requires = "nccl", help_heading = KERNELS)]
    pub mutants: NonZeroUsize,

    /// Decides which of the possible mutants are made.
    #[arg(long, value_name = "S", default_value = "0", requires = "nccl", help_heading = KERNELS)]
    pub seed: u64,

    /// Make only this mutant, by the name that a report has given it. Can be given several times.
    #[arg(long, value_name = "MUTANT", requires = "nccl", conflicts_with_all = ["mutants", "seed"], help_heading = KERNELS)]
    pub only: Vec<Mutant>,

    /// The most cases that run with a mutant: the cheapest of those that execute the changed instruction.
    #[arg(long, value_name = "N", default_value = "10", requires = "nccl", help_heading = KERNELS)]
    pub most_cases: NonZeroUsize,

    /// Let others see the stores of kernels late, as for `collspec run`: without this, no case can notice that a fence is left out.
    #[arg(long, value_name = "UNIT", requires = "nccl", help_heading = KERNELS)]
    pub delay_stores: Option<StoreUnit>,

    /// Let loads find what memory held at an earlier moment, as for `collspec run`.
    #[arg(long, value_name = "LOADS", requires = "nccl", help_heading = KERNELS)]
    pub early_loads: Option<EarlyLoads>,
}

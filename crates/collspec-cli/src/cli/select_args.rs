//! The options of `collspec select`; the comments here are the help text.
use super::args::{SelectionArgs, at_least_one};
use super::headings::{BACKEND, MANNER, REPORT};
use clap::Args as ClapArgs;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Choose the cases of --quick and --smoke by what each case reaches in NCCL.
///
/// Each case that differs from others in its operation, type or another of its values runs on software GPUs on each library, while the
/// instructions of kernels and the functions of host code that it reaches are noted. Few cases that reach what all of
/// them reach are written as a table. Those of collspec's own corpus were chosen like this.
///
/// Example: collspec select --nccl 2.27.5,2.32.3 --output selection.txt
#[derive(Debug, ClapArgs)]
pub struct SelectArgs {
    #[command(flatten)]
    pub selection: SelectionArgs,

    /// The libraries, separated by commas: files, or versions that `collspec nccl list` shows.
    #[arg(long, value_name = "PATH|VERSION", value_delimiter = ',', required = true, help_heading = BACKEND)]
    pub nccl: Vec<String>,

    /// How many cases run at the same time [default: as for `collspec run`].
    #[arg(long, short, value_name = "N", value_parser = at_least_one, help_heading = MANNER)]
    pub jobs: Option<NonZeroUsize>,

    /// Write the table to this file instead of standard output. It cannot be a scenario file of the run.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub output: Option<PathBuf>,
}

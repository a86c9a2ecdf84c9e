//! The arguments of `collspec import`; the comments on them are the help text.
use super::args::REPORT;
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// Make scenarios from logs and dumps of other programs.
///
/// The inputs are read as data; nothing in them is run. The scenario is written to standard output or to --output. What is
/// not in the input is guessed, and each guess is a comment of the scenario.
#[derive(Debug, ClapArgs)]
pub struct ImportArgs {
    #[command(subcommand)]
    pub from: Source,
}

#[derive(Debug, Subcommand)]
pub enum Source {
    NcclLog(NcclLogArgs),
    FlightRecorder(FlightRecorderArgs),
    NcclTests(NcclTestsArgs),
}

/// From a command line of nccl-tests: a sweep with the same sizes, types, reductions and roots.
#[derive(Debug, ClapArgs)]
pub struct NcclTestsArgs {
    /// The line, such as all_reduce_perf -b 8 -e 1M -f 2 -d bfloat16 -g 8, with or without quotes around it; a launcher may be in front.
    #[arg(value_name = "LINE", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub line: Vec<String>,

    #[command(flatten)]
    pub to: ImportOutput,
}

/// From NCCL's log of any program: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL.
///
/// Give the logs of all processes of one job. Other lines, and words before NCCL's, do not matter.
#[derive(Debug, ClapArgs)]
pub struct NcclLogArgs {
    /// The log files.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Every different call once, as a variant. This is the default.
    #[arg(long, conflicts_with = "rounds")]
    pub unique: bool,

    /// The program in its order. What repeats becomes a loop.
    #[arg(long)]
    pub rounds: bool,

    /// Add a table `bench` to each of the 8 most frequent calls that are on all ranks.
    #[arg(long, conflicts_with = "rounds")]
    pub bench: bool,

    #[command(flatten)]
    pub to: ImportOutput,
}

/// From the dumps of PyTorch's Flight Recorder, one for each rank.
///
/// `collspec check` says of the scenario which rank others wait for.
#[derive(Debug, ClapArgs)]
pub struct FlightRecorderArgs {
    /// The folder of the dumps: files whose names end in the number of the rank. Pickle or JSON.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// How many steps to keep before the first one that was not completed.
    #[arg(long, value_name = "N", default_value = "20")]
    pub last: usize,

    /// Write `outcome = "hang"`, so that the scenario can be run.
    #[arg(long)]
    pub hang: bool,

    #[command(flatten)]
    pub to: ImportOutput,
}

#[derive(Debug, ClapArgs)]
pub struct ImportOutput {
    /// Write the scenario to this file instead of standard output.
    #[arg(long, short = 'o', value_name = "FILE", help_heading = REPORT)]
    pub output: Option<PathBuf>,
}

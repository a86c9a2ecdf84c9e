//! The arguments of `collspec judge`; the comments on them are the help text.
use super::args::{BACKEND, LIMITS, REPORT};
use super::gpu::PlaceArgs;
use super::headings::REQUIRED;
use clap::Args as ClapArgs;
use collspec_core::plan::Limits;
use std::ffi::OsString;
use std::path::PathBuf;

/// Run a program and judge the results of its NCCL calls by copies of some elements.
///
/// Of each call of every rank, some elements of the input are copied before it and some of the output after it, in stream order and at places
/// that all ranks choose alike. They are matched over the ranks and judged as `collspec run` judges: exactly, by every order of the
/// reduction, or by a bound. Programs that it starts are followed. On a machine without a GPU it runs on software GPUs.
/// With paths instead of a program, files that were brought together are judged. docs/judge.md says what is copied and where it goes.
///
/// The exit code is the program's. If that is 0: 1 a result is wrong; 2 a file or the command line is wrong; 3 fewer elements were judged than
/// --at-least asks for.
///
/// Example: collspec judge --output copies -o wrong.toml -- torchrun --nproc-per-node 8 train.py
#[derive(Debug, ClapArgs)]
pub struct JudgeArgs {
    /// Files of `collspec judge --output`, or folders of them.
    #[arg(value_name = "PATH", required_unless_present = "program", conflicts_with_all = ["program", "folder"])]
    pub paths: Vec<PathBuf>,

    /// The program and its arguments.
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,

    /// The GPUs of the program: `cuda` for the machine's, `software` for software GPUs. If it is not given, software GPUs where the machine
    /// has none; a program that is collspec itself chooses.
    #[arg(long, value_name = "NAME", value_parser = ["cuda", "software"], help_heading = BACKEND)]
    pub driver: Option<String>,

    #[command(flatten)]
    pub place: PlaceArgs,

    /// Keep the files, with the calls and the copied elements, in this folder. Without it they are removed.
    #[arg(long = "output", value_name = "FOLDER")]
    pub folder: Option<PathBuf>,

    /// Decides the places, and which calls are in the sample.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Look at this share of the calls, the same ones on all ranks.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share, help_heading = LIMITS)]
    pub sample: f64,

    /// Copy every element, and not some of them.
    #[arg(long)]
    pub all: bool,

    /// Stop writing when the file of a process has this many bytes; the program goes on.
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = Limits::bytes, help_heading = LIMITS)]
    pub limit_bytes: u64,

    /// Fail with exit code 3 if fewer elements were judged.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = REQUIRED)]
    pub at_least: u64,

    /// Write a scenario with the inputs of the first wrong element to this file.
    #[arg(long, short = 'o', value_name = "FILE", help_heading = REPORT)]
    pub scenario: Option<PathBuf>,

    /// Write the verdict as JSON to this file.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub json: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "expected a share of more than 0 and at most 1, for example 0.01".to_owned())
}

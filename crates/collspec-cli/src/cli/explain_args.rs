//! The arguments of `collspec explain`; the comments on them are the help text.
use super::args::{AloneArgs, LIMITS, LimitArgs, REPORT};
use clap::{Args as ClapArgs, ValueEnum};
use collspec_core::scenario::AllowEnv;
use collspec_suite::suite::Reading;
use std::path::PathBuf;

/// Show what a case does, in words and as a picture: every rank's buffers before and after each step.
///
/// Values are coloured by the rank that they came from in the step; without colours they are labelled with it. Large worlds and
/// buffers are folded. Nothing is run, except with --rounds.
///
/// Exit codes: 0 the case was explained; 2 the file or the command line is wrong.
#[derive(Debug, ClapArgs)]
pub struct ExplainArgs {
    /// The scenario file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The name of the case, as in reports. Without it, the first case of the file is explained, and the names of the others are
    /// listed.
    #[arg(long, value_name = "NAME")]
    pub case: Option<String>,

    /// Also show the messages of each step, round by round: the case is run on the software library, which writes down what its
    /// ranks send each other.
    #[arg(long)]
    pub rounds: bool,

    /// The algorithm whose rounds are shown: ring, tree or single_tree, for all operations that have it. The default is what the
    /// file asks for, or the ring.
    #[arg(long, value_name = "NAME", requires = "rounds")]
    pub algorithm: Option<String>,

    /// The format: text, svg (a picture) or html (a page that needs nothing else).
    #[arg(long, value_name = "FORMAT", default_value = "text", help_heading = REPORT)]
    pub format: ExplainFormat,

    /// Write to this file instead of standard output.
    #[arg(long, short = 'o', value_name = "FILE", help_heading = REPORT)]
    pub output: Option<PathBuf>,

    /// Let the file set this NCCL_* variable as well. Can be given several times.
    #[arg(long, value_name = "NAME", value_parser = AllowEnv::parse_name, help_heading = LIMITS, hide_short_help = true)]
    pub allow_env: Vec<String>,

    #[command(flatten)]
    pub bounds: LimitArgs,

    #[command(flatten)]
    pub alone: AloneArgs,
}

/// How an explanation is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExplainFormat {
    Text,
    Svg,
    Html,
}

impl ExplainArgs {
    /// How the file is read.
    pub fn reading(&self) -> Reading {
        Reading { allow_env: AllowEnv::from_names(&self.allow_env), limits: self.bounds.limits(), ..Reading::default() }
    }
}

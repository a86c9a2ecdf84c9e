//! The arguments of `collspec hang`; the comments on them are the help text.
use super::args::REPORT;
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Say which rank a job that stands still waits for, and at which call it left the others.
///
/// Reads the dumps of PyTorch's Flight Recorder, NCCL's logs (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL) or the recordings of
/// `collspec record`, of as many ranks as there are, and compares what the ranks called. Nothing in them is run.
///
/// Exit codes: 0 no rank left the others; 1 a rank did, or ranks wait for each other; 2 a file or the command line is wrong; 4 nothing
/// can be said but that ranks are missing.
#[derive(Debug, ClapArgs)]
pub struct HangArgs {
    /// Files, or folders of files; `-` is the standard input. What each file is, is recognised; gzip is read too.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,

    /// Write the diagnosis as JSON to the standard output instead of the text.
    #[arg(long, conflicts_with = "markdown", help_heading = REPORT)]
    pub json: bool,

    /// Write it as Markdown, for an issue.
    #[arg(long, help_heading = REPORT)]
    pub markdown: bool,

    /// Write a scenario of what the ranks called last to this file.
    #[arg(long, short = 'o', value_name = "FILE", help_heading = REPORT)]
    pub output: Option<PathBuf>,
}

//! How few of the cases run; the comments here are the help text.
use super::headings::CASES;
use clap::Args as ClapArgs;
use collspec_suite::suite::Quick;

#[derive(Debug, ClapArgs)]
pub struct QuickArgs {
    /// Run few of the cases, which reach as much of NCCL's kernels and host code as a selection in which everything occurs that
    /// distinguishes cases: `collspec select` has measured it for collspec's own corpus. Every file occurs, and every operation with each
    /// type, reduction, number of ranks, placement, NCCL variable and way of passing its buffers.
    ///
    /// Of files that were not measured, and with --forms, it is that selection itself.
    ///
    /// This is the default if a real library runs on software GPUs and neither a PATH nor a filter is given.
    #[arg(long, help_heading = CASES)]
    quick: bool,

    /// Run those that reach most of NCCL in about a minute on two cores without a GPU, for example for each pull request. Of files that
    /// were not measured it runs as many as --quick.
    #[arg(long, conflicts_with = "quick", help_heading = CASES)]
    smoke: bool,
}

impl QuickArgs {
    /// The selection that was asked for.
    pub fn selection(&self) -> Option<Quick> {
        match self {
            Self { smoke: true, .. } => Some(Quick::Smoke),
            Self { quick: true, .. } => Some(Quick::Quick),
            _ => None,
        }
    }

    /// The option that was given.
    pub fn given(&self) -> Option<&'static str> {
        self.selection().map(|selection| match selection {
            Quick::Quick => "--quick",
            Quick::Smoke => "--smoke",
        })
    }
}

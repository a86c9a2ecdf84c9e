//! Communicators: those created before the first step, and those of a step.
use super::{ConfigValue, NumberByRank, Ranks, Spanned};

/// A communicator created before the first step, or by `init` and `split`.
#[derive(Clone, Debug)]
pub struct CommDef {
    /// The communicator's name in the file.
    pub name: Spanned<String>,
    /// The way it is created.
    pub creation: CommCreation,
    /// Its configuration, which takes precedence over the case's.
    pub config: Vec<(Spanned<String>, Spanned<ConfigValue>)>,
    /// The number of unique ids to create it with; `None` for a single one passed to all ranks.
    pub ids: Option<Spanned<i128>>,
}

/// The way a communicator is created.
#[derive(Clone, Debug)]
pub enum CommCreation {
    /// By unique ids: a communicator for each list of world ranks.
    Groups(Spanned<Vec<Vec<Spanned<i128>>>>),
    /// By splitting `comm`; colour and key are evaluated for ranks of `comm`.
    Split {
        /// The communicator that is split.
        comm: Spanned<String>,
        /// The colour; -1 for no new communicator.
        color: NumberByRank,
        /// Sort key of the new ranks; the default is the old rank.
        key: Option<NumberByRank>,
    },
    /// By removing ranks of `comm`; the ranks are those of `comm`.
    Shrink {
        /// The communicator that is shrunk.
        comm: Spanned<String>,
        /// The ranks that are left out, which do not make the call.
        without: Spanned<Ranks>,
        /// True if the parent's operations are aborted first.
        abort: bool,
    },
    /// By adding world ranks after those of `comm`.
    Grow {
        /// The communicator that grows.
        comm: Spanned<String>,
        /// The ranks that join.
        with: Spanned<Ranks>,
    },
}

impl CommCreation {
    /// The communicator from which the new one is made.
    pub fn parent(&self) -> Option<&str> {
        match self {
            Self::Split { comm, .. } | Self::Shrink { comm, .. } | Self::Grow { comm, .. } => Some(&comm.value),
            Self::Groups(_) => None,
        }
    }
}

/// The communicators that a step runs in.
#[derive(Clone, Debug)]
pub enum StepComm {
    /// A named communicator (`world` by default).
    Comm(Spanned<String>),
    /// New communicators by world ranks.
    Groups(Spanned<Vec<Vec<Spanned<i128>>>>),
}

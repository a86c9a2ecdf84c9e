//! Communicators: those that are made before the first step, and those of a step.
use super::{ConfigValue, NumberByRank, Ranks, Spanned};

/// A communicator made before the first step, or by `init` and `split`.
#[derive(Clone, Debug)]
pub struct CommDef {
    /// Its name.
    pub name: Spanned<String>,
    /// How it is made.
    pub creation: CommCreation,
    /// Its configuration, which precedes the case's.
    pub config: Vec<(Spanned<String>, Spanned<ConfigValue>)>,
    /// How many unique ids it is made by, if not by one that all ranks pass alone.
    pub ids: Option<Spanned<i128>>,
}

/// How a communicator is made.
#[derive(Clone, Debug)]
pub enum CommCreation {
    /// By unique ids: a communicator for each list of world ranks.
    Groups(Spanned<Vec<Vec<Spanned<i128>>>>),
    /// By splitting `comm`; colour and key count in it.
    Split {
        /// The parent.
        comm: Spanned<String>,
        /// Colour; -1 for no new communicator.
        color: NumberByRank,
        /// Sort key of the new ranks; the default is the old rank.
        key: Option<NumberByRank>,
    },
    /// By leaving ranks of `comm` out; the ranks count in it.
    Shrink {
        /// The parent.
        comm: Spanned<String>,
        /// The ranks that are left out, which make no call.
        without: Spanned<Ranks>,
        /// True if the parent's operations are aborted first.
        abort: bool,
    },
    /// By adding world ranks behind those of `comm`.
    Grow {
        /// The parent.
        comm: Spanned<String>,
        /// The ranks that join.
        with: Spanned<Ranks>,
    },
}

/// The communicators in which a step runs.
#[derive(Clone, Debug)]
pub enum StepComm {
    /// A named communicator (`world` by default).
    Comm(Spanned<String>),
    /// New communicators by world ranks.
    Groups(Spanned<Vec<Vec<Spanned<i128>>>>),
}

//! The events of a run, which reporters consume.
use crate::judge::Verdict;
use crate::scenario::Case;
use std::sync::Arc;

/// What happens while a suite runs, in the order in which it happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// Nothing has run yet.
    Started {
        /// Number of cases that will run.
        cases: usize,
    },
    /// A case has been given to a worker.
    CaseStarted {
        /// Which.
        case: Arc<Case>,
    },
    /// The verdict on a case.
    CaseDone {
        /// Which.
        case: Arc<Case>,
        /// The verdict.
        verdict: Box<Verdict>,
    },
    /// Every case has its verdict.
    Finished {
        /// Wall-clock time since `Started`.
        seconds: f64,
    },
}

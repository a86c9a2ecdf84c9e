//! The events of a run, which reporters consume.
use crate::judge::Verdict;
use crate::scenario::{Case, Diagnostic, SourceFile};
use std::sync::Arc;

/// What happens while a suite runs, in the order in which it happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// Nothing has run yet.
    Started {
        /// Number of cases that will run.
        cases: usize,
    },
    /// A file has errors, so that none of its cases run. These events come before those of cases.
    FileInvalid {
        /// The file.
        file: Arc<SourceFile>,
        /// The name of its cases, without a point.
        name: String,
        /// What is wrong.
        diagnostics: Vec<Diagnostic>,
    },
    /// A file has warnings. These events come before those of cases.
    FileWarned {
        /// The file.
        file: Arc<SourceFile>,
        /// The name of its cases, without a point.
        name: String,
        /// What may go wrong.
        warnings: Vec<Diagnostic>,
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
    /// Every case that was started has its verdict.
    Finished {
        /// Wall-clock time since `Started`.
        seconds: f64,
    },
}

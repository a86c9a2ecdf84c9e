//! The events of a run, which reporters consume.
use collspec_core::judge::Verdict;
use collspec_core::scenario::{Case, Diagnostic, SourceFile};
use std::sync::Arc;

/// An event of a running suite, in the order in which events happen.
#[derive(Clone, Debug)]
pub enum Event {
    /// Nothing has run yet.
    Started {
        /// Number of cases that will run.
        cases: usize,
    },
    /// A file has errors, so that its cases do not run. These events come before those of cases.
    FileInvalid {
        /// The file with errors.
        file: Arc<SourceFile>,
        /// The name of its cases, without a point.
        name: String,
        /// The errors.
        diagnostics: Vec<Diagnostic>,
    },
    /// A file has warnings. These events come before those of cases.
    FileWarned {
        /// The file with warnings.
        file: Arc<SourceFile>,
        /// The name of its cases, without a point.
        name: String,
        warnings: Vec<Diagnostic>,
    },
    /// A case has been given to a worker.
    CaseStarted {
        /// The case that starts.
        case: Arc<Case>,
    },
    /// The verdict on a case.
    CaseDone {
        /// The case that has ended.
        case: Arc<Case>,
        /// The verdict on the case.
        verdict: Box<Verdict>,
    },
    /// Every case that was started has its verdict.
    Finished {
        /// Wall-clock time since `Started`.
        seconds: f64,
    },
}

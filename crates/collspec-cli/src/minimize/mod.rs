//! Makes a failing case smaller while it still fails in the same way: fewer ranks, elements, steps, keys and axes.
//!
//! A scenario is reduced as a TOML document. Each changed document is read, planned and run like any other file, so a change
//! need not be meaningful: if it is not, the document is not a scenario, or fails differently, and is given up.
mod axes;
mod document;
mod failure;
mod graphs;
mod kept;
mod nccl_tests;
mod numbers;
mod passes;
mod rate;
mod size;
mod trial;
mod words;

pub use failure::Failure;
pub use nccl_tests::nearest_command;
pub use size::Size;

use collspec_core::printable::one_line;
use collspec_core::scenario::{AllowEnv, Case, SourceFile};
use collspec_suite::suite::{Error as SuiteError, Runner};
use document::Document;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use trial::Trials;

/// The case to reduce, and the limits on the effort.
#[derive(Clone, Debug)]
pub struct Request {
    /// The file that has the case.
    pub file: Arc<SourceFile>,
    /// The name of the file's cases, without a point.
    pub stem: String,
    /// The name of the case; `None` for the only case of the file.
    pub case: Option<String>,
    /// Variables that files may set beyond the usual ones.
    pub allow_env: AllowEnv,
    /// The time until the case has failed, and again for making it smaller. No run of a smaller case takes longer on the library.
    pub budget: Duration,
    /// Limit on the runs of a case until it fails.
    pub repeats: u32,
}

/// The reason nothing was reduced.
#[derive(Debug, Error)]
pub enum Error {
    /// The file has errors: they are the text.
    #[error("{0}")]
    Invalid(String),
    /// No case has the name, or a name is needed.
    #[error("{0}")]
    NoSuchCase(String),
    /// The case does not fail.
    #[error("{name} does not fail: it {what} in {runs}", runs = crate::minimize::in_runs(*.runs))]
    DoesNotFail {
        /// The case's name.
        name: String,
        /// A description of what it did instead.
        what: &'static str,
        /// Number of runs that were made.
        runs: u32,
    },
    /// The runner could not be used.
    #[error(transparent)]
    Suite(#[from] SuiteError),
    /// Progress could not be written.
    #[error(transparent)]
    Progress(#[from] io::Error),
}

/// `1 run`, `2 runs`.
pub(crate) fn in_runs(runs: u32) -> String {
    if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") }
}

/// The smallest case that was found.
#[derive(Debug)]
pub struct Reduced {
    /// The scenario's text, which begins with a comment about its origin.
    pub text: String,
    /// The reduced case.
    pub case: Arc<Case>,
    /// The way it fails.
    pub failure: Failure,
    /// The sizes of the case before and after.
    pub size: (Size, Size),
    /// Total number of runs of cases.
    pub runs: u32,
    /// If the original case ran more than once: the number of failed runs, and the number of runs.
    pub flaky: Option<(u32, u32)>,
    /// A sentence for each thing that is still more than one, with the reason it could not be reduced.
    pub kept: Vec<String>,
    /// True if the time ended before everything was tried.
    pub out_of_time: bool,
    /// Seconds that it took.
    pub seconds: f64,
}

/// Makes the case smaller; `progress` receives each smaller one.
///
/// # Errors
///
/// The file is invalid, the case does not exist or does not fail, or `progress` fails.
pub fn minimize(
    request: &Request,
    runner: &Runner,
    progress: &mut dyn FnMut(Size, u32) -> io::Result<()>,
) -> Result<Reduced, Error> {
    let begun = Instant::now();
    let mut trials = Trials::new(request, runner, begun)?;
    let first = trials.first_failure()?;
    let before = first.size;
    let mut document = axes::only(&trials, Document::read(&request.file.text))?;
    document = passes::reduce(&mut trials, document, progress)?;
    let out_of_time = trials.is_out_of_time();
    let last = trials.into_last();
    let reason = last.verdict.reason.clone().unwrap_or_else(|| last.failure.to_string());
    let reason = one_line(&reason);
    let origin = format!("# Reduced from {} ({}): {reason}", first.name, one_line(&request.file.path));
    Ok(Reduced {
        text: format!("{origin}\n{document}"),
        case: last.case,
        failure: last.failure,
        size: (before, last.size),
        runs: last.runs,
        flaky: first.flaky,
        kept: last.kept,
        out_of_time,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

#[cfg(test)]
mod tests;

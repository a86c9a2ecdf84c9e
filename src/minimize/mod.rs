//! Makes a failing case smaller while it still fails in the same way: fewer ranks, elements, steps, keys and axes.
//!
//! A scenario is reduced as a TOML document. What a change makes of it is read, planned and run like any other file, so no change
//! needs to know whether it makes sense: one that does not is no scenario, or fails otherwise, and is given up.
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

use crate::printable::one_line;
use crate::scenario::{AllowEnv, Case, SourceFile};
use crate::suite::{Error as SuiteError, Runner};
use document::Document;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use trial::Trials;

/// What is reduced, and what that may cost.
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
    /// How often a case is run at most until it fails.
    pub repeats: u32,
}

/// Why nothing was reduced.
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
        /// The case.
        name: String,
        /// What it did instead.
        what: &'static str,
        /// Number of runs.
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

/// The case as small as it got.
#[derive(Debug)]
pub struct Reduced {
    /// The scenario's text, which begins with a comment that says where it comes from.
    pub text: String,
    /// Its case.
    pub case: Arc<Case>,
    /// How it fails.
    pub failure: Failure,
    /// The sizes of the case before and after.
    pub size: (Size, Size),
    /// Runs of cases.
    pub runs: u32,
    /// Of how many runs of the case as it was given how many failed, if it was run more than once.
    pub flaky: Option<(u32, u32)>,
    /// What is still more than one, and why there is not less of it, a sentence each.
    pub kept: Vec<String>,
    /// True if the time ended before nothing more could be reduced.
    pub out_of_time: bool,
    /// Seconds that it took.
    pub seconds: f64,
}

/// Makes the case smaller; `progress` is told of each smaller one.
///
/// # Errors
///
/// The file is invalid, there is no such case, it does not fail, or `progress` fails.
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

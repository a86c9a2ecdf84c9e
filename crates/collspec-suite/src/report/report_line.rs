//! The lines of `collspec run --format jsonl`.
use super::source_place::line_column;
use super::{CaseReport, RunFacts, Tally};
use collspec_core::printable::bounded;
use collspec_core::scenario::{Diagnostic, SourceFile};
use serde::{Deserialize, Serialize};

/// A line of `collspec run --format jsonl`: a case, an invalid file, the warnings of a file, or the summary, which is the last line.
///
/// ```
/// # mod collspec { pub use collspec_suite::report::ReportLine; }
/// use collspec::ReportLine;
/// let line = r#"{"summary":{"pass":3,"fail":1,"skip":0,"invalid_files":0,"not_run":0,"seconds":1.5,"backend":"soft","library":"2.30.7"}}"#;
/// let ReportLine::Summary(summary) = serde_json::from_str(line)? else { panic!("the summary") };
/// assert_eq!((summary.pass, summary.fail), (3, 1));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Line", into = "Line")]
#[non_exhaustive]
pub enum ReportLine {
    /// A case that has ended.
    Case(Box<CaseReport>),
    /// A file whose cases were not run because it has errors.
    InvalidFile(InvalidFileReport),
    /// A file that was run although it has warnings.
    Warnings(InvalidFileReport),
    /// The numbers of the run.
    Summary(RunSummary),
}

/// The forms of a line as JSON.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    InvalidFile { invalid_file: InvalidFileReport },
    Warnings { warnings: InvalidFileReport },
    Summary { summary: RunSummary },
    Case(Box<CaseReport>),
}

impl From<Line> for ReportLine {
    fn from(line: Line) -> Self {
        match line {
            Line::InvalidFile { invalid_file } => Self::InvalidFile(invalid_file),
            Line::Warnings { warnings } => Self::Warnings(warnings),
            Line::Summary { summary } => Self::Summary(summary),
            Line::Case(case) => Self::Case(case),
        }
    }
}

impl From<ReportLine> for Line {
    fn from(line: ReportLine) -> Self {
        match line {
            ReportLine::InvalidFile(invalid_file) => Self::InvalidFile { invalid_file },
            ReportLine::Warnings(warnings) => Self::Warnings { warnings },
            ReportLine::Summary(summary) => Self::Summary { summary },
            ReportLine::Case(case) => Self::Case(case),
        }
    }
}

/// A file whose cases were not run because it has errors, or one with warnings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InvalidFileReport {
    /// Path of the file.
    pub file: String,
    /// The name of its cases, without the point of a matrix.
    pub name: String,
    /// The errors in the file, at most 50 of them.
    pub diagnostics: Vec<DiagnosticReport>,
}

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DiagnosticReport {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// A description of the error.
    pub message: String,
    /// The suggested fix.
    pub help: Option<String>,
    /// The matrix point or variant that has the error, if not all have it.
    pub case: Option<String>,
}

/// The numbers of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunSummary {
    /// Number of cases that passed.
    pub pass: usize,
    /// Number of cases that failed.
    pub fail: usize,
    /// Cases that were skipped.
    pub skip: usize,
    /// Files whose cases were not run because they have errors.
    pub invalid_files: usize,
    /// Cases that were not started, because another had failed (`--fail-fast`).
    pub not_run: usize,
    /// Wall-clock seconds of the whole run.
    pub seconds: f64,
    /// The name of the backend, `soft` or `nccl`.
    pub backend: String,
    /// The version of NCCL whose interface the library has.
    pub library: String,
    /// The library, its driver and its devices in words; empty in lines of older versions.
    #[serde(default)]
    pub machine: String,
    /// The deliberate fault that was asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fault: String,
}

impl InvalidFileReport {
    pub(super) fn new(file: &SourceFile, name: &str, diagnostics: &[Diagnostic]) -> Self {
        let diagnostics = diagnostics.iter().map(|diagnostic| DiagnosticReport::new(file, diagnostic)).collect();
        Self { file: file.path.clone(), name: name.to_owned(), diagnostics }
    }
}

impl DiagnosticReport {
    fn new(file: &SourceFile, diagnostic: &Diagnostic) -> Self {
        let (line, column) = line_column(file, diagnostic.span);
        Self {
            line,
            column,
            message: bounded(&diagnostic.message).into_owned(),
            help: diagnostic.help.as_deref().map(|help| bounded(help).into_owned()),
            case: diagnostic.case.clone(),
        }
    }
}

impl RunSummary {
    pub(super) fn new(tally: &Tally, not_run: usize, invalid_files: usize, seconds: f64, facts: &RunFacts) -> Self {
        Self {
            pass: tally.pass,
            fail: tally.fail,
            skip: tally.skip(),
            invalid_files,
            not_run,
            seconds,
            backend: facts.backend.clone(),
            library: facts.library.clone(),
            machine: facts.machine.clone(),
            fault: facts.fault.clone(),
        }
    }
}

//! Reports: events as text, JSON lines, JUnit XML, GitHub's annotations and HTML. Nothing here decides a verdict.
mod case_report;
mod checked;
mod event;
mod facts;
pub mod failure;
mod finding_report;
pub mod form_outcomes;
#[cfg(feature = "cli")]
pub mod github;
#[cfg(feature = "cli")]
pub mod html;
pub mod human;
mod inherited;
pub mod json;
#[cfg(feature = "cli")]
pub mod junit;
mod report_line;
pub mod rerun;
pub mod shell;
mod slowest_cases;
pub mod source_place;
#[cfg(feature = "cli")]
mod step_summary;
pub mod tally;

pub use case_report::{CaseReport, FingerprintReport, OrderMapReport, OrderRunReport, Outputs, RankOutput};
pub use event::Event;
pub use facts::RunFacts;
pub use finding_report::{FindingReport, Place};
pub use form_outcomes::FormOutcomes;
#[cfg(feature = "cli")]
pub use github::{GithubPlaces, GithubReporter};
#[cfg(feature = "cli")]
pub use html::HtmlReporter;
pub use human::HumanReporter;
pub use inherited::{InheritedVariables, is_secret};
pub use json::JsonLinesReporter;
#[cfg(feature = "cli")]
pub use junit::JunitReporter;
pub use report_line::{DiagnosticReport, InvalidFileReport, ReportLine, RunSummary};
pub use rerun::RerunCommand;
pub use tally::Tally;

use anstyle::{AnsiColor, Style};
use std::io::{self, Write};

/// The reports of a run, by the words that `--format` takes.
#[cfg(feature = "cli")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// Failures in full, skips by reason, one line at the end.
    Human,
    /// One JSON object per case and line, and a summary.
    Jsonl,
    /// JUnit XML, which CI systems read.
    Junit,
    /// Annotations for GitHub Actions below the text, and the step's summary.
    Github,
    /// One HTML file with everything.
    Html,
}

/// The parts of a report that do not come from events.
#[cfg(feature = "cli")]
#[derive(Clone, Debug)]
pub struct ReportContext {
    /// The styles of text.
    pub styles: Styles,
    /// The command that runs a case again.
    pub rerun: RerunCommand,
    /// True if every case is named.
    pub verbose: bool,
    /// True if the text includes buffer contents.
    pub show: bool,
    /// The library and the machine.
    pub facts: RunFacts,
    /// Number of the slowest cases that are named.
    pub durations: usize,
    /// The files that GitHub provides for output.
    pub github: GithubPlaces,
}

#[cfg(feature = "cli")]
impl ReportFormat {
    /// True for text formats, which are guarded against control characters for terminals. Other formats escape these themselves.
    pub fn is_text(self) -> bool {
        self == Self::Human
    }

    /// The reporter that writes to `to`.
    pub fn reporter(self, to: Box<dyn Write>, context: ReportContext) -> Box<dyn Reporter> {
        let ReportContext { styles, rerun, verbose, show, facts, durations, github } = context;
        match self {
            Self::Human => {
                Box::new(HumanReporter::new(to, styles, rerun, verbose).with_buffers(show).with_durations(durations))
            }
            Self::Jsonl => Box::new(JsonLinesReporter::new(to, facts)),
            Self::Junit => Box::new(JunitReporter::new(to, facts, rerun)),
            Self::Github => Box::new(GithubReporter::new(to, facts, rerun, github)),
            Self::Html => Box::new(HtmlReporter::new(to, facts, rerun)),
        }
    }
}

#[cfg(feature = "cli")]
/// The outcome's word in reports.
fn outcome_name(outcome: crate::judge::Outcome) -> &'static str {
    use crate::judge::Outcome;
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Error => "error",
        Outcome::Hang => "hang",
        Outcome::Crash => "crash",
        Outcome::Refused => "refused",
    }
}

/// Consumes the events of a run.
pub trait Reporter {
    /// Reports one event; events come in the order in which they happen.
    ///
    /// # Errors
    ///
    /// Writing fails.
    fn event(&mut self, event: &Event) -> io::Result<()>;
}

/// The styles of texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Styles {
    /// The style of passed cases.
    pub pass: Style,
    /// The style of failed cases.
    pub fail: Style,
    /// The style of skipped cases.
    pub skip: Style,
    /// The style of names.
    pub strong: Style,
    /// The style of less important text.
    pub faint: Style,
}

impl Styles {
    /// Styles without escape codes.
    pub fn plain() -> Self {
        Self::default()
    }
    /// Coloured styles, for terminals.
    pub fn coloured() -> Self {
        Self {
            pass: AnsiColor::Green.on_default().bold(),
            fail: AnsiColor::Red.on_default().bold(),
            skip: AnsiColor::Yellow.on_default().bold(),
            strong: Style::new().bold(),
            faint: Style::new().dimmed(),
        }
    }
}

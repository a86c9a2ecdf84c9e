//! Reports: events as text and JSON lines. Nothing here decides a verdict.
mod case_report;
mod checked;
mod event;
mod facts;
pub mod failure;
mod finding_report;
pub mod form_outcomes;
pub mod human;
mod inherited;
pub mod json;
mod report_line;
pub mod rerun;
pub mod shell;
mod slowest_cases;
pub mod source_place;
pub mod tally;

pub use case_report::{CaseReport, FingerprintReport, OrderMapReport, OrderRunReport, Outputs, RankOutput};
pub use event::Event;
pub use facts::{RunFacts, fault_warning};
pub use finding_report::{FindingReport, Place};
pub use form_outcomes::FormOutcomes;
pub use human::HumanReporter;
pub use inherited::{InheritedVariables, is_secret};
pub use json::JsonLinesReporter;
pub use report_line::{DiagnosticReport, InvalidFileReport, ReportLine, RunSummary};
pub use rerun::RerunCommand;
pub use tally::Tally;

use anstyle::{AnsiColor, Style};
use std::io;

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

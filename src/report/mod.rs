//! Reports: events as text and as JSON lines. Nothing here decides a verdict.
mod case_report;
mod checked;
mod event;
pub mod failure;
pub mod form_outcomes;
pub mod human;
mod inherited;
pub mod json;
pub mod rerun;
pub mod shell;
mod slowest_cases;
pub mod source_place;
pub mod tally;

pub use case_report::{CaseReport, FingerprintReport, OrderMapReport, OrderRunReport, Outputs, RankOutput};
pub use event::Event;
pub use form_outcomes::FormOutcomes;
pub use human::HumanReporter;
pub use inherited::InheritedVariables;
pub use json::JsonLinesReporter;
pub use rerun::RerunCommand;
pub use tally::Tally;

use anstyle::{AnsiColor, Style};
use std::io::{self, Write};

/// The reports of a run, by the words that `--format` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum ReportFormat {
    /// Failures in full, skips by reason, one line at the end.
    Human,
    /// One JSON object per case and line.
    Jsonl,
}

/// What a report says of the run besides its events.
#[derive(Clone, Debug)]
pub struct ReportContext {
    /// The styles of text.
    pub styles: Styles,
    /// The command that runs a case again.
    pub rerun: RerunCommand,
    /// True if every case is named.
    pub verbose: bool,
    /// The name of the backend.
    pub backend: String,
    /// Number of the slowest cases that are named.
    pub durations: usize,
}

impl ReportFormat {
    /// True if it is text, which is guarded against characters that a terminal obeys. Other formats escape them themselves.
    pub fn is_text(self) -> bool {
        self == Self::Human
    }

    /// The reporter that writes to `to`.
    pub fn reporter(self, to: Box<dyn Write>, context: ReportContext) -> Box<dyn Reporter> {
        let ReportContext { styles, rerun, verbose, backend, durations } = context;
        match self {
            Self::Human => Box::new(HumanReporter::new(to, styles, rerun, verbose).with_durations(durations)),
            Self::Jsonl => Box::new(JsonLinesReporter::new(to, backend)),
        }
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
    /// Passed cases.
    pub pass: Style,
    /// Failed cases.
    pub fail: Style,
    /// Skipped cases.
    pub skip: Style,
    /// Names.
    pub strong: Style,
    /// Less important text.
    pub faint: Style,
}

impl Styles {
    /// Styles without escape codes.
    pub fn plain() -> Self {
        Self::default()
    }
    /// Styles for terminals.
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

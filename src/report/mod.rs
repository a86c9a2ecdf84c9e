//! Events to text: for people and as JSON lines. Nothing here decides anything.
mod case_report;
mod event;
pub mod failure;
pub mod forms;
pub mod human;
mod inherited;
pub mod json;
pub mod place;
pub mod rerun;
pub mod shell;
pub mod tally;

pub use case_report::{CaseReport, FingerprintReport, Outputs, RankOutput};
pub use event::Event;
pub use forms::Forms;
pub use human::Human;
pub use inherited::Inherited;
pub use json::JsonLines;
pub use rerun::Rerun;
pub use tally::Tally;

use anstyle::{AnsiColor, Style};
use std::io;

/// Consumes the events of a run.
pub trait Reporter {
    /// One event, in the order in which they happen.
    fn event(&mut self, event: &Event) -> io::Result<()>;
}

/// How words look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Styles {
    /// What passed.
    pub pass: Style,
    /// What failed.
    pub fail: Style,
    /// What was skipped.
    pub skip: Style,
    /// Names.
    pub strong: Style,
    /// What matters less.
    pub faint: Style,
}

impl Styles {
    /// No escape codes at all.
    pub fn plain() -> Self {
        Self::default()
    }
    /// For terminals.
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

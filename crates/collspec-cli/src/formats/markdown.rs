//! The report of a run in Markdown, for a comment on a pull request: the same text as the summary of a step.
use super::step_summary::StepSummary;
use collspec_core::scenario;
use collspec_suite::report::failure::failure_message;
use collspec_suite::report::{Event, Reporter, RerunCommand, RunFacts, Tally};
use std::io::{self, Write};

/// Bytes of a report: GitHub takes 65,536 characters of a comment.
pub const MAX_COMMENT: usize = 64_900;

/// Collects the failures of a run and writes the Markdown at its end.
pub struct MarkdownReporter<W> {
    to: W,
    rerun: RerunCommand,
    tally: Tally,
    planned: usize,
    invalid_files: usize,
    summary: StepSummary,
}

impl<W: Write> MarkdownReporter<W> {
    /// A reporter that writes to `to`.
    pub fn new(to: W, facts: RunFacts, rerun: RerunCommand) -> Self {
        let (tally, summary) = (Tally::default(), StepSummary::new(facts));
        Self { to, rerun, tally, planned: 0, invalid_files: 0, summary }
    }
}

impl<W: Write> Reporter for MarkdownReporter<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Started { cases } => self.planned = *cases,
            Event::CaseStarted { .. } | Event::FileWarned { .. } => {}
            Event::FileInvalid { file, name, diagnostics } => {
                self.invalid_files += 1;
                let title = format!("{name} has errors and was not run");
                self.summary.invalid_file(&file.path, &title, &scenario::render(file, diagnostics, false));
            }
            Event::CaseDone { case, verdict } => {
                self.tally.add(verdict);
                if verdict.status.is_bad() {
                    let text = failure_message(case, verdict, &self.rerun.command(case));
                    self.summary.failed_case(&case.name, verdict.reason.as_deref().unwrap_or("failed"), &text);
                }
            }
            Event::Finished { seconds } => {
                let not_run = self.planned.saturating_sub(self.tally.settled());
                let text = self.summary.text(&self.tally, not_run, self.invalid_files, *seconds, MAX_COMMENT);
                self.to.write_all(text.as_bytes())?;
                self.to.flush()?;
            }
        }
        Ok(())
    }
}

//! The reports of a comparison.
mod github;
mod html;
mod human;
mod json;
mod junit;
mod markdown;
mod speed;
mod table;
mod ways;
mod work;

use super::{Comparison, Decision, FirstFailures};
use crate::formats::{GithubPlaces, MAX_COMMENT, ReportFormat};
use collspec_core::scenario::Case;
use collspec_suite::report::shell::quote_if_needed;
use collspec_suite::report::{RerunCommand, Styles};
use std::io::{self, Write};

/// The data that reports are made from.
pub struct Context<'a> {
    /// The comparison to report.
    pub comparison: &'a Comparison,
    /// The verdicts on its halves.
    pub decision: &'a Decision,
    /// Failed runs in full.
    pub failures: &'a FirstFailures,
    /// True if the text names every case.
    pub every_row: bool,
    /// The files that GitHub provides for output.
    pub github: GithubPlaces,
}

/// Writes a report.
///
/// # Errors
///
/// Writing fails.
pub fn write(format: ReportFormat, to: &mut dyn Write, styles: Styles, context: &Context<'_>) -> io::Result<()> {
    match format {
        ReportFormat::Human => human::write_human(to, context, styles)?,
        ReportFormat::Jsonl => json::write_json_lines(to, context)?,
        ReportFormat::Junit => junit::write_junit(to, context)?,
        ReportFormat::Github => github::write_github(to, context)?,
        ReportFormat::Html => html::write_html(to, context)?,
        ReportFormat::Markdown => to.write_all(markdown::text(context, MAX_COMMENT)?.as_bytes())?,
    }
    to.flush()
}

impl Context<'_> {
    /// The answer in one line.
    fn headline(&self) -> String {
        self.decision.headline(self.comparison)
    }

    /// The command that runs a case again on a side.
    fn again(&self, case: &Case, side: &str) -> String {
        let summary = if side == "base" { &self.comparison.base } else { &self.comparison.candidate };
        let header = &summary.header;
        let variables = header.environment.iter().map(|(name, value)| format!("{name}={}", quote_if_needed(value)));
        let words: Vec<String> = variables.collect();
        let command = RerunCommand::command_line(header.options.clone(), Default::default()).command(case);
        if words.is_empty() { command } else { format!("{} {command}", words.join(" ")) }
    }
}

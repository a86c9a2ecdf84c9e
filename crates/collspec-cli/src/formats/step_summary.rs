//! The summary of a step of GitHub Actions, in Markdown: counts, then failures with their details folded.
use super::html::page::html_text;
use collspec_core::printable::{one_line, printable_lines};
use collspec_suite::report::human::duration;
use collspec_suite::report::{RunFacts, Tally, fault_warning};
use std::fmt::Write;

/// Bytes reserved for the text around the failures.
const FRAME: usize = 16 << 10;
/// Bytes of failures that are kept: no step's summary has room for more.
const KEPT: usize = 1 << 20;
/// Reasons of skips that are listed.
const MAX_SKIPS: usize = 50;

/// The failures of a run, for the step's summary.
pub struct StepSummary {
    facts: RunFacts,
    failures: Vec<Failure>,
    kept: usize,
    left_out: usize,
}

/// A failure as Markdown.
struct Failure {
    /// The case's name; `None` for an invalid file.
    case: Option<String>,
    markdown: String,
}

impl StepSummary {
    /// The summary of a run on this library.
    pub fn new(facts: RunFacts) -> Self {
        Self { facts, failures: Vec::new(), kept: 0, left_out: 0 }
    }

    /// Adds a failed case: its name, the reason in a line, and all of it.
    pub fn failed_case(&mut self, name: &str, reason: &str, text: &str) {
        self.add(Some(name.to_owned()), name, reason, text);
    }

    /// Adds an invalid file: its path, the reason in a line, and all of it.
    pub fn invalid_file(&mut self, path: &str, reason: &str, text: &str) {
        self.add(None, path, reason, text);
    }

    fn add(&mut self, case: Option<String>, name: &str, reason: &str, text: &str) {
        let [name, reason] = [name, reason].map(|text| html_text(&one_line(text)));
        let text = html_text(&printable_lines(text));
        let markdown = format!(
            "<details><summary><code>{name}</code>: {reason}</summary>\n\n<pre>{}</pre>\n\n</details>\n",
            text.trim_end()
        );
        if self.kept + markdown.len() > KEPT {
            self.left_out += 1;
            return;
        }
        self.kept += markdown.len();
        self.failures.push(Failure { case, markdown });
    }

    /// The Markdown in at most `room` bytes, with invalid files first and then the cases by name, since they end in
    /// another order with every run.
    pub fn text(&mut self, tally: &Tally, not_run: usize, invalid_files: usize, seconds: f64, room: usize) -> String {
        let Tally { pass, fail, skips, .. } = tally;
        let mut text = match (fail + tally.errors, invalid_files) {
            (0, 0) => "## collspec: passed\n\n".to_owned(),
            _ => "## collspec: failed\n\n".to_owned(),
        };
        let RunFacts { backend, library, machine, .. } = &self.facts;
        let [library, machine] = [library, machine].map(|fact| html_text(&one_line(fact)));
        // Writing to a `String` cannot fail.
        let _ =
            writeln!(text, "| passed | failed | skipped | not run | invalid files | time |\n|--:|--:|--:|--:|--:|--:|");
        let (skip, time) = (tally.skip(), duration(seconds));
        let _ = writeln!(text, "| {pass} | {fail} | {skip} | {not_run} | {invalid_files} | {time} |\n");
        let _ = writeln!(text, "Backend {backend}, NCCL {library}: {machine}\n");
        if let Some(warning) = fault_warning(&self.facts.fault) {
            let _ = writeln!(text, "**{}**\n", html_text(&one_line(&warning)));
        }
        let mut end = String::new();
        if !skips.is_empty() {
            let _ = writeln!(end, "<details><summary>{skip} skipped</summary>\n\n<pre>");
            for (reason, count) in skips.iter().take(MAX_SKIPS) {
                let _ = writeln!(end, "{count}: {}", html_text(&one_line(reason)));
            }
            if skips.len() > MAX_SKIPS {
                let _ = writeln!(end, "and {} more reasons", skips.len() - MAX_SKIPS);
            }
            let _ = writeln!(end, "</pre>\n\n</details>");
        }
        let mut room_left = room.saturating_sub(FRAME.max(text.len() + end.len() + 256));
        let mut shown = 0;
        self.failures.sort_by(|a, b| a.case.cmp(&b.case));
        for Failure { markdown, .. } in &self.failures {
            let Some(left) = room_left.checked_sub(markdown.len()) else { break };
            room_left = left;
            text.push_str(markdown);
            shown += 1;
        }
        let left_out = self.left_out + self.failures.len() - shown;
        if left_out > 0 {
            let words = if left_out == 1 { "1 failure is" } else { &format!("{left_out} failures are") };
            let _ = writeln!(text, "\n{words} left out here, because GitHub takes no more text; the log has all.\n");
        }
        if text.len() + end.len() <= room {
            text.push_str(&end);
        }
        if text.len() > room { String::new() } else { text }
    }
}

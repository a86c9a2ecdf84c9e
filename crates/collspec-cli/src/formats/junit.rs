//! The report as JUnit XML, which CI systems read: a suite per scenario file, a test case per case.
use collspec_core::judge::{Outcome, Status, Verdict};
use collspec_core::printable::{one_line, printable_lines};
use collspec_core::scenario::{self, Case, Diagnostic, SourceFile};
use collspec_suite::report::Event;
use collspec_suite::report::failure::failure_message;
use collspec_suite::report::{Reporter, RerunCommand, RunFacts};
use collspec_suite::suite::AtLeast;
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

/// Collects the cases of a run and writes all at its end.
pub struct JunitReporter<W> {
    to: W,
    facts: RunFacts,
    rerun: RerunCommand,
    /// The test suites by the path of the file, with the seconds of their cases.
    suites: BTreeMap<String, (TestSuite, f64)>,
    /// What must run for the run to count, if anything.
    required: Option<AtLeast>,
    /// Cases that were to run, that have a verdict, and that were skipped.
    planned: usize,
    done: usize,
    skipped: usize,
}

impl<W: Write> JunitReporter<W> {
    /// A reporter that writes to `to`.
    pub fn new(to: W, facts: RunFacts, rerun: RerunCommand) -> Self {
        Self { to, facts, rerun, suites: BTreeMap::new(), required: None, planned: 0, done: 0, skipped: 0 }
    }

    /// A report that has an error if fewer cases run than this.
    pub fn requiring(self, required: Option<AtLeast>) -> Self {
        Self { required, ..self }
    }

    fn add(&mut self, path: &str, name: &str, status: TestCaseStatus, seconds: f64) {
        // Of two test cases with one name GitLab counts only the first, also if they come from two reports of a pipeline.
        let mut test = TestCase::new(xml(&one_line(&format!("{name} ({})", self.facts.short()))), status);
        let path_text = xml(&one_line(path));
        test.set_classname(path_text.as_str());
        test.set_time(duration(seconds));
        test.extra.insert("file".into(), path_text.as_str().into());
        let facts = &self.facts;
        let (suite, total) = self.suites.entry(path.to_owned()).or_insert_with(|| {
            let mut suite = TestSuite::new(path_text.as_str());
            for (name, value) in properties(facts) {
                suite.add_property(Property::new(name, xml(&one_line(&value))));
            }
            (suite, 0.0)
        });
        suite.add_test_case(test);
        *total += seconds;
    }

    fn case_done(&mut self, case: &Case, verdict: &Verdict) {
        self.done += 1;
        self.skipped += usize::from(verdict.status == Status::Skip);
        let status = match verdict.status {
            Status::Pass => TestCaseStatus::success(),
            Status::Skip => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(xml(&one_line(verdict.reason.as_deref().unwrap_or("no reason given"))));
                status
            }
            Status::Fail | Status::Error => {
                let kind = match verdict.outcome {
                    Some(Outcome::Refused) | None => NonSuccessKind::Error,
                    _ => NonSuccessKind::Failure,
                };
                let mut status = TestCaseStatus::non_success(kind);
                status.set_message(xml(&one_line(verdict.reason.as_deref().unwrap_or("failed"))));
                status.set_type(failure_type(verdict));
                // GitLab and others show the element's content.
                let text = failure_message(case, verdict, &self.rerun.command(case));
                status.set_description(xml(&printable_lines(&text)));
                status
            }
        };
        self.add(&case.file.path, &case.name, status, verdict.wall_seconds);
    }

    fn file_invalid(&mut self, file: &SourceFile, name: &str, diagnostics: &[Diagnostic]) {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        let first = diagnostics.first().map_or("the file has errors", |diagnostic| diagnostic.message.as_str());
        status.set_message(xml(&one_line(first)));
        status.set_type("invalid file");
        status.set_description(xml(&printable_lines(&scenario::render(file, diagnostics, false))));
        self.add(&file.path, name, status, 0.0);
    }

    /// What is wrong with the run as a whole. Who reads nothing but this file must not take it for green.
    fn whole_run(&mut self) {
        let left = self.planned.saturating_sub(self.done);
        let unfinished = (left > 0).then(|| format!("{left} of {} cases were not run", self.planned));
        let unmet = self.required.and_then(|required| required.unmet(self.done - self.skipped, self.planned));
        for (name, message) in [("the run did not finish", unfinished), ("too few cases ran", unmet)] {
            let Some(message) = message else { continue };
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_message(xml(&message));
            status.set_type("not run");
            self.add("collspec run", name, status, 0.0);
        }
    }

    fn finished(&mut self, seconds: f64) -> io::Result<()> {
        self.whole_run();
        let mut report = Report::new("collspec");
        report.set_time(duration(seconds));
        for (mut suite, seconds) in std::mem::take(&mut self.suites).into_values() {
            suite.set_time(duration(seconds));
            report.add_test_suite(suite);
        }
        report.serialize(&mut self.to).map_err(io::Error::other)?;
        self.to.flush()
    }
}

impl<W: Write> Reporter for JunitReporter<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Started { cases } => self.planned = *cases,
            Event::CaseStarted { .. } | Event::FileWarned { .. } => {}
            Event::FileInvalid { file, name, diagnostics } => self.file_invalid(file, name, diagnostics),
            Event::CaseDone { case, verdict } => self.case_done(case, verdict),
            Event::Finished { seconds } => self.finished(*seconds)?,
        }
        Ok(())
    }
}

fn properties(facts: &RunFacts) -> Vec<(&'static str, String)> {
    let RunFacts { backend, library, machine, .. } = facts;
    let all = [("backend", backend), ("library", library), ("machine", machine)];
    let mut properties: Vec<_> = all.into_iter().map(|(name, value)| (name, value.clone())).collect();
    properties.extend(Some(("fault", facts.fault.clone())).filter(|(_, fault)| !fault.is_empty()));
    properties.push(("collspec", env!("CARGO_PKG_VERSION").to_owned()));
    properties.extend(facts.environment.iter().map(|(name, value)| ("environment", format!("{name}={value}"))));
    properties
}

/// The kind of failure, in a word or two.
fn failure_type(verdict: &Verdict) -> &'static str {
    match verdict.outcome {
        Some(Outcome::Hang) => "hang",
        Some(Outcome::Crash) => "crash",
        Some(Outcome::Error) => "error",
        Some(Outcome::Refused) => "refused",
        None => "not run",
        Some(Outcome::Ok) => verdict.findings.first().map_or("failure", |finding| finding.lane.name()),
    }
}

/// The text without the characters that XML lacks and that [`collspec_core::printable`] lets pass.
pub(crate) fn xml(text: &str) -> String {
    text.replace('\u{fffe}', "\\u{fffe}").replace('\u{ffff}', "\\u{ffff}")
}

pub(crate) fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests;

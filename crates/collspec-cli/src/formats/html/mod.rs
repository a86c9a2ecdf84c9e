//! The report of a run as one HTML file. [`page`] does not depend on runs: a comparison can fill it with two verdicts for each case.
pub(crate) mod causes;
mod matrix;
pub mod page;
pub mod section;

use collspec_core::judge::{Status, UsedOperation, Verdict, operation_of};
use collspec_core::num::DType;
use collspec_core::ops::Kind;
use collspec_core::printable::thousands;
use collspec_core::scenario::{self, Case, Diagnostic, SourceFile};
use collspec_suite::report::Event;
use collspec_suite::report::{Reporter, RerunCommand, RunFacts, Tally, fault_warning};
use maud::html;
use page::{Mark, Page, PageCase, Section, Tone, TypedCall, lines};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Bytes of all sections. Failures after that have only their reason.
const MAX_SECTIONS: usize = 2 << 20;

const FAILED: Mark = Mark { tone: Tone::Bad, word: "failed" };
const INVALID: Mark = Mark { tone: Tone::Bad, word: "invalid" };
const NOT_RUN: Mark = Mark { tone: Tone::Bad, word: "not run" };
const PASSED: Mark = Mark { tone: Tone::Good, word: "passed" };
const SKIPPED: Mark = Mark { tone: Tone::Idle, word: "skipped" };

/// Collects the cases of a run and writes the page at its end.
pub struct HtmlReporter<W> {
    to: W,
    facts: RunFacts,
    rerun: RerunCommand,
    tally: Tally,
    planned: usize,
    invalid_files: usize,
    cases: Vec<PageCase>,
    sources: BTreeMap<String, std::sync::Arc<str>>,
    room: usize,
}

impl<W: Write> HtmlReporter<W> {
    /// A reporter that writes to `to`.
    pub fn new(to: W, facts: RunFacts, rerun: RerunCommand) -> Self {
        Self {
            to,
            facts,
            rerun,
            tally: Tally::default(),
            planned: 0,
            invalid_files: 0,
            cases: Vec::new(),
            sources: BTreeMap::new(),
            room: MAX_SECTIONS,
        }
    }

    fn case_done(&mut self, case: &Case, verdict: &Verdict) {
        self.tally.add(verdict);
        let (mark, section) = match verdict.status {
            Status::Pass => (PASSED, None),
            Status::Skip => (SKIPPED, None),
            Status::Error => (NOT_RUN, Some(self.section(case, verdict))),
            Status::Fail => (FAILED, Some(self.section(case, verdict))),
        };
        let results = vec![verdict.reason.clone().filter(|_| mark == SKIPPED).unwrap_or_default()];
        let calls = calls(case, &verdict.used);
        let seconds = (mark != SKIPPED).then_some(verdict.wall_seconds);
        let (name, marked) = (case.name.clone(), Vec::new());
        self.cases.push(PageCase { name, calls, marked, mark, results, seconds, section });
    }

    fn section(&mut self, case: &Case, verdict: &Verdict) -> Section {
        let again = self.rerun.command(case);
        let mut body = section::findings(case, verdict, &again);
        if body.0.len() > self.room {
            body = html!(p.faint { "The page has no room for its findings: run it alone." });
        }
        self.room = self.room.saturating_sub(body.0.len());
        if let Some(buffers) = &verdict.buffers {
            let buffers = section::buffers(buffers);
            // The findings of later cases are worth more than the buffers of this one.
            if buffers.0.len() <= self.room / 2 {
                self.room -= buffers.0.len();
                body = html!((body)(buffers));
            } else {
                body = html!((body) p.faint { "The page has no room for its buffers: run it again with --show." });
            }
        }
        self.sources.entry(case.file.path.clone()).or_insert_with(|| case.file.text.clone());
        let reason = verdict.reason.clone().unwrap_or_else(|| "failed".to_owned());
        let operation = failed_operation(case, verdict);
        Section { operation, reason, body, file: Some(case.file.path.clone()) }
    }

    fn file_invalid(&mut self, file: &SourceFile, name: &str, diagnostics: &[Diagnostic]) {
        self.invalid_files += 1;
        let reason = diagnostics.first().map(|diagnostic| diagnostic.message.clone()).unwrap_or_default();
        let mut body = html!(pre { (lines(&scenario::render(file, diagnostics, false))) });
        if body.0.len() > self.room {
            body = html!(p.faint { "The page has no room for all that is wrong: `collspec check` shows it." });
        }
        self.room = self.room.saturating_sub(body.0.len());
        self.cases.push(PageCase {
            name: name.to_owned(),
            calls: Vec::new(),
            marked: Vec::new(),
            mark: INVALID,
            results: vec![String::new()],
            seconds: None,
            section: Some(Section { operation: String::new(), reason, body, file: None }),
        });
    }

    fn finished(&mut self, seconds: f64) -> io::Result<()> {
        let mut cases = std::mem::take(&mut self.cases);
        // Cases end in another order with every run.
        cases.sort_by(|a, b| b.mark.tone.cmp(&a.mark.tone).then_with(|| a.name.cmp(&b.name)));
        let (page, tally) = (self.page(cases, seconds), &self.tally);
        debug_assert_eq!(page.cases.len(), tally.settled() + tally.errors + self.invalid_files);
        self.to.write_all(page.html().as_bytes())?;
        self.to.flush()
    }

    fn page(&mut self, cases: Vec<PageCase>, seconds: f64) -> Page {
        let Tally { pass, fail, .. } = self.tally;
        let (skip, ran) = (self.tally.skip(), pass + fail);
        let not_run = self.planned.saturating_sub(ran + skip);
        let mut headline = match fail {
            0 => format!("{} of {} cases passed", thousands(pass as u64), thousands(ran as u64)),
            _ => format!("{} of {} cases failed", thousands(fail as u64), thousands(ran as u64)),
        };
        let others = [(skip, "skipped"), (not_run, "not run"), (self.invalid_files, "invalid files")];
        for (count, words) in others.into_iter().filter(|(count, _)| *count > 0) {
            headline.push_str(&format!(", {} {words}", thousands(count as u64)));
        }
        let RunFacts { backend, library, machine, fault, environment, command } = &self.facts;
        let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut facts = vec![
            fact("collspec", env!("CARGO_PKG_VERSION")),
            fact("backend", backend),
            fact("NCCL", library),
            fact("machine", machine),
            fact("command", command),
            fact("time", &collspec_suite::report::human::duration(seconds)),
        ];
        facts.extend((!fault.is_empty()).then(|| fact("deliberate fault", fault)));
        facts.extend(environment.iter().map(|(name, value)| fact(name, value)));
        let tone = match (fail + self.invalid_files, pass) {
            (0, 0) => Tone::Idle,
            (0, _) => Tone::Good,
            _ => Tone::Bad,
        };
        let mut subtitle =
            format!("backend {backend}: {machine}, in {}", collspec_suite::report::human::duration(seconds));
        if let Some(warning) = fault_warning(fault) {
            subtitle = format!("{subtitle}, {warning}");
        }
        Page {
            tone,
            headline,
            subtitle,
            facts: vec![("This run".to_owned(), facts)],
            sides: vec!["why".to_owned()],
            sections: "Failures",
            cases,
            sources: std::mem::take(&mut self.sources),
            before: Vec::new(),
            after: Vec::new(),
        }
    }
}

impl<W: Write> Reporter for HtmlReporter<W> {
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

/// The operation at which the case failed; if that is not known, all its operations.
pub fn failed_operation(case: &Case, verdict: &Verdict) -> String {
    let step = verdict.findings.iter().find_map(|finding| finding.step.as_deref());
    step.and_then(operation_of).map_or_else(|| operations(case).join(", "), str::to_owned)
}

/// The words of the operations that move data, each once; if there are none, those of the others.
pub fn operations(case: &Case) -> Vec<&'static str> {
    let (mut moving, mut others) = (BTreeSet::new(), BTreeSet::new());
    for step in scenario::all_steps(&case.steps) {
        match &step.op.kind {
            Kind::Group | Kind::Loop => {}
            kind if kind.transfers() => _ = moving.insert(step.op.name),
            _ => _ = others.insert(step.op.name),
        }
    }
    if moving.is_empty() { others } else { moving }.into_iter().collect()
}

/// The operations of a case, each with the element types of its calls. Where the program did not run, or the plan does not tell,
/// these are all types of the inputs.
pub fn calls(case: &Case, used: &[UsedOperation]) -> Vec<TypedCall> {
    let types: BTreeSet<&'static str> = case.inputs.iter().map(|input| input.dtype.name()).collect();
    typed_calls(used, operations(case).into_iter(), &types)
}

/// The operations that were used with their types, and the others with all of these types. Words of another version of the language are left
/// out.
pub fn typed_calls(
    used: &[UsedOperation],
    operations: impl Iterator<Item = &'static str>,
    types: &BTreeSet<&'static str>,
) -> Vec<TypedCall> {
    let known = |used: &UsedOperation| {
        Some((collspec_core::ops::find(&used.operation)?.name, DType::parse(&used.dtype)?.name()))
    };
    let mut calls: BTreeSet<TypedCall> = used.iter().filter_map(known).collect();
    let seen: BTreeSet<&str> = calls.iter().map(|(operation, _)| *operation).collect();
    for operation in operations.filter(|operation| !seen.contains(operation)) {
        calls.extend(types.iter().map(|dtype| (operation, *dtype)));
        calls.extend(types.is_empty().then_some((operation, "")));
    }
    calls.into_iter().collect()
}

#[cfg(test)]
mod tests;

//! Tries documents: reads, plans and runs them, and says whether they fail in the same way.
use super::document::Document;
use super::{Error, Request, Size, in_runs};
use crate::judge::{Lane, Outcome, Status, Subject, Verdict};
use crate::plan::{self, Plan};
use crate::scenario::forms::{FORMS, Form};
use crate::scenario::{self, Case, SourceFile, Step};
use crate::suite::Runner;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// How a case fails: what stays the same while it gets smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    outcome: Option<Outcome>,
    /// Lane, subject and operation of the first finding.
    finding: Option<(Lane, Subject, Option<String>)>,
}

impl Failure {
    /// How the verdict fails; `None` if it does not, or if the case cannot be run.
    fn of(verdict: &Verdict) -> Option<Self> {
        if verdict.status != Status::Fail || matches!(verdict.outcome, None | Some(Outcome::Refused)) {
            return None;
        }
        let finding = verdict.findings.first().map(|first| {
            // The number of a step changes as others are left out; `step 3 (all_reduce)` stays an all_reduce.
            let operation =
                first.step.as_deref().and_then(|step| step.rsplit_once('(')).map(|(_, name)| name.to_owned());
            (first.lane, first.subject, operation)
        });
        Some(Self { outcome: verdict.outcome, finding })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            Some(Outcome::Hang) => "it hangs",
            Some(Outcome::Crash) => "it crashes",
            Some(Outcome::Error) => "it ends with an error",
            _ => "a result is wrong",
        };
        f.write_str(outcome)?;
        if let Some((lane, _, operation)) = &self.finding {
            write!(f, " ({}", lane.name())?;
            if let Some(operation) = operation {
                write!(f, ", {}", operation.trim_end_matches(')'))?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

/// The case as it was given.
pub(super) struct First {
    pub name: String,
    pub size: Size,
    pub flaky: Option<(u32, u32)>,
}

/// The smallest case that fails in the same way.
pub(super) struct Last {
    pub case: Arc<Case>,
    pub verdict: Verdict,
    pub failure: Failure,
    pub size: Size,
    pub runs: u32,
}

/// Runs documents, each once.
pub(super) struct Trials<'a> {
    request: &'a Request,
    runner: &'a Runner,
    /// When the time began that the budget limits.
    begun: Instant,
    /// The case that was asked for, and then the smallest that fails like it.
    case: Arc<Case>,
    size: Size,
    form: Option<&'static Form>,
    failure: Option<(Failure, Verdict)>,
    /// Runs that a document gets until it counts as one that does not fail.
    tries: u32,
    runs: u32,
    tried: HashSet<String>,
}

impl<'a> Trials<'a> {
    /// Finds the case of the request.
    pub fn new(request: &'a Request, runner: &'a Runner, begun: Instant) -> Result<Self, Error> {
        let cases = read(&request.file, request).map_err(Error::Invalid)?;
        let (case, form) = find(request, cases)?;
        let size = plan::plan(&case, runner.limits()).map(|plan| size_of(&plan, &case)).map_err(|diagnostics| {
            let why = diagnostics.first().map_or("no reason is known", |first| first.message.as_str());
            Error::NoSuchCase(format!("{} cannot be planned: {why}", case.name))
        })?;
        let (failure, tries, runs, tried) = (None, 1, 0, HashSet::new());
        Ok(Self { request, runner, begun, case, size, form, failure, tries, runs, tried })
    }

    /// Runs the case as it is until it fails.
    pub fn first_failure(&mut self) -> Result<First, Error> {
        let name = self.case.name.clone();
        let mut last = None;
        for run in 1..=self.request.repeats {
            let verdict = self.run(&self.case.clone());
            let failure = Failure::of(&verdict);
            last = Some(verdict.status);
            if let Some(failure) = failure {
                self.failure = Some((failure, verdict));
                let flaky = if run > 1 { Some(self.rate(run)) } else { None };
                // The budget is for what comes now: a first run that takes long must leave time to make the case smaller.
                self.begun = Instant::now();
                return Ok(First { name, size: self.size, flaky });
            }
            if last == Some(Status::Skip) || self.is_out_of_time() {
                break;
            }
        }
        let what = match last {
            Some(Status::Skip) => "is skipped",
            Some(Status::Fail) => "cannot be run",
            _ => "passes",
        };
        Err(Error::DoesNotFail { name, what, runs: self.runs })
    }

    /// Of how many runs how many fail, of a case that failed first in run number `first`. A document is then run so often that one that
    /// fails as often as this is given up in one of twenty trials.
    fn rate(&mut self, first: u32) -> (u32, u32) {
        let (mut failed, mut all) = (1, first);
        while all < self.request.repeats && failed < 5 && !self.is_out_of_time() {
            let verdict = self.run(&self.case.clone());
            failed += u32::from(Failure::of(&verdict).is_some());
            all += 1;
        }
        let rate = f64::from(failed) / f64::from(all);
        let needed = if rate < 1.0 { (0.05_f64.ln() / (1.0 - rate).ln()).ceil() } else { 1.0 };
        self.tries = (needed as u32).clamp(1, self.request.repeats.max(1));
        (failed, all)
    }

    /// True if the results are right and only what the file expects of them is not met.
    pub fn is_of_expectations(&self) -> bool {
        let finding = self.failure.as_ref().and_then(|(failure, _)| failure.finding.as_ref());
        finding.is_some_and(|(_, subject, _)| matches!(subject, Subject::Expect | Subject::Assert))
    }

    /// True if there is no time for further runs.
    pub fn is_out_of_time(&self) -> bool {
        self.begun.elapsed() >= self.request.budget
    }

    /// Number of runs so far.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// The size of the smallest case so far.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The name of the case that was asked for, without its form.
    pub fn base_name(&self) -> &str {
        self.case.base_name()
    }

    /// The cases of a document, or none if it is no scenario.
    pub fn cases(&self, document: &Document) -> Vec<Case> {
        read(&self.source(document), self.request).unwrap_or_default()
    }

    /// True if the document has one case and that fails in the same way. It is then the smallest.
    pub fn fails(&mut self, document: &Document) -> bool {
        if self.is_out_of_time() || !self.tried.insert(document.to_string()) {
            return false;
        }
        let [case] = &self.cases(document)[..] else { return false };
        let formed = match self.form {
            None => case.clone(),
            Some(form) => match form.apply(case) {
                Ok(case) => case,
                Err(_) => return false,
            },
        };
        let case = Arc::new(formed);
        let Some(size) = size(&case, self.runner) else { return false };
        for _ in 0..self.tries {
            let verdict = self.run(&case);
            let failure = Failure::of(&verdict);
            if let (Some(failure), Some((wanted, _))) = (failure, &self.failure)
                && failure == *wanted
            {
                self.failure = Some((failure, verdict));
                (self.case, self.size) = (case, size);
                return true;
            }
            if verdict.status != Status::Pass || self.is_out_of_time() {
                return false;
            }
        }
        false
    }

    fn run(&mut self, case: &Arc<Case>) -> Verdict {
        self.runs += 1;
        self.runner.run_case(case)
    }

    fn source(&self, document: &Document) -> Arc<SourceFile> {
        Arc::new(SourceFile { path: self.request.file.path.clone(), text: document.to_string().into() })
    }

    /// The smallest case that was found.
    pub fn into_last(self) -> Last {
        let (failure, verdict) = self.failure.unwrap_or_else(|| {
            let skipped = crate::judge::skipped(&self.case, String::new());
            (Failure { outcome: None, finding: None }, skipped)
        });
        Last { case: self.case, verdict, failure, size: self.size, runs: self.runs }
    }
}

/// The cases of a file, or what is wrong with it.
fn read(file: &Arc<SourceFile>, request: &Request) -> Result<Vec<Case>, String> {
    scenario::parse_with(file, &request.stem, &request.allow_env)
        .map_err(|rejected| scenario::render(file, &rejected.diagnostics, false))
}

/// The case that is meant, as the file has it or in a form.
fn find(request: &Request, cases: Vec<Case>) -> Result<(Arc<Case>, Option<&'static Form>), Error> {
    let path = &request.file.path;
    let Some(name) = &request.case else {
        return match <[Case; 1]>::try_from(cases) {
            Ok([case]) => Ok((Arc::new(case), None)),
            Err(cases) => {
                let text = format!("{path} has {} cases: name one with --case", cases.len());
                Err(Error::NoSuchCase(text))
            }
        };
    };
    // A case is named as in a report, where folders may stand before it.
    let same = |case: &Case| case.name == *name || name.ends_with(&format!("/{}", case.name));
    for case in cases {
        if same(&case) {
            return Ok((Arc::new(case), None));
        }
        for form in FORMS {
            if let Some(formed) = form.apply(&case).ok().filter(same) {
                return Ok((Arc::new(formed), Some(form)));
            }
        }
    }
    Err(Error::NoSuchCase(format!("{path} has no case called {name}; `collspec run {path} --list` names its cases")))
}

/// The size of a case; `None` if it cannot be planned.
fn size(case: &Arc<Case>, runner: &Runner) -> Option<Size> {
    Some(size_of(&plan::plan(case, runner.limits()).ok()?, case))
}

fn size_of(plan: &Plan, case: &Case) -> Size {
    let counts = plan.buffers.iter().flat_map(|buffer| buffer.places.iter().flatten()).map(|place| place.count);
    Size { ranks: plan.n, elements: counts.max().unwrap_or(0), steps: steps(&case.steps) }
}

fn steps(list: &[Step]) -> usize {
    list.iter().map(|step| if step.steps.is_empty() { 1 } else { steps(&step.steps) }).sum()
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |number: u64, one: &str| {
            let number = crate::printable::thousands(number);
            if number == "1" { format!("1 {one}") } else { format!("{number} {one}s") }
        };
        let Self { ranks, elements, steps } = self;
        write!(f, "{}, {}, {}", count(*ranks as u64, "rank"), count(*elements, "element"), count(*steps as u64, "step"))
    }
}

impl fmt::Debug for Trials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trials after {}", in_runs(self.runs))
    }
}

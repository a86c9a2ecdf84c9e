//! Tries documents: reads, plans and runs them, and says whether they fail in the same way.
use super::document::Document;
use super::failure::Failure;
use super::kept::{Became, Kept};
use super::rate::Rate;
use super::size::Size;
use super::{Error, Request, in_runs};
use collspec_core::judge::{Outcome, Status, Verdict};
use collspec_core::plan;
use collspec_core::scenario::forms::{FORMS, Form};
use collspec_core::scenario::{self, Case, ExpectedOutcome, SourceFile, Spanned};
use collspec_suite::suite::Runner;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A smaller case that does not hang takes at most this many times the first failing run, plus the time below.
const SLOWER: u32 = 5;
const MARGIN: Duration = Duration::from_secs(2);

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
    pub kept: Vec<String>,
}

/// The cost of a case.
#[derive(Clone, Debug)]
struct Planned {
    size: Size,
    work: u64,
    /// The reason its ending is undefined, without details that differ from case to case.
    undefined: Option<String>,
}

/// Runs smaller documents and keeps the smallest that fails in the same way.
pub(super) struct Trials<'a> {
    request: &'a Request,
    runner: &'a Runner,
    /// The beginning of the time that the budget limits.
    begun: Instant,
    /// The time at which the current pass must end.
    pass_ends: Instant,
    /// True if a pass had to leave something for later, or ran out of time.
    cut: bool,
    /// The case that was asked for, and then the smallest that fails like it.
    case: Arc<Case>,
    planned: Planned,
    form: Option<&'static Form>,
    /// True if the case ends as no program should, which its file expects or `check` predicts: any ending is then admitted.
    any_ending: bool,
    /// True if the file says that it may hang, and must continue to say so.
    admits_hang: bool,
    failure: Option<(Failure, Verdict)>,
    /// Seconds of the first failing run.
    first_seconds: f64,
    /// Seconds for each planned operation, as the smallest case took them.
    pace: f64,
    /// Runs that a document gets until it counts as one that does not fail.
    tries: u32,
    runs: u32,
    tried: HashSet<String>,
    kept: Kept,
}

impl<'a> Trials<'a> {
    /// Finds the case of the request.
    pub fn new(request: &'a Request, runner: &'a Runner, begun: Instant) -> Result<Self, Error> {
        let cases = read(&request.file, request).map_err(Error::Invalid)?;
        let (mut case, form) = find(request, cases)?;
        let admits_hang = case.may_hang();
        let mut any_ending = admits_hang;
        let mut cost = planned(&case, runner);
        if any_ending || cost.is_err() {
            // Mismatched calls and programs that cannot finish are refused only where the file does not expect that.
            let lenient = with_any_ending(&case);
            if let Ok(found) = planned(&lenient, runner) {
                (case, cost, any_ending) = (lenient, Ok(found), true);
            }
        }
        let planned = cost.map_err(|why| Error::NoSuchCase(format!("{} cannot be planned: {why}", case.name)))?;
        Ok(Self {
            request,
            runner,
            begun,
            pass_ends: begun + request.budget,
            cut: false,
            case,
            planned,
            form,
            any_ending,
            admits_hang,
            failure: None,
            first_seconds: 0.0,
            pace: 0.0,
            tries: 1,
            runs: 0,
            tried: HashSet::new(),
            kept: Kept::default(),
        })
    }

    /// Runs the unchanged case until it fails, and then until it is known whether it always does.
    pub fn first_failure(&mut self) -> Result<First, Error> {
        let name = self.case.name.clone();
        let mut last = None;
        for run in 1..=self.request.repeats {
            let verdict = self.run(&self.case.clone(), None);
            let failure = self.failure_of(&verdict);
            last = Some(verdict.status);
            if let Some(failure) = failure {
                self.first_seconds = verdict.wall_seconds;
                self.pace = verdict.wall_seconds / self.planned.work.max(1) as f64;
                self.failure = Some((failure, verdict));
                let flaky = self.rate(run);
                // The budget is for the following runs: first runs that take long must leave time to make the case smaller.
                self.begun = Instant::now();
                self.pass_ends = self.begun + self.request.budget;
                return Ok(First { name, size: self.size(), flaky });
            }
            if last == Some(Status::Skip) || self.is_over() {
                break;
            }
        }
        let what = match last {
            Some(Status::Skip) => "is skipped",
            Some(Status::Fail | Status::Error) => "cannot be run",
            _ => "passes",
        };
        Err(Error::DoesNotFail { name, what, runs: self.runs })
    }

    /// The failure rate of the case, which first failed in run number `first`; `None` if it seems to fail always.
    fn rate(&mut self, first: u32) -> Option<(u32, u32)> {
        let (begun, most) = (Instant::now(), self.request.repeats);
        // Where one run takes long, few must do.
        let enough = self.request.budget / 10;
        let long = || begun.elapsed() > enough;
        let case = self.case.clone();
        let rate = Rate::measure(first, most, long, || {
            let verdict = self.run(&case, None);
            self.is_like_first(&verdict)
        });
        self.tries = rate.tries(most);
        (!rate.is_always()).then_some((rate.failed, rate.all))
    }

    /// The failure in the verdict. Where any ending is admitted, only the ending counts.
    fn failure_of(&self, verdict: &Verdict) -> Option<Failure> {
        if self.any_ending { Failure::of_ending(verdict) } else { Failure::of(verdict) }
    }

    /// True if the verdict has the failure that is to be preserved.
    fn is_like_first(&self, verdict: &Verdict) -> bool {
        let failure = self.failure_of(verdict);
        failure.is_some() && failure.as_ref() == self.failure.as_ref().map(|(failure, _)| failure)
    }

    /// True if the results are right and only the file's expectations are not met.
    pub fn is_of_expectations(&self) -> bool {
        self.failure.as_ref().is_some_and(|(failure, _)| failure.is_of_expectations())
    }

    /// The time that is left.
    fn left(&self) -> Duration {
        self.request.budget.saturating_sub(self.begun.elapsed())
    }

    /// True if there is no time for further runs.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Begins a pass, which gets an equal share of the time that is left for it and the passes after it.
    pub fn begin_pass(&mut self, passes_left: usize) {
        self.pass_ends = Instant::now() + self.left() / u32::try_from(passes_left.max(1)).unwrap_or(u32::MAX);
    }

    /// True if the pass must end.
    pub fn is_out_of_time(&mut self) -> bool {
        let out = self.is_over() || Instant::now() >= self.pass_ends;
        self.cut |= out;
        out
    }

    /// True if a pass had to end early since this was asked last, or if a case would have taken too long.
    pub fn was_cut(&mut self) -> bool {
        std::mem::take(&mut self.cut)
    }

    /// Number of runs so far.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// The size of the smallest case so far.
    pub fn size(&self) -> Size {
        self.planned.size
    }

    /// The name of the case that was asked for, without its form.
    pub fn base_name(&self) -> &str {
        self.case.base_name()
    }

    /// The cases of a document; empty if it is not a scenario.
    pub fn cases(&self, document: &Document) -> Vec<Case> {
        read(&self.source(document), self.request).unwrap_or_default()
    }

    /// The document's only case, in the form that was asked for.
    fn case(&self, document: &Document) -> Option<Arc<Case>> {
        let [case] = &self.cases(document)[..] else { return None };
        let case = match self.form {
            None => Arc::new(case.clone()),
            Some(form) => Arc::new(form.apply(case).ok()?),
        };
        if self.admits_hang && !case.may_hang() {
            return None;
        }
        Some(if self.any_ending { with_any_ending(&case) } else { case })
    }

    /// True if the document is a scenario that costs clearly less than the smallest case so far.
    pub fn is_cheaper(&self, document: &Document) -> bool {
        let planned = self.case(document).and_then(|case| planned(&case, self.runner).ok());
        planned.is_some_and(|planned| planned.work < self.planned.work / 10 * 9)
    }

    /// True if the document has one case that fails in the same way. It then becomes the smallest.
    pub fn fails(&mut self, document: &Document) -> bool {
        let text = document.to_string();
        if self.tried.contains(&text) || self.is_out_of_time() {
            return false;
        }
        let case = self.case(document);
        let planned = case.and_then(|case| Some((case.clone(), planned(&case, self.runner).ok()?)));
        // Calls that do not match stay calls that do not match.
        let is_like_first = |planned: &Planned| !self.any_ending || planned.undefined == self.planned.undefined;
        let Some((case, planned)) = planned.filter(|(_, planned)| is_like_first(planned)) else {
            self.tried.insert(text);
            return false;
        };
        if self.would_take(planned.work) > self.left() {
            self.cut = true;
            self.kept.give_up(self.size(), planned.size, Became::TooLong);
            return false;
        }
        self.tried.insert(text);
        match self.result(&case) {
            Ok((failure, verdict)) => {
                self.kept.keep(self.size(), planned.size);
                self.pace = verdict.wall_seconds / planned.work.max(1) as f64;
                self.failure = Some((failure, verdict));
                (self.case, self.planned) = (case, planned);
                true
            }
            Err(became) => {
                self.cut |= became == Became::TooLong;
                self.kept.give_up(self.size(), planned.size, became);
                false
            }
        }
    }

    /// The expected time of a run with this much work, based on the smallest case so far. A hang takes as long as the wait for it.
    fn would_take(&self, work: u64) -> Duration {
        let hangs = self.failure.as_ref().is_some_and(|(failure, _)| failure.is_hang());
        let seconds = if hangs { 0.0 } else { self.pace * work.min(self.planned.work) as f64 };
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// The case's failure, if one of its runs fails like the original case.
    fn result(&mut self, case: &Arc<Case>) -> Result<(Failure, Verdict), Became> {
        let wanted = self.failure.as_ref().map(|(failure, _)| failure.clone());
        let hangs = wanted.as_ref().is_some_and(Failure::is_hang);
        let usual = self.runner.time_limit(case);
        let mut became = Became::Passes;
        for _ in 0..self.tries {
            if self.is_over() {
                return Err(Became::TooLong);
            }
            let slow = Duration::from_secs_f64(self.first_seconds).saturating_mul(SLOWER).saturating_add(MARGIN);
            let most = if hangs { self.left() } else { self.left().min(slow) };
            let verdict = self.run(case, Some(most));
            // With a time limit shorter than usual, a hang may not be one.
            let undecided = verdict.outcome == Some(Outcome::Hang)
                && most < usual
                && Duration::try_from_secs_f64(verdict.wall_seconds).is_ok_and(|seconds| seconds >= most);
            if undecided && (hangs || self.is_over()) {
                return Err(Became::TooLong);
            }
            match self.failure_of(&verdict) {
                Some(failure) if Some(&failure) == wanted.as_ref() => return Ok((failure, verdict)),
                Some(_) => became = Became::FailsOtherwise,
                None if verdict.status == Status::Pass => {}
                // It is skipped or refused, and will be again.
                None => return Err(Became::FailsOtherwise),
            }
        }
        Err(became)
    }

    fn run(&mut self, case: &Arc<Case>, most: Option<Duration>) -> Verdict {
        self.runs += 1;
        match most {
            Some(most) => self.runner.run_case_within(case, most),
            None => self.runner.run_case(case),
        }
    }

    fn source(&self, document: &Document) -> Arc<SourceFile> {
        Arc::new(SourceFile { path: self.request.file.path.clone(), text: document.to_string().into() })
    }

    /// The smallest case that was found.
    pub fn into_last(self) -> Last {
        let out_of_time = self.is_over();
        let kept = self.kept.sentences(self.planned.size, out_of_time);
        let (failure, verdict) = self.failure.unwrap_or_else(|| {
            let skipped = collspec_core::judge::skipped(&self.case, String::new());
            (Failure::unknown(), skipped)
        });
        Last { case: self.case, verdict, failure, size: self.planned.size, runs: self.runs, kept }
    }
}

/// The cases of a file, or the error in it.
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
    // A case is named as in a report, where folders may precede it.
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

/// True if the file admits a hang.
/// The case with every ending admitted that mismatched calls may have.
fn with_any_ending(case: &Arc<Case>) -> Arc<Case> {
    let mut case = (**case).clone();
    let value = vec![ExpectedOutcome::Hang, ExpectedOutcome::Error(None), ExpectedOutcome::Crash, ExpectedOutcome::Ok];
    let span = case.outcome.as_ref().map_or(case.span, |outcome| outcome.span);
    (case.outcome, case.reason) = (Some(Spanned { value, span }), None);
    Arc::new(case)
}

/// The cost of a case, or the reason it cannot be planned.
fn planned(case: &Arc<Case>, runner: &Runner) -> Result<Planned, String> {
    match plan::plan(case, runner.limits()) {
        Ok(plan) => {
            let why = plan.undefined.as_deref().and_then(|why| why.rsplit(": ").next());
            Ok(Planned { size: Size::of(&plan, case), work: plan.cost.work, undefined: why.map(str::to_owned) })
        }
        Err(diagnostics) => {
            Err(diagnostics.first().map_or("no reason is known", |first| first.message.as_str()).to_owned())
        }
    }
}

impl fmt::Debug for Trials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trials after {}", in_runs(self.runs))
    }
}

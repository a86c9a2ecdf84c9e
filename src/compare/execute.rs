//! Runs the corpus on both sides in turn, and again, in new processes, what comes and goes.
use super::change::{Change, Meaning};
use super::classify::classify;
use super::comparison::{Comparison, FailedRun, FirstFailures, Row, SideSummary, StartRates};
use super::library_changes::library_changes;
use super::seen::Seen;
use super::side::Side;
use crate::judge::{Status, Verdict};
use crate::record::RecordedCase;
use crate::report::{Event, Reporter};
use crate::scenario::Case;
use crate::suite::{CaseSet, ChosenBackend, Error, RunOptions, Runner};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often things are run.
#[derive(Clone, Debug)]
pub struct Repetition {
    /// Runs of the corpus on each side, in new processes each.
    pub runs: usize,
    /// Further runs on each side of a case that fails in some runs and passes in others, or differs from run to run; each in
    /// new processes.
    pub repeats: usize,
    /// Starts of each library with one case each, to find what fails in some starts only.
    pub starts: usize,
    /// Time for repeats and starts together.
    pub time: Duration,
}

/// Is told what is being done.
pub trait Observer {
    /// A part of the comparison begins, for instance a run of the corpus.
    fn part(&mut self, words: &str);

    /// An event of that part.
    fn event(&mut self, event: &Event);
}

/// Cases that differ from run to run are repeated up to this number; of more, the first.
const MAX_REPEATED: usize = 32;
/// Cases of which a failure is kept in full.
const MAX_FAILURES: usize = 1_000;
/// Cases that fail on one side only and are run again at first, and how often.
const CONFIRMED: usize = 8;
const CONFIRMATIONS: usize = 4;
/// Cases with which starts are tried.
const START_CASES: usize = 8;
/// A case that takes longer is not run for starts.
const START_SECONDS: f64 = 2.0;
/// How many times the usual number of tries is made if the rates differ too little to decide.
const MORE_TRIES: usize = 4;

/// The runs of all cases on one side.
struct Runs<'a> {
    side: &'a Side,
    /// By name, in the order in which they were run.
    by_case: BTreeMap<String, Vec<RecordedCase>>,
    corpus_runs: usize,
    name: String,
    failures: BTreeMap<String, FailedRun>,
}

/// Collects a run's cases.
struct Collector<'a> {
    failures: &'a mut BTreeMap<String, FailedRun>,
    to: &'a mut BTreeMap<String, Vec<RecordedCase>>,
    observer: &'a mut dyn Observer,
}

/// Keeps the first failure of each case in full, of many cases the first.
fn keep_failure(failures: &mut BTreeMap<String, FailedRun>, case: &Arc<Case>, verdict: &Verdict) {
    if verdict.status == Status::Fail && failures.len() < MAX_FAILURES {
        failures.entry(verdict.case.clone()).or_insert_with(|| (case.clone(), Box::new(verdict.clone())));
    }
}

impl Reporter for Collector<'_> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if let Event::CaseDone { case, verdict } = event {
            self.to.entry(verdict.case.clone()).or_default().push(RecordedCase::new(case, verdict));
            keep_failure(self.failures, case, verdict);
        }
        self.observer.event(event);
        Ok(())
    }
}

impl<'a> Runs<'a> {
    fn new((name, side): (&str, &'a Side)) -> Self {
        let mut by_case: BTreeMap<String, Vec<RecordedCase>> = BTreeMap::new();
        let mut corpus_runs = 0;
        if let Side::Recorded(recording) = side {
            corpus_runs = 1;
            for case in &recording.cases {
                by_case.entry(case.case.clone()).or_default().push(case.clone());
            }
        }
        Self { side, by_case, corpus_runs, name: name.to_owned(), failures: BTreeMap::new() }
    }

    /// The library, unless the side is a recording.
    fn library(&self) -> Option<(&'a ChosenBackend, &'a RunOptions)> {
        match self.side {
            Side::Live { chosen, options, .. } => Some((chosen, options)),
            Side::Recorded(_) => None,
        }
    }

    fn run_corpus(&mut self, cases: &CaseSet, words: &str, observer: &mut dyn Observer) -> Result<(), Error> {
        let Some((chosen, options)) = self.library() else { return Ok(()) };
        observer.part(words);
        cases.run(
            options.clone(),
            chosen.clone(),
            &mut Collector { failures: &mut self.failures, to: &mut self.by_case, observer },
        )?;
        self.corpus_runs += 1;
        Ok(())
    }

    /// Runs a case in new processes; `None` for a recording.
    fn run_apart(&mut self, case: &Arc<Case>) -> Result<Option<RecordedCase>, Error> {
        let Some((chosen, options)) = self.library() else { return Ok(None) };
        let runner = Runner::new(options.clone(), chosen.clone())?;
        let verdict = runner.run_case(case);
        let record = RecordedCase::new(case, &verdict);
        keep_failure(&mut self.failures, case, &verdict);
        Ok(Some(record))
    }

    /// Runs a case in new processes and counts the run among the case's; nothing for a recording.
    fn run_anew(&mut self, case: &Arc<Case>) -> Result<(), Error> {
        let Some(record) = self.run_apart(case)? else { return Ok(()) };
        self.by_case.entry(case.name.clone()).or_default().push(record);
        Ok(())
    }

    fn of(&self, case: &str) -> Vec<&RecordedCase> {
        self.by_case.get(case).map(|runs| runs.iter().collect()).unwrap_or_default()
    }

    fn summary(&self) -> SideSummary {
        let cut_short = matches!(self.side, Side::Recorded(recording) if recording.closing.is_none());
        SideSummary {
            name: self.name.clone(),
            header: self.side.header(),
            recorded: !self.side.is_live(),
            corpus_runs: self.corpus_runs,
            cut_short,
        }
    }
}

/// Compares two sides, each with the name that it was asked for by, over these cases, which only recordings do not need.
///
/// # Errors
///
/// The cases cannot be run.
pub fn compare(
    base: (&str, &Side),
    candidate: (&str, &Side),
    cases: &CaseSet,
    repetition: &Repetition,
    observer: &mut dyn Observer,
) -> Result<(Comparison, FirstFailures), Error> {
    let (mut ours, mut theirs) = (Runs::new(base), Runs::new(candidate));
    let runs = repetition.runs.max(1);
    for round in 0..runs {
        let words = |side: &str| format!("{side}, run {} of {runs}", round + 1);
        // A B B A: what drifts with time meets both alike.
        if round % 2 == 0 {
            ours.run_corpus(cases, &words("base"), observer)?;
            theirs.run_corpus(cases, &words("candidate"), observer)?;
        } else {
            theirs.run_corpus(cases, &words("candidate"), observer)?;
            ours.run_corpus(cases, &words("base"), observer)?;
        }
    }
    let deadline = Instant::now() + repetition.time;
    let corpus = names(&ours, &theirs, cases);
    confirm(&mut ours, &mut theirs, cases, repetition, deadline, observer)?;
    repeat_unsteady(&mut ours, &mut theirs, cases, repetition, deadline, observer)?;
    let starts = try_starts(&mut ours, &mut theirs, cases, repetition, deadline, observer)?;
    let rows = corpus.iter().map(|name| row(name, &ours, &theirs)).collect();
    let changes = library_changes(&ours.side.header(), &theirs.side.header());
    let failures =
        FirstFailures { base: std::mem::take(&mut ours.failures), candidate: std::mem::take(&mut theirs.failures) };
    Ok((Comparison::new(ours.summary(), theirs.summary(), rows, starts, changes), failures))
}

/// The names of all cases, in order.
fn names(ours: &Runs<'_>, theirs: &Runs<'_>, cases: &CaseSet) -> Vec<String> {
    let selected = cases.cases.iter().map(|case| case.name.clone());
    let recorded_only = !(ours.side.is_live() || theirs.side.is_live());
    let mut names: Vec<String> = if recorded_only {
        ours.by_case.keys().chain(theirs.by_case.keys()).cloned().collect()
    } else {
        selected.collect()
    };
    names.sort_unstable();
    names.dedup();
    names
}

fn row(name: &str, ours: &Runs<'_>, theirs: &Runs<'_>) -> Row {
    let (base, candidate) = (ours.of(name), theirs.of(name));
    let file = base.iter().chain(&candidate).map(|run| run.file.clone()).next().unwrap_or_default();
    let (change, detail) = match (base.is_empty(), candidate.is_empty()) {
        (true, false) => (Change::NotComparable, "the base's recording does not have this case".to_owned()),
        (false, true) => (Change::NotComparable, "the candidate's recording does not have this case".to_owned()),
        (true, true) => (Change::NotComparable, "not run".to_owned()),
        (false, false) => {
            let classified = classify(&base, &candidate);
            (classified.change, classified.detail)
        }
    };
    let seconds = |runs: &[&RecordedCase]| {
        let seconds: Vec<f64> = runs.iter().filter(|run| run.status == Status::Pass).map(|run| run.seconds).collect();
        crate::stats::median(&seconds)
    };
    let any = base.iter().chain(&candidate).next();
    Row {
        case: name.to_owned(),
        file,
        operations: any.map(|run| run.operations.clone()).unwrap_or_default(),
        types: any.map(|run| run.types.clone()).unwrap_or_default(),
        change,
        detail,
        base_seconds: seconds(&base),
        candidate_seconds: seconds(&candidate),
        base: Seen::of(&base),
        candidate: Seen::of(&candidate),
        accepted: None,
    }
}

/// Runs some of the cases again that fail in every run of one side and pass in every run of the other: what fails because a
/// process started badly fails in all of its cases. If one of them is not steady, so may be the others, and they are run too.
fn confirm(
    ours: &mut Runs<'_>,
    theirs: &mut Runs<'_>,
    cases: &CaseSet,
    repetition: &Repetition,
    deadline: Instant,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let one_sided = |ours: &Runs<'_>, theirs: &Runs<'_>, case: &Case| {
        matches!(
            row(&case.name, ours, theirs).change,
            Change::NowCrashes | Change::NowHangs | Change::NowWrong | Change::NowFails | Change::Fixed
        )
    };
    let all: Vec<Arc<Case>> = cases.cases.iter().filter(|case| one_sided(ours, theirs, case)).cloned().collect();
    let times = repetition.repeats.min(CONFIRMATIONS);
    if all.is_empty() || times == 0 {
        return Ok(());
    }
    let count = all.len().min(CONFIRMED);
    let first: Vec<usize> = (0..count).map(|at| at * all.len() / count).collect();
    let rest = (0..all.len()).filter(|at| !first.contains(at)).take(MAX_REPEATED);
    observer.part("cases that fail on one side only, some of them again in new processes");
    let mut steady = true;
    for (done, at) in first.iter().copied().chain(rest).enumerate() {
        if done >= first.len() && steady {
            break;
        }
        for _ in 0..times {
            if Instant::now() >= deadline {
                return Ok(());
            }
            ours.run_anew(&all[at])?;
            theirs.run_anew(&all[at])?;
        }
        steady &= one_sided(ours, theirs, &all[at]);
    }
    Ok(())
}

/// Repeats the cases that are not alike in all runs of a side.
fn repeat_unsteady(
    ours: &mut Runs<'_>,
    theirs: &mut Runs<'_>,
    cases: &CaseSet,
    repetition: &Repetition,
    deadline: Instant,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let unsteady = |case: &&Arc<Case>| {
        matches!(
            row(&case.name, ours, theirs).change,
            Change::FailsMoreOften
                | Change::FailsLessOften
                | Change::Undecided
                | Change::ComesAndGoes
                | Change::NowUnstable
                | Change::PerhapsUnstable
                | Change::NowStable
                | Change::Unstable
        )
    };
    let cases: Vec<Arc<Case>> = cases.cases.iter().filter(unsteady).take(MAX_REPEATED).cloned().collect();
    if cases.is_empty() || repetition.repeats == 0 {
        return Ok(());
    }
    let words = if cases.len() == 1 { "1 case that is".to_owned() } else { format!("{} cases that are", cases.len()) };
    observer.part(&format!("{words} not alike in all runs, each {} times in new processes", repetition.repeats));
    for case in &cases {
        for tries in 1..=repetition.repeats.saturating_mul(MORE_TRIES) {
            // Looking more often would find by chance what is not there.
            let look = tries == repetition.repeats + 1;
            if look && row(&case.name, ours, theirs).change.meaning() != Meaning::Undecided {
                break;
            }
            if Instant::now() >= deadline {
                return Ok(());
            }
            if tries % 2 == 0 {
                theirs.run_anew(case)?;
                ours.run_anew(case)?;
            } else {
                ours.run_anew(case)?;
                theirs.run_anew(case)?;
            }
        }
    }
    Ok(())
}

/// Starts each library anew with one case at a time.
fn try_starts(
    ours: &mut Runs<'_>,
    theirs: &mut Runs<'_>,
    cases: &CaseSet,
    repetition: &Repetition,
    deadline: Instant,
    observer: &mut dyn Observer,
) -> Result<Option<StartRates>, Error> {
    if repetition.starts == 0 || !(ours.side.is_live() && theirs.side.is_live()) {
        return Ok(None);
    }
    // Only what passes whenever the library starts well can tell a start that does not.
    let steady: Vec<&Arc<Case>> =
        cases.cases.iter().filter(|case| passes(ours, case) && passes(theirs, case)).collect();
    if steady.is_empty() {
        let reason = format!("no case passes in every run of both sides within {START_SECONDS} s");
        return Ok(Some(StartRates { not_tried: Some(reason), ..StartRates::default() }));
    }
    let count = steady.len().min(START_CASES);
    let chosen: Vec<Arc<Case>> = (0..count).map(|at| steady[at * steady.len() / count].clone()).collect();
    observer.part(&format!("{} starts of each library with one case each", repetition.starts));
    let mut rates = StartRates::default();
    for tries in 0..repetition.starts.saturating_mul(MORE_TRIES) {
        let look = tries == repetition.starts;
        if (look && rates.change().meaning() != Meaning::Undecided) || Instant::now() >= deadline {
            break;
        }
        let case = &chosen[tries % chosen.len()];
        let one = |side: &mut Runs<'_>, failed: &mut u64, total: &mut u64, reasons: &mut Vec<String>| {
            let Some(record) = side.run_apart(case)? else { return Ok::<(), Error>(()) };
            *total += 1;
            if record.status == Status::Fail {
                *failed += 1;
                let reason = record.reason.clone().unwrap_or_default();
                if reasons.len() < 3 && !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
            Ok(())
        };
        let StartRates {
            base_failed,
            base_starts,
            candidate_failed,
            candidate_starts,
            base_reasons,
            candidate_reasons,
            ..
        } = &mut rates;
        if tries % 2 == 0 {
            one(ours, base_failed, base_starts, base_reasons)?;
            one(theirs, candidate_failed, candidate_starts, candidate_reasons)?;
        } else {
            one(theirs, candidate_failed, candidate_starts, candidate_reasons)?;
            one(ours, base_failed, base_starts, base_reasons)?;
        }
    }
    Ok(Some(rates))
}

/// True if the case passed quickly in every run.
fn passes(side: &Runs<'_>, case: &Case) -> bool {
    let runs = side.of(&case.name);
    !runs.is_empty() && runs.iter().all(|run| run.status == Status::Pass && run.wall_seconds <= START_SECONDS)
}

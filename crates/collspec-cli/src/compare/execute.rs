//! Runs the corpus on both sides in turn, and makes the comparison.
use super::change::Change;
use super::classify::{Classified, classified, classify};
use super::comparison::{Comparison, FirstFailures, Row};
use super::library_changes::library_changes;
use super::repeats::Repeats;
use super::runs::Runs;
use super::seen::Seen;
use super::side::Side;
use crate::corpus::known_bugs;
use crate::record::RecordedCase;
use collspec_core::judge::Status;
use collspec_core::scenario::Case;
use collspec_core::stats::median;
use collspec_suite::report::Event;
use collspec_suite::suite::{CaseSet, Error};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often each library is started without `--starts`.
pub const USUAL_STARTS: usize = 30;

/// Numbers of repetitions, and their time limit.
#[derive(Clone, Debug)]
pub struct Repetition {
    /// Number of runs of the corpus on each side, in new processes each.
    pub runs: usize,
    /// Number of further runs on each side of a case that fails in some runs and passes in others, or differs from run to run; each
    /// in new processes.
    pub repeats: usize,
    /// Number of starts of each library with one case each, to find failures that occur in some starts only.
    pub starts: usize,
    /// True if there are fewer starts where they would take longer than the runs of the corpus, and longer than
    /// ten seconds.
    pub fewer_starts_of_few_cases: bool,
    /// Time limit for repeats and starts together.
    pub time: Duration,
}

/// Receives progress messages, and can stop the comparison.
pub trait Observer {
    /// A part of the comparison begins.
    fn part(&mut self, words: &str);

    /// A run of the corpus on one side begins.
    fn run(&mut self, words: &str) {
        self.part(words);
    }

    /// A part begins that was not to be foreseen.
    fn further_part(&mut self, words: &str) {
        self.part(words);
    }

    /// An event of that part.
    fn event(&mut self, event: &Event);

    /// True if nothing further is to be run.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Compares two sides, each with the name under which it was requested, over these cases, which two recordings do not need.
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
    let mut sides = Sides { base: Runs::new(base), candidate: Runs::new(candidate) };
    let runs = repetition.runs.max(1);
    let begun = Instant::now();
    for round in 0..runs {
        let words = |side: &str| format!("{side}, run {} of {runs}", round + 1);
        sides.in_turn(round, |side, name| side.run_corpus(cases, &words(name), observer))?;
    }
    let corpus = sides.names(cases);
    let corpus_time = begun.elapsed();
    let deadline = Instant::now() + repetition.time;
    let mut repeats = Repeats { cases, repetition, corpus_time, deadline, observer };
    repeats.confirm(&mut sides)?;
    repeats.repeat_unsteady(&mut sides)?;
    let starts = repeats.try_starts(&mut sides)?;
    let interrupted = repeats.observer.is_interrupted();
    let rows = corpus.iter().map(|name| sides.row(name)).collect();
    let Sides { base, candidate } = sides;
    let changes = library_changes(&base.side.header(), &candidate.side.header());
    let mut comparison = Comparison::new(base.summary(), candidate.summary(), rows, starts, changes);
    comparison.interrupted = interrupted;
    comparison.imported = imported(cases.cases.iter());
    let releases = [&comparison.base, &comparison.candidate].map(|side| side.nccl_release());
    if let ([Some(base), Some(candidate)], false) = (releases, interrupted) {
        let compared = comparison.rows.iter().filter(|row| row.change.was_compared());
        let compared: HashSet<&str> = compared.map(|row| row.case.as_str()).collect();
        let cases = cases.cases.iter().filter(|case| compared.contains(case.name.as_str()));
        let changes: Vec<&str> = comparison.library.iter().map(|change| change.subject.as_str()).collect();
        comparison.known_bugs = known_bugs::differences(base, candidate, cases, &changes);
    }
    Ok((comparison, FirstFailures { base: base.failures, candidate: candidate.failures }))
}

/// The descriptions of imported files, each once.
fn imported<'a>(cases: impl Iterator<Item = &'a Arc<Case>>) -> Vec<String> {
    let imported = cases.filter(|case| case.tags.iter().any(|tag| tag == "imported"));
    let descriptions: BTreeSet<String> = imported.filter_map(|case| case.description.clone()).collect();
    descriptions.into_iter().collect()
}

/// The runs of both sides.
pub(super) struct Sides<'a> {
    pub(super) base: Runs<'a>,
    pub(super) candidate: Runs<'a>,
}

impl Sides<'_> {
    /// Does the same with both sides, in the order A B B A by number, so that drift over time affects both equally.
    ///
    /// # Errors
    ///
    /// The first error of `each`.
    pub(super) fn in_turn<E>(
        &mut self,
        number: usize,
        mut each: impl FnMut(&mut Runs<'_>, &'static str) -> Result<(), E>,
    ) -> Result<(), E> {
        if number.is_multiple_of(2) {
            each(&mut self.base, "base")?;
            each(&mut self.candidate, "candidate")
        } else {
            each(&mut self.candidate, "candidate")?;
            each(&mut self.base, "base")
        }
    }

    /// The names of all cases, in order.
    fn names(&self, cases: &CaseSet) -> Vec<String> {
        let (ours, theirs) = (&self.base, &self.candidate);
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

    /// A case with its changes so far.
    pub(super) fn row(&self, name: &str) -> Row {
        let (base, candidate) = (self.base.of(name), self.candidate.of(name));
        let Classified { change, detail, changed_results } = match (base.is_empty(), candidate.is_empty()) {
            (true, false) => classified(Change::NotComparable, self.base.lacks("base")),
            (false, true) => classified(Change::NotComparable, self.candidate.lacks("candidate")),
            (true, true) => classified(Change::NotComparable, "not run"),
            (false, false) => classify(&base, &candidate),
        };
        let seconds = |runs: &[&RecordedCase]| {
            let seconds: Vec<f64> =
                runs.iter().filter(|run| run.status == Status::Pass).map(|run| run.seconds).collect();
            median(&seconds)
        };
        let any = base.iter().chain(&candidate).next();
        let ran = base.iter().chain(&candidate).find(|run| !run.used.is_empty());
        Row {
            case: name.to_owned(),
            file: any.map(|run| run.file.clone()).unwrap_or_default(),
            operations: any.map(|run| run.operations.clone()).unwrap_or_default(),
            types: any.map(|run| run.types.clone()).unwrap_or_default(),
            used: ran.map(|run| run.used.clone()).unwrap_or_default(),
            change,
            detail,
            changed_results,
            base_seconds: seconds(&base),
            candidate_seconds: seconds(&candidate),
            base: Seen::of(&base),
            candidate: Seen::of(&candidate),
            accepted: None,
        }
    }
}

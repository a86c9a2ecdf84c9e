//! Runs again, in new processes, cases that differ between the sides or fail only sometimes.
use super::change::{Change, Meaning};
use super::comparison::StartRates;
use super::execute::{Observer, Repetition, Sides};
use super::runs::Runs;
use collspec_core::judge::Status;
use collspec_core::scenario::Case;
use collspec_suite::suite::{CaseSet, Error};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit on the cases differing from run to run that are repeated; if there are more, the first ones.
const MAX_REPEATED: usize = 32;
/// Number of cases failing on one side only that are run again first; below, the number of runs of each.
const CONFIRMED: usize = 8;
const CONFIRMATIONS: usize = 4;
/// Number of cases with which starts are tried.
const START_CASES: usize = 8;
/// A case that takes longer is not used for starts.
const START_SECONDS: f64 = 2.0;
/// Factor on the usual number of tries if the rates differ too little to decide.
const MORE_TRIES: usize = 4;
/// Number of reasons that are kept of a side's failed starts.
const START_REASONS: usize = 3;
/// The time that starts may take even where the runs of the corpus took less.
const STARTS_IN_ANY_CASE: Duration = Duration::from_secs(10);
/// Fewer starts would miss a failure in three starts of ten more than once in a hundred times.
const LEAST_STARTS: usize = 13;

/// The cases to run again, the number of repetitions, and the deadline.
pub(super) struct Repeats<'a> {
    pub(super) cases: &'a CaseSet,
    pub(super) repetition: &'a Repetition,
    /// The time that all runs of the corpus took together.
    pub(super) corpus_time: Duration,
    pub(super) deadline: Instant,
    pub(super) observer: &'a mut dyn Observer,
}

impl Repeats<'_> {
    /// Runs again some of the cases that fail in every run of one side and pass in every run of the other: if a process started
    /// badly, all of its cases fail. If one of them is not steady, the others may not be either, and they are run too.
    ///
    /// # Errors
    ///
    /// A worker cannot be started.
    pub(super) fn confirm(&mut self, sides: &mut Sides<'_>) -> Result<(), Error> {
        let one_sided = |sides: &Sides<'_>, case: &Case| {
            matches!(
                sides.row(&case.name).change,
                Change::NowCrashes | Change::NowHangs | Change::NowWrong | Change::NowFails | Change::Fixed
            )
        };
        let all = self.select(|case| one_sided(sides, case));
        let times = self.repetition.repeats.min(CONFIRMATIONS);
        if all.is_empty() || times == 0 || self.is_late() {
            return Ok(());
        }
        let first = spread(all.len(), CONFIRMED);
        let rest = (0..all.len()).filter(|at| !first.contains(at)).take(MAX_REPEATED);
        self.observer.further_part("cases that fail on one side only, some of them again in new processes");
        let mut steady = true;
        for (done, at) in first.iter().copied().chain(rest).enumerate() {
            if done >= first.len() && steady {
                break;
            }
            for number in 0..times {
                if self.is_late() {
                    return Ok(());
                }
                sides.in_turn(number, |side, _| side.run_anew(&all[at]))?;
            }
            steady &= one_sided(sides, &all[at]);
        }
        Ok(())
    }

    /// Repeats the cases that differ among the runs of a side.
    ///
    /// # Errors
    ///
    /// A worker cannot be started.
    pub(super) fn repeat_unsteady(&mut self, sides: &mut Sides<'_>) -> Result<(), Error> {
        let mut cases = self.select(|case| sides.row(&case.name).change.comes_and_goes());
        cases.truncate(MAX_REPEATED);
        let repeats = self.repetition.repeats;
        if cases.is_empty() || repeats == 0 || self.is_late() {
            return Ok(());
        }
        let words = if cases.len() == 1 { "1 case".to_owned() } else { format!("{} cases", cases.len()) };
        self.observer.further_part(&format!("{words} with runs that differ, {repeats} times each in new processes"));
        for case in &cases {
            for number in 0..repeats.saturating_mul(MORE_TRIES) {
                // Checking more often would find differences by chance.
                let look = number == repeats;
                if look && sides.row(&case.name).change.meaning() != Meaning::Undecided {
                    break;
                }
                if self.is_late() {
                    return Ok(());
                }
                sides.in_turn(number, |side, _| side.run_anew(case))?;
            }
        }
        Ok(())
    }

    /// Starts each library in new processes, with one case per start; `None` if that was not requested or a side is a recording.
    ///
    /// # Errors
    ///
    /// A worker cannot be started.
    pub(super) fn try_starts(&mut self, sides: &mut Sides<'_>) -> Result<Option<StartRates>, Error> {
        let mut starts = self.repetition.starts;
        if starts == 0
            || self.observer.is_interrupted()
            || !(sides.base.side.is_live() && sides.candidate.side.is_live())
        {
            return Ok(None);
        }
        // Only cases that pass whenever the library starts well can reveal a bad start.
        let steady = self.select(|case| passes(&sides.base, case) && passes(&sides.candidate, case));
        if steady.is_empty() {
            let reason = format!("no case passes in every run of both sides within {START_SECONDS} s");
            self.observer.part(&format!("no starts: {reason}"));
            return Ok(Some(StartRates { not_tried: Some(reason), ..StartRates::default() }));
        }
        let chosen = spread(steady.len(), START_CASES);
        self.observer
            .part("starts of each library, each with one case in a new process, for what fails in some starts only");
        let begun = Instant::now();
        let usual = self.corpus_time.max(STARTS_IN_ANY_CASE);
        let mut rates = StartRates::default();
        let mut number = 0;
        while number < starts.saturating_mul(MORE_TRIES) {
            let is_long = self.repetition.fewer_starts_of_few_cases && begun.elapsed() > usual;
            if is_long && (LEAST_STARTS..starts).contains(&number) {
                starts = number;
            }
            // The rates are looked at once. Looking after each start would find differences by chance.
            if (number == starts && rates.change().meaning() != Meaning::Undecided) || self.is_late() {
                break;
            }
            let case = &steady[chosen[number % chosen.len()]];
            sides.in_turn(number, |side, name| {
                let Some(record) = side.run_apart(case)? else { return Ok::<(), Error>(()) };
                let of_side = if name == "base" { &mut rates.base } else { &mut rates.candidate };
                of_side.starts += 1;
                if record.status.is_bad() {
                    of_side.failed += 1;
                    let reason = record.reason.unwrap_or_default();
                    if of_side.reasons.len() < START_REASONS && !of_side.reasons.contains(&reason) {
                        of_side.reasons.push(reason);
                    }
                }
                Ok(())
            })?;
            number += 1;
        }
        Ok(Some(rates))
    }

    fn select(&self, keep: impl Fn(&Case) -> bool) -> Vec<Arc<Case>> {
        self.cases.cases.iter().filter(|case| keep(case)).cloned().collect()
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline || self.observer.is_interrupted()
    }
}

/// At most `most` of `all` positions, evenly spaced.
fn spread(all: usize, most: usize) -> Vec<usize> {
    let count = all.min(most);
    (0..count).map(|at| at * all / count).collect()
}

/// True if the case passed quickly in every run.
fn passes(side: &Runs<'_>, case: &Case) -> bool {
    let runs = side.of(&case.name);
    !runs.is_empty() && runs.iter().all(|run| run.status == Status::Pass && run.wall_seconds <= START_SECONDS)
}

//! Determines what changed in a case, from all its runs on both sides.
use super::change::Change;
use super::comparison::ChangedResult;
use super::seen::{Ending, Seen};
use crate::record::RecordedCase;
use collspec_core::judge::{CallError, Outcome};
use collspec_core::oracle::order_map::{OrderChange, ResultOrder, compare as compare_orders, describe_change};
use collspec_core::stats::rates::{Interval, fisher};
use std::collections::{BTreeMap, BTreeSet};

/// Rates are considered different if chance explains the difference with less than this probability. It is small because many
/// cases are tested.
pub const SIGNIFICANCE: f64 = 0.01;

/// Number of results that are named of a case.
const MAX_CHANGED_RESULTS: usize = 16;

/// A change with its description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classified {
    pub change: Change,
    /// A description in one line; for a change of results, equal for all cases with the same change.
    pub detail: String,
    /// The results whose order of summation, or rounding, changed.
    pub changed_results: Vec<ChangedResult>,
}

/// A change without results whose order is known.
pub fn classified(change: Change, detail: impl Into<String>) -> Classified {
    Classified { change, detail: detail.into(), changed_results: Vec::new() }
}

/// Classifies the change in a case from its runs and skips on both sides.
pub fn classify(base: &[&RecordedCase], candidate: &[&RecordedCase]) -> Classified {
    let (ours, theirs) = (Seen::of(base), Seen::of(candidate));
    match (ours.ran(), theirs.ran()) {
        (0, 0) => {
            let reason = theirs.reason.or(ours.reason).unwrap_or_else(|| "the case was not run".to_owned());
            return classified(Change::Skipped, reason);
        }
        (_, 0) => return classified(Change::NoLongerRuns, skipped(&theirs)),
        (0, _) => return classified(Change::NowRuns, format!("the base: {}", skipped(&ours))),
        _ => {}
    }
    let one_text = base.iter().chain(candidate).filter_map(|run| run.text).collect::<BTreeSet<_>>().len() <= 1;
    if ours.failed == 0
        && theirs.failed == 0
        && let Some(changed) = other_ending(base, candidate)
    {
        return changed;
    }
    match (ours.failed, theirs.failed) {
        (0, 0) if !one_text => match results(base, candidate) {
            Classified { change: Change::SameBits | Change::SameBehaviour, detail, .. } => {
                classified(Change::SameBits, detail)
            }
            _ => classified(Change::NotComparable, "the scenario file is not the same on both sides"),
        },
        (0, 0) => results(base, candidate),
        (0, failed) if failed == theirs.ran() => now_fails(&theirs),
        (failed, 0) if failed == ours.ran() => classified(Change::Fixed, ours.reason.clone().unwrap_or_default()),
        (failed, other) if failed == ours.ran() && other == theirs.ran() => still_fails(&ours, &theirs),
        _ => rates(&ours, &theirs),
    }
}

/// A change in the endings of cases that pass in every run: a scenario may admit several.
fn other_ending(base: &[&RecordedCase], candidate: &[&RecordedCase]) -> Option<Classified> {
    let ended = |runs: &[&RecordedCase]| -> Vec<Outcome> { runs.iter().filter_map(|run| run.outcome).collect() };
    let (ours, theirs) = (ended(base), ended(candidate));
    let new: Vec<Outcome> = theirs.iter().copied().filter(|outcome| !ours.contains(outcome)).collect();
    let worst = new.iter().copied().max_by_key(|outcome| severity(*outcome))?;
    let words = |outcomes: &[Outcome]| {
        let words: BTreeSet<&str> = outcomes.iter().map(|outcome| outcome_word(*outcome)).collect();
        words.into_iter().collect::<Vec<_>>().join(" or ")
    };
    let text = format!("ends with {} -> {}; the scenario admits both", words(&ours), words(&theirs));
    let better = ours.iter().all(|outcome| severity(*outcome) > severity(worst));
    if new.len() == theirs.len() {
        let change = match worst {
            _ if better => Change::OtherEnding,
            Outcome::Crash => Change::NowCrashes,
            Outcome::Hang => Change::NowHangs,
            Outcome::Error | Outcome::Refused => Change::NowFails,
            Outcome::Ok => Change::OtherEnding,
        };
        return Some(classified(change, text));
    }
    if better {
        return None;
    }
    let change = compare_rates((0, ours.len() as u64), (new.len() as u64, theirs.len() as u64));
    let (before, now) = (Interval::of(0, ours.len() as u64), Interval::of(new.len() as u64, theirs.len() as u64));
    Some(classified(change, format!("{text}: base {before}; candidate {now}")))
}

/// The worse an ending is, the greater.
fn severity(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Ok => 0,
        Outcome::Error | Outcome::Refused => 1,
        Outcome::Hang => 2,
        Outcome::Crash => 3,
    }
}

fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "no error",
        Outcome::Error => "an error",
        Outcome::Refused => "a refusal",
        Outcome::Hang => "a hang",
        Outcome::Crash => "a crash",
    }
}

fn skipped(seen: &Seen) -> String {
    seen.reason.clone().unwrap_or_else(|| "skipped".to_owned())
}

fn now_fails(candidate: &Seen) -> Classified {
    let change = match candidate.endings.iter().next() {
        Some(Ending::Crash) => Change::NowCrashes,
        Some(Ending::Hang) => Change::NowHangs,
        Some(Ending::Wrong) => Change::NowWrong,
        _ => Change::NowFails,
    };
    classified(change, candidate.reason.clone().unwrap_or_default())
}

fn still_fails(base: &Seen, candidate: &Seen) -> Classified {
    let reason = candidate.reason.clone().unwrap_or_default();
    if base.endings == candidate.endings && base.codes == candidate.codes {
        return classified(Change::StillFails, reason);
    }
    let before = base.reason.as_deref().unwrap_or("no reason is known");
    classified(Change::FailsOtherwise, format!("before: {before}; now: {reason}"))
}

/// A failure in some of the runs is reported as a rate.
fn rates(base: &Seen, candidate: &Seen) -> Classified {
    let (ours, theirs) = ((base.failed, base.ran()), (candidate.failed, candidate.ran()));
    let change = compare_rates(ours, theirs);
    let endings: Vec<&str> = base.endings.union(&candidate.endings).map(|ending| ending.words()).collect();
    let what = endings.join(" or ");
    let (before, now) = (Interval::of(ours.0, ours.1), Interval::of(theirs.0, theirs.1));
    let reason = candidate.reason.as_ref().or(base.reason.as_ref()).cloned().unwrap_or_default();
    classified(change, format!("{what}: base {before}; candidate {now}; {reason}"))
}

/// Compares the (failed, ran) counts of both sides for failures that occur in only some runs.
pub fn compare_rates(base: (u64, u64), candidate: (u64, u64)) -> Change {
    let rate = |(failed, ran): (u64, u64)| failed as f64 / ran.max(1) as f64;
    let different = fisher(base, candidate) < SIGNIFICANCE;
    match (rate(candidate) > rate(base), different) {
        (true, true) => Change::FailsMoreOften,
        // The base has never failed, so this may be new.
        (true, false) if base.0 == 0 => Change::Undecided,
        (false, true) => Change::FailsLessOften,
        (_, false) => Change::ComesAndGoes,
    }
}

/// A change in the results of cases that pass in every run.
fn results(base: &[&RecordedCase], candidate: &[&RecordedCase]) -> Classified {
    let (ours, theirs) = (Results::of(base), Results::of(candidate));
    let (Some(our_run), Some(their_run)) = (ours.usual, theirs.usual) else {
        let one_sided = ours.usual.is_some() != theirs.usual.is_some();
        // An error that the scenario admits leaves no results.
        let ended_alike = base.iter().chain(candidate).all(|run| run.outcome == Some(Outcome::Ok));
        if one_sided && ended_alike {
            return classified(Change::NotComparable, "only one side has results");
        }
        return errors(base, candidate, Change::SameBehaviour);
    };
    if ours.others + theirs.others > 0 {
        let words = |side: &Results<'_>| {
            let others = Interval::of(side.others, side.runs);
            format!("{} different results, other than the usual one in {others}", side.all.len())
        };
        let text = format!("base {}; candidate {}", words(&ours), words(&theirs));
        match compare_rates((ours.others, ours.runs), (theirs.others, theirs.runs)) {
            Change::FailsMoreOften => return classified(Change::NowUnstable, text),
            Change::FailsLessOften => return classified(Change::NowStable, text),
            Change::Undecided => return classified(Change::PerhapsUnstable, text),
            _ if ours.all.intersection(&theirs.all).next().is_some() => return classified(Change::Unstable, text),
            _ => {}
        }
    }
    if contents(our_run) == contents(their_run) {
        return errors(base, candidate, Change::SameBits);
    }
    other_bits(our_run, their_run)
}

/// The results of a side's runs.
struct Results<'a> {
    /// Number of runs with results.
    runs: u64,
    /// Number of runs whose results are not the usual ones.
    others: u64,
    /// Every distinct result.
    all: BTreeSet<Vec<u8>>,
    /// A run with the most frequent results.
    usual: Option<&'a RecordedCase>,
}

impl<'a> Results<'a> {
    fn of(runs: &[&'a RecordedCase]) -> Self {
        let mut counts: BTreeMap<Vec<u8>, (u64, &'a RecordedCase)> = BTreeMap::new();
        for run in runs {
            if let Some(contents) = contents(run) {
                counts.entry(contents).or_insert((0, run)).0 += 1;
            }
        }
        let total = counts.values().map(|(count, _)| *count).sum();
        let usual = counts.values().max_by_key(|(count, _)| *count);
        Self {
            runs: total,
            others: total - usual.map_or(0, |(count, _)| *count),
            usual: usual.map(|(_, run)| *run),
            all: counts.keys().cloned().collect(),
        }
    }
}

/// A run's results in comparable form; `None` for a run without results.
fn contents(run: &RecordedCase) -> Option<Vec<u8>> {
    let results = run.results.as_ref().filter(|results| !results.buffers.is_empty())?;
    serde_json::to_vec(&(&results.buffers, &results.intermediate)).ok()
}

/// Describes the difference between results that are right on both sides.
fn other_bits(base: &RecordedCase, candidate: &RecordedCase) -> Classified {
    let same_result =
        |a: &ResultOrder, b: &ResultOrder| (&a.step, &a.buffer, &a.ranks) == (&b.step, &b.buffer, &b.ranks);
    let pairs = base.orders.iter().filter_map(|ours| {
        let theirs = candidate.orders.iter().find(|theirs| same_result(ours, theirs))?;
        let change = describe_change(&ours.map, &theirs.map);
        let result = ChangedResult { step: ours.step.clone(), buffer: ours.buffer.clone(), change };
        Some((compare_orders(&ours.map, &theirs.map), result))
    });
    let mut changed: Vec<(OrderChange, ChangedResult)> =
        pairs.filter(|(change, _)| !matches!(change, OrderChange::Same | OrderChange::Compatible)).collect();
    changed.sort_by_key(|(change, _)| std::cmp::Reverse(*change));
    let worst = changed.first().map(|(change, _)| *change);
    let mut changed_results: Vec<ChangedResult> = Vec::new();
    for (_, result) in changed {
        if changed_results.len() < MAX_CHANGED_RESULTS && !changed_results.contains(&result) {
            changed_results.push(result);
        }
    }
    let mut texts: Vec<&str> = Vec::new();
    for result in &changed_results {
        if !texts.contains(&result.change.as_str()) {
            texts.push(&result.change);
        }
    }
    const SHOWN: usize = 3;
    let more = texts.len().saturating_sub(SHOWN);
    texts.truncate(SHOWN);
    let mut text = texts.join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    let change = match worst {
        Some(OrderChange::OtherOrder) => Change::OtherOrder,
        Some(OrderChange::OtherRounding) => Change::OtherRounding,
        Some(_) => Change::OtherBits,
        None => {
            let why = if base.orders.is_empty() {
                "the order of summation is not known"
            } else {
                "the order maps do not tell them apart"
            };
            return classified(Change::OtherBits, format!("{}: {why}", places(base, candidate)));
        }
    };
    Classified { change, detail: text, changed_results }
}

/// The buffers and ranks whose contents differ.
fn places(base: &RecordedCase, candidate: &RecordedCase) -> String {
    let (Some(ours), Some(theirs)) = (&base.results, &candidate.results) else { return "results".to_owned() };
    let mut places = Vec::new();
    for (a, b) in ours.buffers.iter().zip(&theirs.buffers) {
        let ranks: Vec<usize> =
            a.ranks.iter().zip(&b.ranks).enumerate().filter(|(_, (a, b))| a != b).map(|(rank, _)| rank).collect();
        if !ranks.is_empty() {
            places.push(format!("`{}` on {}", a.buffer, collspec_core::judge::message::ranks_text(&ranks)));
        }
    }
    if places.is_empty() { "results between steps".to_owned() } else { places.join(", ") }
}

/// A change in the errors that calls returned; `otherwise` if the errors are the same.
fn errors(base: &[&RecordedCase], candidate: &[&RecordedCase], otherwise: Change) -> Classified {
    let (ours, theirs) = (all_errors(base), all_errors(candidate));
    let codes = |errors: &BTreeSet<CallError>| -> BTreeSet<(Option<String>, String)> {
        errors.iter().map(|error| (error.step.clone(), error.code.clone())).collect()
    };
    let shown = |set: BTreeSet<(Option<String>, String)>| -> String {
        let one = |(step, text): (Option<String>, String)| match step {
            Some(step) => format!("{step}: {text}"),
            None => text,
        };
        let shown: Vec<String> = set.into_iter().take(4).map(one).collect();
        if shown.is_empty() { "no error".to_owned() } else { shown.join(", ") }
    };
    if codes(&ours) != codes(&theirs) {
        let text = format!("{} -> {}", shown(codes(&ours)), shown(codes(&theirs)));
        return classified(Change::OtherErrorCode, text);
    }
    let texts = |errors: &BTreeSet<CallError>| -> BTreeSet<(Option<String>, String)> {
        errors.iter().map(|error| (error.step.clone(), without_numbers(&error.text))).collect()
    };
    if texts(&ours) != texts(&theirs) {
        let text = format!("{} -> {}", shown(texts(&ours)), shown(texts(&theirs)));
        return classified(Change::OtherErrorText, text);
    }
    classified(otherwise, String::new())
}

fn all_errors(runs: &[&RecordedCase]) -> BTreeSet<CallError> {
    let results = runs.iter().filter_map(|run| run.results.as_ref());
    // Which rank meets an error first depends on time.
    results.flat_map(|results| &results.errors).map(|error| CallError { rank: 0, ..error.clone() }).collect()
}

/// A text without the parts that differ from run to run: numbers and addresses.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        if !number {
            out.push_str(word);
            continue;
        }
        if !out.ends_with('#') {
            out.push('#');
        }
        out.extend(word.chars().last().filter(|c| !c.is_ascii_alphanumeric()));
    }
    out
}

/// The way a failed run ended.
pub(super) fn ending(run: &RecordedCase) -> Option<Ending> {
    if !run.status.is_bad() {
        return None;
    }
    Some(match run.outcome {
        Some(Outcome::Crash) => Ending::Crash,
        Some(Outcome::Hang) => Ending::Hang,
        Some(Outcome::Ok) => Ending::Wrong,
        Some(Outcome::Error) => Ending::Error,
        Some(Outcome::Refused) | None => Ending::NotRun,
    })
}

#[cfg(test)]
mod tests;

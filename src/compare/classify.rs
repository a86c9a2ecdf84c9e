//! What changed in a case, from all its runs on both sides.
use super::change::Change;
use super::seen::{Ending, Seen};
use crate::judge::{CallError, Outcome, Status};
use crate::oracle::order_map::{OrderChange, ResultOrder, compare as compare_orders, describe_change};
use crate::record::RecordedCase;
use crate::stats::rates::{Interval, fisher};
use std::collections::BTreeSet;

/// Rates that differ with a smaller probability of chance than this are different.
pub const SIGNIFICANCE: f64 = 0.05;

/// A change with what is to be said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classified {
    /// The change.
    pub change: Change,
    /// What changed, in one line; equal for cases in which the same changed, if it is about results.
    pub detail: String,
}

fn classified(change: Change, detail: impl Into<String>) -> Classified {
    Classified { change, detail: detail.into() }
}

/// What changed in a case that ran, or was skipped, so often on each side.
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
    match (ours.failed, theirs.failed) {
        (0, 0) if !one_text => match results(base, candidate) {
            Classified { change: Change::SameBits | Change::SameBehaviour, detail } => {
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

/// What comes and goes is told as a rate.
fn rates(base: &Seen, candidate: &Seen) -> Classified {
    let (ours, theirs) = ((base.failed, base.ran()), (candidate.failed, candidate.ran()));
    let change = compare_rates(ours, theirs);
    let endings: Vec<&str> = base.endings.union(&candidate.endings).map(|ending| ending.words()).collect();
    let what = endings.join(" or ");
    let (before, now) = (Interval::of(ours.0, ours.1), Interval::of(theirs.0, theirs.1));
    let reason = candidate.reason.as_ref().or(base.reason.as_ref()).cloned().unwrap_or_default();
    classified(change, format!("{what}: base {before}; candidate {now}; {reason}"))
}

/// What (failed, ran) of both sides say about failures that come and go.
pub fn compare_rates(base: (u64, u64), candidate: (u64, u64)) -> Change {
    let rate = |(failed, ran): (u64, u64)| failed as f64 / ran.max(1) as f64;
    let different = fisher(base, candidate) < SIGNIFICANCE;
    match (rate(candidate) > rate(base), different) {
        (true, true) => Change::FailsMoreOften,
        (true, false) => Change::Undecided,
        (false, true) => Change::FailsLessOften,
        (false, false) => Change::ComesAndGoes,
    }
}

/// What changed in the results of cases that pass in every run.
fn results(base: &[&RecordedCase], candidate: &[&RecordedCase]) -> Classified {
    let results =
        |runs: &[&RecordedCase]| -> BTreeSet<Vec<u8>> { runs.iter().filter_map(|run| contents(run)).collect() };
    let (ours, theirs) = (results(base), results(candidate));
    let counted =
        |different: usize, runs: &[&RecordedCase]| format!("{different} different results in {} runs", runs.len());
    match (ours.len(), theirs.len()) {
        (0, _) | (_, 0) => errors(base, candidate, Change::SameBehaviour),
        (1, 1) if ours == theirs => errors(base, candidate, Change::SameBits),
        (1, 1) => {
            let with_results = |run: &&&RecordedCase| run.results.is_some();
            match (base.iter().find(with_results), candidate.iter().find(with_results)) {
                (Some(base), Some(candidate)) => other_bits(base, candidate),
                _ => errors(base, candidate, Change::SameBehaviour),
            }
        }
        (1, different) => classified(Change::NowUnstable, counted(different, candidate)),
        (different, 1) => classified(Change::NowStable, format!("the base: {}", counted(different, base))),
        (before, now) => {
            let text = format!("base {}; candidate {}", counted(before, base), counted(now, candidate));
            classified(Change::Unstable, text)
        }
    }
}

/// A run's results in comparable form; `None` if it has none.
fn contents(run: &RecordedCase) -> Option<Vec<u8>> {
    let results = run.results.as_ref().filter(|results| !results.buffers.is_empty())?;
    serde_json::to_vec(&(&results.buffers, &results.intermediate)).ok()
}

/// How results that are right on both sides differ.
fn other_bits(base: &RecordedCase, candidate: &RecordedCase) -> Classified {
    let same_result =
        |a: &ResultOrder, b: &ResultOrder| (&a.step, &a.buffer, &a.ranks) == (&b.step, &b.buffer, &b.ranks);
    let pairs = base.orders.iter().filter_map(|ours| {
        let theirs = candidate.orders.iter().find(|theirs| same_result(ours, theirs))?;
        Some((compare_orders(&ours.map, &theirs.map), describe_change(&ours.map, &theirs.map)))
    });
    let mut changed: Vec<(OrderChange, String)> =
        pairs.filter(|(change, _)| !matches!(change, OrderChange::Same | OrderChange::Compatible)).collect();
    changed.sort_by_key(|(change, _)| std::cmp::Reverse(*change));
    let worst = changed.first().map(|(change, _)| *change);
    let mut texts: Vec<String> = Vec::new();
    for (_, text) in changed {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    const SHOWN: usize = 3;
    let more = texts.len().saturating_sub(SHOWN);
    texts.truncate(SHOWN);
    let mut text = texts.join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    match worst {
        Some(OrderChange::OtherOrder) => classified(Change::OtherOrder, text),
        Some(OrderChange::OtherRounding) => classified(Change::OtherRounding, text),
        Some(_) => classified(Change::OtherBits, text),
        None if base.orders.is_empty() => classified(
            Change::OtherBits,
            format!("{}: there is no order of summation to be told", places(base, candidate)),
        ),
        None => {
            classified(Change::OtherBits, format!("{}: the order maps do not tell them apart", places(base, candidate)))
        }
    }
}

/// The buffers and ranks whose contents differ.
fn places(base: &RecordedCase, candidate: &RecordedCase) -> String {
    let (Some(ours), Some(theirs)) = (&base.results, &candidate.results) else { return "results".to_owned() };
    let mut places = Vec::new();
    for (a, b) in ours.buffers.iter().zip(&theirs.buffers) {
        let ranks: Vec<usize> =
            a.ranks.iter().zip(&b.ranks).enumerate().filter(|(_, (a, b))| a != b).map(|(rank, _)| rank).collect();
        if !ranks.is_empty() {
            places.push(format!("`{}` on {}", a.buffer, crate::judge::message::ranks_text(&ranks)));
        }
    }
    if places.is_empty() { "results between steps".to_owned() } else { places.join(", ") }
}

/// What changed in the errors that calls answered, if nothing else did.
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

/// A text without what differs from run to run: numbers and addresses.
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

/// How a failed run ended.
pub(super) fn ending(run: &RecordedCase) -> Option<Ending> {
    if run.status != Status::Fail {
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

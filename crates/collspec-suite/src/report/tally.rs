//! Counts of cases by status.
use collspec_core::judge::{Lane, Outcome, Status, Verdict};
use collspec_core::oracle::NotLookedAt;
use std::collections::BTreeMap;

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of cases that passed.
    pub pass: usize,
    /// Failed cases, refused ones included.
    pub fail: usize,
    /// Refused cases: those that cannot be run as they are written.
    pub refused: usize,
    /// Cases that could not be run to a verdict.
    pub errors: usize,
    /// Number of skipped cases by reason.
    pub skips: BTreeMap<String, usize>,
    /// Cases in which a fault that was asked for has changed something, and those in which that is not known.
    pub fault_struck: usize,
    pub fault_unknown: usize,
    /// Of the cases that passed: how strictly.
    pub strictness: Strictness,
    /// Results that could not be checked, by reason, with the number of cases.
    pub not_looked_at: BTreeMap<String, (NotLookedAt, usize)>,
}

/// Cases by the weakest way in which their results were judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strictness {
    /// Every bit had to be right.
    exact: usize,
    /// Sums that round: any value that an order of summation gives.
    any_order: usize,
    /// Values within a bound of error.
    bounded: usize,
    /// By how the program ended, or by what the file expects.
    other: usize,
}

impl Strictness {
    fn add(&mut self, verdict: &Verdict) {
        let looked = |lane: Lane| verdict.lanes.iter().any(|result| result.lane == lane && result.looked_at > 0);
        if looked(Lane::Bounded) {
            self.bounded += 1;
        } else if looked(Lane::Admissible) {
            self.any_order += 1;
        } else if looked(Lane::Exact) {
            self.exact += 1;
        } else {
            self.other += 1;
        }
    }

    /// What passing was worth, in words.
    pub fn in_words(&self) -> String {
        let parts = [
            (self.exact, "bit by bit"),
            (self.any_order, "by every value that an order of summation gives"),
            (self.bounded, "within a bound of error"),
            (self.other, "by other checks alone"),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, words)| format!("{count} {words}"))
            .collect();
        parts.join(", ")
    }
}

impl Tally {
    /// Counts a verdict.
    pub fn add(&mut self, verdict: &Verdict) {
        if let Some(more) = &verdict.not_looked_at {
            let first = || (NotLookedAt { why: more.why.clone(), ..NotLookedAt::default() }, 0);
            let (all, cases) = self.not_looked_at.entry(more.why.clone()).or_insert_with(first);
            *cases += 1;
            (all.results, all.bytes) = (all.results + more.results, all.bytes.saturating_add(more.bytes));
        }
        if verdict.status != Status::Skip {
            self.fault_struck += usize::from(verdict.fault_struck == Some(true));
            self.fault_unknown += usize::from(verdict.fault_struck.is_none());
        }
        match verdict.status {
            Status::Pass => {
                self.pass += 1;
                self.strictness.add(verdict);
            }
            Status::Fail => {
                self.fail += 1;
                self.refused += usize::from(verdict.outcome == Some(Outcome::Refused));
            }
            Status::Error => self.errors += 1,
            Status::Skip => {
                let reason = verdict.reason.clone().unwrap_or_else(|| "no reason given".to_owned());
                *self.skips.entry(reason).or_default() += 1;
            }
        }
    }

    /// Number of cases that passed, failed or were skipped.
    pub fn settled(&self) -> usize {
        self.pass + self.fail + self.skip()
    }

    /// Number of cases that were run.
    pub fn ran(&self) -> usize {
        self.pass + self.fail + self.errors
    }

    /// Number of cases that were skipped.
    pub fn skip(&self) -> usize {
        self.skips.values().sum()
    }
}

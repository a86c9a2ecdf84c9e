//! Counts of cases by status.
use collspec_core::judge::{Outcome, Status, Verdict};
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
    /// Results that could not be checked, by reason, with the number of cases.
    pub not_looked_at: BTreeMap<String, (NotLookedAt, usize)>,
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
            Status::Pass => self.pass += 1,
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

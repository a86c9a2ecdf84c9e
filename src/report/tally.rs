//! Counts of passed, failed and skipped cases.
use crate::judge::{Outcome, Status, Verdict};
use std::collections::BTreeMap;

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed cases.
    pub pass: usize,
    /// Failed cases, refused ones included.
    pub fail: usize,
    /// Refused cases: those that cannot be run as they are written.
    pub refused: usize,
    /// Number of skipped cases by reason.
    pub skips: BTreeMap<String, usize>,
}

impl Tally {
    /// Adds a verdict.
    pub fn add(&mut self, verdict: &Verdict) {
        match verdict.status {
            Status::Pass => self.pass += 1,
            Status::Fail => {
                self.fail += 1;
                self.refused += usize::from(verdict.outcome == Some(Outcome::Refused));
            }
            Status::Skip => {
                let reason = verdict.reason.clone().unwrap_or_else(|| "no reason given".to_owned());
                *self.skips.entry(reason).or_default() += 1;
            }
        }
    }

    /// Skipped cases.
    pub fn skip(&self) -> usize {
        self.skips.values().sum()
    }
}

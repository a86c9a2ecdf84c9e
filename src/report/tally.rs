//! How many passed, failed, were skipped, and why.
use crate::judge::{Outcome, Status, Verdict};
use std::collections::BTreeMap;

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed.
    pub pass: usize,
    /// Failed; includes `refused`.
    pub fail: usize,
    /// Of the failed: cases that cannot be run as they are written.
    pub refused: usize,
    /// Skipped cases by reason.
    pub skips: BTreeMap<String, usize>,
}

impl Tally {
    /// One verdict more.
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

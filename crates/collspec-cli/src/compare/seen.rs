//! All runs of a case on one side, counted.
use super::classify::ending;
use crate::record::RecordedCase;
use collspec_core::judge::Status;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The way a failed run ended; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// A process crashed.
    Crash,
    /// The case did not end.
    Hang,
    /// The case ended, and a result is wrong.
    Wrong,
    /// A call failed, or failed with another error than it should.
    Error,
    /// The case could not run.
    NotRun,
}

impl Ending {
    /// The words for the ending in a sentence about rates.
    pub fn words(self) -> &'static str {
        match self {
            Self::Crash => "crashes",
            Self::Hang => "hangs",
            Self::Wrong => "wrong results",
            Self::Error => "errors",
            Self::NotRun => "not run",
        }
    }
}

/// All runs of a case on one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Number of runs that passed.
    pub passed: u64,
    /// Number of runs that failed.
    pub failed: u64,
    /// Number of runs that were skipped.
    pub skipped: u64,
    /// The endings of the failed runs.
    pub endings: BTreeSet<Ending>,
    /// The codes that calls of failed runs returned.
    #[serde(default)]
    pub codes: BTreeSet<String>,
    /// The first reason of a failure, or of a skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Names of the order maps of the first run that has any, without repetition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<String>,
}

impl Seen {
    /// Counts the outcomes of these runs.
    pub fn of(runs: &[&RecordedCase]) -> Self {
        let mut seen = Self::default();
        for run in runs {
            match run.status {
                Status::Pass => seen.passed += 1,
                Status::Fail | Status::Error => seen.failed += 1,
                Status::Skip => seen.skipped += 1,
            }
            seen.endings.extend(ending(run));
            if run.status == Status::Fail {
                let errors = run.results.iter().flat_map(|results| &results.errors);
                seen.codes.extend(errors.map(|error| error.code.clone()));
            }
            for order in &run.orders {
                if seen.orders.len() < 8 && !seen.orders.contains(&order.map.name) {
                    seen.orders.push(order.map.name.clone());
                }
            }
        }
        let with = |status: Status| runs.iter().find(|run| run.status == status).and_then(|run| run.reason.clone());
        seen.reason = with(Status::Fail).or_else(|| with(Status::Error)).or_else(|| with(Status::Skip));
        seen
    }

    /// True if there was not a single run, not even a skipped one.
    pub fn is_empty(&self) -> bool {
        self.ran() + self.skipped == 0
    }

    /// Number of runs that were not skipped.
    pub fn ran(&self) -> u64 {
        self.passed + self.failed
    }
}

//! One sample of a row: the measurement of one group of new processes.
use super::row::Row;
use collspec_core::stats::median;
use collspec_run::job::Work;
use serde::{Deserialize, Serialize};

/// A row's result in one process group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowSample {
    /// The row that was timed.
    pub row: Row,
    /// The result of timing it.
    pub outcome: RowOutcome,
}

/// The result of timing a row once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowOutcome {
    /// Every rank finished.
    Timed {
        /// The sample's value: the median of the iterations.
        seconds: f64,
        /// Seconds of each iteration, combined over the ranks.
        iterations: Vec<f64>,
        /// Wrong elements of the last iteration's results on all ranks; `None` if they were not judged.
        wrong: Option<u64>,
        /// A description of the first error.
        finding: Option<String>,
    },
    /// Every rank finished, on a device where work is counted and times are meaningless.
    Counted {
        /// The work of all ranks' kernels in one iteration.
        work: Work,
        /// Number of wrong elements, as for `Timed`.
        wrong: Option<u64>,
        /// The first finding, as for `Timed`.
        finding: Option<String>,
    },
    /// The row did not finish: an error, a hang, a crash.
    Failed {
        /// A description of the failure.
        reason: String,
    },
    /// The row cannot run on this machine.
    Skipped {
        /// The reason the row was not run.
        reason: String,
    },
}

impl RowOutcome {
    /// The sample's value, if there is one.
    pub fn seconds(&self) -> Option<f64> {
        match self {
            Self::Timed { seconds, .. } => Some(*seconds),
            Self::Counted { .. } | Self::Failed { .. } | Self::Skipped { .. } => None,
        }
    }

    /// The counted work, if work was counted.
    pub fn work(&self) -> Option<Work> {
        match self {
            Self::Counted { work, .. } => Some(*work),
            Self::Timed { .. } | Self::Failed { .. } | Self::Skipped { .. } => None,
        }
    }

    /// Number of wrong elements, if they were judged.
    pub fn wrong(&self) -> Option<u64> {
        match self {
            Self::Timed { wrong, .. } | Self::Counted { wrong, .. } => *wrong,
            Self::Failed { .. } | Self::Skipped { .. } => None,
        }
    }

    /// The problem, if there is one: a wrong result or a failure.
    pub fn trouble(&self) -> Option<&str> {
        match self {
            Self::Timed { finding, .. } | Self::Counted { finding, .. } => finding.as_deref(),
            Self::Failed { reason } => Some(reason),
            Self::Skipped { .. } => None,
        }
    }
}

/// The way the times of an iteration's ranks are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverRanks {
    /// The time of rank 0.
    First,
    /// The mean, as in nccl-tests.
    #[default]
    Mean,
    /// The shortest time.
    Min,
    /// The longest time.
    Max,
}

impl OverRanks {
    /// The combination as words in a report.
    pub fn describe(self) -> &'static str {
        match self {
            Self::First => "rank 0",
            Self::Mean => "mean over ranks",
            Self::Min => "shortest of the ranks",
            Self::Max => "longest of the ranks",
        }
    }

    /// The combined time of every iteration that all ranks have, from the times by rank.
    pub fn iterations(self, by_rank: &[Vec<f64>]) -> Vec<f64> {
        let common = by_rank.iter().map(Vec::len).min().unwrap_or(0);
        let of_iteration = |at: usize| {
            let times = by_rank.iter().filter_map(|times| times.get(at).copied());
            match self {
                Self::First => by_rank.first().and_then(|times| times.get(at).copied()).unwrap_or(0.0),
                Self::Mean => times.sum::<f64>() / by_rank.len() as f64,
                Self::Min => times.fold(f64::INFINITY, f64::min),
                Self::Max => times.fold(0.0, f64::max),
            }
        };
        (0..common).map(of_iteration).collect()
    }
}

/// The median of a sample's iterations.
pub(super) fn sample(iterations: &[f64]) -> Option<f64> {
    median(iterations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranks_times_become_one() {
        let by_rank = [vec![1.0, 2.0, 9.0], vec![3.0, 4.0]];
        assert_eq!(OverRanks::Mean.iterations(&by_rank), [2.0, 3.0]);
        assert_eq!(OverRanks::First.iterations(&by_rank), [1.0, 2.0]);
        assert_eq!(OverRanks::Min.iterations(&by_rank), [1.0, 2.0]);
        assert_eq!(OverRanks::Max.iterations(&by_rank), [3.0, 4.0]);
        assert!(OverRanks::Mean.iterations(&[]).is_empty());
    }
}

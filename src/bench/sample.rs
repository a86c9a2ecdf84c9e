//! One sample of a row: what one group of new processes measured.
use super::row::Row;
use crate::job::Work;
use crate::stats::median;
use serde::{Deserialize, Serialize};

/// A row's result in one process group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowSample {
    /// What was timed.
    pub row: Row,
    /// What came of it.
    pub outcome: RowOutcome,
}

/// What came of timing a row once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowOutcome {
    /// Every rank came to its end.
    Timed {
        /// The sample: the median of the iterations.
        seconds: f64,
        /// Seconds of each iteration, over the ranks.
        iterations: Vec<f64>,
        /// Wrong elements of the last iteration's results on all ranks; `None` if they were not judged.
        wrong: Option<u64>,
        /// The first thing that is wrong, in words.
        finding: Option<String>,
    },
    /// Every rank came to its end, on a device whose work is counted and whose times say nothing.
    Counted {
        /// What the kernels of all ranks did in one iteration.
        work: Work,
        /// As for `Timed`.
        wrong: Option<u64>,
        /// As for `Timed`.
        finding: Option<String>,
    },
    /// It did not come to its end: an error, a hang, a crash.
    Failed {
        /// What happened.
        reason: String,
    },
    /// It cannot run here.
    Skipped {
        /// Why not.
        reason: String,
    },
}

impl RowOutcome {
    /// The sample's number, if there is one.
    pub fn seconds(&self) -> Option<f64> {
        match self {
            Self::Timed { seconds, .. } => Some(*seconds),
            Self::Counted { .. } | Self::Failed { .. } | Self::Skipped { .. } => None,
        }
    }

    /// What was counted, if anything was.
    pub fn work(&self) -> Option<Work> {
        match self {
            Self::Counted { work, .. } => Some(*work),
            Self::Timed { .. } | Self::Failed { .. } | Self::Skipped { .. } => None,
        }
    }

    /// Wrong elements, if they were judged.
    pub fn wrong(&self) -> Option<u64> {
        match self {
            Self::Timed { wrong, .. } | Self::Counted { wrong, .. } => *wrong,
            Self::Failed { .. } | Self::Skipped { .. } => None,
        }
    }

    /// What is wrong, if anything is: a wrong result or a failure.
    pub fn trouble(&self) -> Option<&str> {
        match self {
            Self::Timed { finding, .. } | Self::Counted { finding, .. } => finding.as_deref(),
            Self::Failed { reason } => Some(reason),
            Self::Skipped { .. } => None,
        }
    }
}

/// How the times of an iteration's ranks become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverRanks {
    /// That of rank 0.
    First,
    /// The mean, as in nccl-tests.
    #[default]
    Mean,
    /// The shortest.
    Min,
    /// The longest.
    Max,
}

impl OverRanks {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::First => "rank 0",
            Self::Mean => "mean over ranks",
            Self::Min => "shortest of the ranks",
            Self::Max => "longest of the ranks",
        }
    }

    /// The time of every iteration that all ranks have, from the times by rank.
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

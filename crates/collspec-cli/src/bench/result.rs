//! Combines the samples of a row.
use super::row::Row;
use super::sample::{RowOutcome, RowSample};
use collspec_core::stats::{Summary, bootstrap};
use collspec_run::job::Work;
use serde::Serialize;

/// The confidence of intervals.
pub const CONFIDENCE: f64 = 0.95;
/// The coefficient of variation from which a row is marked as noisy.
pub const NOISY: f64 = 0.05;

/// A row and its samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowResult {
    /// The row that was timed.
    pub row: Row,
    /// The samples in seconds, in the order in which they were taken.
    pub samples: Vec<f64>,
    /// Their summary; `None` without samples.
    pub summary: Option<Summary>,
    /// The interval of their median; `None` with fewer than two.
    pub interval: Option<bootstrap::Interval>,
    /// The counted work, on a device whose times are meaningless.
    pub work: Option<Work>,
    /// True if the counted work differs from sample to sample.
    pub varies: bool,
    /// Number of wrong elements in all samples; `None` if no sample was judged.
    pub wrong: Option<u64>,
    /// A description of the first problem.
    pub trouble: Option<String>,
    /// The reason the row was skipped.
    pub skipped: Option<String>,
}

impl RowResult {
    /// The results of the rows, in order, from their samples.
    pub fn of(rows: &[Row], samples: &[Vec<RowSample>]) -> Vec<Self> {
        let of_row = |row: &Row| {
            let outcomes = samples.iter().flatten().filter(|sample| sample.row == *row).map(|sample| &sample.outcome);
            Self::of_row(row, &outcomes.collect::<Vec<_>>())
        };
        rows.iter().map(of_row).collect()
    }

    fn of_row(row: &Row, outcomes: &[&RowOutcome]) -> Self {
        let samples: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.seconds()).collect();
        let works: Vec<Work> = outcomes.iter().filter_map(|outcome| outcome.work()).collect();
        let wrongs = outcomes.iter().filter_map(|outcome| outcome.wrong());
        let skipped = outcomes.iter().find_map(|outcome| match outcome {
            RowOutcome::Skipped { reason } => Some(reason.clone()),
            RowOutcome::Timed { .. } | RowOutcome::Counted { .. } | RowOutcome::Failed { .. } => None,
        });
        Self {
            row: row.clone(),
            summary: Summary::of(&samples),
            interval: (samples.len() > 1).then(|| bootstrap::of_median(&samples, CONFIDENCE, row.bytes)).flatten(),
            work: works.first().copied(),
            varies: works.windows(2).any(|pair| pair[0] != pair[1]),
            wrong: wrongs.fold(None, |sum, wrong| Some(sum.unwrap_or(0u64).saturating_add(wrong))),
            trouble: outcomes.iter().find_map(|outcome| outcome.trouble()).map(str::to_owned),
            skipped,
            samples,
        }
    }

    /// The median of the samples in seconds.
    pub fn seconds(&self) -> Option<f64> {
        self.summary.map(|summary| summary.median)
    }

    /// The coefficient of variation, if there are several samples.
    pub fn variation(&self) -> Option<f64> {
        self.summary.filter(|summary| summary.count > 1).map(|summary| summary.variation())
    }

    /// True if the samples vary so much that small differences are meaningless.
    pub fn is_noisy(&self) -> bool {
        self.variation().is_some_and(|variation| variation > NOISY)
    }

    /// True if the samples form two groups.
    pub fn is_bimodal(&self) -> bool {
        self.summary.is_some_and(|summary| summary.bimodal)
    }

    /// True if a sample was wrong or did not finish.
    pub fn failed(&self) -> bool {
        self.trouble.is_some() || self.wrong.is_some_and(|wrong| wrong > 0)
    }
}

/// The mean bus bandwidth of all rows with a time, as nccl-tests computes it; 0 if there are none.
pub fn average_bus_bandwidth(results: &[RowResult]) -> f64 {
    let bandwidths: Vec<f64> =
        results.iter().filter_map(|result| Some(result.row.bus_bandwidth(result.seconds()?))).collect();
    if bandwidths.is_empty() { 0.0 } else { bandwidths.iter().sum::<f64>() / bandwidths.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::operation::Operation;
    use collspec_core::num::DType;

    fn row(bytes: u64) -> Row {
        Row {
            operation: Operation::Broadcast,
            reduction: None,
            dtype: DType::U8,
            algorithm: None,
            protocol: None,
            ranks: 2,
            root: Some(0),
            bytes,
            in_place: false,
        }
    }

    fn timed(bytes: u64, seconds: f64, wrong: Option<u64>) -> RowSample {
        let finding = wrong.filter(|wrong| *wrong > 0).map(|_| "wrong".to_owned());
        RowSample { row: row(bytes), outcome: RowOutcome::Timed { seconds, iterations: vec![seconds], wrong, finding } }
    }

    #[test]
    fn samples_of_a_row_are_summed_up_and_marked() {
        let samples = [
            vec![timed(1000, 1e-3, Some(0)), timed(2000, 1.0, None)],
            vec![timed(1000, 2e-3, Some(3))],
            vec![timed(1000, 3e-3, Some(2))],
        ];
        let results = RowResult::of(&[row(1000), row(2000), row(4000)], &samples);
        assert_eq!((results[0].seconds(), results[0].wrong), (Some(2e-3), Some(5)));
        assert!(results[0].is_noisy() && results[0].failed() && !results[0].is_bimodal());
        assert!(results[0].interval.is_some_and(|interval| interval.low >= 1e-3 && interval.high <= 3e-3));
        assert_eq!((results[1].wrong, results[1].interval, results[1].failed()), (None, None, false));
        assert_eq!((results[2].seconds(), results[2].variation()), (None, None));
        let mean = average_bus_bandwidth(&results);
        assert!((mean - (1000.0 / 2e-3 / 1e9 + 2000.0 / 1e9) / 2.0).abs() < 1e-12, "{mean}");
    }
}

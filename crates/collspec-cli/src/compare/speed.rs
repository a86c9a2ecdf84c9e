//! Compares the speed of both libraries: samples taken in turn, and a control of the base against itself.
use super::limits::{BelowLimit, below};
use super::side::Side;
use super::words::counted;
use crate::bench::comparison::{Change, Comparison as Timed, SpeedVerdict, pairs};
use crate::bench::{Plan, Row, RowSample, Sampler};
use collspec_core::printable::thousands;
use collspec_core::stats::geometric_mean;
use collspec_run::run::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;

/// The candidate's speed compared with the base's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// The rows, and the conclusion from all of them.
    pub timed: Timed,
    /// Rows that the base ran well in every sample and the candidate did not.
    pub failed: Vec<FailedRow>,
    /// Rows whose bus bandwidth on the candidate is below the limit that was set for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<BelowLimit>,
    /// The reason a slowdown is accepted, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
}

/// A row that fails on the candidate alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRow {
    pub row: Row,
    /// The first failure's reason.
    pub reason: String,
}

impl fmt::Display for FailedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.row, self.reason)
    }
}

impl Speed {
    /// The slower rows. There are none if the measurement does not allow a verdict.
    fn slower(&self) -> impl Iterator<Item = &Row> {
        let is_worse = self.timed.verdict.is_worse();
        let slower = self.timed.rows.iter().filter(move |row| is_worse && row.change == Change::Slower);
        slower.map(|row| &row.row)
    }

    /// The rows in which the candidate is worse than the base.
    pub fn worse(&self) -> BTreeSet<&Row> {
        self.slower().chain(self.failed.iter().map(|failed| &failed.row)).collect()
    }

    /// Number of rows that count as worse: slower or failing ones unless they are accepted, and those below their limit.
    pub fn counted_as_worse(&self) -> usize {
        let mut rows = if self.accepted.is_none() { self.worse() } else { BTreeSet::new() };
        rows.extend(self.below.iter().map(|below| &below.row));
        rows.len()
    }

    /// What counts as worse, in one line each.
    pub fn counted_in_words(&self) -> Vec<String> {
        let slower = self.slower().map(|row| format!("slower: {row}"));
        let worse = slower.chain(self.failed.iter().map(FailedRow::to_string));
        let below = self.below.iter().map(|below| format!("below its limit: {}", below.words()));
        worse.filter(|_| self.accepted.is_none()).chain(below).collect()
    }

    /// What is different, in one line: `2 of 12 rows slower`.
    pub fn in_words(&self) -> String {
        let mut rows: BTreeSet<&Row> = self.timed.rows.iter().map(|row| &row.row).collect();
        rows.extend(self.failed.iter().map(|failed| &failed.row));
        rows.extend(self.below.iter().map(|below| &below.row));
        let all = rows.len();
        let judged =
            |change: Change| if self.no_verdict().is_some() { 0 } else { self.timed.count(|one| *one == change) };
        let numbers = [
            (judged(Change::Slower), "slower"),
            (judged(Change::Faster), "faster"),
            (self.failed.len(), "failing on the candidate alone"),
            (self.below.len(), "below the limit of --min-busbw"),
        ];
        let mut words: Vec<String> = Vec::new();
        for (count, what) in numbers.into_iter().filter(|(count, _)| *count > 0) {
            let of = if words.is_empty() { format!(" of {}", counted(all, "row", "rows")) } else { String::new() };
            words.push(format!("{}{of} {what}", thousands(count as u64)));
        }
        if self.accepted.is_some() && !self.worse().is_empty() {
            words.push("what is slower or fails is accepted".to_owned());
        }
        words.push(match self.no_verdict() {
            None if words.is_empty() => format!("no difference in {}", counted(all, "row", "rows")),
            None => return words.join(", "),
            Some(why) if words.is_empty() => format!("no verdict: {why}"),
            Some(why) => format!("no verdict on slower and faster rows: {why}"),
        });
        words.join(", ")
    }

    /// The reason there is no verdict, if there is none.
    pub fn no_verdict(&self) -> Option<&str> {
        match &self.timed.verdict {
            SpeedVerdict::NoVerdict(why) => Some(why),
            _ => None,
        }
    }

    /// The geometric mean of the rows' ratios.
    pub fn mean_ratio(&self) -> Option<f64> {
        let ratios: Vec<f64> = self.timed.rows.iter().filter_map(|row| row.ratio.map(|ratio| ratio.estimate)).collect();
        geometric_mean(&ratios)
    }
}

/// Takes the plan's samples of these rows on both sides, and holds the candidate's against the limits; `each` receives every
/// measurement and returns true to continue. Only complete rounds count.
///
/// # Errors
///
/// A side is a recording, or a worker cannot be started.
pub fn measure(
    base: &Side,
    candidate: &Side,
    plan: &Plan,
    rows: &[Row],
    limits: &[(Row, f64)],
    each: &mut dyn FnMut(&Row) -> ControlFlow<()>,
) -> Result<Option<Speed>, Error> {
    let sampler = |side: &Side| match side {
        Side::Live { chosen, options, .. } => {
            Sampler::new((**options).clone(), (**chosen).clone(), plan.timing).map(Some)
        }
        Side::Recorded(_) => Ok(None),
    };
    let (Some(ours), Some(theirs)) = (sampler(base)?, sampler(candidate)?) else { return Ok(None) };
    let mut ended = ControlFlow::Continue(());
    let mut take = |sampler: &Sampler| {
        let taken = sampler.sample(rows, &mut |sample| {
            ended = each(&sample.row);
            ended
        });
        taken.map(|samples| (samples, ended))
    };
    let (mut first, mut second, mut control) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..plan.samples {
        // The base is sampled before and after the candidate, so that both pairs stand next to each other in time.
        let (mut taken, mut is_interrupted) = (Vec::new(), false);
        for sampler in [&ours, &theirs, &ours] {
            let (samples, ended) = take(sampler)?;
            taken.push(samples);
            is_interrupted = ended.is_break();
            if is_interrupted {
                break;
            }
        }
        // Rounds count as a whole: of the one that was interrupted parts are missing.
        let (Ok([before, between, after]), false) = (<[_; 3]>::try_from(taken), is_interrupted) else { break };
        second.push(between);
        let (of_pair, of_control) = if round % 2 == 0 { (before, after) } else { (after, before) };
        first.push(of_pair);
        control.push(of_control);
    }
    if first.is_empty() {
        return Ok(None);
    }
    let timed = Timed::of(&pairs(&first, &second), &pairs(&first, &control));
    let (failed, below) = (failed(&first, &control, &second), below(limits, &second));
    Ok(Some(Speed { timed, failed, below, accepted: None }))
}

/// The rows that fail on the candidate alone.
pub(super) fn failed(
    first: &[Vec<RowSample>],
    control: &[Vec<RowSample>],
    candidate: &[Vec<RowSample>],
) -> Vec<FailedRow> {
    let of_base = first.iter().chain(control).flatten();
    let mut seen: BTreeSet<&Row> =
        of_base.filter(|sample| sample.outcome.trouble().is_some()).map(|sample| &sample.row).collect();
    let failed = candidate.iter().flatten().filter_map(|RowSample { row, outcome }| {
        let reason = outcome.trouble()?;
        seen.insert(row).then(|| FailedRow { row: row.clone(), reason: reason.to_owned() })
    });
    failed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::RowOutcome;
    use crate::bench::row::fixture::sum;

    #[test]
    fn a_row_counts_once_and_is_among_all_rows() {
        let row = sum(2, 4096, false);
        let sample = |outcome| vec![vec![RowSample { row: row.clone(), outcome }]];
        let hangs = sample(RowOutcome::Failed { reason: "it hangs".into() });
        let timed = sample(RowOutcome::Timed { seconds: 1.0, iterations: Vec::new(), wrong: None, finding: None });
        let limits = [(row.clone(), 1.0)];
        let failed = failed(&timed, &[], &[&hangs[..], &hangs].concat());
        let mut speed = Speed {
            timed: Timed::of(&pairs(&timed, &hangs), &pairs(&timed, &timed)),
            failed,
            below: below(&limits, &hangs),
            accepted: None,
        };
        assert_eq!(speed.counted_as_worse(), 1);
        let words = "1 of 1 row failing on the candidate alone, 1 below the limit of --min-busbw, \
            no verdict on slower and faster rows: no row was measured on both sides";
        assert_eq!(speed.in_words(), words);
        assert_eq!(speed.counted_in_words().len(), 2);
        speed.accepted = Some("known".into());
        assert_eq!(speed.counted_as_worse(), 1, "accepted changes do not lift a limit");
        assert_eq!(speed.counted_in_words(), [format!("below its limit: {row}: no time, limit 1 GB/s")]);
    }
}

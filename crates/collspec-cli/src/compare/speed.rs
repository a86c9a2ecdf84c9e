//! Compares the speed of both libraries: samples taken in turn, and a control of the base against itself.
use super::side::Side;
use crate::bench::comparison::{Comparison as Timed, SpeedVerdict, pairs};
use crate::bench::{Plan, Row, RowSample, Sampler};
use collspec_core::stats::geometric_mean;
use collspec_run::run::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The candidate's speed compared with the base's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// The rows, and the conclusion from all of them.
    pub timed: Timed,
    /// Rows that the base ran well in every sample and the candidate did not, with the reason.
    pub failed: Vec<String>,
    /// The reason a slowdown is accepted, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
}

impl Speed {
    /// Number of rows in which the candidate is worse.
    pub fn worse(&self) -> usize {
        let slower = if self.timed.verdict.is_worse() { self.timed.count(is_slower) } else { 0 };
        slower + self.failed.len()
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

fn is_slower(change: &crate::bench::comparison::Change) -> bool {
    *change == crate::bench::comparison::Change::Slower
}

/// Takes the plan's samples of these rows on both sides; `each` receives every measurement and returns true to
/// continue. Only complete rounds count.
///
/// # Errors
///
/// A side is a recording, or a worker cannot be started.
pub fn measure(
    base: &Side,
    candidate: &Side,
    plan: &Plan,
    rows: &[Row],
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
        let ((before, _), (between, _), (after, ended)) = (take(&ours)?, take(&theirs)?, take(&ours)?);
        // Rounds count as a whole: of the last one parts are missing.
        if ended.is_break() {
            break;
        }
        second.push(between);
        let (of_pair, of_control) = if round % 2 == 0 { (before, after) } else { (after, before) };
        first.push(of_pair);
        control.push(of_control);
    }
    if first.is_empty() {
        return Ok(None);
    }
    let timed = Timed::of(&pairs(&first, &second), &pairs(&first, &control));
    Ok(Some(Speed { timed, failed: failed(&first, &control, &second), accepted: None }))
}

/// The rows that fail on the candidate alone.
pub(super) fn failed(
    first: &[Vec<RowSample>],
    control: &[Vec<RowSample>],
    candidate: &[Vec<RowSample>],
) -> Vec<String> {
    let troubled = |samples: &[Vec<RowSample>]| -> BTreeSet<String> {
        samples
            .iter()
            .flatten()
            .filter(|sample| sample.outcome.trouble().is_some())
            .map(|s| s.row.to_string())
            .collect()
    };
    let base: BTreeSet<String> = troubled(first).union(&troubled(control)).cloned().collect();
    let mut seen = BTreeSet::new();
    let mut failed = Vec::new();
    for sample in candidate.iter().flatten() {
        let name = sample.row.to_string();
        if let Some(why) = sample.outcome.trouble()
            && !base.contains(&name)
            && seen.insert(name.clone())
        {
            failed.push(format!("{name}: {why}"));
        }
    }
    failed
}

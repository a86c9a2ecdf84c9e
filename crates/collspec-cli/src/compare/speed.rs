//! Compares the speed of both libraries: samples taken in turn, and a control of the base against itself.
use super::limits::BelowLimit;
use super::side::Side;
use super::words::counted;
use crate::bench::comparison::{Change, Comparison as Timed, SpeedVerdict, pairs};
use crate::bench::{Plan, Row, RowSample, Sampler};
use collspec_core::printable::thousands;
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
    /// Rows whose bus bandwidth on the candidate is below the limit that was set for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<BelowLimit>,
    /// The reason a slowdown is accepted, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
}

impl Speed {
    /// Number of rows in which the candidate is worse.
    pub fn worse(&self) -> usize {
        let slower =
            if self.timed.verdict.is_worse() { self.timed.count(|change| *change == Change::Slower) } else { 0 };
        slower + self.failed.len()
    }

    /// Number of rows that count as worse: slower or failing ones unless they are accepted, and those below their limit.
    pub fn counted_as_worse(&self) -> usize {
        self.below.len() + if self.accepted.is_none() { self.worse() } else { 0 }
    }

    /// What is different, in one line: `2 of 12 rows slower`.
    pub fn in_words(&self) -> String {
        let rows = &self.timed.rows;
        let only_fails = |failed: &&String| !rows.iter().any(|row| failed.starts_with(&row.row.to_string()));
        let all = rows.len() + self.failed.iter().filter(only_fails).count();
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
        if self.no_verdict().is_some() && !words.is_empty() {
            words.push("no verdict on slower and faster rows".to_owned());
        }
        if words.is_empty() {
            words.push(format!("no difference in {}", counted(all, "row", "rows")));
        }
        if self.accepted.is_some() && self.worse() > 0 {
            words.push("what is slower or fails is accepted".to_owned());
        }
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
    Ok(Some(Speed { timed, failed: failed(&first, &control, &second), below: Vec::new(), accepted: None }))
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

//! Counts the work of both libraries on software GPUs, where times are meaningless.
use super::side::Side;
use super::speed::{FailedRow, failed};
use crate::bench::comparison::counts::{REPORTED, RowCounts, compare};
use crate::bench::{Plan, Row, Sampler};
use collspec_core::printable::thousands;
use collspec_run::run::Error;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// The candidate's work compared with the base's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The rows that both sides ran.
    pub rows: Vec<RowCounts>,
    /// Rows that the base ran well and the candidate did not, with the reason.
    pub failed: Vec<FailedRow>,
    /// Rows that were not counted on both sides and did not fail on the candidate alone.
    pub not_counted: usize,
    /// The reason failing rows are accepted, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
}

impl Counts {
    /// What is different, in one line.
    pub fn in_words(&self) -> String {
        let rows = |count: usize| super::words::counted(count, "row", "rows");
        let (all, from) = (thousands(self.rows.len() as u64), REPORTED * 100.0);
        let counted = match self.rows.iter().filter(|row| !row.changes.is_empty()).count() {
            _ if self.rows.is_empty() => "no row was counted on both sides".to_owned(),
            0 => format!("no number of the {all} rows differs by {from:.0} % or more"),
            differing => format!("{} of {all} rows differ by {from:.0} % or more", thousands(differing as u64)),
        };
        let mut words = vec![counted];
        if self.not_counted > 0 {
            words.push(format!("{} could not be counted on both sides", rows(self.not_counted)));
        }
        if !self.failed.is_empty() {
            let fail = if self.failed.len() == 1 { "fails" } else { "fail" };
            let accepted = if self.accepted.is_some() { ", which is accepted" } else { "" };
            words.push(format!("{} {fail} on the candidate alone{accepted}", rows(self.failed.len())));
        }
        words.join("; ")
    }

    /// Descriptions of the differences.
    pub fn changes(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().flat_map(|row| &row.changes).map(String::as_str)
    }
}

/// Counts these rows on both sides; `each` receives every measurement and returns true to continue. `None` if it stops early.
///
/// # Errors
///
/// A worker cannot be started.
pub fn count(
    base: &Side,
    candidate: &Side,
    plan: &Plan,
    rows: &[Row],
    each: &mut dyn FnMut(&Row) -> ControlFlow<()>,
) -> Result<Option<Counts>, Error> {
    let mut samples = Vec::new();
    for side in [base, candidate] {
        let Side::Live { chosen, options, .. } = side else { return Ok(None) };
        let sampler = Sampler::new((**options).clone(), (**chosen).clone(), plan.timing)?;
        let mut ended = ControlFlow::Continue(());
        let taken = sampler.sample(rows, &mut |sample| {
            ended = each(&sample.row);
            ended
        })?;
        if ended.is_break() {
            return Ok(None);
        }
        samples.push(taken);
    }
    let (base, candidate) = samples.split_at(1);
    let asked = rows.len();
    let rows: Vec<_> = base.iter().zip(candidate).flat_map(|(base, candidate)| compare(base, candidate)).collect();
    let failed = failed(base, &[], candidate);
    let not_counted = asked.saturating_sub(rows.len() + failed.len());
    Ok(Some(Counts { rows, failed, not_counted, accepted: None }))
}

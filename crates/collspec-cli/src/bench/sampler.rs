//! Takes samples on one library, each in new processes.
use super::case::case;
use super::row::Row;
use super::sample::{OverRanks, RowOutcome, RowSample, sample};
use collspec_core::judge::{Outcome, Status, Verdict};
use collspec_run::job::Timed;
use collspec_run::run::Error;
use collspec_suite::suite::{ChosenBackend, Prepared, Ready, RunOptions, Runner, TimedRun};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Settings for timing a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Number of iterations at the beginning that are not timed.
    pub warm_up: u32,
    /// Number of iterations that are timed.
    pub iterations: u32,
    /// The way the ranks' times are combined.
    pub over_ranks: OverRanks,
    /// True if the last iteration's results are judged.
    pub verify: bool,
}

/// The fraction (1/N) of the limit on memory that prepared rows may take from sample to sample.
const KEPT_SHARE: u64 = 4;

/// Takes samples on one library.
pub struct Sampler {
    runner: Runner,
    timing: Timing,
    /// Prepared rows, as memory allows: each is used in every sample.
    prepared: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    rows: HashMap<Row, Arc<Ready>>,
    bytes: u64,
}

impl Sampler {
    /// A sampler on `chosen` that has not started anything yet.
    ///
    /// # Errors
    ///
    /// This process is a worker or cannot start one, or the folder for GPU locks does not exist.
    pub fn new(options: RunOptions, chosen: ChosenBackend, timing: Timing) -> Result<Self, Error> {
        Ok(Self { runner: Runner::new(options, chosen)?, timing, prepared: Mutex::default() })
    }

    /// Takes one sample of the rows in this order, in a new process group; rows with other variables start another group. `each`
    /// receives every row as it ends and may end the sample.
    ///
    /// # Errors
    ///
    /// A worker cannot be started or cannot carry out a request.
    pub fn sample(
        &self,
        rows: &[Row],
        each: &mut dyn FnMut(&RowSample) -> ControlFlow<()>,
    ) -> Result<Vec<RowSample>, Error> {
        let mut group = self.runner.timed_group();
        let mut samples = Vec::with_capacity(rows.len());
        let timed = Timed { warm_up: self.timing.warm_up, iterations: self.timing.iterations };
        for row in rows {
            let outcome = match self.ready(row)? {
                Ok(ready) => self.outcome(group.run(&ready, timed, self.timing.verify)?),
                Err(settled) => settled,
            };
            let sample = RowSample { row: row.clone(), outcome };
            let flow = each(&sample);
            samples.push(sample);
            if flow.is_break() {
                break;
            }
        }
        Ok(samples)
    }

    /// The version code of the library, once a sample was taken.
    pub fn version(&self) -> Option<i32> {
        self.runner.known_version()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The row's plan and forecast, or its outcome if it does not run.
    fn ready(&self, row: &Row) -> Result<Result<Arc<Ready>, RowOutcome>, Error> {
        if let Some(ready) = self.kept().rows.get(row) {
            return Ok(Ok(ready.clone()));
        }
        let case = match case(row) {
            Ok(case) => case,
            Err(rejected) => {
                let first = rejected.diagnostics.into_iter().next();
                let reason = first.map_or_else(|| "the row is not a scenario".into(), |diagnostic| diagnostic.message);
                return Ok(Err(RowOutcome::Failed { reason }));
            }
        };
        let ready = match self.runner.prepare(&case)? {
            Prepared::Ready(ready) => Arc::<Ready>::from(ready),
            Prepared::Settled(verdict) => return Ok(Err(settled(*verdict))),
        };
        let bytes = ready.plan.cost.memory;
        let mut kept = self.kept();
        if kept.bytes.saturating_add(bytes) <= self.runner.limits().memory / KEPT_SHARE {
            kept.bytes += bytes;
            kept.rows.insert(row.clone(), ready.clone());
        }
        Ok(Ok(ready))
    }

    fn outcome(&self, run: TimedRun) -> RowOutcome {
        let TimedRun { times, work, verdict } = run;
        let ended_well = verdict.as_ref().is_none_or(|verdict| verdict.outcome == Some(Outcome::Ok));
        let iterations = self.timing.over_ranks.iterations(&times);
        let Some(seconds) = sample(&iterations).filter(|_| ended_well) else {
            return RowOutcome::Failed { reason: verdict.map_or_else(|| "no rank was timed".into(), reason) };
        };
        let wrong = verdict.as_ref().map(wrong_elements);
        let finding = verdict.filter(|verdict| verdict.status == Status::Fail).map(reason);
        match work {
            Some(work) => RowOutcome::Counted { work, wrong, finding },
            None => RowOutcome::Timed { seconds, iterations, wrong, finding },
        }
    }
}

/// The result of a row that does not run.
fn settled(verdict: Verdict) -> RowOutcome {
    match verdict.status {
        Status::Skip => RowOutcome::Skipped { reason: reason(verdict) },
        Status::Pass | Status::Fail | Status::Error => RowOutcome::Failed { reason: reason(verdict) },
    }
}

fn reason(verdict: Verdict) -> String {
    verdict.reason.unwrap_or_else(|| "failed".into())
}

/// Number of wrong elements of all ranks; at least one if the verdict is a failure.
fn wrong_elements(verdict: &Verdict) -> u64 {
    let of = |finding: &collspec_core::judge::Finding| {
        let ranks = finding.ranks().len() + finding.ranks_with_other_values.len();
        finding.wrong.max(1).saturating_mul(ranks.max(1) as u64)
    };
    let wrong = verdict.findings.iter().map(of).fold(0u64, u64::saturating_add);
    if verdict.status == Status::Fail { wrong.max(1) } else { wrong }
}

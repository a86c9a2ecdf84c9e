//! Runs cases on a library, and notes what each reaches.
use collspec_core::job::Kernels;
use collspec_core::judge::{Status, Verdict, judge_pass_or_fail};
use collspec_core::scenario::Case;
use collspec_run::run::Error;
use collspec_suite::suite::parallel::stream;
use collspec_suite::suite::{Experiment, Prepared, Runner, Variation, with_causes};
use std::sync::Arc;

/// How a case ended on a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Passed,
    /// It failed, or could not be run.
    Failed,
    /// It was skipped, needed no run, or has more results than can be held at once.
    NotRun,
}

/// A case on a library.
#[derive(Clone, Debug)]
pub struct Run {
    pub end: End,
    pub seconds: f64,
    /// What it reached, by numbers that mean the same in all runs with this library, in ascending order.
    pub reached: Vec<u64>,
}

const NOTHING: Run = Run { end: End::NotRun, seconds: 0.0, reached: Vec::new() };

/// Runs each case once. Gives them in the same order.
///
/// # Errors
///
/// A worker cannot be started, or `done` fails.
pub fn measure(
    cases: &[Arc<Case>],
    jobs: usize,
    runner: &Runner,
    interrupted: &(dyn Fn() -> bool + Sync),
    mut done: impl FnMut(&str),
) -> anyhow::Result<Vec<Run>> {
    let mut runs = vec![NOTHING; cases.len()];
    stream(
        cases,
        jobs,
        |number, case, send| {
            if !interrupted() {
                send((number, run(case, runner)));
            }
        },
        |(number, run): (usize, Result<Run, String>)| -> anyhow::Result<()> {
            runs[number] = run.map_err(anyhow::Error::msg)?;
            done(&cases[number].name);
            Ok(())
        },
    )?;
    Ok(runs)
}

fn run(case: &Arc<Case>, runner: &Runner) -> Result<Run, String> {
    let mut once = (**case).clone();
    once.repeat = 1;
    let prepared = runner.prepare(&Arc::new(once)).map_err(|error| with_causes(&error))?;
    let ready = match prepared {
        Prepared::Ready(ready) => ready,
        Prepared::Settled(verdict) => {
            let end = if verdict.status.is_bad() { End::Failed } else { End::NotRun };
            return Ok(Run { end, ..NOTHING });
        }
    };
    let variation = Variation { kernels: Some(Kernels::NotedByNumber), ..runner.variation() };
    let experiment = Experiment { variation, limit: None, judge: &judge_pass_or_fail };
    let (Verdict { status, seconds, .. }, seen) = match runner.run_twice(&ready, &experiment) {
        // Its results alone are too much to hold: what it reaches stays unknown.
        Err(Error::TooMuchSeen { .. }) => return Ok(NOTHING),
        seen => seen.map_err(|error| with_causes(&error))?,
    };
    let machines = seen.into_iter().flat_map(|run| run.ranks).filter_map(|rank| rank.machine);
    let mut reached: Vec<u64> = machines.flat_map(|machine| machine.reached).collect();
    reached.sort_unstable();
    reached.dedup();
    let end = match status {
        Status::Pass => End::Passed,
        Status::Skip => End::NotRun,
        Status::Fail | Status::Error => End::Failed,
    };
    Ok(Run { end, seconds, reached })
}

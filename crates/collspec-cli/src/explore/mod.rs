//! Runs cases on one schedule after the other until one fails.
//!
//! A schedule is the order in which tasks of the software library, or warps of software GPUs, take turns; its number is the seed that decides it.
use collspec_core::judge::{Status, Verdict, judge_pass_or_fail, skipped};
use collspec_core::scenario::Case;
use collspec_run::run::Error;
use collspec_suite::suite::{Experiment, Prepared, Runner, Variation};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time that the schedules of a case take in one turn of it, about.
const TURN: Duration = Duration::from_secs(2);
/// The most schedules of a case in one turn: its results are kept until they are judged.
const MOST_AT_ONCE: u64 = 100;
/// The time after which a schedule that failed is not run again.
const CONFIRMED: Duration = Duration::from_secs(20);
/// Runs after the first hang if they take this many times as long as the first ones did, and this many seconds more.
const LONGER: f64 = 20.0;
const MARGIN: f64 = 10.0;

/// What to explore.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The first schedule.
    pub first: u64,
    /// The number of schedules of each case.
    pub schedules: Option<u64>,
    /// The time after which no further schedule begins.
    pub time: Option<Duration>,
    /// How often a schedule that fails is run again.
    pub confirmations: u32,
}

/// A case that fails.
#[derive(Debug)]
pub struct Found {
    pub case: Arc<Case>,
    /// The schedule on which it fails, or the schedules whose results have different bits although each is right by itself.
    pub schedules: RangeInclusive<u64>,
    pub verdict: Verdict,
    /// How many further runs on this schedule failed, and how many there were.
    pub again: (u32, u32),
}

/// What was explored.
#[derive(Debug, Default)]
pub struct Explored {
    /// Schedules that were run, of all cases.
    pub schedules: u64,
    /// Every case that did not fail was run on at least this many schedules.
    pub of_each: u64,
    /// Cases that cannot run here, or that may hang, with the reason.
    pub skipped: Vec<Verdict>,
    /// True if the time ended it, or an interrupt.
    pub cut: bool,
}

struct Turn {
    case: Arc<Case>,
    /// Schedules that were run.
    done: u64,
    /// The time of one schedule, once it is known.
    each: Option<Duration>,
}

/// Runs all cases on one schedule after the other, some schedules of a case at a time. A case that fails is not continued.
///
/// # Errors
///
/// A worker cannot be started, or `found` or `progress` fails.
pub fn explore(
    cases: &[Arc<Case>],
    request: &Request,
    runner: &Runner,
    interrupted: &dyn Fn() -> bool,
    found: &mut dyn FnMut(Found) -> anyhow::Result<()>,
    progress: &mut dyn FnMut(&Explored) -> anyhow::Result<()>,
) -> anyhow::Result<Explored> {
    let begun = Instant::now();
    let mut explored = Explored::default();
    // One that may hang costs its time limit in each run, and no run of it shows more than another.
    let (hanging, others): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.may_hang());
    explored.skipped.extend(hanging.into_iter().map(|case| skipped(case, "its file expects that it may hang")));
    let mut turns: Vec<Turn> =
        others.into_iter().map(|case| Turn { case: case.clone(), done: 0, each: None }).collect();
    let over = || interrupted() || request.time.is_some_and(|time| begun.elapsed() >= time);
    while !turns.is_empty() && !explored.cut {
        let mut kept = Vec::new();
        for mut turn in turns {
            let left = request.schedules.map_or(u64::MAX, |all| all - turn.done);
            explored.cut |= over();
            if left == 0 || explored.cut {
                kept.push(turn);
                continue;
            }
            let fit = turn.each.map_or(1, |each| (TURN.as_nanos() / each.as_nanos().max(1)) as u64);
            let count = fit.clamp(1, MOST_AT_ONCE).min(left);
            let seed = request.first.wrapping_add(turn.done);
            let start = Instant::now();
            match run(runner, &turn.case, seed, count, limit(turn.each, count))? {
                Ran::Skipped(verdict) => explored.skipped.push(*verdict),
                Ran::Passed => {
                    turn.done += count;
                    turn.each = Some(start.elapsed() / u32::try_from(count).unwrap_or(u32::MAX));
                    explored.schedules += count;
                    kept.push(turn);
                }
                Ran::Failed(at, verdict) => {
                    explored.schedules += at + 1;
                    let seed = seed.wrapping_add(at);
                    let (start, mut again) = (Instant::now(), (0, 0));
                    while again.1 < request.confirmations && start.elapsed() < CONFIRMED {
                        let ran = run(runner, &turn.case, seed, 1, limit(turn.each, 1))?;
                        again = (again.0 + u32::from(matches!(ran, Ran::Failed(..))), again.1 + 1);
                    }
                    found(Found { case: turn.case, schedules: seed..=seed, verdict: *verdict, again })?;
                }
                Ran::Differed(verdict) => {
                    explored.schedules += count;
                    let schedules = seed..=seed.wrapping_add(count - 1);
                    found(Found { case: turn.case, schedules, verdict: *verdict, again: (0, 0) })?;
                }
            }
            progress(&explored)?;
        }
        explored.of_each = kept.iter().map(|turn| turn.done).min().unwrap_or_default();
        let all_done = request.schedules.is_some_and(|all| kept.iter().all(|turn| turn.done >= all));
        turns = if all_done { Vec::new() } else { kept };
    }
    Ok(explored)
}

/// The time limit of `count` runs in seconds, from the time that one took; that of the case if none was timed yet.
fn limit(each: Option<Duration>, count: u64) -> Option<f64> {
    each.map(|each| MARGIN + LONGER * each.as_secs_f64() * count as f64)
}

enum Ran {
    Passed,
    Skipped(Box<Verdict>),
    /// The number of schedules before the one that failed, and the verdict.
    Failed(u64, Box<Verdict>),
    /// Each schedule is right by itself, but not all of them have the same bits.
    Differed(Box<Verdict>),
}

/// Runs a case on `count` schedules, beginning with `seed`.
fn run(runner: &Runner, case: &Arc<Case>, seed: u64, count: u64, limit: Option<f64>) -> Result<Ran, Error> {
    let repeated = |times: u64| {
        let mut repeated = (**case).clone();
        repeated.repeat = u32::try_from(times).unwrap_or(1);
        runner.prepare(&Arc::new(repeated))
    };
    let (ready, single) = match (repeated(count)?, repeated(1)?) {
        (Prepared::Ready(ready), Prepared::Ready(single)) => (ready, single),
        (Prepared::Settled(verdict), _) | (_, Prepared::Settled(verdict)) if verdict.status == Status::Fail => {
            return Ok(Ran::Failed(0, verdict));
        }
        (Prepared::Settled(verdict), _) | (_, Prepared::Settled(verdict)) if verdict.status == Status::Pass => {
            return Ok(Ran::Skipped(Box::new(skipped(case, "its verdict needs no run"))));
        }
        (Prepared::Settled(verdict), _) | (_, Prepared::Settled(verdict)) => return Ok(Ran::Skipped(verdict)),
    };
    let failed_at = Mutex::new(None);
    let experiment = Experiment {
        variation: Variation { seed: Some(seed), ..runner.variation_of(case) },
        limit,
        // Each run by itself first, so that the one that fails is known; together they must also have the same bits.
        judge: &|plan, forecast, seen| {
            for (at, run) in (0..).zip(seen) {
                let verdict = judge_pass_or_fail(&single.plan, &single.forecast, std::slice::from_ref(run));
                if verdict.status == Status::Fail {
                    *failed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
                    return verdict;
                }
            }
            if (seen.len() as u64) < count {
                // Between two runs the communicators could not be destroyed.
                *failed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen.len().saturating_sub(1) as u64);
            }
            judge_pass_or_fail(plan, forecast, seen)
        },
    };
    let (verdict, _) = runner.run_once(&ready, &experiment)?;
    let at = *failed_at.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(match (verdict.status, at) {
        (Status::Pass, _) => Ran::Passed,
        (Status::Skip | Status::Error, _) => Ran::Skipped(Box::new(verdict)),
        (Status::Fail, Some(at)) => Ran::Failed(at, Box::new(verdict)),
        (Status::Fail, None) if count > 1 => Ran::Differed(Box::new(verdict)),
        (Status::Fail, None) => Ran::Failed(0, Box::new(verdict)),
    })
}

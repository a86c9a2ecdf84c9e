//! Times cases one after another on a group of ranks that nothing else has used.
use super::Runner;
use super::runner::{Ready, could_not_run};
use super::teardown_failure::attribute_failure;
use super::time_limits::duration;
use super::with_causes;
use collspec_core::judge::{self, Verdict};
use collspec_run::job::{Ended, Observation, Timed, Work};
use collspec_run::run::execute::{Again, Executed, Task, execute};
use collspec_run::run::images::ForecastImages;
use collspec_run::run::lock::{self, Locks};
use collspec_run::run::pool::{KeptSet, Pooled, WorkerKey};
use collspec_run::run::teardown::tear_down;
use collspec_run::run::{Error, MemoryPlace, job};

/// Seconds for all iterations of a case if no limit is set: a hang that the software library proves ends at once.
const ITERATIONS: f64 = 300.0;

/// A worker started for this group, with communicators created for it. A case whose variables or placement differ from
/// the previous one starts a new worker.
pub struct TimedGroup<'a> {
    runner: &'a Runner,
    worker: Option<Pooled>,
}

/// The result of a timed case.
#[derive(Debug)]
pub struct TimedRun {
    /// The seconds of each iteration, by rank; empty unless every rank finished.
    pub times: Vec<Vec<f64>>,
    /// The work of all ranks' kernels in one iteration, if it is counted.
    pub work: Option<Work>,
    /// The verdict on the last iteration's results; `None` if judging was not requested and no error occurred.
    pub verdict: Option<Verdict>,
}

impl Runner {
    /// A group of ranks that has not started anything yet.
    pub fn timed_group(&self) -> TimedGroup<'_> {
        TimedGroup { runner: self, worker: None }
    }
}

impl TimedGroup<'_> {
    /// Runs a prepared case and measures its times. With `judged`, the results of the last iteration are judged.
    ///
    /// # Errors
    ///
    /// A worker cannot be started or cannot carry out a request.
    pub fn run(&mut self, ready: &Ready, timed: Timed, judged: bool) -> Result<TimedRun, Error> {
        let (runner, case) = (self.runner, &ready.plan.case);
        let not_run = |verdict| TimedRun { times: Vec::new(), work: None, verdict: Some(verdict) };
        let key = runner.worker_key(case, !runner.options.variation.fault.is_empty());
        // Checked after the processes were chosen: those that are left now are a subset of those that the choice was made from.
        if let Some(verdict) = runner.lacks_since(case) {
            return Ok(not_run(verdict));
        }
        match self.run_on(&key, ready, timed, judged) {
            // A process of the job may be lost: earlier measurements are still reported.
            Err(error) if runner.chosen.cluster.is_some() => Ok(not_run(could_not_run(case, with_causes(&error)))),
            tried => tried,
        }
    }

    fn run_on(&mut self, key: &WorkerKey, ready: &Ready, timed: Timed, judged: bool) -> Result<TimedRun, Error> {
        let Ready { plan, forecast } = ready;
        let runner = self.runner;
        let devices = runner.rank_devices(&plan.case).map(|devices| devices.all()).unwrap_or_default();
        let _locks = Locks::take(&lock::folder(), devices).map_err(Error::Lock)?;
        let mut pooled = self.worker_for(key)?;
        // Before the last iteration the ranks restore their inputs, so a second copy of them is needed.
        let (mut job, map) = job(plan, forecast, MemoryPlace::Device);
        job.timed = Some(timed);
        job.variation = runner.variation();
        job.reuse = pooled.kept.back().map(|set| set.id);
        let (images, limit) =
            (&ForecastImages { forecast, in_place: true }, duration(runner.options.timeout.unwrap_or(ITERATIONS)));
        let (again, opening) = (Again::Same, runner.opening_limit());
        let task = Task { job, images, map, repeat: 1, again, opening, limit, used_before: false };
        let mut seen = None;
        let executed = execute(&mut pooled.worker, task, &mut |observation| {
            seen = Some(observation);
            false
        })?;
        let (Executed::Complete, Some(observation)) = (executed, seen) else {
            let why = format!("it died with {}", pooled.worker.end(0));
            return Err(Error::NoWorker { program: runner.pool.program().path().to_owned(), why });
        };
        let (well, reused) = (observation.ended == Ended::Done, observation.reused);
        let times = if well { times(&observation) } else { Vec::new() };
        let work = work(&observation, timed.iterations).filter(|_| well);
        let mut verdict = (judged || !well).then(|| judge::judge_pass_or_fail(plan, forecast, &[observation]));
        if well {
            self.keep(pooled, plan.ranks(), reused, &mut verdict);
        }
        Ok(TimedRun { times, work, verdict })
    }

    /// The group's worker, or a new one if the case needs another.
    fn worker_for(&mut self, key: &WorkerKey) -> Result<Pooled, Error> {
        match self.worker.take().filter(|pooled| pooled.key == *key) {
            Some(pooled) => Ok(pooled),
            None => self.runner.new_worker(key),
        }
    }

    /// Ends a case. Its communicators are kept for the next one, and an earlier case's communicators that it did not use are
    /// destroyed. A worker that fails to do so is not used again.
    fn keep(&mut self, mut pooled: Pooled, ranks: usize, reused: bool, verdict: &mut Option<Verdict>) {
        pooled.cases += 1;
        let id = pooled.cases;
        let unused = pooled.kept.drain(..).map(|set| set.id).filter(|_| !reused).collect();
        pooled.kept.push_back(KeptSet { id, print: 0, ranks, user: String::new() });
        let ranks = u32::try_from(ranks).unwrap_or(u32::MAX);
        let finished = tear_down(&mut pooled.worker, ranks, Some(id), unused, self.runner.opening_limit());
        match (attribute_failure(&finished), verdict) {
            (None, _) => self.worker = Some(pooled),
            (Some((outcome, rank, text)), Some(verdict)) => judge::fail_at_teardown(verdict, outcome, rank, text),
            (Some(_), None) => {}
        }
    }
}

/// The seconds of each iteration, by rank.
fn times(observation: &Observation) -> Vec<Vec<f64>> {
    observation.ranks.iter().map(|rank| rank.times.clone()).collect()
}

/// The work of all ranks' kernels in one of this many iterations: each does the same.
fn work(observation: &Observation, iterations: u32) -> Option<Work> {
    let ranks: Option<Vec<Work>> = observation.ranks.iter().map(|rank| rank.work).collect();
    let all = ranks?.into_iter().fold(Work::default(), |all, work| all.with(work, u64::saturating_add));
    Some(all.with(Work::default(), |all, _| all / u64::from(iterations.max(1))))
}

//! Runs a case with `before` twice: its steps alone in a new worker, and in another new worker after the steps of `before`. The judge
//! compares the two runs bit for bit, as it does with `repeat`.
use super::Runner;
use super::attempt::{Attempt, plain_case, quoted};
use super::observer::Observer;
use super::runner::Ready;
use super::teardown_failure::attribute_failure;
use super::time_limits::{RunLimits, duration};
use collspec_core::judge::{self, CaseJudge, Details, Status, Verdict};
use collspec_core::oracle::Forecast;
use collspec_core::plan::Plan;
use collspec_run::backend::version_text;
use collspec_run::job::{Ended, Observation, SetId, Variation};
use collspec_run::run::execute::{Again, Executed, Task, execute};
use collspec_run::run::images::ForecastImages;
use collspec_run::run::lock::{self, Locks};
use collspec_run::run::pool::{Pooled, WorkerKey};
use collspec_run::run::teardown::tear_down;
use collspec_run::run::{Error, job};

/// The name of the communicators of `before`, which live until the case is over.
const HISTORY: SetId = 1;

impl Runner {
    /// Starts a worker that nothing else has used.
    ///
    /// # Errors
    ///
    /// The worker does not start, or its library differs from earlier workers'.
    pub(super) fn new_worker(&self, key: &WorkerKey) -> Result<Pooled, Error> {
        let pooled = self.pool.fresh(key)?;
        let version = pooled.worker.hello.version;
        self.version.get_or_init(|| version);
        match self.machine().map(|machine| machine.probed.version).filter(|old| *old != version) {
            Some(probed) => Err(Error::Changed { was: version_text(probed), is: version_text(version) }),
            None => Ok(pooled),
        }
    }

    /// Runs a prepared case without its history, then with it.
    pub(super) fn attempt_with_history<O: Observer>(
        &self,
        ready: &Ready,
        history: &Plan,
        variation: &Variation,
        limits: RunLimits,
        mut observer: O,
    ) -> Result<Attempt<O::Rest>, Error> {
        let Ready { plan, forecast } = ready;
        let case = &plan.case;
        let core = self.core_for(plan);
        let key = &WorkerKey {
            core: core.as_ref().map(|claim| claim.core),
            ..self.worker_key(case, !variation.fault.is_empty())
        };
        if let Some(verdict) = self.lacks_since(case) {
            let (_, rest) = observer.close(false)?;
            return Ok(Attempt { verdict, rest, after: None, doubtful: false });
        }
        let devices = self.rank_devices_at(case, &key.sites).map(|devices| devices.all()).unwrap_or_default();
        let _locks = Locks::take(&lock::folder(), devices).map_err(Error::Lock)?;
        let limit = limits.case.map_or_else(|| self.case_limit(case, key.env.len()), duration);
        let (limit, opening) = (limits.cut(limit), limits.cut(self.opening_limit()));
        let (ranks, strict) = (plan.ranks() as u32, plain_case(plan));
        let again = if plan.comm_steps { Again::Anew { strict } } else { Again::Same };
        let (mut complete, mut teardown, mut log) = (true, None, String::new());
        for with_history in [false, true] {
            let mut pooled = self.new_worker(key)?;
            if with_history {
                let past = self.run_before(&mut pooled, history, variation, limit)?;
                if past.status == Status::Fail {
                    let reason = past.reason.unwrap_or_else(|| "failed".into());
                    let verdict = Verdict { reason: Some(format!("in `before`: {reason}")), ..past };
                    let (_, rest) = observer.close(false)?;
                    return Ok(Attempt { verdict, rest, after: None, doubtful: false });
                }
            }
            let (mut job, map) = job(plan, forecast, self.chosen.backend.memory_place());
            job.variation = variation.clone();
            let (repeat, images) = (case.repeat, &ForecastImages { forecast, in_place: observer.judges_at_once() });
            let task = Task { job, images, map, repeat, again, opening, limit, used_before: false };
            let (mut wanted, mut ended) = (true, None);
            let mut see = |seen: Observation| {
                (ended, log) = (Some(seen.ended.clone()), seen.log.clone());
                wanted &= observer.observe(seen);
                wanted
            };
            match execute(&mut pooled.worker, task, &mut see)? {
                Executed::Complete => {}
                Executed::TeardownFailed(finished) => {
                    (complete, teardown) = (!strict, attribute_failure(&finished));
                    break;
                }
                Executed::DeadBefore => return Err(self.dead(&mut pooled)),
            }
            if ended != Some(Ended::Done) {
                break;
            }
            let also = if with_history { vec![HISTORY] } else { Vec::new() };
            teardown = attribute_failure(&tear_down(&mut pooled.worker, ranks, None, also, opening));
            if !wanted || teardown.is_some() {
                break;
            }
        }
        let (mut verdict, rest) = observer.close(complete)?;
        if verdict.status == Status::Fail {
            verdict.notes.extend(quoted(&log));
        }
        if let Some((outcome, rank, text)) = teardown.filter(|_| strict) {
            judge::fail_at_teardown(&mut verdict, outcome, rank, text);
        }
        Ok(Attempt { verdict, rest, after: None, doubtful: false })
    }

    /// Runs and judges the steps of `before`, and keeps their communicators.
    fn run_before(
        &self,
        pooled: &mut Pooled,
        history: &Plan,
        variation: &Variation,
        limit: std::time::Duration,
    ) -> Result<Verdict, Error> {
        let forecast = match Forecast::new(history, self.options.variation.seed.unwrap_or(0)) {
            Ok(forecast) => forecast,
            Err(faults) => return Ok(judge::judge_refusal(&history.case, &faults)),
        };
        let (mut job, map) = job(history, &forecast, self.chosen.backend.memory_place());
        job.variation = variation.clone();
        let (images, opening) = (&ForecastImages { forecast: &forecast, in_place: true }, self.opening_limit());
        let task = Task { job, images, map, repeat: 1, again: Again::Same, opening, limit, used_before: false };
        let mut judge = CaseJudge::new(history, &forecast).with_details(Details::None);
        let executed = execute(&mut pooled.worker, task, &mut |seen| judge.judge_run(seen))?;
        if !matches!(executed, Executed::Complete) {
            return Err(self.dead(pooled));
        }
        let mut verdict = judge.into_verdict(true);
        if verdict.status != Status::Fail {
            let ranks = history.ranks() as u32;
            let kept = tear_down(&mut pooled.worker, ranks, Some(HISTORY), Vec::new(), opening);
            if let Some((outcome, rank, text)) = attribute_failure(&kept) {
                judge::fail_at_teardown(&mut verdict, outcome, rank, text);
            }
        }
        Ok(verdict)
    }

    fn dead(&self, pooled: &mut Pooled) -> Error {
        let why = format!("it died with {}", pooled.worker.end(0));
        Error::NoWorker { program: self.pool.program().path().to_owned(), why }
    }
}

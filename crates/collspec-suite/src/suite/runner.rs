//! Takes a case to its verdict: skips, refuses or runs it, and runs it again if an earlier case may have caused a failure.
use super::attempt::arena_for;
use super::kept_plans::KeptPlans;
use super::missing_feature::missing_feature;
use super::nccl_memory;
use super::observer::{Experiment, JudgeAtEnd, Observer};
use super::requires::JobOfCase;
use super::time_limits::RunLimits;
use super::{ChosenBackend, RunOptions, requires};
use collspec_core::job::Disturbance;
use collspec_core::judge::{self, CaseJudge, Status, Verdict};
use collspec_core::oracle::Forecast;
use collspec_core::plan::cost::human;
use collspec_core::plan::{self, Plan};
use collspec_core::scenario::Case;
use collspec_run::child::Workers;
use collspec_run::child::program::Program;
use collspec_run::cluster::Among;
use collspec_run::job::{Observation, Variation};
use collspec_run::run::core_binding::{self, Claim, Cores};
use collspec_run::run::lock;
use collspec_run::run::memory::{Turn, Turns};
use collspec_run::run::pool::{Pool, PoolLimits, WorkerKey};
use collspec_run::run::{Backend, Error, Machine};
use nccl_sys::Maker;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Runs cases; may be used from several threads at once.
pub struct Runner {
    pub(super) options: RunOptions,
    pub(super) chosen: ChosenBackend,
    turns: Turns,
    /// The cores that small cases are bound to, if binding is on.
    pub(super) cores: Option<Cores>,
    pub(super) pool: Pool,
    /// The version code of the library, once a worker has reported it.
    pub(super) version: OnceLock<i32>,
    pub(super) plans: Arc<KeptPlans>,
}

/// A case that is ready to run: its plan and its forecast.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The calls and buffers of every rank.
    pub plan: Plan,
    /// The results that the judge expects.
    pub forecast: Forecast,
}

/// A case before it runs.
#[derive(Debug)]
pub enum Prepared {
    /// The case can run.
    Ready(Box<Ready>),
    /// The case is skipped or refused and has its verdict.
    Settled(Box<Verdict>),
}

/// A case is small if its memory, counting all copies, is at most this many bytes.
const SMALL: u64 = 512 << 10;

/// True if a case is so small that waiting takes more of its time than computing.
pub fn is_small(plan: &Plan) -> bool {
    plan.cost.memory <= SMALL
}

/// Bytes of memory that idle workers may keep: a third of the memory for cases, but always enough for some small arenas.
fn kept_bytes(turns: &Turns) -> u64 {
    (turns.total() / 3).max(512 << 20).min(turns.total())
}

impl Runner {
    /// A runner on `chosen` that has started nothing yet.
    ///
    /// # Errors
    ///
    /// This process is a worker or cannot start one, or the folder for GPU locks does not exist.
    pub fn new(options: RunOptions, chosen: ChosenBackend) -> Result<Self, Error> {
        if collspec_run::child::is_worker() {
            return Err(Error::InsideWorker);
        }
        if options.workers == Workers::CurrentExe && !collspec_run::child::can_be_worker() {
            return Err(Error::NotAsked);
        }
        let program = Program::of(&options.workers).map_err(Error::CurrentExe)?;
        let jobs = options.jobs_on(&chosen);
        let is_local = chosen.backend == Backend::Soft && chosen.cluster.is_none();
        let cores = if is_local { Cores::of(jobs) } else { None };
        // a worker on GPUs keeps their memory; two are for cases that take turns in their environment
        let most = match (&chosen.backend, &cores) {
            (Backend::Soft, Some(_)) => jobs.saturating_mul(2).clamp(4, 256),
            (Backend::Soft, None) => jobs.clamp(2, 8),
            (Backend::Nccl { .. }, _) if chosen.counts_work() => jobs.clamp(2, 32),
            (Backend::Nccl { .. }, _) => 2,
        };
        // without its folder, every case would fail separately
        if chosen.machine.as_ref().is_some_and(|machine| machine.gpus.devices.iter().any(|gpu| !gpu.private)) {
            lock::check(&lock::folder()).map_err(Error::NoLocks)?;
        }
        let turns = Turns::new(options.reading.limits.memory);
        let limits = PoolLimits::of(most);
        let limits = PoolLimits { bytes: kept_bytes(&turns), processes: limits.processes.max(most), ..limits };
        let pool = Pool::new(program, limits).with_cluster(chosen.cluster.clone());
        Ok(Self { options, chosen, turns, cores, pool, version: OnceLock::new(), plans: Arc::default() })
    }

    /// Like [`Runner::new`], on the software library.
    pub fn soft(options: RunOptions) -> Result<Self, Error> {
        Self::new(options, ChosenBackend::default())
    }

    /// Replaces the limits on idle workers.
    pub fn with_pool_limits(mut self, limits: PoolLimits) -> Self {
        let cluster = self.chosen.cluster.clone();
        let limits = PoolLimits { bytes: limits.bytes.min(kept_bytes(&self.turns)), ..limits };
        self.pool = Pool::new(self.pool.program().clone(), limits).with_cluster(cluster);
        self
    }

    /// Runs, skips or refuses a case and returns its verdict. A case that could not run because of the machine or the worker
    /// program has failed.
    pub fn run_case(&self, case: &Arc<Case>) -> Verdict {
        self.run_case_with(case, RunLimits::default())
    }

    /// Like [`Runner::run_case`], but limits the case, and the steps before it, to `most` on its workers. A case that would
    /// have continued counts as a hang.
    pub fn run_case_within(&self, case: &Arc<Case>, most: Duration) -> Verdict {
        self.run_case_with(case, RunLimits { case: None, most: Some(most) })
    }

    fn run_case_with(&self, case: &Arc<Case>, limits: RunLimits) -> Verdict {
        timed(case, || self.try_case(case, limits))
    }

    /// What the options make different in every run.
    pub fn variation(&self) -> Variation {
        self.options.variation.clone().with_seed_if_needed()
    }

    /// What is different in every run of a case: the options and the case's fault.
    pub fn variation_of(&self, case: &Case) -> Variation {
        let disturbance = case.fault.map(Disturbance::Fault);
        Variation { disturbance, ..self.variation() }
    }

    /// The reason the case would be skipped, as far as that is known without a worker.
    pub fn skips(&self, case: &Arc<Case>) -> Option<String> {
        let version = self.machine().map_or(soft_nccl::VERSION, |machine| machine.probed.version);
        match self.plan_for(case, |_| Ok(version)) {
            Ok(Err(settled)) if matches!(settled.status, Status::Skip | Status::Error) => settled.reason,
            _ => None,
        }
    }

    /// The verdict on a case that can no longer run because the job lost a process after the case was prepared.
    pub(super) fn lacks_since(&self, case: &Case) -> Option<Verdict> {
        self.chosen.cluster.as_ref().and_then(|_| self.not_here(case))
    }

    /// The verdict on a case that cannot run because the machine lacks something that it needs: skipped, or failed if the job's
    /// processes had it until some of them were lost.
    fn not_here(&self, case: &Case) -> Option<Verdict> {
        let reason = self.lacks(case, Among::Living)?;
        let lost = self.chosen.cluster.as_ref().and_then(|cluster| cluster.lost_in_words());
        Some(match lost.filter(|_| self.lacks(case, Among::All).is_none()) {
            Some(lost) => could_not_run(case, format!("not run, because the job broke: {lost}")),
            None => judge::skipped(case, reason),
        })
    }

    /// What the case needs and these processes lack, in words.
    fn lacks(&self, case: &Case, among: Among) -> Option<String> {
        let chosen = &self.chosen;
        let processes = self.processes(case);
        // Chosen only once: if a process is lost in the meantime, the reason must not contradict itself.
        let sites = chosen.cluster.as_ref().and_then(|cluster| cluster.choose(processes, among));
        let job = chosen.cluster.as_deref().map(|cluster| {
            let ranks_per_process = self.options.ranks_per_process();
            JobOfCase { cluster, among, processes, sites: sites.as_deref(), ranks_per_process }
        });
        let devices = self.rank_devices_at(case, sites.as_deref().unwrap_or_default());
        let machine = self.machine().zip(devices.as_ref());
        requires::missing(case, &chosen.backend, machine, self.options.ranks_per_gpu, job.as_ref())
    }

    fn try_case(&self, case: &Arc<Case>, limits: RunLimits) -> Result<Verdict, Error> {
        match self.planned(case)? {
            Ok(plan) => self.run_planned(plan, limits),
            Err(verdict) => Ok(*verdict),
        }
    }

    /// A core that the case and its worker are bound to if the case is small; otherwise the calling thread is unbound.
    pub(super) fn core_for(&self, plan: &Plan) -> Option<Claim<'_>> {
        let claim = self.cores.as_ref().filter(|_| is_small(plan)).and_then(Cores::claim);
        if claim.is_none() {
            core_binding::leave();
        }
        claim
    }

    /// Waits for the case's memory; memory kept by idle workers counts as available. `None` if the case needs more than there is.
    fn turn(&self, plan: &Plan) -> Option<Turn<'_>> {
        let turn = self.turns.take(self.memory_of(plan))?;
        self.pool.keep_within(self.turns.left());
        Some(turn)
    }

    /// Bytes of memory that a case takes, including what NCCL takes for its communicators on this machine.
    fn memory_of(&self, plan: &Plan) -> u64 {
        let machine = self.machine().filter(|_| self.chosen.cluster.is_none());
        // On software GPUs NCCL's pools take no memory until they are used.
        let machine =
            machine.filter(|machine| machine.probed.maker == Maker::Nvidia && !self.chosen.backend.has_software_gpus());
        let own = machine.map_or(0, |machine| nccl_memory::of_communicators(plan, machine.probed.version));
        plan.cost.memory.saturating_add(own)
    }

    fn run_planned(&self, plan: Plan, limits: RunLimits) -> Result<Verdict, Error> {
        let Some(_turn) = self.turn(&plan) else { return Ok(self.too_large(&plan)) };
        match self.with_forecast(plan) {
            Prepared::Settled(verdict) => Ok(*verdict),
            Prepared::Ready(ready) => self.run_ready(&ready, limits),
        }
    }

    /// Runs a prepared case whose turn has come.
    fn run_ready(&self, ready: &Ready, limits: RunLimits) -> Result<Verdict, Error> {
        let options = &self.options;
        let judge = || {
            CaseJudge::new(&ready.plan, &ready.forecast)
                .showing_buffers(options.show_buffers)
                .keeping_results(options.keep_results)
                .with_details(options.details)
        };
        Ok(self.run_and_confirm(ready, &self.variation_of(&ready.plan.case), limits, judge)?.0)
    }

    /// Limits on the work and memory of a case.
    pub fn limits(&self) -> &plan::Limits {
        &self.options.reading.limits
    }

    /// The verdict on a valid case that is too large for this machine.
    fn too_large(&self, plan: &Plan) -> Verdict {
        let (needed, free) = (human(self.memory_of(plan)), human(self.turns.total()));
        judge::skipped(&plan.case, format!("needs {needed} of memory in all copies; this machine has {free} free"))
    }

    /// Plans a case and works out its forecast, unless it is skipped or refused.
    ///
    /// # Errors
    ///
    /// The library's version is needed, but no worker starts.
    pub fn prepare(&self, case: &Arc<Case>) -> Result<Prepared, Error> {
        Ok(match self.planned(case)? {
            Err(verdict) => Prepared::Settled(verdict),
            Ok(plan) if plan.cost.memory > self.turns.total() => Prepared::Settled(Box::new(self.too_large(&plan))),
            Ok(plan) => self.with_forecast(plan),
        })
    }

    /// The plan of a case, unless the case is skipped or refused.
    pub(super) fn planned(&self, case: &Arc<Case>) -> Result<Result<Plan, Box<Verdict>>, Error> {
        let planned = self.plan_for(case, |case| self.version(&self.worker_key(case, false)))?;
        if let Ok(plan) = &planned {
            room_for(plan)?;
        }
        Ok(planned.map(|plan| self.plans.release(plan)))
    }

    /// The plan of a case on a library of this `version`, which only some cases ask for, unless the case is skipped or refused.
    fn plan_for(
        &self,
        case: &Arc<Case>,
        version: impl FnOnce(&Case) -> Result<i32, Error>,
    ) -> Result<Result<Arc<Plan>, Box<Verdict>>, Error> {
        let settled = |verdict| Ok(Err(Box::new(verdict)));
        let placed = self.placed(case);
        let case = &placed;
        if let Some(verdict) = self.not_here(case) {
            return settled(verdict);
        }
        let case = &match self.with_algorithms(case) {
            Ok(case) => case,
            Err(reason) => return settled(judge::skipped(case, reason)),
        };
        if !case.requires.nccl.is_empty()
            && let Some(reason) = requires::too_old(case, version(case)?)
        {
            return settled(judge::skipped(case, reason));
        }
        let plan = match self.plans.plan(case, self.limits()) {
            Ok(plan) => plan,
            Err(faults) => return settled(judge::judge_refusal(case, &faults)),
        };
        let missing = self.machine().zip(self.rank_devices(case));
        if let Some(reason) = missing.and_then(|(machine, devices)| missing_feature(&plan, machine, &devices)) {
            self.plans.release(plan);
            return settled(judge::skipped(case, reason));
        }
        Ok(Ok(plan))
    }

    /// Works out the forecast of a plan; returns `Settled` if the case is refused.
    pub(super) fn with_forecast(&self, plan: Plan) -> Prepared {
        if !is_small(&plan) {
            core_binding::leave();
        }
        let settled = |verdict| Prepared::Settled(Box::new(verdict));
        let case = &plan.case;
        let seed = self.options.variation.seed.unwrap_or(0);
        let history = plan.history.as_ref().map_or(Ok(()), |history| Forecast::new(history, seed).map(|_| ()));
        let forecast = match history.and_then(|()| Forecast::new(&plan, seed)) {
            Ok(forecast) => forecast,
            Err(faults) => return settled(judge::judge_refusal(case, &faults)),
        };
        if let Some(verdict) = judge::missing_refusal(case) {
            return settled(verdict);
        }
        Prepared::Ready(Box::new(Ready { plan, forecast }))
    }

    /// Runs a prepared case once, even if it fails.
    ///
    /// # Errors
    ///
    /// A worker cannot be started.
    pub fn run_once(&self, ready: &Ready, experiment: &Experiment<'_>) -> Result<(Verdict, Vec<Observation>), Error> {
        let limits = RunLimits::of_case(experiment.limit);
        let observer = JudgeAtEnd::new(ready, experiment);
        let tried = match &ready.plan.history {
            Some(history) => self.attempt_with_history(ready, history, &experiment.variation, limits, observer)?,
            None => self.attempt(ready, &experiment.variation, limits, observer, false)?,
        };
        Ok((tried.verdict, tried.rest))
    }

    /// Runs a prepared case, and a second time in a fresh worker if an earlier case may have caused a failure.
    ///
    /// # Errors
    ///
    /// A worker cannot be started.
    pub fn run_twice(&self, ready: &Ready, experiment: &Experiment<'_>) -> Result<(Verdict, Vec<Observation>), Error> {
        let limits = RunLimits::of_case(experiment.limit);
        self.run_and_confirm(ready, &experiment.variation, limits, || JudgeAtEnd::new(ready, experiment))
    }

    fn run_and_confirm<O: Observer>(
        &self,
        ready: &Ready,
        variation: &Variation,
        limits: RunLimits,
        observer: impl Fn() -> O,
    ) -> Result<(Verdict, O::Rest), Error> {
        if let Some(history) = &ready.plan.history {
            let only = self.attempt_with_history(ready, history, variation, limits, observer())?;
            return Ok((only.verdict, only.rest));
        }
        let first = self.attempt(ready, variation, limits, observer(), false)?;
        if first.verdict.status != Status::Fail || !first.doubtful {
            return Ok((first.verdict, first.rest));
        }
        let second = match self.attempt(ready, variation, limits, observer(), true) {
            Ok(second) if second.verdict.status == Status::Fail && second.verdict.outcome.is_some() => {
                return Ok((second.verdict, second.rest));
            }
            Ok(second) => second.verdict,
            Err(error) => could_not_run(&ready.plan.case, super::with_causes(&error)),
        };
        let mut verdict = first.verdict;
        let after = first.after.as_deref();
        verdict.reason = Some(reason_with_second(verdict.reason, after, &second));
        Ok((verdict, first.rest))
    }

    /// The GPUs and the library under the backend nccl.
    pub fn machine(&self) -> Option<&Machine> {
        self.chosen.machine.as_deref().filter(|_| self.chosen.backend != Backend::Soft)
    }

    /// NCCL's version code, as reported by a worker.
    fn version(&self, key: &WorkerKey) -> Result<i32, Error> {
        if let Some(version) = self.version.get() {
            return Ok(*version);
        }
        let pooled = self.pool.take(key, 0, arena_for(0))?;
        let version = pooled.worker.hello.version;
        self.pool.put(pooled);
        Ok(*self.version.get_or_init(|| version))
    }

    /// NCCL's version code, if a worker has already reported it.
    pub fn known_version(&self) -> Option<i32> {
        self.version.get().copied()
    }

    /// Process ids of workers that are waiting for a case.
    pub fn idle_workers(&self) -> Vec<u32> {
        self.pool.pids()
    }
}

/// The reason a case fails that passed, or could not run, when it ran again in a fresh worker.
fn reason_with_second(reason: Option<String>, after: Option<&str>, second: &Verdict) -> String {
    let reason = reason.unwrap_or_else(|| "failed".into());
    let after = after.map_or_else(|| "an earlier case".into(), |name| format!("`{name}`"));
    if second.status == Status::Pass {
        return format!("{reason} (only after {after}: in a fresh worker it passes)");
    }
    let why = second.reason.as_deref().unwrap_or_default();
    format!("{reason} (after {after}; it could not be run again in a fresh worker: {why})")
}

/// The verdict on a case that should have run but could not.
pub(super) fn could_not_run(case: &Case, reason: String) -> Verdict {
    Verdict { status: Status::Error, ..judge::skipped(case, reason) }
}

/// The verdict of a run with its time.
fn timed(case: &Case, run: impl FnOnce() -> Result<Verdict, Error>) -> Verdict {
    let begun = Instant::now();
    let verdict = run().unwrap_or_else(|error| could_not_run(case, super::with_causes(&error)));
    Verdict { wall_seconds: begun.elapsed().as_secs_f64(), ..verdict }
}

/// Copies of a case's memory: the ranks' own, the one in which results are worked out, and the observed one.
const COPIES: u64 = 3;

/// Checks that this process can allocate the memory that a case takes here: a failed allocation in the middle would end the
/// process and lose the verdicts of all other cases.
fn room_for(plan: &Plan) -> Result<(), Error> {
    let image = |alloc: &plan::Alloc| alloc.start().saturating_add(alloc.payload).saturating_add(plan::GUARD);
    let bytes = plan.allocs.iter().map(image).fold(0u64, u64::saturating_add).saturating_mul(COPIES);
    let none = Error::Memory { bytes };
    let Ok(len) = usize::try_from(bytes) else { return Err(none) };
    // The memory is never touched, so only address space is taken.
    Vec::<u8>::new().try_reserve_exact(len).map_err(|_| none)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixture;

    #[test]
    fn only_a_second_run_that_passed_clears_a_fresh_worker() {
        let reason = |status, why: Option<&str>| {
            let second = Verdict { reason: why.map(str::to_owned), outcome: None, ..fixture::verdict("a", status) };
            reason_with_second(Some("wrong".into()), Some("b"), &second)
        };
        assert_eq!(reason(Status::Pass, None), "wrong (only after `b`: in a fresh worker it passes)");
        let not_run = |why: &str| format!("wrong (after `b`; it could not be run again in a fresh worker: {why})");
        assert_eq!(reason(Status::Skip, Some("needs 2 processes")), not_run("needs 2 processes"));
        assert_eq!(reason(Status::Error, Some("not run")), not_run("not run"));
    }
}

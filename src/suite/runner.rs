//! A case from its plan to its verdict: worker, time limits, and what becomes of the worker afterwards.
use super::finish::attribute_failure;
use super::lacking::lacking;
use super::{ChosenBackend, RunOptions, requires};
use crate::backend::version_text;
use crate::child::Workers;
use crate::child::program::Program;
use crate::job::{Ended, Observation};
use crate::job::{Finish, Job, Request};
use crate::judge::{self, CaseJudge, Outcome, Status, Verdict};
use crate::oracle::Forecast;
use crate::plan::cost::human;
use crate::plan::{self, Plan};
use crate::run::execute::{Again, Executed, Task, execute};
use crate::run::finish::{self, Finished};
use crate::run::lock::{self, Locks};
use crate::run::memory::Turns;
use crate::run::pool::{KeptSet, Pool, PoolLimits, Pooled, WorkerKey};
use crate::run::{Backend, Error, Machine, job};
use crate::scenario::{Case, EnvValue, ExpectedOutcome, Placement};
use soft_nccl::fault::Wish;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Per case, from *loaded* on.
const LIMIT: f64 = 30.0;
/// Of cases that may hang, on the software backend in several processes.
const SOFT_HANG: f64 = 2.0;
/// Lines quoted in a failure of what the worker and NCCL wrote.
const QUOTED_LINES: usize = 20;
/// Bytes of them.
const QUOTED_BYTES: usize = 2048;
/// For making communicators and loading, and for destroying them after a case; not the case's fault, so more generous.
const OPENING: f64 = 60.0;
/// A worker whose arena has grown beyond this is not kept: shared memory is never given back while it lives.
const LARGE: u64 = 64 << 20;
/// No case is longer than a year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// Sets of communicators that a worker keeps.
const KEPT: usize = 2;

/// Ranks that share a GPU take turns on it, and talk through the network's code.
const SHARED_GPU: f64 = 10.0;

/// Runs cases; may be used from several threads at once.
pub struct Runner {
    options: RunOptions,
    chosen: ChosenBackend,
    turns: Turns,
    pool: Pool,
    version: OnceLock<i32>,
}

/// A case that can run: its plan, and what must come of it.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The plan.
    pub plan: Plan,
    /// What must come of it.
    pub forecast: Forecast,
}

/// What can be said of a case before it runs.
#[derive(Debug)]
pub enum Prepared {
    /// It can run.
    Ready(Box<Ready>),
    /// It is skipped or refused.
    Settled(Box<Verdict>),
}

/// A run of its own, for whoever wants to see what is judged.
pub struct Look<'a> {
    /// What is asked of the library.
    pub wish: Wish,
    /// Seconds from *loaded* on, if not as usual.
    pub limit: Option<f64>,
    /// Who judges.
    pub judge: &'a (dyn Fn(&Plan, &Forecast, &[Observation]) -> Verdict + Sync),
}

/// Limit on the bytes of observations that are kept for judging all runs at once.
const LOOKED_AT: u64 = 1 << 30;

/// Receives the runs of a case as they come.
trait Judging {
    /// The result besides the verdict.
    type Rest;

    /// The next run. False if no further run is wanted.
    fn see(&mut self, seen: Observation) -> bool;

    /// The verdict; `complete`: as many runs as the file asks for were to be made.
    fn close(self, complete: bool) -> Result<(Verdict, Self::Rest), Error>;
}

impl Judging for CaseJudge<'_> {
    type Rest = ();

    fn see(&mut self, seen: Observation) -> bool {
        CaseJudge::judge_run(self, seen)
    }
    fn close(self, complete: bool) -> Result<(Verdict, ()), Error> {
        Ok((CaseJudge::into_verdict(self, complete), ()))
    }
}

/// Judges all runs at the end, and returns them.
struct AtTheEnd<'a> {
    ready: &'a Ready,
    look: &'a Look<'a>,
    seen: Vec<Observation>,
    bytes: u64,
}

impl<'a> AtTheEnd<'a> {
    fn new(ready: &'a Ready, look: &'a Look<'a>) -> Self {
        Self { ready, look, seen: Vec::new(), bytes: 0 }
    }
}

impl Judging for AtTheEnd<'_> {
    type Rest = Vec<Observation>;

    fn see(&mut self, seen: Observation) -> bool {
        self.bytes = self.bytes.saturating_add(seen.bytes());
        self.seen.push(seen);
        self.bytes <= LOOKED_AT
    }
    fn close(self, _: bool) -> Result<(Verdict, Vec<Observation>), Error> {
        if self.bytes > LOOKED_AT {
            return Err(Error::TooMuchSeen { runs: self.ready.plan.case.repeat, most: LOOKED_AT });
        }
        Ok(((self.look.judge)(&self.ready.plan, &self.ready.forecast, &self.seen), self.seen))
    }
}

/// What became of a case on one worker.
struct Tried<R> {
    verdict: Verdict,
    rest: R,
    /// The case whose communicators or worker it came after.
    after: Option<String>,
    /// True if a failure may be an earlier case's doing.
    doubtful: bool,
}

impl Runner {
    /// A runner on `chosen` that has started nothing yet.
    ///
    /// # Errors
    ///
    /// This process is a worker or cannot be one, or there is no folder for the locks of GPUs.
    pub fn new(options: RunOptions, chosen: ChosenBackend) -> Result<Self, Error> {
        if crate::child::is_worker() {
            return Err(Error::InsideWorker);
        }
        if options.workers == Workers::CurrentExe && !crate::child::can_be_worker() {
            return Err(Error::NotAsked);
        }
        let program = Program::of(&options.workers).map_err(Error::CurrentExe)?;
        // a worker on GPUs keeps their memory; two are for cases that take turns in their environment
        let most = if chosen.backend == Backend::Soft { options.jobs_on(&chosen).clamp(2, 8) } else { 2 };
        // a folder that is not there would fail every case by itself
        if chosen.machine.is_some() {
            lock::check(&lock::folder()).map_err(Error::NoLocks)?;
        }
        let pool = Pool::new(program, PoolLimits::of(most));
        let turns = Turns::new(options.reading.limits.memory);
        Ok(Self { options, chosen, turns, pool, version: OnceLock::new() })
    }

    /// As [`Runner::new`], on the software library.
    pub fn soft(options: RunOptions) -> Result<Self, Error> {
        Self::new(options, ChosenBackend::default())
    }

    /// With other limits on idle workers.
    pub fn with_pool_limits(mut self, limits: PoolLimits) -> Self {
        self.pool = Pool::new(self.pool.program().clone(), limits);
        self
    }

    /// Runs a case (or skips it, or finds that it must not run) and says what came of it. A case that could not be run,
    /// because the machine or the worker program would not, has failed.
    pub fn run_case(&self, case: &Arc<Case>) -> Verdict {
        self.try_case(case).unwrap_or_else(|error| {
            let mut text = error.to_string();
            if let Some(source) = std::error::Error::source(&error) {
                text = format!("{text}: {source}");
            }
            let mut verdict = judge::skipped(case, text);
            verdict.status = Status::Fail;
            verdict
        })
    }

    /// Why the case would be skipped, as far as that is known without a worker.
    pub fn skips(&self, case: &Arc<Case>) -> Option<String> {
        let case = &self.placed(case);
        let machine = self.machine();
        let version = machine.map_or(soft_nccl::VERSION, |machine| machine.probed.version);
        self.not_here(case).or_else(|| requires::too_old(case, version)).or_else(|| {
            let machine = machine?;
            lacking(&plan::plan(case, &self.options.reading.limits).ok()?, machine)
        })
    }

    /// What the case needs of the machine and is not there.
    fn not_here(&self, case: &Case) -> Option<String> {
        requires::missing(case, &self.chosen.backend, self.machine(), self.options.ranks_per_gpu)
    }

    fn try_case(&self, case: &Arc<Case>) -> Result<Verdict, Error> {
        let plan = match self.planned(case)? {
            Ok(plan) => plan,
            Err(verdict) => return Ok(*verdict),
        };
        let Some(_turn) = self.turns.take(plan.cost.memory) else { return Ok(self.too_large(&plan)) };
        match self.foreseen(plan) {
            Prepared::Settled(verdict) => Ok(*verdict),
            Prepared::Ready(ready) => {
                let judge = || CaseJudge::new(&ready.plan, &ready.forecast);
                Ok(self.twice(&ready, self.options.fault, None, judge)?.0)
            }
        }
    }

    /// What a case may cost.
    pub fn limits(&self) -> &plan::Limits {
        &self.options.reading.limits
    }

    /// The verdict for a valid case that does not fit this machine.
    fn too_large(&self, plan: &Plan) -> Verdict {
        let (needed, free) = (human(plan.cost.memory), human(self.turns.total()));
        judge::skipped(&plan.case, format!("needs {needed} of memory in all copies; this machine has {free} free"))
    }

    /// Plans a case and works out what must come of it, unless it is to be skipped or refused.
    pub fn prepare(&self, case: &Arc<Case>) -> Result<Prepared, Error> {
        Ok(match self.planned(case)? {
            Err(verdict) => Prepared::Settled(verdict),
            Ok(plan) if plan.cost.memory > self.turns.total() => Prepared::Settled(Box::new(self.too_large(&plan))),
            Ok(plan) => self.foreseen(plan),
        })
    }

    /// The plan of a case, unless it is to be skipped or refused.
    fn planned(&self, case: &Arc<Case>) -> Result<Result<Plan, Box<Verdict>>, Error> {
        let settled = |verdict| Ok(Err(Box::new(verdict)));
        let placed = self.placed(case);
        let case = &placed;
        if let Some(reason) = self.not_here(case) {
            return settled(judge::skipped(case, reason));
        }
        if !case.requires.nccl.is_empty()
            && let Some(reason) = requires::too_old(case, self.version(&self.key(case))?)
        {
            return settled(judge::skipped(case, reason));
        }
        let plan = match plan::plan(case, &self.options.reading.limits) {
            Ok(plan) => plan,
            Err(faults) => return settled(judge::judge_refusal(case, &faults)),
        };
        if let Some(reason) = self.machine().and_then(|machine| lacking(&plan, machine)) {
            return settled(judge::skipped(case, reason));
        }
        room_for(&plan)?;
        Ok(Ok(plan))
    }

    /// The forecast of a plan.
    fn foreseen(&self, plan: Plan) -> Prepared {
        let settled = |verdict| Prepared::Settled(Box::new(verdict));
        let case = &plan.case;
        let forecast = match Forecast::new(&plan, self.options.seed.unwrap_or(0)) {
            Ok(forecast) => forecast,
            Err(faults) => return settled(judge::judge_refusal(case, &faults)),
        };
        if let Some(verdict) = judge::missing_refusal(case) {
            return settled(verdict);
        }
        Prepared::Ready(Box::new(Ready { plan, forecast }))
    }

    /// Runs a prepared case once, whatever comes of it.
    pub fn run_once(&self, ready: &Ready, look: &Look<'_>) -> Result<(Verdict, Vec<Observation>), Error> {
        let tried = self.attempt(ready, look.wish, look.limit, AtTheEnd::new(ready, look), false)?;
        Ok((tried.verdict, tried.rest))
    }

    /// Runs a prepared case, and a second time in a fresh worker if a failure may be an earlier case's doing.
    pub fn run_twice(&self, ready: &Ready, look: &Look<'_>) -> Result<(Verdict, Vec<Observation>), Error> {
        self.twice(ready, look.wish, look.limit, || AtTheEnd::new(ready, look))
    }

    fn twice<J: Judging>(
        &self,
        ready: &Ready,
        wish: Wish,
        limit: Option<f64>,
        judge: impl Fn() -> J,
    ) -> Result<(Verdict, J::Rest), Error> {
        let first = self.attempt(ready, wish, limit, judge(), false)?;
        if first.verdict.status != Status::Fail || !first.doubtful {
            return Ok((first.verdict, first.rest));
        }
        let second = self.attempt(ready, wish, limit, judge(), true)?;
        if second.verdict.status == Status::Fail {
            return Ok((second.verdict, second.rest));
        }
        let mut verdict = first.verdict;
        let after = first.after.map_or_else(|| "an earlier case".into(), |name| format!("`{name}`"));
        let reason = verdict.reason.unwrap_or_else(|| "failed".into());
        verdict.reason = Some(format!("{reason} (only after {after}: in a fresh worker it passes)"));
        Ok((verdict, first.rest))
    }

    /// One attempt, and what becomes of the worker.
    fn attempt<J: Judging>(
        &self,
        ready: &Ready,
        wish: Wish,
        limit: Option<f64>,
        mut judge: J,
        fresh: bool,
    ) -> Result<Tried<J::Rest>, Error> {
        let Ready { plan, forecast } = ready;
        let case = &plan.case;
        let key = &self.key(case);
        // what goes wrong on purpose, or could have, is to be this case's doing, communicators included
        let clean = clean_case(plan) && wish == Wish::Sound;
        // until this case is over nobody else's runs on its devices; its clock has not started yet
        let devices = self.machine().map(|machine| machine.used(plan.ranks())).unwrap_or_default();
        let _locks = Locks::take(&lock::folder(), devices).map_err(Error::Lock)?;
        loop {
            let (mut job, map) = job(plan, forecast);
            job.fault = wish.to_string();
            let print = fingerprint(&job);
            let large = job.arena > LARGE;
            let mut pooled = if fresh { self.pool.fresh(key)? } else { self.pool.take(key, print)? };
            let version = pooled.worker.hello.version;
            self.version.get_or_init(|| version);
            if let Some(probed) = self.machine().map(|machine| machine.probed.version).filter(|old| *old != version) {
                return Err(Error::Changed { was: version_text(probed), is: version_text(version) });
            }
            let set = pooled.kept.iter().position(|set| set.print == print);
            let set = set.filter(|_| clean && !fresh && !pooled.distrusted);
            job.reuse = set.and_then(|at| pooled.kept.get(at)).map(|set| set.id);
            let before = pooled.cases;
            let limit = limit.or(case.timeout.as_ref().map(|t| t.value)).or(self.options.timeout);
            let limit = limit.unwrap_or_else(|| self.limit(case, &key.env));
            let (limit, opening) = (duration(limit), self.opening());
            let strict = plain_case(plan);
            let again = if plan.comm_steps { Again::Anew { strict } } else { Again::Same };
            let (repeat, initial) = (case.repeat, forecast.initial.as_slice());
            let task = Task { job, initial, map, repeat, again, opening, limit, seasoned: before > 0 };
            let (mut first, mut last) = (None, None);
            let mut see = |seen: Observation| {
                first.get_or_insert(seen.reused);
                last = Some((seen.ended.clone(), seen.log.clone()));
                judge.see(seen)
            };
            let unfinished = match execute(&mut pooled.worker, task, &mut see)? {
                Executed::Through => None,
                Executed::Unfinished(finished) => Some(finished),
                // The worker died before it began this case, so it is not the case's fault.
                Executed::DeadBefore if before > 0 => continue,
                Executed::DeadBefore => {
                    let why = format!("it died with {}", pooled.worker.end(0));
                    return Err(Error::NoWorker { program: self.pool.program().path().to_owned(), why });
                }
            };
            let (mut verdict, rest) = judge.close(unfinished.is_none() || !strict)?;
            if verdict.status == Status::Fail {
                verdict.notes.extend(last.as_ref().and_then(|(_, log)| quoted(log)));
            }
            let reused = first == Some(true);
            let opening = last.as_ref().is_some_and(|(ended, _)| match ended {
                Ended::Hung { opening, .. } | Ended::Crashed { opening, .. } => *opening,
                Ended::Done | Ended::Errored => false,
            });
            // what ran on a kept set has taken it over
            let used = set.filter(|_| reused).and_then(|at| pooled.kept.remove(at)).map(|set| set.user);
            let after = used.or_else(|| pooled.last.clone());
            match unfinished.as_ref().map(attribute_failure) {
                Some(Some((outcome, rank, text))) if strict => {
                    judge::fail_at_teardown(&mut verdict, outcome, rank, text)
                }
                Some(_) => {}
                None => {
                    let ended = last.map(|(ended, _)| ended);
                    self.after_case(pooled, plan, ended, &mut verdict, (print, clean, large));
                }
            }
            let doubtful = !fresh && (reused || (opening && before > 0));
            return Ok(Tried { verdict, rest, after, doubtful });
        }
    }

    /// The table of what happens to worker and communicators after a case.
    fn after_case(
        &self,
        mut pooled: Pooled,
        plan: &Plan,
        ended: Option<Ended>,
        verdict: &mut Verdict,
        job: (u64, bool, bool),
    ) {
        let (print, clean, large) = job;
        match ended {
            Some(Ended::Done) if !large => {}
            // no answer can be expected of the ranks; the library may be in any state
            Some(Ended::Errored) | Some(Ended::Done) => return pooled.worker.retire(),
            Some(Ended::Hung { .. } | Ended::Crashed { .. }) | None => return drop(pooled),
        }
        let keep = clean && verdict.status == Status::Pass && verdict.outcome == Some(Outcome::Ok);
        pooled.distrusted = verdict.status == Status::Fail;
        pooled.cases += 1;
        pooled.last = Some(plan.case.name.clone());
        let id = pooled.cases;
        let mut destroy = Vec::new();
        if keep {
            // Kept sets with an equal prelude that this case did not use are not needed any more.
            destroy.extend(pooled.kept.iter().filter(|set| set.print == print).map(|set| set.id));
            pooled.kept.retain(|set| set.print != print);
            pooled.kept.push_back(KeptSet { id, print, user: plan.case.name.clone() });
            while pooled.kept.len() > KEPT {
                destroy.extend(pooled.kept.pop_front().map(|set| set.id));
            }
        }
        if keep && destroy.is_empty() && self.chosen.backend == Backend::Soft {
            // nothing is destroyed, so there is nothing to wait for; a GPU's memory must be free before the next has its turn
            let finish = Finish { keep: Some(id), destroy, answer: false };
            if pooled.worker.send(&Request::Finish(finish)).is_ok() {
                self.pool.put(pooled);
            }
            return;
        }
        let others = !destroy.is_empty();
        let kept = keep.then_some(id);
        let finished = finish::finish(&mut pooled.worker, plan.ranks() as u32, kept, destroy, self.opening());
        match attribute_failure(&finished) {
            // an earlier case's, which has its verdict
            Some((_, _, text)) if keep && others => {
                verdict.notes.push(format!("communicators of an earlier case: {text}"))
            }
            Some((outcome, rank, text)) if plain_case(plan) => judge::fail_at_teardown(verdict, outcome, rank, text),
            // after a program with errors or undefined calls nothing can be asked of them
            Some(_) | None => {}
        }
        if let Finished::Well | Finished::Errors(_) = finished {
            self.pool.put(pooled);
        }
    }

    fn opening(&self) -> Duration {
        duration(self.options.opening_timeout.unwrap_or(OPENING))
    }

    fn key(&self, case: &Case) -> WorkerKey {
        let parts = if case.placement == Placement::Processes { case.total_ranks() } else { 1 };
        let env = (0..parts).map(|part| self.env(case, part)).collect();
        WorkerKey { backend: self.chosen.backend.clone(), env, placement: case.placement }
    }

    /// Variables of a part; with a process per rank they may differ by rank.
    fn env(&self, case: &Case, part: usize) -> Vec<(String, String)> {
        let value = |value: &EnvValue| match value {
            EnvValue::All(text) => Some(text.clone()),
            EnvValue::PerRank(texts) => texts.get(part).cloned(),
        };
        let own = case.env.iter().filter_map(|var| Some((var.name.value.clone(), value(&var.value)?)));
        let mut env = self.chosen.backend.env();
        if let Some(machine) = self.machine().filter(|machine| machine.ranks_per_gpu(case.total_ranks()) > 1) {
            env.extend(machine.sharing(part));
        }
        // the case's own variables stand last: they are what holds
        env.extend(own);
        env.extend(self.options.seed.map(|seed| ("COLLSPEC_SOFT_SEED".to_owned(), seed.to_string())));
        env.extend(self.options.eager.map(|bytes| ("COLLSPEC_SOFT_EAGER".to_owned(), bytes.to_string())));
        env.extend(self.options.connect.map(|when| ("COLLSPEC_SOFT_CONNECT".to_owned(), when.name().to_owned())));
        // by name, and of equal names the last
        env.sort_by(|a, b| a.0.cmp(&b.0));
        env.dedup_by(|later, earlier| later.0 == earlier.0 && (std::mem::swap(later, earlier), true).1);
        env
    }

    fn machine(&self) -> Option<&Machine> {
        self.chosen.machine.as_deref().filter(|_| self.chosen.backend != Backend::Soft)
    }

    /// The case as it is to run: where its file leaves the placement at the default, the option decides, if the case can
    /// be placed so.
    fn placed(&self, case: &Arc<Case>) -> Arc<Case> {
        let shares = self.machine().is_some_and(|machine| machine.ranks_per_gpu(case.total_ranks()) > 1);
        let placement = if shares { Some(Placement::Processes) } else { self.options.placement };
        let Some(placement) = placement.filter(|_| case.placement == Placement::default()) else {
            return case.clone();
        };
        let mut timeout = case.timeout.clone();
        if let Some(timeout) = timeout.as_mut().filter(|_| placement == Placement::Processes && self.clock_hangs(case))
        {
            // written for a placement in which the hang is proved at once
            timeout.value = timeout.value.min(SOFT_HANG);
        }
        let placed = Arc::new(Case { placement, timeout, ..(**case).clone() });
        let fits = match placement {
            Placement::Threads => true,
            Placement::Processes => case.total_ranks() <= requires::MOST_PARTS,
            // some programs need a thread per rank; a fault that both have is told of the file's own
            Placement::OneThread => plan::plan(&placed, &self.options.reading.limits).is_ok(),
        };
        if fits { placed } else { case.clone() }
    }

    /// Seconds, where neither file nor option says.
    fn limit(&self, case: &Case, parts: &[Vec<(String, String)>]) -> f64 {
        let shares = self.machine().is_some_and(|machine| machine.ranks_per_gpu(case.total_ranks()) > 1);
        if shares {
            return LIMIT * SHARED_GPU;
        }
        if parts.len() > 1 && self.clock_hangs(case) { SOFT_HANG } else { LIMIT }
    }

    /// True if the case may hang and that takes no long wait to see. The software proves it at once, but not across
    /// processes: there it is the clock's to say.
    fn clock_hangs(&self, case: &Case) -> bool {
        self.chosen.backend == Backend::Soft
            && case.outcome.as_ref().is_some_and(|o| o.value.contains(&ExpectedOutcome::Hang))
    }

    /// NCCL's version code, as a worker says.
    fn version(&self, key: &WorkerKey) -> Result<i32, Error> {
        if let Some(version) = self.version.get() {
            return Ok(*version);
        }
        let pooled = self.pool.take(key, 0)?;
        let version = pooled.worker.hello.version;
        self.pool.put(pooled);
        Ok(*self.version.get_or_init(|| version))
    }

    /// Process ids of workers that wait for a case.
    #[cfg(any(test, feature = "internals"))]
    pub fn idle_workers(&self) -> Vec<u32> {
        self.pool.pids()
    }
}

/// Initial and final images, the forecast's memory, the judge's, and what was observed.
const COPIES: u64 = 5;

/// Makes sure that this process can have the memory that a case takes here: a failed allocation in the middle would end the
/// process, and the verdicts of all other cases with it.
fn room_for(plan: &Plan) -> Result<(), Error> {
    let image = |alloc: &plan::Alloc| alloc.start().saturating_add(alloc.payload).saturating_add(plan::GUARD);
    let bytes = plan.allocs.iter().map(image).fold(0u64, u64::saturating_add).saturating_mul(COPIES);
    let none = Error::Memory { bytes };
    let Ok(len) = usize::try_from(bytes) else { return Err(none) };
    // The memory is never touched, so only address space is taken.
    Vec::<u8>::new().try_reserve_exact(len).map_err(|_| none)
}

/// The end of what the worker and NCCL wrote, as a remark.
fn quoted(log: &str) -> Option<String> {
    let log = log.trim_end();
    let last = crate::run::process::tail(log, QUOTED_BYTES);
    let lines: Vec<&str> = last.lines().collect();
    let skip = lines.len().saturating_sub(QUOTED_LINES);
    let cut = if last.len() < log.len() || skip > 0 { "[...]\n" } else { "" };
    let text = lines.get(skip..).unwrap_or_default().join("\n");
    (!text.is_empty()).then(|| format!("the worker wrote:\n{cut}{text}"))
}

/// True if communicators may be shared with other cases: none is made or ended on the way, nothing negative is expected.
fn clean_case(plan: &Plan) -> bool {
    !plan.comm_steps && plain_case(plan)
}

/// True if nothing negative is expected.
fn plain_case(plan: &Plan) -> bool {
    let expects_ok = plan.case.outcome.as_ref().is_none_or(|o| o.value.iter().all(|e| *e == ExpectedOutcome::Ok));
    let no_errors = plan.steps.iter().all(|step| step.error.is_empty());
    expects_ok && no_errors && plan.undefined.is_none()
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST)
}

/// Equal for jobs that may share communicators (and hardly ever for others; the worker compares the things themselves).
fn fingerprint(job: &Job) -> u64 {
    let mut hasher = DefaultHasher::new();
    let parts = postcard::to_stdvec(&(&job.prelude, &job.comms, &job.configs, job.one_thread));
    parts.unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

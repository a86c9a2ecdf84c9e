//! A case from its plan to its verdict: worker, time limits, and what becomes of the worker afterwards.
use super::execute::{Task, execute};
use super::pool::{Pool, Pooled, WorkerKey};
use super::{Ended, Error, Observation, Options, Workers, job, requires};
use crate::judge::{self, Outcome, Status, Verdict};
use crate::oracle::Forecast;
use crate::plan::{self, Plan};
use crate::scenario::{Case, EnvValue, Expected};
use crate::worker::job::{Job, Request};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Per case, from *loaded* on.
const LIMIT: f64 = 30.0;
/// For making communicators and loading; not the case's fault, so more generous.
const OPENING: Duration = Duration::from_secs(60);
/// A worker whose arena has grown beyond this is not kept: shared memory is never given back while it lives.
const LARGE: u64 = 64 << 20;
/// No case is longer than a year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// Sets of communicators that a worker keeps.
const KEPT: usize = 2;

/// Runs cases; may be used from several threads at once.
pub struct Runner {
    options: Options,
    limits: plan::Limits,
    pool: Pool,
    version: OnceLock<i32>,
}

/// What became of a case on one worker.
struct Tried {
    verdict: Verdict,
    /// The case whose communicators or worker it came after.
    after: Option<String>,
    /// True if a failure may be an earlier case's doing.
    doubtful: bool,
}

impl Runner {
    /// A runner that has started nothing yet.
    pub fn new(options: Options) -> Result<Self, Error> {
        if crate::worker::is_worker() {
            return Err(Error::InsideWorker);
        }
        let program: PathBuf = match &options.worker {
            Workers::CurrentExe if !crate::worker::can_be_worker() => return Err(Error::NotAsked),
            Workers::CurrentExe => std::env::current_exe().map_err(Error::CurrentExe)?,
            Workers::Command(path) => path.clone(),
        };
        let most = options.jobs.clamp(2, 8);
        Ok(Self { options, limits: plan::Limits::default(), pool: Pool::new(program, most), version: OnceLock::new() })
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

    fn try_case(&self, case: &Arc<Case>) -> Result<Verdict, Error> {
        if let Some(reason) = requires::missing(case, self.options.backend) {
            return Ok(judge::skipped(case, reason));
        }
        let key = self.key(case);
        if !case.requires.nccl.is_empty()
            && let Some(reason) = requires::too_old(case, self.version(&key)?)
        {
            return Ok(judge::skipped(case, reason));
        }
        let plan = match plan::plan(case, &self.limits) {
            Ok(plan) => plan,
            Err(faults) => return Ok(judge::refused(case, &faults)),
        };
        let forecast = match Forecast::new(&plan, self.options.seed.unwrap_or(0)) {
            Ok(forecast) => forecast,
            Err(faults) => return Ok(judge::refused(case, &faults)),
        };
        if let Some(verdict) = judge::not_refused(case) {
            return Ok(verdict);
        }
        let first = self.attempt(&plan, &forecast, &key, false)?;
        if first.verdict.status != Status::Fail || !first.doubtful {
            return Ok(first.verdict);
        }
        let second = self.attempt(&plan, &forecast, &key, true)?;
        if second.verdict.status == Status::Fail {
            return Ok(second.verdict);
        }
        let mut verdict = first.verdict;
        let after = first.after.map_or_else(|| "an earlier case".into(), |name| format!("`{name}`"));
        let reason = verdict.reason.unwrap_or_else(|| "failed".into());
        verdict.reason = Some(format!("{reason} (only after {after}: in a fresh worker it passes)"));
        Ok(verdict)
    }

    /// One attempt, and what becomes of the worker.
    fn attempt(&self, plan: &Plan, forecast: &Forecast, key: &WorkerKey, fresh: bool) -> Result<Tried, Error> {
        let case = &plan.case;
        let clean = clean_case(plan);
        loop {
            let (mut job, map) = job(plan, forecast, clean && !fresh);
            let print = fingerprint(&job);
            let large = job.arena > LARGE;
            let mut pooled = if fresh { self.pool.fresh(key)? } else { self.pool.take(key, print)? };
            self.version.get_or_init(|| pooled.worker.hello.version);
            job.reuse &= !pooled.distrusted;
            let before = pooled.cases;
            let limit = case.timeout.as_ref().map(|t| t.v).or(self.options.timeout).unwrap_or(LIMIT);
            let limit = Duration::try_from_secs_f64(limit).unwrap_or(LONGEST).min(LONGEST);
            let (repeat, initial) = (case.repeat, forecast.initial.as_slice());
            let task = Task { job, initial, map, repeat, opening: OPENING, limit, seasoned: before > 0 };
            let Ok(seen) = execute(&mut pooled.worker, task)? else {
                if before == 0 {
                    let why = format!("it died with {}", pooled.worker.end());
                    return Err(Error::NoWorker { program: self.pool.program().to_owned(), why });
                }
                continue; // dead before it had the case: nobody's fault but its own
            };
            let verdict = judge::judge(plan, forecast, &seen);
            let last = seen.last();
            let reused = seen.first().is_some_and(|s| s.reused);
            let opening = last.is_some_and(|s| match &s.ended {
                Ended::Hung { opening, .. } | Ended::Crashed { opening, .. } => *opening,
                Ended::Done | Ended::Errored => false,
            });
            let at = pooled.kept.iter().position(|(p, _)| *p == print);
            let user = at.filter(|_| reused).and_then(|at| pooled.kept.get(at)).map(|(_, name)| name.clone());
            let after = user.or_else(|| pooled.last.clone());
            self.after_case(pooled, plan, last, &verdict, (print, clean, large));
            return Ok(Tried { verdict, after, doubtful: !fresh && (reused || (opening && before > 0)) });
        }
    }

    /// The table of what happens to worker and communicators after a case.
    fn after_case(
        &self,
        mut pooled: Pooled,
        plan: &Plan,
        last: Option<&Observation>,
        verdict: &Verdict,
        job: (u64, bool, bool),
    ) {
        let (print, clean, large) = job;
        match last.map(|s| &s.ended) {
            Some(Ended::Done) if !large => {}
            // no answer can be expected of the ranks; the library may be in any state
            Some(Ended::Errored) | Some(Ended::Done) => return pooled.worker.dismiss(),
            Some(Ended::Hung { .. } | Ended::Crashed { .. }) | None => return drop(pooled),
        }
        let keep = clean && verdict.status == Status::Pass && verdict.outcome == Some(Outcome::Ok);
        pooled.distrusted = verdict.status == Status::Fail;
        pooled.kept.retain(|(p, _)| *p != print);
        if keep {
            pooled.kept.push_back((print, plan.case.name.clone()));
            if pooled.kept.len() > KEPT {
                pooled.kept.pop_front();
            }
        }
        pooled.cases += 1;
        pooled.last = Some(plan.case.name.clone());
        if pooled.worker.send(&Request::Finish { keep }).is_ok() {
            self.pool.put(pooled);
        }
    }

    fn key(&self, case: &Case) -> WorkerKey {
        let mut env: Vec<(String, String)> = case
            .env
            .iter()
            .filter_map(|var| match &var.value {
                EnvValue::All(text) => Some((var.name.v.clone(), text.clone())),
                EnvValue::PerRank(_) => None,
            })
            .collect();
        env.extend(self.options.seed.map(|seed| ("COLLSPEC_SOFT_SEED".to_owned(), seed.to_string())));
        env.extend(self.options.eager.map(|bytes| ("COLLSPEC_SOFT_EAGER".to_owned(), bytes.to_string())));
        env.sort();
        WorkerKey { backend: self.options.backend, env, placement: case.placement }
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
    pub fn idle_workers(&self) -> Vec<u32> {
        self.pool.pids()
    }
}

/// True if communicators may be shared with other cases: none is made or ended on the way, nothing negative is expected.
fn clean_case(plan: &Plan) -> bool {
    let case = &plan.case;
    let expects_ok = case.outcome.as_ref().is_none_or(|o| o.v.iter().all(|e| *e == Expected::Ok));
    let no_errors = plan.steps.iter().all(|step| step.error.is_empty());
    !plan.comm_steps && expects_ok && no_errors && plan.undefined.is_none()
}

/// Equal for jobs that may share communicators (and hardly ever for others; the worker compares the things themselves).
fn fingerprint(job: &Job) -> u64 {
    let mut hasher = DefaultHasher::new();
    let parts = postcard::to_stdvec(&(&job.prelude, &job.comms, &job.configs, job.one_thread));
    parts.unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

//! One run of a case on a worker, and the fate of the worker and its communicators afterwards.
use super::Runner;
use super::observer::Observer;
use super::runner::Ready;
use super::teardown_failure::attribute_failure;
use super::time_limits::{RunLimits, duration};
use collspec_core::job::Disturbance;
use collspec_core::judge::{self, Outcome, Status, Verdict};
use collspec_core::plan::Plan;
use collspec_core::scenario::ExpectedOutcome;
use collspec_run::backend::version_text;
use collspec_run::job::{Ended, Finish, Job, Observation, Request, Variation};
use collspec_run::run::execute::{Again, Executed, Task, execute};
use collspec_run::run::images::ForecastImages;
use collspec_run::run::lock::{self, Locks};
use collspec_run::run::pool::{KeptSet, Pooled, WorkerKey};
use collspec_run::run::teardown::{self, TeardownResult};
use collspec_run::run::{Backend, Error, job};
use rustix::process::{Resource, getrlimit};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Number of lines of the output of the worker and NCCL that a failure quotes.
const QUOTED_LINES: usize = 20;
/// Limit on the bytes of the quoted lines.
const QUOTED_BYTES: usize = 2048;
/// Arenas larger than this are kept only on the software library, as far as the limits of the pool allow.
const LARGE_ARENA: u64 = 64 << 20;
/// The largest arena, in bytes, that a worker may already have when it is given a case that needs `needed` bytes. The memory that is
/// reserved for a case covers three times what it needs, so an arena of twice its need is within that.
pub(super) fn arena_for(needed: u64) -> u64 {
    LARGE_ARENA.max(needed.saturating_mul(2))
}

/// Number of communicator sets that a worker keeps where they take a GPU's memory, or cost little to make again.
const KEPT_SETS: usize = 2;
/// Ranks of all communicators that a worker keeps on software GPUs, where making them takes most of a case's time: enough for one of each
/// world size up to 8 and one of 16, between which the cases of many files alternate.
const KEPT_RANKS: usize = 64;
/// A rank of a communicator has some 32 open files. What a worker keeps takes at most a quarter of those that it may have.
const FILES_OF_RANK: u64 = 128;

/// The result of a case on one worker.
pub(super) struct Attempt<R> {
    /// The verdict on this run.
    pub(super) verdict: Verdict,
    /// What the observer returns in addition to the verdict.
    pub(super) rest: R,
    /// The earlier case whose communicators or worker this one reused.
    pub(super) after: Option<String>,
    /// True if an earlier case may have caused a failure.
    pub(super) doubtful: bool,
}

impl Runner {
    /// Runs a prepared case once, in a fresh worker or in one of the pool, and decides the fate of the worker.
    pub(super) fn attempt<O: Observer>(
        &self,
        ready: &Ready,
        variation: &Variation,
        limits: RunLimits,
        mut observer: O,
        fresh: bool,
    ) -> Result<Attempt<O::Rest>, Error> {
        let Ready { plan, forecast } = ready;
        let case = &plan.case;
        let wrong = !variation.fault.is_empty();
        let mut key = self.worker_key(case, wrong);
        let core = self.core_for(plan);
        let own_core = core.as_ref().map(|claim| claim.core);
        key.core = own_core;
        // a case that may damage its communicators gets new ones and does not leave them to other cases
        let clean = clean_case(plan) && !wrong && !variation.concerns_machine();
        loop {
            // Checked after the processes were chosen: those that are left now are a subset of those that the choice was made from.
            if let Some(verdict) = self.lacks_since(case) {
                let (_, rest) = observer.close(false)?;
                return Ok(Attempt { verdict, rest, after: None, doubtful: false });
            }
            // no other process runs a case on these devices until this case is over; its time limit does not count this wait
            let devices = self.rank_devices_at(case, &key.sites).map(|devices| devices.all()).unwrap_or_default();
            let _locks = Locks::take(&lock::folder(), devices).map_err(Error::Lock)?;
            let (mut job, map) = job(plan, forecast, self.chosen.backend.memory_place());
            job.variation = variation.clone();
            let print = fingerprint(&job);
            let kept = if self.chosen.backend == Backend::Soft { self.pool.largest_arena() } else { 0 };
            let large = job.arena > LARGE_ARENA.max(kept);
            let pooled = if fresh { self.pool.fresh(&key) } else { self.pool.take(&key, print, arena_for(job.arena)) };
            let mut pooled = match pooled {
                // Nothing has begun, so the case moves to other processes of the job.
                Err(Error::Lost(_)) => {
                    key = WorkerKey { core: own_core, ..self.worker_key(case, wrong) };
                    continue;
                }
                pooled => pooled?,
            };
            let version = pooled.worker.hello.version;
            self.version.get_or_init(|| version);
            if let Some(probed) = self.machine().map(|machine| machine.probed.version).filter(|old| *old != version) {
                return Err(Error::Changed { was: version_text(probed), is: version_text(version) });
            }
            let set = pooled.kept.iter().position(|set| set.print == print);
            let set = set.filter(|_| clean && !fresh && !pooled.distrusted);
            job.reuse = set.and_then(|at| pooled.kept.get(at)).map(|set| set.id);
            let before = pooled.cases;
            let limit = limits.case.map_or_else(|| self.case_limit(case, key.env.len()), duration);
            let (limit, opening) = (limits.cut(limit), limits.cut(self.opening_limit()));
            let strict = plain_case(plan);
            let again = if plan.comm_steps { Again::Anew { strict } } else { Again::Same };
            let (repeat, images) = (case.repeat, &ForecastImages { forecast, in_place: observer.judges_at_once() });
            let task = Task { job, images, map, repeat, again, opening, limit, used_before: before > 0 };
            let (mut first, mut last) = (None, None);
            let mut see = |seen: Observation| {
                first.get_or_insert(seen.reused);
                last = Some((seen.ended.clone(), seen.log.clone()));
                observer.observe(seen)
            };
            let unfinished = match execute(&mut pooled.worker, task, &mut see)? {
                Executed::Complete => None,
                Executed::TeardownFailed(finished) => Some(finished),
                // The worker died before it began this case, so the case is not the cause.
                Executed::DeadBefore if before > 0 => continue,
                Executed::DeadBefore => {
                    let why = format!("it died with {}", pooled.worker.end(0));
                    return Err(Error::NoWorker { program: self.pool.program().path().to_owned(), why });
                }
            };
            let (mut verdict, rest) = observer.close(unfinished.is_none() || !strict)?;
            if verdict.status == Status::Fail {
                verdict.notes.extend(last.as_ref().and_then(|(_, log)| quoted(log)));
            }
            let reused = first == Some(true);
            let opening = last.as_ref().is_some_and(|(ended, _)| match ended {
                Ended::Hung { opening, .. } | Ended::Crashed { opening, .. } => *opening,
                Ended::Done | Ended::Errored => false,
            });
            // the run has taken over the kept set that it used
            let used = set.filter(|_| reused).and_then(|at| pooled.kept.remove(at)).map(|set| set.user);
            let after = used.or_else(|| pooled.last.clone());
            match unfinished.as_ref().map(attribute_failure) {
                Some(Some((outcome, rank, text))) if strict => {
                    judge::fail_at_teardown(&mut verdict, outcome, rank, text)
                }
                Some(_) => {}
                None => {
                    let ended = last.map(|(ended, _)| ended);
                    let struck = matches!(variation.disturbance, Some(Disturbance::Fault(_)));
                    self.after_case(pooled, plan, ended, &mut verdict, (print, clean, large, struck));
                }
            }
            // If a process was lost, that is the cause, not the cases that ran earlier.
            let after_others = before > 0 && (opening || self.machine().is_some());
            let doubtful = !fresh && (reused || after_others) && !self.has_lost(&key);
            return Ok(Attempt { verdict, rest, after, doubtful });
        }
    }

    /// Decides the fate of the worker and its communicators after a case.
    fn after_case(
        &self,
        mut pooled: Pooled,
        plan: &Plan,
        ended: Option<Ended>,
        verdict: &mut Verdict,
        job: (u64, bool, bool, bool),
    ) {
        let (print, clean, large, struck) = job;
        match ended {
            Some(Ended::Done) if !large || pooled.worker.living() < pooled.worker.parts() => {}
            // the ranks cannot be expected to answer; the library may be in any state
            Some(Ended::Errored) | Some(Ended::Done) => return pooled.worker.retire(),
            Some(Ended::Hung { .. } | Ended::Crashed { .. }) | None => return drop(pooled),
        }
        // A real library may be damaged even by a call that fails as expected: NCCL's refused ncclCommDestroy leaves its thread in a group.
        // And what a fault has struck: a port that went down stays down.
        if self.machine().is_some() && (!plain_case(plan) || struck) {
            return pooled.worker.retire();
        }
        let keep = clean && verdict.status == Status::Pass && verdict.outcome == Some(Outcome::Ok);
        pooled.distrusted = verdict.status == Status::Fail;
        pooled.cases += 1;
        pooled.last = Some(plan.case.name.clone());
        let id = pooled.cases;
        let mut destroy = Vec::new();
        if keep {
            // Kept sets with an equal prelude that this case did not use are no longer needed.
            destroy.extend(pooled.kept.iter().filter(|set| set.print == print).map(|set| set.id));
            pooled.kept.retain(|set| set.print != print);
            pooled.kept.push_back(KeptSet { id, print, ranks: ranks_of_comms(plan), user: plan.case.name.clone() });
            while keeps_too_much(&pooled.kept, if self.chosen.counts_work() { most_kept_ranks() } else { 0 }) {
                destroy.extend(pooled.kept.pop_front().map(|set| set.id));
            }
        }
        if keep && destroy.is_empty() && self.chosen.backend == Backend::Soft {
            // nothing is destroyed, so there is nothing to wait for, and the next job includes the request; a GPU's memory must be free
            // before the next case runs
            let finish = Finish { keep: Some(id), destroy, answer: false };
            if pooled.worker.send_later(&Request::Finish(finish)).is_ok() {
                self.pool.put(pooled);
            }
            return;
        }
        let others = !destroy.is_empty();
        let kept = keep.then_some(id);
        let finished =
            teardown::tear_down(&mut pooled.worker, plan.ranks() as u32, kept, destroy, self.opening_limit());
        match attribute_failure(&finished) {
            // these are the communicators of an earlier case, which has its verdict already
            Some((_, _, text)) if keep && others => {
                verdict.notes.push(format!("communicators of an earlier case: {text}"))
            }
            Some((outcome, rank, text)) if plain_case(plan) => judge::fail_at_teardown(verdict, outcome, rank, text),
            // after a program with errors or undefined calls, destroying communicators may fail too
            Some(_) | None => {}
        }
        if let TeardownResult::Done | TeardownResult::Errors(_) = finished {
            // A worker that has lost a process cannot serve another case.
            if pooled.worker.living() == pooled.worker.parts() { self.pool.put(pooled) } else { pooled.worker.retire() }
        }
    }
}

/// The beginning of the line that NCCL always writes when it starts.
const BANNER: &str = "NCCL version ";
/// Warnings of NCCL on every machine without InfiniBand or GDRCopy. They explain no failure.
const USUAL: [&str; 2] =
    ["NCCL WARN lib wrapper not initialized", "NCCL WARN RMA/Socket : rma_socket requires GDRCopy"];

/// The end of the output of the worker and NCCL, as a remark.
pub(super) fn quoted(log: &str) -> Option<String> {
    let is_usual = |line: &&str| line.starts_with(BANNER) || USUAL.iter().any(|usual| line.contains(usual));
    let told: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty() && !is_usual(line)).collect();
    let log = &told.join("\n");
    let last = collspec_run::run::worker::tail(log, QUOTED_BYTES);
    let lines: Vec<&str> = last.lines().collect();
    let skip = lines.len().saturating_sub(QUOTED_LINES);
    let cut = if last.len() < log.len() || skip > 0 { "[...]\n" } else { "" };
    let text = lines.get(skip..).unwrap_or_default().join("\n");
    (!text.is_empty()).then(|| format!("the worker wrote:\n{cut}{text}"))
}

/// True if a worker keeps more than the usual number of sets, and they have more ranks than this.
fn keeps_too_much(kept: &VecDeque<KeptSet>, most_ranks: usize) -> bool {
    kept.len() > KEPT_SETS && kept.iter().map(|set| set.ranks).fold(0, usize::saturating_add) > most_ranks
}

fn most_kept_ranks() -> usize {
    // Workers on software GPUs raise their limit to this.
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    KEPT_RANKS.min(usize::try_from(files / FILES_OF_RANK).unwrap_or(usize::MAX))
}

fn ranks_of_comms(plan: &Plan) -> usize {
    plan.comms.iter().map(|comm| comm.members.len()).sum()
}

/// True if communicators may be shared with other cases: the program neither creates nor destroys any, and no failure is expected.
fn clean_case(plan: &Plan) -> bool {
    !plan.comm_steps && plain_case(plan)
}

/// True if no error, hang, crash or undefined behaviour is expected.
pub(super) fn plain_case(plan: &Plan) -> bool {
    let expects_ok = plan.case.outcome.as_ref().is_none_or(|o| o.value.iter().all(|e| *e == ExpectedOutcome::Ok));
    let no_errors = plan.steps.iter().all(|step| step.error.is_empty());
    expects_ok && no_errors && plan.undefined.is_none()
}

/// Hash of everything that decides a job's communicators; the worker verifies a match.
fn fingerprint(job: &Job) -> u64 {
    let mut hasher = DefaultHasher::new();
    let parts = postcard::to_stdvec(&(&job.prelude, &job.comms, &job.configs, job.one_thread));
    parts.unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_two_sets_are_kept_while_they_are_small() {
        let of = |ranks: &[usize]| -> VecDeque<KeptSet> {
            ranks.iter().map(|ranks| KeptSet { id: 0, print: 0, ranks: *ranks, user: String::new() }).collect()
        };
        assert!(!keeps_too_much(&of(&[1, 2, 3, 4, 5, 6, 7, 8, 16]), 64));
        assert!(keeps_too_much(&of(&[1, 2, 3, 4, 5, 6, 7, 8, 16, 16]), 64));
        assert!(keeps_too_much(&of(&[1, 1, 1]), 0) && !keeps_too_much(&of(&[100, 100]), 0));
        assert!(most_kept_ranks() <= KEPT_RANKS);
    }
}

//! Small cases that a worker runs in a row (see `run::series`): which may, and what becomes of each.
use super::attempt::{Attempt, clean_case, fingerprint, passes_well, quoted};
use super::observer::Observer;
use super::runner::{Ready, Runner, timed};
use super::time_limits::RunLimits;
use crate::job::{CallKind, Ended, Observation};
use crate::judge::{Status, Verdict};
use crate::plan::Plan;
use crate::run::images::ForecastImages;
use crate::run::series::{Member, SeriesEnd, execute_series, first_byte};
use crate::run::{Backend, Error, job_from};
use crate::scenario::Placement;
use soft_nccl::fault::FaultMode;
use std::time::{Duration, Instant};

/// Cases of a series. More would make little difference, and their memory would leave the caches.
pub(super) const LONGEST: usize = 16;
/// Bytes of the images of all cases of a series: a worker loads so much at once.
const LARGEST: u64 = 1 << 20;
/// Calls of a case that is over soon: while a series runs, no other thread can take the cases that follow in it.
const MOST_CALLS: usize = 256;

/// A case that may run in a series, and how long it took to prepare.
pub(super) struct Candidate {
    pub ready: Box<Ready>,
    pub took: Duration,
}

impl Runner {
    /// True if the case may run in a series: what it leaves behind cannot harm the next one if it passes.
    pub(super) fn may_be_in_series(&self, ready: &Ready) -> bool {
        let (plan, case) = (&ready.plan, &ready.plan.case);
        self.chosen.backend == Backend::Soft
            && self.chosen.cluster.is_none()
            && self.options.fault == FaultMode::Sound
            && case.placement == Placement::Threads
            && case.env.is_empty()
            && case.repeat <= 1
            && plan.history.is_none()
            && !plan.allocs.iter().any(|alloc| alloc.window)
            && clean_case(plan)
            && is_over_soon(plan)
            && room(ready) <= LARGEST
    }

    /// How many of these cases can run in a series behind the first one: they need equal communicators.
    pub(super) fn follow<'a>(&self, first: &Ready, others: impl Iterator<Item = Option<&'a Ready>>) -> usize {
        let mut left = LARGEST.saturating_sub(room(first));
        let follows = |other: Option<&Ready>| {
            let Some(other) = other.filter(|other| self.may_be_in_series(other)) else { return false };
            left = match left.checked_sub(room(other)) {
                Some(left) => left,
                None => return false,
            };
            let members = |ready: &Ready| ready.plan.comms.iter().map(|comm| comm.members.clone()).collect::<Vec<_>>();
            first.plan.prelude == other.plan.prelude
                && first.plan.configs == other.plan.configs
                && members(first) == members(other)
        };
        others.take(LONGEST - 1).map(follows).take_while(|follows| *follows).count()
    }

    /// Runs cases that follow the first one in a series, and tells their verdicts. Those without one are to be run by themselves.
    pub(super) fn run_series(&self, candidates: &[Candidate], tell: &mut dyn FnMut(usize, Box<Verdict>)) {
        let memory = candidates.iter().map(|candidate| candidate.ready.plan.cost.memory).fold(0, u64::saturating_add);
        if let Some(_turn) = self.turn(memory) {
            // Without a worker each case says that for itself.
            let _ = self.try_series(candidates, tell);
        }
    }

    fn try_series(&self, candidates: &[Candidate], tell: &mut dyn FnMut(usize, Box<Verdict>)) -> Result<(), Error> {
        let Some(first) = candidates.first().map(|first| &first.ready.plan) else { return Ok(()) };
        let begun = Instant::now();
        let mut from = first_byte(first.ranks() as u64);
        let mut jobs = Vec::with_capacity(candidates.len());
        for Candidate { ready, .. } in candidates {
            let (mut job, map) = job_from(&ready.plan, &ready.forecast, self.chosen.backend.memory_place(), from);
            job.fault = FaultMode::Sound.to_string();
            from = job.arena;
            jobs.push((job, map));
        }
        let Some((job, _)) = jobs.first_mut() else { return Ok(()) };
        let print = fingerprint(job);
        let key = self.worker_key(&first.case);
        let mut pooled = self.pool.take(&key, print)?;
        let version = pooled.worker.hello.version;
        self.version.get_or_init(|| version);
        let set = pooled.kept.iter().position(|set| set.print == print).filter(|_| !pooled.distrusted);
        job.reuse = set.and_then(|at| pooled.kept.get(at)).map(|set| set.id);
        let ran_before = pooled.cases > 0;
        let images: Vec<_> = candidates.iter().map(|candidate| forecast_images(&candidate.ready)).collect();
        let members = jobs.into_iter().zip(&images).zip(candidates).map(|(((job, map), images), candidate)| {
            let limit = self.case_limit(&candidate.ready.plan.case, key.env.len());
            Member { job, images, map, limit }
        });
        let members: Vec<_> = members.collect();
        let prepared = begun.elapsed() / candidates.len() as u32;
        let mut judged = Vec::with_capacity(candidates.len());
        let mut before = pooled.last.clone();
        let mut last_ended = None;
        let mut taken_over = None;
        let mut see = |number: usize, seen: Observation| {
            let begun = Instant::now();
            let Some(Candidate { ready, took }) = candidates.get(number) else { return false };
            let (ended, log, reused, seconds) = (seen.ended.clone(), seen.log.clone(), seen.reused, seen.seconds);
            if number == 0 && reused {
                // what ran on a kept set has taken it over
                taken_over = set;
            }
            let mut judge = self.judge(ready);
            judge.observe(seen);
            let Ok((mut verdict, rest)) = judge.close(true) else { return false };
            if verdict.status == Status::Fail {
                verdict.notes.extend(quoted(&log));
            }
            let opening = match &ended {
                Ended::Hung { opening, .. } | Ended::Crashed { opening, .. } => *opening,
                Ended::Done | Ended::Errored => false,
            };
            let doubtful = reused || (opening && (ran_before || number > 0));
            let wall = *took + prepared + Duration::try_from_secs_f64(seconds).unwrap_or_default() + begun.elapsed();
            verdict.wall_seconds = wall.as_secs_f64();
            let after = before.replace(ready.plan.case.name.clone());
            let goes_on = passes_well(&verdict);
            last_ended = Some(ended);
            judged.push((number, Attempt { verdict, rest, after, doubtful }));
            goes_on
        };
        let end = execute_series(&mut pooled.worker, members, self.opening_limit(), &mut see)?;
        let whole = judged.len() == candidates.len();
        let mut last = judged.pop();
        for (number, attempt) in judged {
            tell(number, Box::new(attempt.verdict));
        }
        if let (true, Some((_, attempt)), Some(Candidate { ready, .. })) = (whole, &mut last, candidates.last())
            && passes_well(&attempt.verdict)
        {
            if let Some(at) = taken_over {
                pooled.kept.remove(at);
            }
            pooled.cases += candidates.len() as u64 - 1;
            self.after_case(pooled, &ready.plan, last_ended, &mut attempt.verdict, (print, true, false));
        }
        // Otherwise the worker ends here: what has run on it behind a failure is not judged.
        if let Some((number, first)) = last
            && let Some(Candidate { ready, .. }) = candidates.get(number)
        {
            let earlier = Duration::try_from_secs_f64(first.verdict.wall_seconds).unwrap_or_default();
            let confirmed = || {
                let (fault, limits) = (FaultMode::Sound, RunLimits::default());
                Ok(self.confirm(ready, fault, limits, || self.judge(ready), first)?.0)
            };
            let verdict = timed(&ready.plan.case, earlier, confirmed);
            tell(number, Box::new(verdict));
        }
        if let SeriesEnd::Trouble(number, error) = end
            && let Some(Candidate { ready, took }) = candidates.get(number)
        {
            tell(number, Box::new(timed(&ready.plan.case, *took, || Err(error))));
        }
        Ok(())
    }
}

/// True if the program is short and does not sleep.
fn is_over_soon(plan: &Plan) -> bool {
    let calls = || plan.programs.iter().flatten();
    calls().count() <= MOST_CALLS && !calls().any(|call| matches!(call.kind, CallKind::Sleep { .. }))
}

fn forecast_images(ready: &Ready) -> ForecastImages<'_> {
    ForecastImages { forecast: &ready.forecast, in_place: true }
}

/// Bytes of the arena that the case takes, at most.
fn room(ready: &Ready) -> u64 {
    const PAGE: u64 = 4096;
    let image = |bytes: u64| bytes.saturating_add(PAGE);
    let images = ready.plan.allocs.iter().map(|alloc| image(alloc.image()));
    let checkpoints = ready.forecast.checkpoints.iter().map(|checkpoint| {
        let region = &checkpoint.write.region;
        let size = ready.plan.buffers.get(region.buf).map_or(16, |buffer| buffer.dtype.size() as u64);
        region.len.saturating_mul(size).saturating_add(64)
    });
    images.chain(checkpoints).fold(PAGE, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Case, SourceFile, parse};
    use crate::suite::{Prepared, RunOptions};
    use std::sync::Arc;

    fn runner() -> Runner {
        let workers = crate::child::Workers::Command("/bin/true".into());
        Runner::soft(RunOptions { workers, ..RunOptions::default() }).unwrap()
    }

    fn ready(text: &str) -> Vec<Ready> {
        let file = Arc::new(SourceFile { path: "small.toml".into(), text: text.into() });
        let cases = parse(&file, "small").unwrap_or_else(|faults| panic!("{faults}"));
        let prepared = |case: Case| match runner().prepare(&Arc::new(case)).unwrap() {
            Prepared::Ready(ready) => *ready,
            Prepared::Settled(verdict) => panic!("{verdict:?}"),
        };
        cases.into_iter().map(prepared).collect()
    }

    const SMALL: &str = "world_size = 2\ninputs.x = { each = \"rank + k\", count = 3 }\nmatrix.k = [1, 2, 3, 4]\n";
    const SUM: &str = "steps = [{ op = \"all_reduce\", in = \"x\", out = \"y\" }, { op = \"wait\" }]\n";

    #[test]
    fn cases_that_follow_one_another_need_equal_communicators_and_room() {
        let runner = runner();
        let cases = ready(&format!("{SMALL}{SUM}"));
        let follow = |others: &[Ready]| runner.follow(&cases[0], others.iter().map(Some));
        assert_eq!(follow(&cases[1..]), 3);
        let mut others = ready(&format!("{SMALL}{SUM}").replace("world_size = 2", "world_size = 3"));
        assert_eq!(follow(&others), 0, "three ranks");
        others.insert(0, cases[1].clone());
        assert_eq!(follow(&others), 1);
        assert_eq!(runner.follow(&cases[0], [None, Some(&cases[1])].into_iter()), 0, "one that is not ready");
        let many: Vec<_> = (0..100).map(|_| cases[1].clone()).collect();
        assert_eq!(follow(&many), LONGEST - 1);
        let large = ready(&format!("{SMALL}{SUM}").replace("count = 3", "count = 30000"));
        assert!(follow(&large) < 3, "{}", follow(&large));
    }

    #[test]
    fn a_case_that_could_harm_the_next_or_takes_long_runs_alone() {
        let runner = runner();
        let may = |text: &str| ready(text).iter().all(|ready| runner.may_be_in_series(ready));
        let plain = format!("{SMALL}{SUM}");
        assert!(may(&plain));
        let exit = "{ op = \"exit\" }]\noutcome = \"crash\"";
        for (before, after) in [
            ("world_size = 2", "world_size = 2\nplacement = \"one_thread\""),
            ("world_size = 2", "world_size = 2\nplacement = \"processes\""),
            ("world_size = 2", "world_size = 2\nrepeat = 2"),
            ("world_size = 2", "world_size = 2\nenv.NCCL_DEBUG = \"WARN\""),
            ("{ op = \"wait\" }]", "{ op = \"sleep\", seconds = 1 }]"),
            ("{ op = \"wait\" }]", "{ op = \"wait\", times = 200 }]"),
            ("{ op = \"wait\" }]", "{ op = \"abort\" }]"),
            ("{ op = \"wait\" }]", exit),
        ] {
            let text = plain.replace(before, after);
            assert!(text != plain && !may(&text), "{text}");
        }
    }
}

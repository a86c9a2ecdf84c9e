//! Runs one job on one worker and watches it; the result is an observation of each run.
use super::Error;
use super::images::{Images, put_initial};
use super::layout::CallMap;
use super::observe::{Over, observe};
use super::remote_images;
use super::teardown::{TeardownResult, tear_down};
use super::watch::Watch;
use super::worker::Worker;
use crate::job::arena::{Mapping, Step};
use crate::job::{AllocSpec, Ended, Job, Observation, Request, Share};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How a job is run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// On the same communicators and memory.
    Same,
    /// From the start: its program makes or destroys communicators, so each run needs those that the first run had.
    Anew {
        /// True if the run before must be able to destroy its communicators without an error.
        strict: bool,
    },
}

/// A job, its initial images and its limits.
pub struct Task<'a> {
    /// The job for the worker.
    pub job: Job,
    /// Initial images, and the final ones as far as there is only one.
    pub images: &'a dyn Images,
    /// Map from the job's call indices back to the plan's.
    pub map: CallMap,
    /// Number of runs, at least one.
    pub repeat: u32,
    /// How the job is run again between two runs.
    pub again: Again,
    /// Time limit for making communicators and loading.
    pub opening: Duration,
    /// Time limit for all runs together, counted from the end of loading.
    pub limit: Duration,
    /// True if the worker has run other cases and then waited: it may have died meanwhile.
    pub used_before: bool,
}

/// Why the runs of a job ended.
pub enum Executed {
    /// All runs were made, or a run failed, or the caller asked for no further run.
    Complete,
    /// A part of the worker died before any of its ranks had begun, so the case can be given to another worker.
    DeadBefore,
    /// Between two runs the communicators could not be destroyed.
    TeardownFailed(TeardownResult),
}

/// Runs the job, `repeat` times unless a run does not end well, and hands each run to `see` as it comes; `see` says whether
/// to run the job again. The worker is dead afterwards if the last observation is a hang or a crash, and has ended or will be
/// ended after an error.
///
/// # Errors
/// The worker cannot do what is asked of it, or this process has no memory for it.
pub fn execute(
    worker: &mut Worker,
    task: Task<'_>,
    see: &mut dyn FnMut(Observation) -> bool,
) -> Result<Executed, Error> {
    let Task { mut job, images, map, repeat, again, opening, limit, used_before } = task;
    let arena = worker.arena.ensure(job.arena.max(u64::from(job.n) * 8), true).map_err(Error::Resources)?;
    job.words_unseen = worker.has_remote();
    let mark = worker.mark();
    let mut left = limit;
    for round in 0..repeat.max(1) {
        if round > 0 && again == Again::Same {
            put_all(worker, images, &job, round)?;
            reset_words(&arena, job.n)?;
            remote_images::send_initial(worker, images, &job, false);
            // a part that cannot hear this is dead, which is noticed below
            let _ = worker.send(&Request::Again);
        } else {
            if let (1.., Again::Anew { strict }) = (round, again) {
                match tear_down(worker, job.n, None, Vec::new(), opening) {
                    TeardownResult::Done => {}
                    TeardownResult::Errors(_) if !strict => {}
                    finished => return Ok(Executed::TeardownFailed(finished)),
                }
            }
            put_all(worker, images, &job, round)?;
            reset_words(&arena, job.n)?;
            remote_images::send_initial(worker, images, &job, round == 0);
            match hand_over(worker, job) {
                Some(given) => job = given,
                None if round == 0 => return Ok(Executed::DeadBefore),
                None => return Ok(Executed::TeardownFailed(TeardownResult::Dead(worker.end(0)))),
            }
        }
        let mut watch = Watch::new(worker, &job, opening);
        let came = watch.run(worker, left)?;
        let seconds = if watch.opening { 0.0 } else { watch.begun.elapsed().as_secs_f64() };
        if !watch.opening {
            left = watch.patience.left();
        }
        let may_be_dead = used_before && round == 0;
        let over = Over { job: &job, images, map: &map, watch, came, seconds, may_be_dead };
        let Some(seen) = observe(worker, over, &mark)? else { return Ok(Executed::DeadBefore) };
        let well = seen.ended == Ended::Done;
        if !see(seen) || !well {
            break;
        }
    }
    Ok(Executed::Complete)
}

/// Puts the initial images of the ranks here in their places. Those that the ranks do not change are there after the first round.
pub(super) fn put_all(worker: &Worker, images: &dyn Images, job: &Job, round: u32) -> Result<(), Error> {
    let changed = |spec: &AllocSpec| round == 0 || spec.is_in_arena();
    let here = worker.has_here(job.n);
    let is_here = |spec: &AllocSpec| here.get(spec.rank as usize).is_some_and(|here| *here);
    let mut allocs = job.allocs.iter().enumerate().filter(|(_, spec)| changed(spec) && is_here(spec));
    allocs.try_for_each(|(alloc, spec)| put_initial(&worker.arena, images, alloc, spec))
}

/// No rank has begun.
pub(super) fn reset_words(arena: &Mapping, n: u32) -> Result<(), Error> {
    for rank in 0..n {
        arena.word(rank)?.store(Step::Before.word(), Ordering::Release);
    }
    Ok(())
}

/// Sends every part its share of the job. `None` if a worker of one part is dead. With several parts, those that are alive
/// have begun, so a dead part is noticed later, as one that dies during the run.
fn hand_over(worker: &mut Worker, job: Job) -> Option<Job> {
    if worker.parts() > 1 {
        let ranks: Vec<_> = (0..worker.parts()).map(|part| worker.ranks(part, job.n)).collect();
        for (part, share) in Share::of_all(&job, &ranks).into_iter().enumerate() {
            let _ = worker.send_to(part, &Request::Share(Box::new(share)));
        }
        return Some(job);
    }
    let request = Request::Job(Box::new(job));
    worker.send(&request).ok()?;
    if let Request::Job(job) = request { Some(*job) } else { None }
}

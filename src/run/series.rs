//! Runs several small jobs in a row on one worker, which begins each when the one before has ended well: they cost one message and
//! one wait together. Each has places of its own in the arena, so that what one leaves there stays until it is judged.
use super::Error;
use super::execute::{put_all, reset_words};
use super::images::Images;
use super::layout::CallMap;
use super::observe::{Over, observe};
use super::watch::{Came, Watch};
use super::worker::Worker;
use crate::job::arena::Mapping;
use crate::job::{Ended, Job, Observation, Request};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// One job of a series, with its initial images and its limit.
pub struct Member<'a> {
    /// The job. Its images begin behind those of the job before it, and those of the first at [`first_byte`] or later.
    pub job: Job,
    /// Initial images, and the final ones as far as there is only one.
    pub images: &'a dyn Images,
    /// Map from the job's call indices back to the plan's.
    pub map: CallMap,
    /// Time limit, counted from the end of loading.
    pub limit: Duration,
}

/// Where images of a series with so many ranks begin: behind the step words, and the number of jobs that have ended.
pub fn first_byte(ranks: u64) -> u64 {
    8 * (ranks + 1)
}

/// Why a series has ended.
#[derive(Debug)]
pub enum SeriesEnd {
    /// All jobs that were wanted were seen.
    Complete,
    /// The worker could not do what was asked of it when the job with this number was to run.
    Trouble(usize, Error),
}

/// Runs the jobs and hands each run to `see` with its number, in their order; `see` says whether to go on. A run that was lost with the worker,
/// although it had ended, is left out. After a run that has not ended well nothing more is seen.
///
/// # Errors
///
/// This process has no memory for the jobs.
pub fn execute_series(
    worker: &mut Worker,
    members: Vec<Member<'_>>,
    opening: Duration,
    see: &mut dyn FnMut(usize, Observation) -> bool,
) -> Result<SeriesEnd, Error> {
    let Some(n) = members.first().map(|member| member.job.n) else { return Ok(SeriesEnd::Complete) };
    let bytes = members.iter().map(|member| member.job.arena).max().unwrap_or(0).max(first_byte(u64::from(n)));
    let arena = worker.arena.ensure(bytes, true).map_err(Error::Resources)?;
    // What is written meanwhile comes without a name, so all of it is quoted with a case that fails.
    let mark = worker.mark();
    let (mut jobs, mut rest) = (Vec::with_capacity(members.len()), Vec::with_capacity(members.len()));
    for Member { job, images, map, limit } in members {
        put_all(worker, images, &job, 0)?;
        jobs.push(job);
        rest.push((images, map, limit));
    }
    reset_words(&arena, n)?;
    arena.word(n)?.store(0, Ordering::Release);
    let request = Request::Series(jobs);
    // A dead worker is noticed by its end.
    let _ = worker.send(&request);
    let Request::Series(jobs) = request else { return Ok(SeriesEnd::Complete) };
    let mut next = 0;
    while let (Some(job), Some((images, map, limit))) = (jobs.get(next), rest.get(next)) {
        let mut watch = Watch::new(worker, job, opening);
        let came = match watch.run(worker, *limit) {
            Ok(came) => came,
            Err(error) => return Ok(SeriesEnd::Trouble(next, error)),
        };
        // What this job said is lost; it was another one that was running.
        let running = usize::try_from(ended(&arena, n)?).unwrap_or(usize::MAX);
        if matches!(came, Came::Late | Came::Dead(_)) && next < running && running < jobs.len() {
            next = running;
            continue;
        }
        let seconds = if watch.opening { 0.0 } else { watch.begun.elapsed().as_secs_f64() };
        let over = Over { job, images: *images, map, watch, came, seconds, may_be_dead: next == 0 };
        let seen = match observe(worker, over, &mark) {
            Ok(Some(seen)) => seen,
            Ok(None) => return Ok(SeriesEnd::Complete),
            Err(error) => return Ok(SeriesEnd::Trouble(next, error)),
        };
        let well = seen.ended == Ended::Done;
        if !see(next, seen) || !well {
            break;
        }
        next += 1;
    }
    Ok(SeriesEnd::Complete)
}

/// Number of jobs that have ended and been followed by another.
fn ended(arena: &Mapping, n: u32) -> Result<u64, Error> {
    Ok(arena.word(n)?.load(Ordering::Acquire))
}

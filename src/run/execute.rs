//! One job on one worker, watched: what was seen of it.
use super::arena::Step;
use super::layout::CallMap;
use super::process::{Heard, Worker};
use super::{Ended, Error, Observation};
use crate::worker::job::{Job, RankEnd, RankReport, Reply, Report, Request};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A job with what surrounds it.
pub struct Task<'a> {
    /// What the worker does.
    pub job: Job,
    /// Initial images, by allocation.
    pub initial: &'a [Vec<u8>],
    /// Back to the plan's indices.
    pub map: CallMap,
    /// Runs, at least one.
    pub repeat: u32,
    /// For making communicators and loading.
    pub opening: Duration,
    /// From loaded on, for all runs together.
    pub limit: Duration,
    /// True if the worker has run other cases and then waited: it may have died meanwhile.
    pub seasoned: bool,
}

/// What came of a run.
enum Came {
    Report(Report),
    Stuck(String, Report),
    Late,
    Dead,
}

/// The worker died before any rank had begun: nothing is known of the case, another worker can have it.
pub struct DeadBefore;

/// Runs the job, `repeat` times unless a run does not end well. The worker is dead afterwards if the last observation is a
/// hang or a crash.
pub fn execute(worker: &mut Worker, task: Task<'_>) -> Result<Result<Vec<Observation>, DeadBefore>, Error> {
    let Task { job, initial, map, repeat, opening, limit, seasoned } = task;
    let arena = worker.arena.ensure(job.arena.max(u64::from(job.n) * 8), true).map_err(Error::Resources)?;
    for (spec, image) in job.allocs.iter().zip(initial) {
        arena.write(spec.initial, image)?;
    }
    for rank in 0..job.n {
        arena.word(rank)?.store(Step::Before.word(), Ordering::Release);
    }
    let mark = worker.log.mark();
    let request = Request::Job(Box::new(job));
    if worker.send(&request).is_err() {
        return Ok(Err(DeadBefore));
    }
    let Request::Job(job) = request else { return Ok(Err(DeadBefore)) };
    let mut seen = Vec::new();
    let mut left = limit;
    for round in 0..repeat.max(1) {
        let again = round > 0 && worker.send(&Request::Again).is_err();
        let mut watch =
            Watch { opening: true, reused: false, begun: Instant::now(), deadline: Instant::now() + opening };
        let came = if again { Came::Dead } else { watch.run(worker, left)? };
        let seconds = if watch.opening { 0.0 } else { watch.begun.elapsed().as_secs_f64() };
        left = left.saturating_sub(Duration::from_secs_f64(seconds));
        let waits = |text| Ended::Hung { proved: true, opening: watch.opening, waits: text };
        let (ended, mut report) = match came {
            Came::Report(report) => {
                let done = report.ranks.iter().all(|r| r.end == RankEnd::Done);
                (if done { Ended::Done } else { Ended::Errored }, report)
            }
            Came::Stuck(text, report) => (waits(text), report),
            Came::Late => {
                let ended = Ended::Hung { proved: false, opening: watch.opening, waits: String::new() };
                (ended, by_step_words(&arena, job.n))
            }
            Came::Dead => {
                let how = worker.end();
                if seasoned && round == 0 && watch.opening && none_begun(&arena, job.n) {
                    return Ok(Err(DeadBefore));
                }
                (Ended::Crashed { how, opening: watch.opening }, by_step_words(&arena, job.n))
            }
        };
        if matches!(ended, Ended::Hung { .. }) {
            worker.end();
        }
        if !watch.opening {
            map.translate(&mut report);
        }
        report.ranks.resize_with(job.n as usize, || running(0));
        let done = |rank: u32| report.ranks[rank as usize].end == RankEnd::Done;
        let images = job.allocs.iter().map(|a| if done(a.rank) { arena.read(a.last, a.image) } else { Ok(Vec::new()) });
        let images = images.collect::<Result<Vec<_>, _>>()?;
        let copies =
            job.checkpoints.iter().map(|c| if done(c.rank) { arena.read(c.at, c.bytes) } else { Ok(Vec::new()) });
        let checkpoints = copies.collect::<Result<Vec<_>, _>>()?;
        let well = ended == Ended::Done;
        let log = worker.log.since(mark);
        seen.push(Observation { ended, ranks: report.ranks, images, checkpoints, log, seconds, reused: watch.reused });
        if !well {
            break;
        }
    }
    Ok(Ok(seen))
}

struct Watch {
    opening: bool,
    reused: bool,
    begun: Instant,
    deadline: Instant,
}

impl Watch {
    fn run(&mut self, worker: &mut Worker, limit: Duration) -> Result<Came, Error> {
        loop {
            return Ok(match worker.hear(self.deadline) {
                Heard::Reply(Reply::Loaded { reused }) => {
                    *self = Self { opening: false, reused, begun: Instant::now(), deadline: Instant::now() + limit };
                    continue;
                }
                Heard::Reply(Reply::Done(report)) => Came::Report(report),
                Heard::Reply(Reply::Stuck { waits, report }) => Came::Stuck(waits, report),
                Heard::Reply(Reply::Trouble(text)) | Heard::Garbled(text) => {
                    worker.end();
                    return Err(Error::Trouble { text, log: worker.log.since(0) });
                }
                Heard::Reply(Reply::Hello { .. }) => continue,
                Heard::Silence => Came::Late,
                Heard::End => Came::Dead,
            });
        }
    }
}

fn running(call: u32) -> RankReport {
    RankReport { end: RankEnd::Running { call }, codes: Vec::new(), figures: Vec::new() }
}

fn none_begun(arena: &super::arena::Mapping, n: u32) -> bool {
    let before = |rank| arena.word(rank).is_ok_and(|word| Step::of(word.load(Ordering::Acquire)) == Step::Before);
    (0..n).all(before)
}

/// What is known of ranks that cannot report any more.
fn by_step_words(arena: &super::arena::Mapping, n: u32) -> Report {
    let end = |rank| match arena.word(rank).map_or(Step::Before, |word| Step::of(word.load(Ordering::Acquire))) {
        Step::Before => RankEnd::Running { call: 0 },
        Step::Opening(call) | Step::Running(call) => RankEnd::Running { call },
        Step::Done => RankEnd::Done,
    };
    Report { ranks: (0..n).map(|rank| RankReport { end: end(rank), ..running(0) }).collect() }
}

//! Makes an observation of a run that is over.
use super::Error;
use super::images::{Images, take_last};
use super::layout::CallMap;
use super::remote_images;
use super::remote_results::{self, Brought};
use super::watch::{Came, Watch};
use super::worker::{Incoming, Mark, Worker};
use crate::child::patience::Patience;
use crate::job::arena::{Mapping, Step};
use crate::job::{Answers, Ended, Job, Observation, RankEnd, RankReport, Reached, Reply, Report, Request};
use soft_nccl::fault::FaultMode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time in which parts must say which faults they have met. They can answer at any time, even while their ranks hang.
const ANSWERING: Duration = Duration::from_secs(5);

/// A run that was watched.
pub(super) struct Over<'a> {
    pub job: &'a Job,
    pub images: &'a dyn Images,
    /// Map from the job's call indices back to the plan's.
    pub map: &'a CallMap,
    pub watch: Watch,
    pub came: Came,
    /// Seconds that its programs took.
    pub seconds: f64,
    /// True if the worker may have died before it began this run, so that the run is not the cause.
    pub may_be_dead: bool,
}

/// What the run has left; `None` if the worker died before any of its ranks had begun. What the worker wrote since `mark` belongs to it.
///
/// # Errors
///
/// The worker's memory cannot be read, or a part cannot do what is asked of it.
pub(super) fn observe(worker: &mut Worker, over: Over<'_>, mark: &Mark) -> Result<Option<Observation>, Error> {
    let Over { job, images, map, watch, came, seconds, may_be_dead } = over;
    let arena = worker.arena.mapping().clone();
    let late = matches!(came, Came::Late) && job.fault == FaultMode::Trace.to_string();
    let reached_until_limit = if late { reached_so_far(worker)? } else { None };
    let waits = |text| Ended::Hung { proved: true, opening: watch.opening, waits: text };
    let (mut ended, mut report) = match came {
        Came::Report(report) => {
            let done = report.ranks.iter().all(|r| r.end == RankEnd::Done);
            (if done { Ended::Done } else { Ended::Errored }, report)
        }
        Came::Stuck(text, report) => (waits(text), report),
        Came::Late => {
            let silent = remote_images::bring_step_words(worker, job.n);
            let report = by_step_words(&arena, job.n, watch.opening);
            let finished = worker.has_remote() && (0..job.n).all(|rank| is_done(&report, rank));
            let ended = match silent {
                // Nothing is known of its ranks, so that it is not their hang.
                Some(part) => {
                    let how = whose(worker, part, job.n) + "it does not answer";
                    Ended::Crashed { how, opening: watch.opening }
                }
                None if finished => {
                    let how = "all ranks had ended, but that was not heard of within the time limit".to_owned();
                    Ended::Crashed { how, opening: watch.opening }
                }
                None => Ended::Hung { proved: false, opening: watch.opening, waits: String::new() },
            };
            (ended, report)
        }
        Came::Dead(part) => {
            let how = worker.end_closed(part);
            remote_images::bring_step_words(worker, job.n);
            let ranks = worker.ranks(part, job.n);
            if may_be_dead && watch.opening && ranks.clone().all(|rank| not_begun(&arena, rank)) {
                return Ok(None);
            }
            let how = whose(worker, part, job.n) + &how;
            (Ended::Crashed { how, opening: watch.opening }, by_step_words(&arena, job.n, watch.opening))
        }
    };
    report.ranks.resize_with(job.n as usize, || running(0));
    let Brought { lost, as_expected: right_elsewhere } =
        remote_results::bring_last(worker, images, job, &|rank| is_done(&report, rank))?;
    if let Some(part) = lost.first() {
        // What the ranks of lost parts have left behind is lost with them.
        let how = whose(worker, *part, job.n) + &worker.end(*part);
        let ranks = lost.iter().flat_map(|part| worker.ranks(*part, job.n));
        for rank in ranks.filter(|rank| is_done(&report, *rank)).collect::<Vec<_>>() {
            report.ranks[rank as usize] = running(job.programs[rank as usize].len().saturating_sub(1) as u32);
        }
        if !matches!(ended, Ended::Crashed { .. }) {
            ended = Ended::Crashed { how, opening: false };
        }
    }
    match ended {
        Ended::Done => {}
        // its ranks cannot go on; ending it brings the rest of its log
        Ended::Errored => worker.retire(),
        Ended::Hung { .. } | Ended::Crashed { .. } => _ = worker.end(0),
    }
    if !watch.opening {
        map.translate(&mut report);
    }
    let done = |rank: u32| is_done(&report, rank);
    let read = |rank: u32, at: u64, len: u64| if done(rank) { arena.read(at, len) } else { Ok(Vec::new()) };
    let (mut last, mut as_expected) = (Vec::new(), Vec::new());
    for (alloc, spec) in job.allocs.iter().enumerate() {
        let image = match done(spec.rank) {
            true if right_elsewhere.contains(&alloc) => None,
            true => take_last(&worker.arena, images, alloc, spec)?,
            false => Some(Vec::new()),
        };
        as_expected.push(image.is_none());
        last.push(image.unwrap_or_default());
    }
    let copies = job.checkpoints.iter().map(|c| read(c.rank, c.at, c.bytes));
    let checkpoints = copies.collect::<Result<Vec<_>, _>>()?;
    let silent = matches!(ended, Ended::Crashed { .. } | Ended::Hung { proved: false, .. });
    let reached = (!silent).then_some(report.reached);
    let log = worker.said(mark);
    let reused = watch.reused;
    let deaths = watch.deaths.ends;
    let (ranks, images) = (report.ranks, last);
    Ok(Some(Observation {
        ended,
        ranks,
        images,
        as_expected,
        checkpoints,
        log,
        seconds,
        reached,
        reached_until_limit,
        reused,
        deaths,
    }))
}

/// The faults that the parts have met so far; `None` if one does not answer.
fn reached_so_far(worker: &mut Worker) -> Result<Option<Reached>, Error> {
    let mut patience = Patience::new(ANSWERING);
    let mut all = Reached::default();
    if worker.send(&Request::Reached).is_err() {
        return Ok(None);
    }
    let mut answers = 0;
    while answers < worker.parts() {
        match worker.hear(&mut patience).1 {
            Incoming::Reply(Reply::Reached(reached)) => {
                all.iter_mut().zip(reached).for_each(|(all, more)| *all |= more);
                answers += 1;
            }
            Incoming::Reply(Reply::Trouble(text)) | Incoming::Garbled(text) => return Err(trouble(worker, text)),
            // What the run says too late is not waited for, but does no harm.
            Incoming::Reply(_) => {}
            Incoming::Silence | Incoming::End => return Ok(None),
        }
    }
    Ok(Some(all))
}

pub(super) fn trouble(worker: &mut Worker, text: String) -> Error {
    worker.end(0);
    Error::Trouble { text, log: worker.said(&Default::default()) }
}

pub(super) fn running(call: u32) -> RankReport {
    let (codes, figures, times) = (Vec::new(), Vec::new(), Vec::new());
    RankReport { end: RankEnd::Running { call }, codes, figures, answers: Answers::default(), times }
}

/// The processes of a worker of several, in front of how one ended.
fn whose(worker: &Worker, part: usize, n: u32) -> String {
    let ranks = worker.ranks(part, n);
    let place = worker.place(part).map_or_else(String::new, |place| format!(" (process of {place})"));
    match (worker.parts(), ranks.len()) {
        (..=1, _) if place.is_empty() => String::new(),
        (_, 1) => format!("the process of rank {}{place}: ", ranks.start),
        _ => format!("the process of ranks {} to {}{place}: ", ranks.start, ranks.end.saturating_sub(1)),
    }
}

fn is_done(report: &Report, rank: u32) -> bool {
    report.ranks.get(rank as usize).is_some_and(|rank| rank.end == RankEnd::Done)
}

fn not_begun(arena: &Mapping, rank: u32) -> bool {
    arena.word(rank).is_ok_and(|word| Step::of(word.load(Ordering::Acquire)) == Step::Before)
}

/// A report for ranks that cannot report any more, from their step words.
fn by_step_words(arena: &Mapping, n: u32, opening: bool) -> Report {
    Report { ranks: (0..n).map(|rank| by_step_word(arena, rank, opening)).collect(), ..Report::default() }
}

pub(super) fn by_step_word(arena: &Mapping, rank: u32, opening: bool) -> RankReport {
    let end = match arena.word(rank).map_or(Step::Before, |word| Step::of(word.load(Ordering::Acquire))) {
        Step::Before if opening => RankEnd::Opening { call: None },
        Step::Opening(call) if opening => RankEnd::Opening { call: Some(call) },
        // all ranks are loaded: this one is on its way to its first call
        Step::Before | Step::Opening(_) => RankEnd::Running { call: 0 },
        Step::Running(call) => RankEnd::Running { call },
        Step::Done | Step::Ending => RankEnd::Done,
    };
    RankReport { end, ..running(0) }
}

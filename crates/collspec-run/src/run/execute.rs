//! Runs one job on one worker and watches it; the result is an observation of each run.
use super::Error;
use super::deaths::Deaths;
use super::images::{Images, put_initial, take_last};
use super::layout::CallMap;
use super::lost_parts::lost_too;
use super::remote_images;
use super::remote_results::{self, Brought};
use super::teardown::{TeardownResult, tear_down};
use super::worker::{Incoming, Worker};
use crate::child::patience::Patience;
use crate::job::arena::{Mapping, Step};
use crate::job::{AllocSpec, Answers, CallKind, Job, RankEnd, RankReport, Reached, Reply, Report, Request, Share};
use crate::job::{Ended, Observation};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wrong_nccl::FaultMode;

/// Time in which parts must stop after a rank of another part has failed. A part that does not stop is killed.
const STOPPING: Duration = Duration::from_secs(1);
/// Time in which parts must report the faults they have met. They can answer at any time, even while their ranks hang.
const ANSWERING: Duration = Duration::from_secs(5);

/// Number of checks within a case's time limit for whether its ranks have begun, if no message comes from them.
const LOOKS: u32 = 8;
/// The shortest time between two such checks.
const SHORTEST_LOOK: Duration = Duration::from_millis(1);

/// The way a job is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// On the same communicators and memory.
    Same,
    /// From the start: the program creates or destroys communicators, so each run needs those that the first run had.
    Anew {
        /// True if the previous run must be able to destroy its communicators without an error.
        strict: bool,
    },
}

/// A job, its initial images and its limits.
pub struct Task<'a> {
    /// The job for the worker.
    pub job: Job,
    /// Initial images, and the expected final ones where only one is right.
    pub images: &'a dyn Images,
    /// Map from the job's call indices back to the plan's.
    pub map: CallMap,
    /// Number of runs, at least one.
    pub repeat: u32,
    /// The way the job is repeated between two runs.
    pub again: Again,
    /// Time limit for creating communicators and loading.
    pub opening: Duration,
    /// Time limit for all runs together, counted from the end of loading.
    pub limit: Duration,
    /// True if the worker ran other cases and then waited, so that it may have died in the meantime.
    pub used_before: bool,
}

/// The event that ended a run.
enum Came {
    Report(Report),
    Stuck(String, Report),
    Late,
    /// This part died.
    Dead(usize),
}

/// The reason the runs of a job ended.
pub enum Executed {
    /// All runs were made, or a run failed, or the caller asked for no further run.
    Complete,
    /// A part of the worker died before any of its ranks had begun, so the case can be given to another worker.
    DeadBefore,
    /// Between two runs the communicators could not be destroyed.
    TeardownFailed(TeardownResult),
}

/// Runs the job, `repeat` times unless a run does not end well, and passes each run to `see` as it ends; `see` returns whether
/// to run the job again. The worker is dead afterwards if the last observation is a hang or a crash, and has ended or will be
/// ended after an error.
///
/// # Errors
/// The worker cannot carry out a request, or this process does not have enough memory.
pub fn execute(
    worker: &mut Worker,
    task: Task<'_>,
    see: &mut dyn FnMut(Observation) -> bool,
) -> Result<Executed, Error> {
    let Task { mut job, images, map, repeat, again, opening, limit, used_before } = task;
    let arena = worker.arena.ensure(job.arena.max(u64::from(job.n) * 8), true).map_err(Error::Resources)?;
    job.words_unseen = worker.has_remote();
    let seed = job.variation.seed;
    let mark = worker.mark();
    let mut left = limit;
    for round in 0..repeat.max(1) {
        if round > 0 && again == Again::Same {
            put_all(worker, images, &job, round)?;
            reset_words(&arena, job.n)?;
            remote_images::send_initial(worker, images, &job, false)?;
            // a part that cannot receive this is dead, which is noticed below
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
            remote_images::send_initial(worker, images, &job, round == 0)?;
            job.variation.seed = seed.map(|seed| seed.wrapping_add(u64::from(round)));
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
        let reached_until_limit = match came {
            Came::Late if job.variation.fault == FaultMode::Trace.to_string() => reached_so_far(worker)?,
            Came::Late => {
                // When asked, it writes to its log where kernels stand still, and tells what the system refused.
                reached_so_far(worker)?;
                None
            }
            _ => None,
        };
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
                    // The state of its ranks is unknown, so it is not their hang.
                    Some(part) => {
                        let how = whose(worker, part, job.n) + "it does not answer";
                        Ended::Crashed { how, opening: watch.opening }
                    }
                    None if finished => {
                        let how = "all ranks finished, but a report did not arrive before the time limit".to_owned();
                        Ended::Crashed { how, opening: watch.opening }
                    }
                    None => Ended::Hung { proved: false, opening: watch.opening, waits: String::new() },
                };
                (ended, report)
            }
            Came::Dead(part) => {
                let how = worker.end_closed(part);
                // Not even the crash that a case may expect.
                let exits =
                    job.programs.iter().flatten().any(|call| matches!(call.kind.inner(), CallKind::Exit { .. }));
                let killed = worker.killed_by_another(part) && !exits;
                remote_images::bring_step_words(worker, job.n);
                let ranks = worker.ranks(part, job.n);
                if used_before && round == 0 && watch.opening && ranks.clone().all(|rank| not_begun(&arena, rank)) {
                    return Ok(Executed::DeadBefore);
                }
                if killed {
                    return Err(Error::Killed(whose(worker, part, job.n) + &how));
                }
                let how = whose(worker, part, job.n) + &how + &lost_too(worker, part);
                (Ended::Crashed { how, opening: watch.opening }, by_step_words(&arena, job.n, watch.opening))
            }
        };
        report.ranks.resize_with(job.n as usize, || running(0));
        let Brought { lost, as_expected: right_elsewhere } =
            remote_results::bring_last(worker, images, &job, &|rank| is_done(&report, rank))?;
        if let Some(part) = lost.first() {
            // The results of ranks in lost parts are lost with them.
            let how = whose(worker, *part, job.n) + &worker.end(*part) + &lost_too(worker, *part);
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
            // its ranks cannot continue; ending it brings the rest of its log
            Ended::Errored => worker.retire(),
            Ended::Hung { .. } | Ended::Crashed { .. } => _ = worker.end(0),
        }
        if !watch.opening {
            map.translate(&mut report);
        }
        let done = |rank: u32| is_done(&report, rank);
        let read = |rank: u32, at: u64, len: u64| if done(rank) { arena.read(at, len) } else { Ok(Vec::new()) };
        let (mut last, mut as_expected, mut room) = (Vec::new(), Vec::new(), Vec::new());
        for (alloc, spec) in job.allocs.iter().enumerate() {
            let image = match done(spec.rank) {
                true if right_elsewhere.contains(&alloc) => None,
                true => take_last(&worker.arena, images, alloc, spec, &mut room)?,
                false => Some(Vec::new()),
            };
            as_expected.push(image.is_none());
            last.push(image.unwrap_or_default());
        }
        let copies = job.checkpoints.iter().map(|c| read(c.rank, c.at, c.bytes));
        let checkpoints = copies.collect::<Result<Vec<_>, _>>()?;
        let well = ended == Ended::Done;
        let silent = matches!(ended, Ended::Crashed { .. } | Ended::Hung { proved: false, .. });
        let reached = (!silent).then_some(report.reached);
        let log = worker.said(&mark);
        let reused = watch.reused;
        let deaths = watch.deaths.ends;
        let (ranks, images) = (report.ranks, last);
        let seen = Observation {
            ended,
            ranks,
            images,
            as_expected,
            checkpoints,
            log,
            seconds,
            reached: reached.map(Vec::from),
            reached_until_limit: reached_until_limit.map(Vec::from),
            reused,
            deaths,
        };
        if !see(seen) || !well {
            break;
        }
    }
    Ok(Executed::Complete)
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
            Incoming::Reply(Reply::Refused(what)) => return Err(refused(worker, what)),
            Incoming::Reply(Reply::Trouble(text)) | Incoming::Garbled(text) => return Err(trouble(worker, text)),
            // Messages that come too late are not waited for, but do no harm.
            Incoming::Reply(_) => {}
            Incoming::Silence | Incoming::End => return Ok(None),
        }
    }
    Ok(Some(all))
}

/// Puts the initial images of the ranks in this worker in place. Those that the ranks do not change stay in place after the first round.
fn put_all(worker: &Worker, images: &dyn Images, job: &Job, round: u32) -> Result<(), Error> {
    let changed = |spec: &AllocSpec| round == 0 || spec.is_in_arena();
    let here = worker.has_here(job.n);
    let is_here = |spec: &AllocSpec| here.get(spec.rank as usize).is_some_and(|here| *here);
    let mut allocs = job.allocs.iter().enumerate().filter(|(_, spec)| changed(spec) && is_here(spec));
    allocs.try_for_each(|(alloc, spec)| put_initial(&worker.arena, images, alloc, spec))
}

/// Resets the step words: no rank has begun.
fn reset_words(arena: &Mapping, n: u32) -> Result<(), Error> {
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

struct Watch {
    opening: bool,
    reused: bool,
    /// True if the job uses communicators of an earlier one.
    asks_for_kept: bool,
    begun: Instant,
    /// The remaining time: of the limit for creating communicators and loading at first, then of the case's limit.
    patience: Patience,
    /// Number of parts that have loaded.
    loaded: usize,
    /// For each part, true once it is done.
    done: Vec<bool>,
    /// The parts' reports so far.
    report: Report,
    /// A rank has failed, and the others have been asked to stop.
    stopping: bool,
    /// Processes that end while the others continue.
    deaths: Deaths,
}

impl Watch {
    fn new(worker: &Worker, job: &Job, opening: Duration) -> Self {
        let n = job.n;
        Self {
            deaths: Deaths::of(job, worker),
            opening: true,
            reused: false,
            asks_for_kept: job.reuse.is_some(),
            begun: Instant::now(),
            patience: Patience::new(opening),
            loaded: 0,
            done: vec![false; worker.parts()],
            report: Report { ranks: vec![running(0); n as usize], ..Report::default() },
            stopping: false,
        }
    }

    fn run(&mut self, worker: &mut Worker, limit: Duration) -> Result<Came, Error> {
        loop {
            let n = self.report.ranks.len() as u32;
            // A worker with one part reports loading together with its next message.
            let looks = self.opening && worker.parts() == 1 && !worker.has_remote();
            let look = if looks { (limit / LOOKS).max(SHORTEST_LOOK) } else { Duration::MAX };
            let has_begun = |arena: &Mapping| looks && (0..n).any(|rank| has_begun(arena, rank));
            let came = worker.hear_unless(&mut self.patience, look, has_begun);
            if came.is_none() || (matches!(came, Some((_, Incoming::End))) && has_begun(worker.arena.mapping())) {
                self.begin(self.asks_for_kept, limit, Duration::ZERO);
            }
            let Some((part, incoming)) = came else { continue };
            match incoming {
                Incoming::Reply(Reply::Ids(ids)) => {
                    let request = Request::Ids(ids);
                    // a dead part is noticed by its end
                    (0..worker.parts()).filter(|other| *other != part).for_each(|other| {
                        let _ = worker.send_to(other, &request);
                    });
                }
                Incoming::Reply(Reply::GrowId(number, id)) => {
                    let request = Request::GrowId(number, id);
                    (0..worker.parts()).filter(|other| *other != part).for_each(|other| {
                        let _ = worker.send_to(other, &request);
                    });
                }
                Incoming::Reply(Reply::Loaded { reused, ago }) => self.loaded(worker, reused, limit, ago)?,
                Incoming::Reply(Reply::Done(report)) => {
                    if let Some(came) = self.done(worker, part, report) {
                        return Ok(came);
                    }
                }
                Incoming::Reply(Reply::Stuck { waits, report }) => return Ok(Came::Stuck(waits, report)),
                Incoming::Reply(Reply::Refused(what)) => return Err(refused(worker, what)),
                Incoming::Reply(Reply::Trouble(text)) | Incoming::Garbled(text) => return Err(trouble(worker, text)),
                Incoming::Reply(Reply::AtDeath(death)) => self.deaths.come(worker, death),
                Incoming::Reply(Reply::Hello { .. } | Reply::Finished { .. } | Reply::Reached(_)) => {}
                Incoming::Silence if self.stopping => return Ok(Came::Report(self.as_far_as_known(worker))),
                Incoming::Silence => return Ok(Came::Late),
                Incoming::End if self.deaths.expected(part) => {
                    let ranks = self.report.ranks.len() as u32;
                    self.deaths.ended(worker, part, ranks);
                }
                Incoming::End => return Ok(Came::Dead(part)),
            }
        }
    }

    /// A part has loaded; when all have, the clock starts.
    fn loaded(&mut self, worker: &mut Worker, reused: bool, limit: Duration, ago: Duration) -> Result<(), Error> {
        if worker.parts() == 1 {
            self.begin(reused, limit, ago);
            return Ok(());
        }
        if self.loaded > 0 && self.reused != reused {
            return Err(trouble(worker, "its processes do not keep the same communicators".into()));
        }
        self.reused = reused;
        self.loaded += 1;
        if self.loaded < worker.parts() || self.stopping {
            return Ok(());
        }
        self.begin(reused, limit, ago);
        let _ = worker.send(&Request::Run);
        Ok(())
    }

    /// Starts the clock, unless the ranks were already seen to have begun.
    fn begin(&mut self, reused: bool, limit: Duration, ago: Duration) {
        self.reused = reused;
        let now = Instant::now();
        self.begun = now.checked_sub(ago).unwrap_or(now);
        if self.opening {
            self.opening = false;
            self.patience = Patience::new(limit.saturating_sub(ago));
        }
    }

    /// All ranks of a part have ended. With the last part the run has ended; if a rank failed, the other parts are to stop.
    fn done(&mut self, worker: &mut Worker, part: usize, report: Report) -> Option<Came> {
        let ranks = worker.ranks(part, self.report.ranks.len() as u32);
        let failed = report.ranks.iter().any(|r| matches!(r.end, RankEnd::Error { .. }));
        for (all, said) in self.report.reached.iter_mut().zip(report.reached) {
            *all |= said;
        }
        for (rank, said) in ranks.zip(report.ranks) {
            self.report.ranks[rank as usize] = said;
        }
        self.done[part] = true;
        if self.done.iter().all(|done| *done) {
            return Some(Came::Report(std::mem::take(&mut self.report)));
        }
        if !failed {
            self.deaths.over(worker, part);
        }
        if failed && !self.stopping {
            self.stopping = true;
            self.patience.shorten(STOPPING);
            let others = (0..worker.parts()).filter(|other| !self.done[*other]);
            others.for_each(|other| _ = worker.send_to(other, &Request::Stop));
        }
        None
    }

    /// The report, with step words for the ranks of parts that have not reported.
    fn as_far_as_known(&mut self, worker: &mut Worker) -> Report {
        let mut report = std::mem::take(&mut self.report);
        let n = report.ranks.len() as u32;
        remote_images::bring_step_words(worker, n);
        for (part, done) in self.done.iter().enumerate() {
            for rank in worker.ranks(part, n).filter(|_| !done) {
                report.ranks[rank as usize] = by_step_word(worker.arena.mapping(), rank, self.opening);
            }
        }
        report
    }
}

fn refused(worker: &mut Worker, what: String) -> Error {
    worker.end(0);
    Error::Refused(what)
}

fn trouble(worker: &mut Worker, text: String) -> Error {
    worker.end(0);
    Error::Trouble { text, log: worker.said(&Default::default()) }
}

fn running(call: u32) -> RankReport {
    let (codes, figures, times) = (Vec::new(), Vec::new(), Vec::new());
    RankReport {
        end: RankEnd::Running { call },
        codes,
        figures,
        answers: Answers::default(),
        times,
        work: None,
        machine: None,
    }
}

/// Names the processes of a worker that has several, before the text on how one ended.
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

/// True if the rank makes calls of its program or has made them, so that every rank is loaded.
fn has_begun(arena: &Mapping, rank: u32) -> bool {
    let step = |word: &AtomicU64| Step::of(word.load(Ordering::Acquire));
    arena.word(rank).is_ok_and(|word| matches!(step(word), Step::Running(_) | Step::Done))
}

fn not_begun(arena: &Mapping, rank: u32) -> bool {
    arena.word(rank).is_ok_and(|word| Step::of(word.load(Ordering::Acquire)) == Step::Before)
}

/// A report for ranks that cannot report any more, from their step words.
fn by_step_words(arena: &Mapping, n: u32, opening: bool) -> Report {
    Report { ranks: (0..n).map(|rank| by_step_word(arena, rank, opening)).collect(), ..Report::default() }
}

fn by_step_word(arena: &Mapping, rank: u32, opening: bool) -> RankReport {
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

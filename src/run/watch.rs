//! Watches one run of a job: hears what its parts say, keeps its time limits, and tells how it ended.
use super::Error;
use super::deaths::Deaths;
use super::observe::{by_step_word, running, trouble};
use super::remote_images;
use super::worker::{Incoming, Worker};
use crate::child::patience::Patience;
use crate::job::arena::{Mapping, Step};
use crate::job::{Job, RankEnd, Reply, Report, Request};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time in which parts must stop after a rank of another part has failed. A part that does not stop is killed.
const STOPPING: Duration = Duration::from_secs(1);
/// How often it is looked within a case's time limit whether its ranks have begun, if nothing is heard of them.
const LOOKS: u32 = 8;
/// The shortest time between two such looks.
const SHORTEST_LOOK: Duration = Duration::from_millis(1);

/// How a run ended.
pub(super) enum Came {
    Report(Report),
    Stuck(String, Report),
    Late,
    /// This part died.
    Dead(usize),
}

/// What is known of a run while it goes on.
pub(super) struct Watch {
    /// The ranks make communicators and load.
    pub(super) opening: bool,
    /// The communicators are those of an earlier job.
    pub(super) reused: bool,
    /// The job asks for communicators of an earlier one.
    asks_for_kept: bool,
    pub(super) begun: Instant,
    /// The time that is left: of the limit for making communicators and loading at first, then of the case's limit.
    pub(super) patience: Patience,
    /// Number of parts that have loaded.
    loaded: usize,
    /// By part.
    done: Vec<bool>,
    /// The parts' reports so far.
    report: Report,
    /// A rank has failed and the others are told to stop.
    stopping: bool,
    /// Processes that end while the others go on.
    pub(super) deaths: Deaths,
}

impl Watch {
    pub(super) fn new(worker: &Worker, job: &Job, opening: Duration) -> Self {
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

    /// Until it ends.
    ///
    /// # Errors
    ///
    /// A part cannot do what is asked of it.
    pub(super) fn run(&mut self, worker: &mut Worker, limit: Duration) -> Result<Came, Error> {
        loop {
            let n = self.report.ranks.len() as u32;
            // A worker of one part sends that it is loaded with its next message.
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

    /// A part is loaded; when all are, the clock starts.
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

    /// The clock starts, unless it has been seen before that the ranks had begun.
    fn begin(&mut self, reused: bool, limit: Duration, ago: Duration) {
        self.reused = reused;
        let now = Instant::now();
        self.begun = now.checked_sub(ago).unwrap_or(now);
        if self.opening {
            self.opening = false;
            self.patience = Patience::new(limit.saturating_sub(ago));
        }
    }

    /// A part's ranks have all ended. With the last part the run has; if a rank failed, the other parts are to stop.
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

/// True if the rank makes calls of its program or has made them, so that every rank is loaded.
fn has_begun(arena: &Mapping, rank: u32) -> bool {
    let step = |word: &AtomicU64| Step::of(word.load(Ordering::Acquire));
    arena.word(rank).is_ok_and(|word| matches!(step(word), Step::Running(_) | Step::Done))
}

//! Child side: runs a job, or one part of it, on a backend, a thread per rank or one for all. Knows nothing of files, oracle
//! or verdicts.
//!
//! The main thread reads requests and hands them to the rank threads; it never waits for them, so that the end of its
//! standard input ends the process whatever the ranks are doing.
mod barrier;
mod core;
mod deaths;
mod drive;
mod grow_ids;
mod map;
mod rank;
mod rank_threads;
mod session;
mod teardown;
mod timed;
mod watch;

use crate::backend::{Backend, CommSlot, Device};
use crate::child::inherit::{self, Inherited};
use crate::job::arena::Arena;
use crate::job::wire;
use crate::job::{Finish, Job, PROTOCOL, Reply, Request, SetId, mapped_libraries};
use core::Core;
use rank_threads::RankThreads;
use session::{RankState, Replies, Run};
use std::collections::{BTreeMap, VecDeque};
use std::io::BufReader;
use std::sync::{Arc, Weak};
use std::time::Duration;
use teardown::{Ending, StepWords};

/// Exit status of a process that was started as a worker and cannot be one.
const NO_WORKER: i32 = 102;
/// How long a library may take to clean up when the process ends.
const GOODBYE: Duration = Duration::from_secs(1);

/// Works on `backend` if this process was started as a worker, and never returns then.
pub(crate) fn enter(backend: impl FnOnce() -> Result<Backend, String>) {
    let Some(own) = inherit::take() else { return };
    match own {
        Ok(own) => match backend() {
            Ok(backend) => serve(Box::leak(Box::new(backend)), own),
            Err(words) => {
                Replies::new(own.replies).send(&Reply::Trouble(words));
                std::process::exit(NO_WORKER);
            }
        },
        Err(error) => {
            eprintln!("collspec worker: {}", crate::printable::printable(&error.to_string()));
            std::process::exit(NO_WORKER);
        }
    }
}

/// Answers requests until the parent closes the pipe.
fn serve(backend: &'static Backend, own: Inherited) -> ! {
    let Inherited { requests, replies, arena } = own;
    let mut requests = BufReader::new(requests);
    // A process started through a link in /proc has the link's name, so it is given that of the program.
    let _ = rustix::thread::set_name(c"collspec worker");
    let replies = Arc::new(Replies::new(replies));
    if let Err(error) = watch::start(backend) {
        replies.send(&Reply::Trouble(format!("no thread for the hang proof: {error}")));
    }
    let library = &backend.library;
    replies.send(&Reply::Hello {
        protocol: PROTOCOL,
        version: library.version(),
        library: library.name().to_owned(),
        symbols: library.symbols().into_iter().map(str::to_owned).collect(),
        mapped: mapped_libraries(library.name().as_ref()),
    });
    let core = Arc::new(Core::new(backend, replies.clone()));
    let mut worker = Worker { core, arena, kept: BTreeMap::new(), ending: Weak::new() };
    loop {
        match wire::receive::<Request>(&mut requests) {
            Ok(Some(request)) => {
                if let Err(text) = worker.answer(request) {
                    replies.send(&Reply::Trouble(text));
                }
            }
            Ok(None) => leave(),
            Err(error) => {
                replies.send(&Reply::Trouble(error.to_string()));
                std::process::exit(NO_WORKER);
            }
        }
    }
}

/// Ends the process for certain: what a library does at exit may never return, least of all with ranks inside it.
fn leave() -> ! {
    let last_resort = || {
        std::thread::sleep(GOODBYE);
        let own = rustix::process::getpid();
        let leads = rustix::process::getpgrp() == own;
        let kill = if leads { rustix::process::kill_process_group } else { rustix::process::kill_process };
        let _ = kill(own, rustix::process::Signal::KILL);
    };
    if std::thread::Builder::new().name("last resort".into()).spawn(last_resort).is_err() {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
    std::process::exit(0)
}

/// Communicators by rank and index, and the job that they were made for.
struct Kept {
    job: Arc<Job>,
    comms: Vec<Vec<CommSlot>>,
}

struct Worker {
    core: Arc<Core>,
    arena: Arena,
    /// Kept sets of communicators, by the names that the parent gave them.
    kept: BTreeMap<SetId, Kept>,
    /// What the last [`Finish`] has not destroyed yet.
    ending: Weak<Ending>,
}

impl Worker {
    fn answer(&mut self, request: Request) -> Result<(), String> {
        match request {
            Request::Job(job) => self.begin(*job, VecDeque::new()),
            Request::Share(share) => self.begin(share.into_job(), VecDeque::new()),
            Request::Series(jobs) => {
                let mut jobs = VecDeque::from(jobs);
                let first = jobs.pop_front().ok_or("a series without a job")?;
                let follows = |job: &Job| core::same_communicators(&first, job) && job.alone() && !job.one_thread;
                if !jobs.iter().all(follows) {
                    return Err("a job does not follow the one before it".into());
                }
                self.begin(first, jobs)
            }
            Request::Again => {
                let arena = self.arena.mapping().clone();
                self.core.again(&arena)
            }
            Request::Ids(ids) => self.tell(|run| run.take_ids(ids)),
            Request::GrowId(number, id) => self.tell(|run| run.grow_ids.take(number, id)),
            Request::Death(death) => self.tell(|run| run.deaths.tell(death)),
            Request::Run => self.tell(Run::go),
            Request::Stop => self.tell(|run| run.stop(run.job().n as usize)),
            Request::Reached => {
                self.core.replies.send(&Reply::Reached(self.core.backend.library.faults_reached()));
                Ok(())
            }
            Request::Finish(finish) => self.finish(finish),
        }
    }

    fn tell(&self, what: impl FnOnce(&Run)) -> Result<(), String> {
        let run = self.core.now().run.clone();
        what(run.as_deref().ok_or("a message for a run, but there is no run")?);
        Ok(())
    }

    /// Begins a job, and behind it those that follow in a series.
    fn begin(&mut self, job: Job, left: VecDeque<Job>) -> Result<(), String> {
        // A teardown still writes step words, which would overwrite those of this job.
        if self.core.now().current.is_some() || self.ending.strong_count() > 0 {
            return Err("a job before the last one was finished".into());
        }
        let size = left.iter().chain([&job]).map(|job| job.arena).max().unwrap_or(0);
        // Behind the step words of a series stands the number of jobs that have ended.
        let words = (u64::from(job.n) + 1) * 8;
        let size = if left.is_empty() { size.max(words - 8) } else { size.max(words) };
        let arena = self.arena.ensure(size, false).map_err(|e| format!("arena: {e}"))?;
        let kept = self.take_kept(&job);
        self.core.begin(&arena, job, kept, left)
    }

    /// The communicators that the job names, if an equal prelude made them.
    fn take_kept(&mut self, job: &Job) -> Option<Vec<Vec<CommSlot>>> {
        let set = job.reuse?;
        if self.kept.get(&set)?.fits(job) { self.kept.remove(&set).map(|kept| kept.comms) } else { None }
    }

    /// Ends the last job, and communicators as the parent says.
    fn finish(&mut self, finish: Finish) -> Result<(), String> {
        let Finish { keep, destroy, answer } = finish;
        let mut now = self.core.now();
        let session = now.current.take().ok_or("no job to finish")?;
        watch::set(None);
        now.run = None;
        if !answer && (keep.is_none() || !destroy.is_empty()) {
            return Err("communicators are destroyed without an answer".into());
        }
        if destroy.iter().any(|set| !self.kept.contains_key(set)) {
            return Err("a set of communicators is destroyed that is not kept".into());
        }
        // This thread must go on reading requests, so it never waits for a rank.
        let states = core::take_states(&session)?;
        let words = StepWords::new(self.arena.mapping().clone(), session.job.n);
        let ending = Ending::new(words, answer.then(|| self.core.replies.clone()));
        self.ending = Arc::downgrade(&ending);
        let mut comms = Vec::with_capacity(states.len());
        for (rank, mut state) in states.into_iter().enumerate() {
            comms.push(std::mem::take(&mut state.comms));
            self.give_back(&now.threads, rank, state, &session.job, &ending);
        }
        let own = Kept { job: session.job.clone(), comms };
        match keep {
            Some(set) => _ = self.kept.insert(set, own),
            None => teardown::destroy(&now.threads, self.core.backend, own, ending.clone()),
        }
        for set in destroy.iter().filter_map(|set| self.kept.remove(set)) {
            teardown::destroy(&now.threads, self.core.backend, set, ending.clone());
        }
        Ok(())
    }

    /// Releases a rank's streams and memory. A driver may wait for work that the library left on the device, so the rank's
    /// thread does that; in software the memory is freed at once.
    fn give_back(&self, threads: &RankThreads, rank: usize, state: RankState, job: &Job, ending: &Arc<Ending>) {
        if !matches!(self.core.backend.device, Device::Host) && job.ranks.contains(&(rank as u32)) {
            let thread = if job.one_thread { 0 } else { rank - job.ranks.start as usize };
            let ending = ending.clone();
            threads.give(thread, Box::new(move || drop((state, ending))));
        }
    }
}

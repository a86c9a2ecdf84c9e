//! Child side: runs a job, or one part of it, on a backend, with a thread per rank or one for all. It does not know about files,
//! oracle or verdicts.
//!
//! The main thread reads requests and hands them to the rank threads; it never waits for them, so that the end of its
//! standard input ends the process whatever the ranks are doing.
mod barrier;
mod deaths;
mod drive;
mod grow_ids;
mod kernel_watch;
mod map;
mod rank;
mod rank_threads;
mod session;
mod teardown;
mod timed;
mod watch;

use crate::backend::{Backend, CommSlot, Device, software_gpus};
use crate::child::inherit::{self, Inherited};
use crate::child::shared_files;
use crate::job::arena::{Arena, Step};
use crate::job::wire;
use crate::job::{Finish, Job, PROTOCOL, Reply, Request, SetId, mapped_libraries};
use rank_threads::RankThreads;
use session::{RankState, Replies, Run, Session, Start};
use std::collections::BTreeMap;
use std::io::BufReader;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use teardown::{Ending, StepWords};

/// Exit status of a process that was started as a worker and cannot be one.
const NO_WORKER: i32 = 102;
/// Limit on the time a library may take to clean up when the process ends.
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
            eprintln!("collspec worker: {}", collspec_core::printable::printable(&error.to_string()));
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
    if let Err(error) = watch::start(backend).and_then(|()| kernel_watch::start(backend)) {
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
    let mut worker = Worker {
        backend,
        replies,
        arena,
        threads: RankThreads::default(),
        current: None,
        run: None,
        kept: BTreeMap::new(),
        ending: Weak::new(),
        tags: 1,
        again: 0,
    };
    loop {
        match wire::receive::<Request>(&mut requests) {
            Ok(Some(request)) => {
                if let Err(text) = worker.answer(request) {
                    worker.replies.send(&Reply::Trouble(text));
                }
            }
            Ok(None) => leave(),
            Err(error) => {
                worker.replies.send(&Reply::Trouble(error.to_string()));
                std::process::exit(NO_WORKER);
            }
        }
    }
}

/// Ends the process for certain: a library's exit handlers may never return, least of all with ranks inside it.
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
    // Communicators that were kept for a next case have theirs still.
    shared_files::remove(shared_files::mapped_by("self"));
    std::process::exit(0)
}

/// Memory of a job that this thread may load while it should read requests.
const LOADED_AT_ONCE: u64 = 1 << 20;

/// True if nothing that could wait comes before the ranks' programs, and there is little to load: then the ranks need not wait
/// for each other, which costs a thread switch.
fn loads_at_once(backend: &Backend, run: &Run) -> bool {
    let job = run.job();
    matches!(backend.device, Device::Host)
        && job.alone()
        && !job.one_thread
        && (!run.first || run.session.reused)
        && job.arena <= LOADED_AT_ONCE
}

/// Communicators by rank and index, and the job that they were created for.
struct Kept {
    job: Arc<Job>,
    comms: Vec<Vec<CommSlot>>,
}

struct Worker {
    backend: &'static Backend,
    replies: Arc<Replies>,
    arena: Arena,
    threads: RankThreads,
    current: Option<Arc<Session>>,
    /// The last run, for messages of other parts.
    run: Option<Arc<Run>>,
    /// Kept sets of communicators, by the names that the parent gave them.
    kept: BTreeMap<SetId, Kept>,
    /// Communicators that the last [`Finish`] has not destroyed yet.
    ending: Weak<Ending>,
    /// The next unused tag; 0 is never used.
    tags: u32,
    /// The number of times that the current job ran again.
    again: u64,
}

impl Worker {
    fn answer(&mut self, request: Request) -> Result<(), String> {
        match request {
            Request::Job(job) => self.begin(*job),
            Request::Share(share) => self.begin(share.into_job()),
            Request::Again => {
                let session = self.current.clone().ok_or("nothing to run again")?;
                self.start(session, false)
            }
            Request::Ids(ids) => self.tell(|run| run.take_ids(ids)),
            Request::GrowId(number, id) => self.tell(|run| run.grow_ids.take(number, id)),
            Request::Death(death) => self.tell(|run| run.deaths.tell(death)),
            Request::Run => self.tell(Run::go),
            Request::Stop => self.tell(|run| run.stop(run.job().n as usize)),
            Request::Reached => {
                let ranks = self.run.as_ref().map(|run| run.job().ranks.clone());
                if let Some(words) = ranks.and_then(|ranks| self.backend.standing_kernels(ranks)) {
                    eprintln!("{words}");
                }
                let reached = || Reply::Reached(self.backend.library.faults_reached());
                self.replies.send(&software_gpus::refusal().map_or_else(reached, Reply::Refused));
                Ok(())
            }
            Request::Finish(finish) => self.finish(finish),
        }
    }

    fn begin(&mut self, job: Job) -> Result<(), String> {
        // A teardown still writes step words, which would overwrite those of this job.
        if self.current.is_some() || self.ending.strong_count() > 0 {
            return Err("a job before the last one was finished".into());
        }
        let job = Arc::new(job);
        let kept = self.take_kept(&job);
        self.backend.library.request_fault(&job.variation.fault)?;
        self.backend.disturb(&job)?;
        self.backend.alter_kernels(&job)?;
        let session = Arc::new(Session::new(job, kept)?);
        self.current = Some(session.clone());
        self.start(session, true)
    }

    fn tell(&self, what: impl FnOnce(&Run)) -> Result<(), String> {
        what(self.run.as_deref().ok_or("a message for a run, but there is no run")?);
        Ok(())
    }

    /// The communicators that the job names, if an equal prelude created them.
    fn take_kept(&mut self, job: &Job) -> Option<Vec<Vec<CommSlot>>> {
        let set = job.reuse?;
        let old = &self.kept.get(&set)?.job;
        let equal = old.prelude == job.prelude
            && old.comms == job.comms
            && old.configs == job.configs
            && old.one_thread == job.one_thread
            && old.ranks == job.ranks
            && old.world == job.world;
        if equal { self.kept.remove(&set).map(|kept| kept.comms) } else { None }
    }

    fn start(&mut self, session: Arc<Session>, first: bool) -> Result<(), String> {
        let job = session.job.clone();
        self.again = if first { 0 } else { self.again + 1 };
        if let Some(seed) = job.variation.seed {
            self.backend.schedule(seed.wrapping_add(self.again), &job.variation)?;
        }
        let words = u64::from(job.n) * 8;
        let arena = self.arena.ensure(job.arena.max(words), false).map_err(|e| format!("arena: {e}"))?;
        for rank in job.ranks.clone() {
            arena.word(rank).map_err(|e| e.to_string())?.store(Step::Before.word(), Ordering::Release);
        }
        self.threads(if job.one_thread { 1 } else { job.ranks.len() }, job.ranks.start)?;
        if self.tags.checked_add(job.tags).is_none() {
            self.tags = 1;
        }
        let first_tag = self.tags;
        self.tags += job.tags;
        let (backend, replies) = (self.backend, self.replies.clone());
        let mut run = Run::new(Start { backend, session, arena, first, first_tag, replies });
        run.loads_itself = !loads_at_once(backend, &run);
        let mut run = Arc::new(run);
        if !run.loads_itself && drive::load_all(&run).is_err() {
            // The ranks meet the error again, and report it.
            if let Some(run) = Arc::get_mut(&mut run) {
                run.loads_itself = true;
            }
        }
        self.run = Some(run.clone());
        // With other parts running, this process alone cannot prove a standstill.
        watch::set(job.alone().then(|| run.clone()));
        kernel_watch::set(job.alone().then(|| run.clone()));
        if job.one_thread {
            self.threads.give(0, Box::new(move || drive::all_ranks(&run)));
        } else {
            for (thread, rank) in job.ranks.clone().enumerate() {
                let run = run.clone();
                self.threads.give(thread, Box::new(move || drive::one_rank(&run, rank as usize)));
            }
        }
        Ok(())
    }

    fn threads(&mut self, threads: usize, first: u32) -> Result<(), String> {
        let replies = self.replies.clone();
        let panicked = move |thread: usize, text| {
            replies.send(&Reply::Trouble(format!("rank {} panicked: {text}", thread + first as usize)));
        };
        let stack = if matches!(self.backend.device, Device::Host) {
            rank_threads::SMALL_STACK
        } else {
            rank_threads::LARGE_STACK
        };
        self.threads.ensure(threads, stack, panicked).map_err(|e| format!("no thread for every rank: {e}"))
    }

    /// Ends the last job, and communicators as the parent says.
    fn finish(&mut self, finish: Finish) -> Result<(), String> {
        let Finish { keep, destroy, answer } = finish;
        let session = self.current.take().ok_or("no job to finish")?;
        watch::set(None);
        kernel_watch::set(None);
        self.run = None;
        if !answer && (keep.is_none() || !destroy.is_empty()) {
            return Err("communicators are destroyed without an answer".into());
        }
        if destroy.iter().any(|set| !self.kept.contains_key(set)) {
            return Err("a set of communicators is destroyed that is not kept".into());
        }
        // This thread must continue to read requests, so it never waits for a rank.
        let states = session.states.iter().map(|state| state.try_lock()).collect::<Result<Vec<_>, _>>();
        let mut states = states.map_err(|_| "a rank is still at work")?;
        let words = StepWords::new(self.arena.mapping().clone(), session.job.n);
        let ending = Ending::new(words, answer.then(|| self.replies.clone()));
        self.ending = Arc::downgrade(&ending);
        let mut comms = Vec::with_capacity(states.len());
        for (rank, state) in states.iter_mut().enumerate() {
            comms.push(std::mem::take(&mut state.comms));
            self.give_back(rank, std::mem::take(&mut **state), &session.job, &ending);
        }
        let own = Kept { job: session.job.clone(), comms };
        match keep {
            Some(set) => _ = self.kept.insert(set, own),
            None => teardown::destroy(&self.threads, self.backend, own, ending.clone()),
        }
        for set in destroy.iter().filter_map(|set| self.kept.remove(set)) {
            teardown::destroy(&self.threads, self.backend, set, ending.clone());
        }
        Ok(())
    }

    /// Releases a rank's streams and memory. A driver may wait for work that the library left on the device, so the rank's
    /// thread does that; in software the memory is freed at once.
    fn give_back(&self, rank: usize, state: RankState, job: &Job, ending: &Arc<Ending>) {
        if !matches!(self.backend.device, Device::Host) && job.ranks.contains(&(rank as u32)) {
            let thread = if job.one_thread { 0 } else { rank - job.ranks.start as usize };
            let ending = ending.clone();
            self.threads.give(thread, Box::new(move || drop((state, ending))));
        }
    }
}

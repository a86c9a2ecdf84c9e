//! The state that a worker keeps of a job between its runs, and the state of one run that its rank threads share.
use super::barrier::Barrier;
use super::deaths::Deaths;
use super::grow_ids::{GrowIds, given_id, id_bytes};
use super::rank::GraphMaps;
use super::rank::Halt;
use super::rank::registrations::Registered;
use super::watch;
use crate::backend::{
    Backend, CallError, CommSlot, DeviceGraph, DeviceMemory, DeviceStream, SetAside, Staging, software_gpus,
};
use crate::job::arena::{Mapping, Step};
use crate::job::wire;
use crate::job::{
    Answers, CallKind, ELSEWHERE, Id, Job, Kernels, MachineReport, RankEnd, RankReport, Reply, Report, Work,
};
use nccl_sys::ncclUniqueId;
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// One rank's communicators, streams and memory, from the job's start to its end.
#[derive(Default)]
pub struct RankState {
    /// Graphs by their numbers. They are dropped before the resources that they use.
    pub graphs: BTreeMap<u32, DeviceGraph>,
    /// Host memory of the maps of graphs, and the run to which they report.
    pub graph_maps: GraphMaps,
    /// Communicators by index; null handles where the rank is not a member.
    pub comms: Vec<CommSlot>,
    /// Streams by index.
    pub streams: Vec<DeviceStream>,
    /// The rank's allocations, by index in the job, ascending.
    pub memory: Vec<(u32, DeviceMemory)>,
    /// Copies taken by its checkpoints, by index in the job, ascending.
    pub shadows: Vec<(u32, DeviceMemory)>,
    /// For each stream, the host memory that its digests share.
    pub digest_places: BTreeMap<u32, SetAside>,
    /// The memory registered with its communicators.
    pub registered: Vec<Registered>,
    /// Host memory through which data is copied in and out; `None` until memory is loaded.
    pub staging: Option<Staging>,
    /// Staging for the images of a rank whose process ends, because its maps may still be using the other one then.
    pub staging_at_death: Option<Staging>,
}

impl RankState {
    /// Frees everything that loading has created.
    pub fn unload(&mut self) {
        *self = Self { comms: std::mem::take(&mut self.comms), ..Self::default() };
    }
}

/// A job in a worker.
pub struct Session {
    /// The job to run.
    pub job: Arc<Job>,
    /// True if the communicators were kept from an earlier job.
    pub reused: bool,
    pub states: Vec<Mutex<RankState>>,
    /// Allocations by rank.
    pub allocs: Vec<Vec<u32>>,
    /// Checkpoints by rank.
    pub checkpoints: Vec<Vec<u32>>,
}

impl Session {
    /// A job on communicators of an earlier one, if there are some (by rank and index).
    pub fn new(job: Arc<Job>, kept: Option<Vec<Vec<CommSlot>>>) -> Result<Self, String> {
        let n = job.n as usize;
        let by_rank = |ranks: &mut dyn Iterator<Item = u32>| -> Result<Vec<Vec<u32>>, String> {
            let mut lists = vec![Vec::new(); n];
            for (index, rank) in ranks.enumerate().filter(|(_, rank)| *rank != ELSEWHERE) {
                lists.get_mut(rank as usize).ok_or("a rank outside the world")?.push(index as u32);
            }
            Ok(lists)
        };
        if job.prelude.len() != n || job.programs.len() != n {
            return Err("not a program for every rank".into());
        }
        if job.timed.is_some() && job.one_thread {
            return Err("ranks on one thread are not timed".into());
        }
        let dies = job.programs.iter().flatten().any(|call| matches!(call.kind, CallKind::Exit { death: Some(_), .. }));
        if dies && job.ranks.len() != 1 {
            return Err("a rank that is to die alone has no process of its own".into());
        }
        if job.ranks.is_empty() || job.ranks.end > job.n || (job.one_thread && !job.alone()) {
            return Err("not the ranks of a part".into());
        }
        let allocs = by_rank(&mut job.allocs.iter().map(|a| a.rank))?;
        let checkpoints = by_rank(&mut job.checkpoints.iter().map(|c| c.rank))?;
        let reused = kept.is_some();
        let mut kept = kept.unwrap_or_default().into_iter();
        let comms = job.comms.len();
        let states = (0..n).map(|_| {
            let mut handles = kept.next().unwrap_or_default();
            handles.resize_with(comms, CommSlot::default);
            Mutex::new(RankState { comms: handles, ..RankState::default() })
        });
        let states = states.collect();
        Ok(Self { job, reused, states, allocs, checkpoints })
    }

    /// A rank's state; waits until no other thread has it.
    pub fn state(&self, rank: usize) -> MutexGuard<'_, RankState> {
        self.states[rank].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One run of a job.
pub struct Run {
    /// The library and the device.
    pub backend: &'static Backend,
    /// The job and the state kept between its runs.
    pub session: Arc<Session>,
    /// The arena shared with the parent.
    pub arena: Arc<Mapping>,
    /// True if the communicators must be created (or are reused) and memory be allocated first.
    pub first: bool,
    /// True if each rank's thread loads the rank's memory; otherwise that has been done already.
    pub loads_itself: bool,
    /// Tags of this run start here, so that a tag is not used twice on a communicator.
    pub first_tag: u32,
    /// The barrier of all ranks in this process before the program.
    pub barrier: Barrier,
    ids: Vec<OnceLock<Result<ncclUniqueId, CallError>>>,
    /// The unique ids that live communicators give.
    pub grow_ids: GrowIds,
    /// The deaths that the parent has reported.
    pub deaths: Deaths,
    stop: AtomicBool,
    /// True once all parts are loaded, with the condition that wakes those who sleep or wait for other parts.
    sleepers: (Mutex<bool>, Condvar),
    live: AtomicUsize,
    reports: Mutex<Vec<RankReport>>,
    failed_maps: Mutex<Vec<(u32, u32, String)>>,
    reported: AtomicBool,
    replies: Arc<Replies>,
}

/// The pipe to the parent.
pub struct Replies {
    pipe: Mutex<Pipe>,
    /// The process that may use it.
    process: u32,
}

struct Pipe {
    file: File,
    /// Set when the ranks are loaded, with the time; sent with the next message.
    loaded: Option<(bool, Instant)>,
}

impl Replies {
    /// Replies on this pipe.
    pub fn new(file: File) -> Self {
        Self { pipe: Mutex::new(Pipe { file, loaded: None }), process: std::process::id() }
    }
    /// Records that the ranks are loaded, which is sent to the parent with the next message.
    pub fn loaded(&self, reused: bool) {
        self.pipe().loaded = Some((reused, Instant::now()));
    }
    fn pipe(&self) -> MutexGuard<'_, Pipe> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Sends one message. A parent that is gone needs no answer: the end of its standard input ends this process.
    pub fn send(&self, reply: &Reply) {
        if std::process::id() != self.process {
            // a library has forked, and its call has returned in the child as well: the child is not the worker
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        let mut pipe = self.pipe();
        let mut earlier = Vec::new();
        if let Some((reused, since)) = pipe.loaded.take() {
            // a message of a few bytes is never too long
            let _ = wire::put(&mut earlier, &Reply::Loaded { reused, ago: since.elapsed() });
        }
        if let Err(error) = wire::send_behind(&mut pipe.file, &mut earlier, reply) {
            eprintln!("collspec worker: {error}");
        }
    }
}

/// The parameters of a run.
pub struct Start {
    /// The library and the device.
    pub backend: &'static Backend,
    /// The job and the state kept between its runs.
    pub session: Arc<Session>,
    /// The arena shared with the parent.
    pub arena: Arc<Mapping>,
    /// The value for [`Run::first`].
    pub first: bool,
    /// The value for [`Run::first_tag`].
    pub first_tag: u32,
    /// Replies to the parent.
    pub replies: Arc<Replies>,
}

impl Run {
    /// A run in which nothing has happened yet.
    pub fn new(start: Start) -> Self {
        let Start { backend, session, arena, first, first_tag, replies } = start;
        let job = &session.job;
        let n = job.n as usize;
        let threads = if job.one_thread { 1 } else { job.ranks.len() };
        // What an earlier run could do without is no reason for an error of this one.
        software_gpus::forget_refusals();
        let blank = RankReport {
            end: RankEnd::Running { call: 0 },
            codes: Vec::new(),
            figures: Vec::new(),
            answers: Answers::default(),
            times: Vec::new(),
            work: None,
            machine: None,
        };
        Self {
            backend,
            arena,
            first,
            loads_itself: true,
            first_tag,
            barrier: Barrier::new(threads),
            ids: (0..job.ids).map(|_| OnceLock::new()).collect(),
            grow_ids: GrowIds::new(job.grow_ids),
            deaths: Deaths::default(),
            stop: AtomicBool::new(false),
            sleepers: (Mutex::new(false), Condvar::new()),
            live: AtomicUsize::new(threads),
            reports: Mutex::new(vec![blank; n]),
            failed_maps: Mutex::new(Vec::new()),
            reported: AtomicBool::new(false),
            replies,
            session,
        }
    }

    /// The job that is run.
    pub fn job(&self) -> &Job {
        &self.session.job
    }

    /// A unique id of this run; waits for it where another part makes it.
    pub fn id(&self, index: u32) -> Result<ncclUniqueId, Halt> {
        let cell = self.ids.get(index as usize);
        let cell = cell.ok_or_else(|| Halt::Trouble("the job names a unique id that it does not have".into()))?;
        if !self.job().ranks.contains(&self.job().makes_ids) {
            let mut guard = self.awake();
            while cell.get().is_none() {
                if self.stopped() {
                    return Err(Halt::Stopped);
                }
                guard = self.sleepers.1.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
        }
        Ok(cell.get_or_init(|| self.backend.library.unique_id()).clone()?)
    }

    /// Makes the unique ids and hands them to the other parts, if there are any and they can need them in this run.
    pub fn share_ids(&self, rank: usize) {
        let job = self.job();
        if rank != job.makes_ids as usize || job.alone() || job.ids == 0 {
            return;
        }
        let opening_ids = job.world.map_or(0, |world| world.opening_ids);
        // communicators of the prelude live on; those of the programs are created in every run
        if opening_ids == job.ids && (!self.first || self.session.reused) {
            return;
        }
        let ids = self.ids.iter().map(|cell| id_bytes(cell.get_or_init(|| self.backend.library.unique_id())));
        self.replies.send(&Reply::Ids(ids.collect()));
    }

    /// Hands the id that a live communicator gave to the ranks that wait for it, also in other parts.
    pub fn share_grow_id(&self, number: u32, id: Result<ncclUniqueId, CallError>) -> Result<(), Halt> {
        if !self.job().alone() {
            self.replies.send(&Reply::GrowId(number, id_bytes(&id)));
        }
        let known = self.grow_ids.give(number, id);
        if known { Ok(()) } else { Err(Halt::Trouble("the job names a unique id that it does not have".into())) }
    }

    /// The id that a live communicator gives for ranks that join it; waits for it, unless this thread drives all ranks, so that
    /// none of them could give it in the meantime.
    pub fn grow_id(&self, number: u32) -> Result<ncclUniqueId, Halt> {
        let given = self.grow_ids.wait(number, || self.stopped() || self.job().one_thread);
        Ok(given.ok_or(Halt::Stopped)??)
    }

    /// Tells the parent that a rank of another process may die now, as far as a rank in this process is concerned, and waits until it
    /// has; false if the run is stopped.
    pub fn await_death(&self, death: u32) -> bool {
        self.replies.send(&Reply::AtDeath(death));
        self.deaths.wait(death, || self.stopped())
    }

    /// Takes the ids that another part created.
    pub fn take_ids(&self, ids: Vec<Id>) {
        for (cell, id) in self.ids.iter().zip(ids) {
            let _ = cell.set(given_id("ncclGetUniqueId", id));
        }
        let _guard = self.awake();
        self.sleepers.1.notify_all();
    }

    /// Waits until every rank of every part is here.
    ///
    /// # Errors
    ///
    /// A rank has failed.
    pub fn meet(&self) -> Result<(), Halt> {
        self.barrier.wait(|| self.loaded(), watch::consider).map_err(|_| Halt::Stopped)?;
        if self.job().alone() {
            return Ok(());
        }
        let mut go = self.awake();
        while !*go {
            if self.stopped() {
                return Err(Halt::Stopped);
            }
            go = self.sleepers.1.wait(go).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// All parts are loaded.
    pub fn go(&self) {
        *self.awake() = true;
        self.sleepers.1.notify_all();
    }

    fn awake(&self) -> MutexGuard<'_, bool> {
        self.sleepers.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how far a rank is.
    pub fn step(&self, rank: usize, step: Step) {
        if let Ok(word) = self.arena.word(rank as u32) {
            word.store(step.word(), Ordering::Release);
        }
    }

    fn reports(&self) -> MutexGuard<'_, Vec<RankReport>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call answered something but success.
    pub fn record_code(&self, rank: usize, call: u32, code: i32, text: String) {
        self.reports()[rank].codes.push((call, code, text));
    }

    /// The answers of NCCL's query functions on a rank.
    pub fn record_answers(&self, rank: usize, f: impl FnOnce(&mut Answers)) {
        f(&mut self.reports()[rank].answers);
    }

    /// Records the times of a rank's iterations, and the work of their kernels.
    pub fn record_times(&self, rank: usize, times: Vec<f64>, work: Option<Work>) {
        let report = &mut self.reports()[rank];
        (report.times, report.work) = (times, work);
    }

    /// Waits until every rank that lives here is here, without telling the parent.
    ///
    /// # Errors
    ///
    /// A rank has failed.
    pub fn meet_again(&self) -> Result<(), Halt> {
        self.barrier.wait(|| (), watch::consider).map_err(|_| Halt::Stopped)
    }

    /// True once some rank has failed.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Tells the other ranks in this process to stop, because this one (of whichever part) failed.
    pub fn stop(&self, rank: usize) {
        {
            let _guard = self.awake();
            self.stop.store(true, Ordering::Release);
            self.sleepers.1.notify_all();
        }
        self.grow_ids.wake();
        self.deaths.wake();
        self.barrier.break_by(rank as u32);
        self.backend.device.wake_hosts();
    }

    /// Sleeps, unless the run is stopped.
    pub fn sleep(&self, time: Duration) {
        self.backend.device.begin();
        let end = Instant::now().checked_add(time);
        let mut guard = self.awake();
        while !self.stopped() {
            let left = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            guard = self.sleepers.1.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A map of this rank has no value (called on the device's thread).
    pub fn map_failed(&self, rank: usize, call: u32, text: String) {
        self.failed_maps.lock().unwrap_or_else(PoisonError::into_inner).push((rank as u32, call, text));
        self.stop(rank);
    }

    /// The first map of this rank that has no value.
    pub fn failed_map(&self, rank: usize) -> Option<(u32, String)> {
        let failed = self.failed_maps.lock().unwrap_or_else(PoisonError::into_inner);
        failed.iter().find(|(r, ..)| *r as usize == rank).map(|(_, call, text)| (*call, text.clone()))
    }

    /// Tells the parent that all ranks are loaded, so that it starts the time limit.
    pub fn loaded(&self) {
        let reused = self.session.reused;
        if self.job().alone() && !self.job().words_unseen {
            self.replies.loaded(reused);
        } else {
            self.replies.send(&Reply::Loaded { reused, ago: Duration::ZERO });
        }
    }

    /// Records the end of a rank.
    pub fn end(&self, rank: usize, end: RankEnd, figures: Vec<crate::job::Figure>) {
        let mut reports = self.reports();
        reports[rank].end = end;
        reports[rank].figures = figures;
    }

    /// A rank thread has finished; the last one sends the report.
    pub fn leave(&self) {
        if self.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            if !self.reported.swap(true, Ordering::AcqRel) {
                // No rank has anything further to report, so the reports are moved rather than copied.
                let ranks = std::mem::take(&mut *self.reports());
                let erred = |r: &RankReport| !r.codes.is_empty() || matches!(r.end, RankEnd::Error { .. });
                let refusal = software_gpus::refusal().filter(|_| ranks.iter().any(erred));
                self.replies.send(&refusal.map_or_else(|| Reply::Done(self.report(ranks)), Reply::Refused));
            }
        } else {
            watch::consider();
        }
    }

    /// The report on the ranks that live here, of those on all.
    fn report(&self, mut ranks: Vec<RankReport>) -> Report {
        let own = &self.job().ranks;
        ranks.truncate(own.end as usize);
        ranks.drain(..(own.start as usize).min(ranks.len()));
        if let Some(first) = ranks.first_mut().filter(|_| self.job().variation.concerns_machine()) {
            // A function whose text cannot be read has failed where it was entered.
            let noted = self.job().variation.kernels;
            let (mut executed, mut reached) = (Vec::new(), Vec::new());
            match noted {
                Some(Kernels::Noted) => executed = software_gpus::executed().unwrap_or_default(),
                Some(Kernels::NotedByNumber) => reached = software_gpus::reached().unwrap_or_default(),
                Some(Kernels::Mutant(_)) | None => {}
            }
            first.machine = Some(MachineReport { executed, reached, ..software_gpus::disturbed() });
        }
        Report { ranks, reached: self.backend.library.faults_reached() }
    }

    /// Threads that have not left.
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Acquire)
    }

    /// Reports that no rank can continue, what the ranks wait for, and the progress of each. If a rank has failed, that failure is the result of the run: the
    /// others wait only because they cannot be stopped.
    pub fn stuck(&self, waits: String) {
        let mut ranks = self.reports().clone();
        for (rank, report) in ranks.iter_mut().enumerate() {
            if let RankEnd::Running { call } = &mut report.end {
                let word = self.arena.word(rank as u32).map_or(0, |w| w.load(Ordering::Acquire));
                match Step::of(word) {
                    Step::Running(at) => *call = at,
                    Step::Opening(at) => report.end = RankEnd::Opening { call: Some(at) },
                    Step::Before | Step::Done | Step::Ending => {}
                }
            }
        }
        if !self.reported.swap(true, Ordering::AcqRel) {
            let report = self.report(ranks);
            let told = if self.stopped() { Reply::Done(report) } else { Reply::Stuck { waits, report } };
            // Ranks may wait for one that did not get what it needs.
            self.replies.send(&software_gpus::refusal().map_or(told, Reply::Refused));
        }
    }

    /// Reports that the worker itself cannot continue.
    pub fn trouble(&self, text: String) {
        if !self.reported.swap(true, Ordering::AcqRel) {
            self.replies.send(&Reply::Trouble(text));
        }
    }
}

//! Begins runs: the job that the parent has sent, and those that follow it in a series, which the thread of the last rank begins.
use super::rank_threads::{self, RankThreads};
use super::session::{RankState, Replies, Run, Session, Start};
use super::{Kept, drive, watch};
use crate::backend::{Backend, CommSlot, Device};
use crate::job::Job;
use crate::job::arena::{Mapping, Step};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory of a job that one thread may load for all ranks.
const LOADED_AT_ONCE: u64 = 1 << 20;

/// True if nothing that could wait comes before the ranks' programs, and there is little to load: then the ranks need not wait
/// for each other, which costs a change of threads.
fn loads_at_once(backend: &Backend, run: &Run) -> bool {
    let job = run.job();
    matches!(backend.device, Device::Host)
        && job.alone()
        && !job.one_thread
        && (!run.first || run.session.reused)
        && job.arena <= LOADED_AT_ONCE
}

/// What the main thread and the thread that begins the next job of a series share.
pub struct Core {
    /// Library and device.
    pub backend: &'static Backend,
    /// To the parent.
    pub replies: Arc<Replies>,
    now: Mutex<Now>,
}

/// The present job.
pub struct Now {
    /// The job that is not finished.
    pub current: Option<Arc<Session>>,
    /// The last run, for messages of other parts.
    pub run: Option<Arc<Run>>,
    /// The ranks' threads.
    pub threads: RankThreads,
    /// Jobs that follow in the series.
    left: VecDeque<Job>,
    /// Jobs of the series that have ended.
    ended: u64,
    /// The next unused tag; 0 is never used.
    tags: u32,
}

impl Core {
    /// Without a job.
    pub fn new(backend: &'static Backend, replies: Arc<Replies>) -> Self {
        let threads = RankThreads::default();
        let now = Now { current: None, run: None, threads, left: VecDeque::new(), ended: 0, tags: 1 };
        Self { backend, replies, now: Mutex::new(now) }
    }

    /// The present job. No thread keeps it while it waits.
    pub fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a job, perhaps on communicators of an earlier one, with those that follow it.
    ///
    /// # Errors
    ///
    /// The job is none, or no memory or thread is there for it.
    pub fn begin(
        self: &Arc<Self>,
        arena: &Arc<Mapping>,
        job: Job,
        comms: Option<Vec<Vec<CommSlot>>>,
        left: VecDeque<Job>,
    ) -> Result<(), String> {
        self.backend.library.request_fault(&job.fault)?;
        let session = Arc::new(Session::new(Arc::new(job), comms)?);
        let mut now = self.now();
        now.current = Some(session.clone());
        (now.left, now.ended) = (left, 0);
        self.start(&mut now, arena, session, true)
    }

    /// Runs the present job once more.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn again(self: &Arc<Self>, arena: &Arc<Mapping>) -> Result<(), String> {
        let mut now = self.now();
        let session = now.current.clone().ok_or("nothing to run again")?;
        self.start(&mut now, arena, session, false)
    }

    fn start(
        self: &Arc<Self>,
        now: &mut Now,
        arena: &Arc<Mapping>,
        session: Arc<Session>,
        first: bool,
    ) -> Result<(), String> {
        let job = session.job.clone();
        reset_words(arena, &job)?;
        self.threads(&mut now.threads, if job.one_thread { 1 } else { job.ranks.len() }, job.ranks.start)?;
        if now.tags.checked_add(job.tags).is_none() {
            now.tags = 1;
        }
        let first_tag = now.tags;
        now.tags += job.tags;
        let (backend, replies) = (self.backend, self.replies.clone());
        let mut run = Run::new(Start { backend, session, arena: arena.clone(), first, first_tag, replies });
        run.is_followed = !now.left.is_empty();
        run.loads_itself = !loads_at_once(backend, &run);
        let mut run = Arc::new(run);
        if !run.loads_itself && drive::load_all(&run).is_err() {
            // The ranks meet the error again, and report it.
            if let Some(run) = Arc::get_mut(&mut run) {
                run.loads_itself = true;
            }
        }
        now.run = Some(run.clone());
        // With other parts running, this process alone cannot prove a standstill.
        watch::set(job.alone().then(|| run.clone()));
        if job.one_thread {
            now.threads.give(0, Box::new(move || drive::all_ranks(&run)));
        } else {
            for (thread, rank) in job.ranks.clone().enumerate() {
                let (core, run) = (self.clone(), run.clone());
                let task = move || {
                    if drive::one_rank(&run, rank as usize) {
                        core.go_on(&run.arena);
                    }
                };
                now.threads.give(thread, Box::new(task));
            }
        }
        Ok(())
    }

    /// Begins the next job of the series on the communicators of the one whose last rank has ended well.
    fn go_on(self: &Arc<Self>, arena: &Arc<Mapping>) {
        if let Err(text) = self.try_to_go_on(arena) {
            self.replies.send(&crate::job::Reply::Trouble(text));
        }
    }

    fn try_to_go_on(self: &Arc<Self>, arena: &Arc<Mapping>) -> Result<(), String> {
        let mut now = self.now();
        let Some(job) = now.left.pop_front() else { return Ok(()) };
        let old = now.current.take().ok_or("no job before the next one")?;
        watch::set(None);
        now.run = None;
        let comms = take_states(&old)?.into_iter().map(|state| state.comms).collect();
        self.backend.library.request_fault(&job.fault)?;
        let session = Arc::new(Session::new(Arc::new(job), Some(comms))?);
        now.current = Some(session.clone());
        now.ended += 1;
        // The words first: whoever reads the number finds them no longer as the ended job has left them.
        reset_words(arena, &session.job)?;
        arena.word(session.job.n).map_err(|error| error.to_string())?.store(now.ended, Ordering::Release);
        self.start(&mut now, arena, session, true)
    }

    fn threads(&self, threads: &mut RankThreads, wanted: usize, first: u32) -> Result<(), String> {
        let replies = self.replies.clone();
        let panicked = move |thread: usize, text| {
            replies.send(&crate::job::Reply::Trouble(format!("rank {} panicked: {text}", thread + first as usize)));
        };
        let stack = if matches!(self.backend.device, Device::Host) {
            rank_threads::SMALL_STACK
        } else {
            rank_threads::LARGE_STACK
        };
        threads.ensure(wanted, stack, panicked).map_err(|e| format!("no thread for every rank: {e}"))
    }
}

/// What the ranks of a job have, which is over.
///
/// # Errors
///
/// A rank is still at work: nobody here may wait for one.
pub fn take_states(session: &Session) -> Result<Vec<RankState>, String> {
    let states = session.states.iter().map(|state| state.try_lock()).collect::<Result<Vec<_>, _>>();
    let states = states.map_err(|_| "a rank is still at work")?;
    Ok(states.into_iter().map(|mut state| std::mem::take(&mut *state)).collect())
}

/// No rank of the job has begun.
fn reset_words(arena: &Mapping, job: &Job) -> Result<(), String> {
    for rank in job.ranks.clone() {
        arena.word(rank).map_err(|e| e.to_string())?.store(Step::Before.word(), Ordering::Release);
    }
    Ok(())
}

impl Kept {
    /// True if the communicators are those that this job would make.
    pub fn fits(&self, job: &Job) -> bool {
        same_communicators(&self.job, job)
    }
}

/// True if both jobs would make equal communicators.
pub fn same_communicators(old: &Job, job: &Job) -> bool {
    old.prelude == job.prelude
        && old.comms == job.comms
        && old.configs == job.configs
        && old.one_thread == job.one_thread
        && old.ranks == job.ranks
        && old.world == job.world
}

//! Workers that wait for the next case, by the key they were started with.
use super::worker::Worker;
use super::{Backend, Error, proof};
use crate::child::program::Program;
use crate::cluster::{Cluster, Site};
use crate::job::SetId;
use collspec_core::scenario::Placement;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Cases with equal keys may share a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkerKey {
    /// The backend that runs the workers.
    pub backend: Backend,
    /// Variables of the case and of the runner, by name, for each part.
    pub env: Vec<Vec<(String, String)>>,
    /// Placement of the ranks.
    pub placement: Placement,
    /// For each part its position among the processes of the job; empty if there is only this process.
    pub sites: Vec<usize>,
    /// The core that its processes are bound to, if they are.
    pub core: Option<usize>,
}

/// A set of communicators that a worker keeps.
pub struct KeptSet {
    /// Its id between parent and worker.
    pub id: SetId,
    /// A fingerprint of the prelude that created it.
    pub print: u64,
    /// Its communicators, each counted once for each of its ranks.
    pub ranks: usize,
    /// The last case that used it.
    pub user: String,
}

/// A worker, and information on the cases that it ran.
pub struct Pooled {
    /// The process, or the processes.
    pub worker: Worker,
    /// The key with which the worker was started.
    pub key: WorkerKey,
    /// All communicators that it keeps, the newest last.
    pub kept: VecDeque<KeptSet>,
    /// True if its last case had a wrong result: the next case gets fresh communicators.
    pub distrusted: bool,
    /// Number of cases that it has run.
    pub cases: u64,
    /// The last case that it ran.
    pub last: Option<String>,
}

/// Limits on idle workers.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Number of idle workers.
    pub workers: usize,
    /// Number of processes of all idle workers.
    pub processes: usize,
    /// Bytes of all their arenas, which are never freed while a worker lives. The next large case on such a worker does not need new
    /// memory, which would cost more than everything the case does with it.
    pub bytes: u64,
}

impl PoolLimits {
    /// Limits for this many workers: enough processes for two of the largest kind, and any amount of memory.
    pub fn of(workers: usize) -> Self {
        Self { workers, processes: 32, bytes: u64::MAX }
    }
}

/// Arenas count as equally large up to each multiple of this, so that all small ones do.
const ARENA_STEP: u64 = 64 << 20;

/// The idle workers, ready to be used again.
pub struct Pool {
    program: Program,
    limits: PoolLimits,
    /// The other processes of the job.
    cluster: Option<Arc<Cluster>>,
    idle: Mutex<VecDeque<Pooled>>,
}

impl Pool {
    /// A pool that starts `program` and keeps at most as many idle workers as the limits allow.
    pub fn new(program: Program, limits: PoolLimits) -> Self {
        Self { program, limits, cluster: None, idle: Mutex::default() }
    }

    /// Adds the processes of this job. Two workers that span all of them may stay idle, so that a case need not start them all again.
    pub fn with_cluster(self, cluster: Option<Arc<Cluster>>) -> Self {
        let mut limits = self.limits;
        let processes = cluster.as_ref().map_or(0, |cluster| cluster.sites().len());
        limits.processes = limits.processes.max(processes.saturating_mul(2));
        Self { cluster, limits, ..self }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Pooled>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker of the key whose arena has at most `arena` bytes: preferably one with much memory, so that the case does not need a
    /// new arena, and among those one that keeps the wanted communicators; if none is idle, a new worker. A worker that died while
    /// idle is replaced. One with a larger arena stays idle, and its memory stays counted.
    pub fn take(&self, key: &WorkerKey, comms: u64, arena: u64) -> Result<Pooled, Error> {
        loop {
            let candidate = {
                let mut idle = self.idle();
                let size = |p: &Pooled| p.worker.arena.mapping().size();
                let wanted = |p: &Pooled| p.key == *key && size(p) <= arena;
                let keeps = |p: &Pooled| p.kept.iter().any(|set| set.print == comms);
                // The last of the best is the one that was idle for the shortest time.
                let best = idle.iter().enumerate().filter(|(_, p)| wanted(p));
                let at = best.max_by_key(|(_, p)| (size(p).saturating_sub(1) / ARENA_STEP, keeps(p))).map(|(at, _)| at);
                at.and_then(|at| idle.remove(at))
            };
            let Some(pooled) = candidate else { return self.fresh(key) };
            let mut pooled = pooled;
            if pooled.worker.alive() {
                return Ok(pooled);
            }
        }
    }

    /// The program that is started as a worker.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Starts a new worker. If descriptors, threads or memory do not suffice for it, the idle workers are ended first.
    ///
    /// # Errors
    ///
    /// The worker does not start, descriptors, threads or memory do not suffice for it, or it has loaded a library other than
    /// the key's.
    pub fn fresh(&self, key: &WorkerKey) -> Result<Pooled, Error> {
        let places = self.cluster.as_ref().map(|cluster| cluster.sites()).unwrap_or_default();
        let sites: Vec<Site> = key.sites.iter().filter_map(|site| places.get(*site).cloned()).collect();
        let start = || Worker::start(&self.program, &key.env, &sites);
        let worker = match start() {
            Err(Error::Resources(_) | Error::Spawn { .. }) if self.give_up_idle() => start()?,
            started => started?,
        };
        proof::check(&key.backend, worker.hello.mapped.as_deref())?;
        Ok(Pooled { worker, key: key.clone(), kept: VecDeque::new(), distrusted: false, cases: 0, last: None })
    }

    /// Ends the idle workers; true if there were any.
    fn give_up_idle(&self) -> bool {
        let idle = std::mem::take(&mut *self.idle());
        !idle.is_empty()
    }

    /// The largest arena with which a worker is kept, in bytes.
    pub fn largest_arena(&self) -> u64 {
        self.limits.bytes
    }

    /// Ends idle workers, those with the largest arenas first, until all their arenas take at most this many bytes.
    pub fn keep_within(&self, bytes: u64) {
        let mut excess = Vec::new();
        let mut idle = self.idle();
        while arenas(&idle) > bytes {
            excess.extend(without_largest(&mut idle));
        }
        drop(idle);
        drop(excess);
    }

    /// Keeps a worker for later; ends those that have been idle longest if there are too many, and those with the largest arenas if
    /// these take too much.
    pub fn put(&self, pooled: Pooled) {
        let mut excess = Vec::new();
        {
            let mut idle = self.idle();
            idle.push_back(pooled);
            let limits = self.limits;
            let many = |idle: &VecDeque<Pooled>| {
                idle.len() > limits.workers || idle.iter().map(|p| p.worker.parts()).sum::<usize>() > limits.processes
            };
            while many(&idle) {
                excess.extend(idle.pop_front());
            }
            while arenas(&idle) > limits.bytes {
                excess.extend(without_largest(&mut idle));
            }
        }
        drop(excess);
    }

    /// Process ids of the idle workers, oldest first.
    pub fn pids(&self) -> Vec<u32> {
        self.idle().iter().flat_map(|p| p.worker.pids().collect::<Vec<_>>()).collect()
    }
}

/// Bytes of the arenas of these workers.
fn arenas(idle: &VecDeque<Pooled>) -> u64 {
    idle.iter().map(|pooled| pooled.worker.arena.mapping().size()).sum()
}

/// Removes the worker with the largest arena; of several the one that has been idle longest.
fn without_largest(idle: &mut VecDeque<Pooled>) -> Option<Pooled> {
    let largest = idle.iter().enumerate().rev().max_by_key(|(_, pooled)| pooled.worker.arena.mapping().size());
    let at = largest.map(|(at, _)| at)?;
    idle.remove(at)
}

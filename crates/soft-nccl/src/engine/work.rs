//! What ranks have enqueued: batches of operations, the tasks of those that have started, and the threads that run them.
use super::channel::Channels;
use super::counts::{changed, number};
use super::ready::{Ready, TaskId};
use super::task::{BatchId, Task};
use crate::device::Done;
use crate::op::Spec;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::LazyLock;

/// Limit on the threads that run tasks at the same time: the cores that this process may use.
pub(super) static CORES: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST_THREADS));
/// More threads would wait for the lock.
const MOST_THREADS: usize = 16;

/// An operation with its number.
pub(super) struct Operation {
    pub spec: Spec,
    pub sequence: u64,
    pub tag: u32,
}

/// The operations of one group call on one communicator.
pub(super) struct Batch {
    pub comm: usize,
    /// Several threads may move its data.
    pub large: bool,
    /// Operations, for the count of pending ones.
    operations: usize,
    pub waiting: Vec<Operation>,
    /// Number of streams that have not reached this batch.
    pub streams: usize,
    pub dones: Vec<Done>,
    pub lanes: usize,
    /// Longest chain of messages so far, by tag: parallel operations do not add up.
    pub rounds: BTreeMap<u32, u64>,
    pub started: bool,
}

impl Batch {
    pub(super) fn new(comm: usize, waiting: Vec<Operation>, streams: usize) -> Self {
        let operations = waiting.len();
        let (dones, rounds) = (Vec::new(), BTreeMap::new());
        Self { comm, large: false, operations, waiting, streams, dones, lanes: 0, rounds, started: false }
    }

    /// The number of the first operation that waits for its stream.
    pub(super) fn first_sequence(&self) -> u64 {
        self.waiting.iter().map(|op| op.sequence).min().unwrap_or(u64::MAX)
    }

    /// The operations that wait for their streams, for messages.
    pub(super) fn text(&self) -> String {
        let texts = self.waiting.iter().map(|op| format!("{} (number {})", op.spec.text(), op.sequence));
        texts.collect::<Vec<_>>().join(", ")
    }
}

/// The threads that run tasks.
#[derive(Default)]
pub(super) struct Drivers {
    /// Threads that run tasks now.
    pub driving: usize,
    /// Progress threads: all, those that wait for work, and the number of these that were called and have not woken yet.
    pub threads: usize,
    pub resting: usize,
    pub called: usize,
    /// Operations with much to move that have begun and not ended.
    pub large: usize,
}

pub(super) struct Work {
    pub batches: FxHashMap<BatchId, Batch>,
    pub tasks: FxHashMap<TaskId, Box<Task>>,
    pub ready: Ready,
    pub drivers: Drivers,
    /// The communicators whose steps run right now, outside the lock.
    pub running: Vec<usize>,
    /// Threads that wait for running steps, to abort.
    pub aborting: usize,
    /// Bytes of all steps so far.
    pub moved: usize,
    /// Number of times that operations have ended or were dropped.
    pub ends: u64,
    /// Number of operations in all batches: read at every change, so it is not recomputed.
    pending: u64,
}

impl Work {
    pub(super) fn new(seed: Option<u64>) -> Self {
        Self {
            batches: FxHashMap::default(),
            tasks: FxHashMap::default(),
            ready: Ready::new(seed),
            drivers: Drivers::default(),
            running: Vec::new(),
            aborting: 0,
            moved: 0,
            ends: 0,
            pending: 0,
        }
    }

    /// Operations enqueued and not finished.
    pub(super) fn pending(&self) -> u64 {
        self.pending
    }

    /// Adds a batch that waits for its streams.
    pub(super) fn add(&mut self, batch: Batch) -> BatchId {
        let id = number();
        self.pending += batch.operations as u64;
        self.batches.insert(id, batch);
        changed();
        id
    }

    /// Adds a task that can run.
    pub(super) fn spawn(&mut self, task: Task) {
        let id = number();
        self.tasks.insert(id, Box::new(task));
        self.ready.push(id);
    }

    /// Makes a parked task ready.
    pub(super) fn wake(&mut self, task: Option<TaskId>) {
        if let Some(task) = task {
            self.ready.push(task);
            changed();
        }
    }

    pub(super) fn wake_all(&mut self, tasks: Vec<TaskId>) {
        tasks.into_iter().for_each(|task| self.wake(Some(task)));
    }

    /// Drops everything a communicator of one rank has enqueued.
    pub(super) fn drop_batches(&mut self, channels: &mut Channels, comm: usize) -> Vec<Done> {
        let tasks: Vec<_> = self.tasks.iter().filter(|(_, task)| task.comm == comm).map(|(id, _)| *id).collect();
        for id in tasks {
            if let Some(task) = self.tasks.remove(&id) {
                task.close_all(channels);
            }
        }
        let batches: Vec<BatchId> = self.batches.iter().filter(|(_, b)| b.comm == comm).map(|(id, _)| *id).collect();
        batches.into_iter().filter_map(|id| self.remove(id)).flat_map(|batch| batch.dones).collect()
    }

    pub(super) fn remove(&mut self, id: BatchId) -> Option<Batch> {
        let batch = self.batches.remove(&id)?;
        self.drivers.large -= usize::from(batch.large);
        self.pending = self.pending.saturating_sub(batch.operations as u64);
        Some(batch)
    }

    /// True if a thread runs tasks. It is responsible for every task that is ready.
    pub(super) fn is_driven(&self) -> bool {
        self.drivers.driving > 0
    }

    /// True if tasks are ready and no thread runs them.
    pub(super) fn is_left(&self) -> bool {
        !self.is_driven() && !self.ready.is_empty()
    }

    /// True if there are tasks that one more thread should run.
    pub(super) fn wants_driver(&self) -> bool {
        // An order drawn from a seed is that of one thread.
        let most = if self.drivers.large > 0 && !self.ready.is_shuffled() { *CORES } else { 1 };
        self.drivers.driving < most && !self.ready.is_empty()
    }
}

//! The engine: one lock over all state, and a thread, or several where there is much to move, that run tasks step by step.
//!
//! Host threads enqueue batches of operations and wait for each other; streams report that a batch's turn has come; a host
//! thread that waits for its stream, or else a progress thread, runs every ready task until it parks on a message, a free slot
//! or the end of its script. The lock is released while a step touches memory, while `Done`s are given back and while the idle hook runs.
//!
//! Why tasks and not a blocked thread for each rank: threads cost fifteen times as much at 1,024 ranks, and tasks let a hang be proved.
//! When no task is ready, no stream item can run and every rank's thread waits, nothing will ever move.
mod arithmetic;
mod background;
mod batch;
mod capture;
mod changing;
mod channel;
mod connect;
mod ending;
mod forming;
mod growing;
mod hosts;
mod member;
mod one_sided;
mod progress;
mod remote;
mod rendezvous;
mod report;
mod room;
mod step;
mod task;
mod trace;
mod windows;

pub(crate) use background::{Outcomes, begin, run, wait_for};
pub(crate) use batch::{ByComm, NO_CHOICE, Request};
pub(crate) use capture::{Destination, capture, destination};
pub(crate) use connect::connect;
pub(crate) use ending::{end_operations, mark_revoked};
pub(crate) use hosts::{Arrival, abort, arrive, destroy, finalize, outcome};
pub(crate) use member::Member;
pub(crate) use one_sided::MOST_SIGNALS;
pub use trace::MOST_TRACED_MESSAGES;
pub(crate) use windows::{Memory, WindowRequest, register_windows};

use crate::failure::Failure;
use crate::transport::id;
use crate::transport::{Id, Link, Name, Receiver, Ways, deliver_to};
use background::Progress;
use batch::{Batch, BatchId};
use changing::Place;
use channel::{Channel, ChannelId, ChannelKey};
use forming::Forming;
use hosts::BlockedHost;
use member::CommShared;
use one_sided::Inbox;
pub(crate) use progress::ensure_started;
use progress::{Drivers, Ready};
use rendezvous::{PendingJoin, Rendezvous, Split};
use rustc_hash::FxHashMap;
use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use task::{Task, TaskId};
use windows::Registered;

/// All state of the library, under one lock.
pub(crate) struct State {
    /// Live communicators of single ranks, by handle. A handle is a number that is never used again.
    pub members: FxHashMap<usize, Member>,
    shared: FxHashMap<u64, CommShared>,
    /// Meetings by unique ids of this process.
    rendezvous: HashMap<Id, Rendezvous>,
    /// Ids with which ranks of several processes could not meet; ranks that arrive later get the same answer.
    spoiled: VecDeque<(Id, Failure)>,
    /// Ranks of this process that wait for an answer, by token.
    pending_joins: FxHashMap<u64, PendingJoin>,
    /// Communicators whose parts other processes are making.
    formings: HashMap<u64, Forming>,
    /// Ways to other processes.
    links: HashMap<Name, Link>,
    /// Ways that the transport's thread has opened for the events that it delivers, before it took the lock.
    ways: Ways,
    /// Links with frames for which no write was tried yet.
    unwritten: Vec<Name>,
    /// Puts that wait for room on the way to a process.
    awaiting_room: HashMap<Name, Vec<TaskId>>,
    /// Something happened that may have made a link unnecessary.
    sweep_due: bool,
    /// Communicators that span processes, by their names among these processes.
    uids: HashMap<u128, u64>,
    /// Communicators of single ranks that must be stopped because another process is gone.
    doomed: Vec<usize>,
    splits: HashMap<Place, Split>,
    registered: Registered,
    /// Signals by communicator and the rank that received them.
    inboxes: FxHashMap<(u64, usize), Inbox>,
    waiting_hosts: FxHashMap<u64, BlockedHost>,
    blocked_hosts: usize,
    /// Non-blocking calls that are not over, by handle.
    progress: FxHashMap<usize, Progress>,
    /// Number of threads that continue non-blocking calls and are not waiting.
    background: usize,
    tasks: FxHashMap<TaskId, Box<Task>>,
    ready: Ready,
    /// The communicators whose steps run right now, outside the lock.
    running: Vec<usize>,
    /// Threads that wait for running steps, to abort.
    aborting: usize,
    drivers: Drivers,
    /// Bytes of all steps so far.
    moved: usize,
    /// Number of times that operations have ended or were dropped.
    ends: u64,
    channels: Vec<Option<Channel>>,
    free_channels: Vec<ChannelId>,
    index: FxHashMap<ChannelKey, ChannelId>,
    eager: FxHashMap<(u64, usize, usize), usize>,
    batches: FxHashMap<BatchId, Batch>,
    /// Number of operations in all batches: read at every change, so it is not recomputed.
    pending: u64,
    next: u64,
    pub epoch: u64,
    hook: Option<extern "C" fn()>,
    /// The file to which messages are written down.
    trace: Option<trace::Trace>,
}

struct Engine {
    state: LazyLock<Mutex<State>>,
    /// Progress threads wait here for ready tasks that no host thread runs, or more of them than one thread can.
    work: Condvar,
    /// Aborting threads wait here for running steps.
    step_over: Condvar,
    /// Destroying threads wait here for their last frames to be written.
    written: Condvar,
}

static ENGINE: Engine = Engine {
    state: LazyLock::new(|| Mutex::new(State::new())),
    work: Condvar::new(),
    step_over: Condvar::new(),
    written: Condvar::new(),
};

/// The state while it is locked.
pub(crate) struct Locked(MutexGuard<'static, State>);

impl std::ops::Deref for Locked {
    type Target = State;
    fn deref(&self) -> &State {
        &self.0
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.0
    }
}

/// Tasks of all communicators take turns in the order of this seed from now on.
pub fn schedule(seed: u64) {
    lock().ready.shuffle(seed);
}

/// An id that other processes can use as well. Its ranks may all be theirs, so the transport must know its receiver from now on.
pub(crate) fn public_id() -> Id {
    drop(lock());
    id::public()
}

/// Locks the state. The C entry point handles a panic under the lock; the state that it leaves stays usable enough to
/// report and to end.
pub(crate) fn lock() -> Locked {
    Locked(ENGINE.state.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Locked {
    fn wait(self, condvar: &Condvar) -> Self {
        Self(condvar.wait(self.0).unwrap_or_else(PoisonError::into_inner))
    }

    fn wait_a_while(self, condvar: &Condvar, limit: Duration) -> Self {
        Self(condvar.wait_timeout(self.0, limit).unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl State {
    fn new() -> Self {
        deliver_to(Receiver { links: remote::links, deliver: remote::deliver });
        Self {
            members: FxHashMap::default(),
            shared: FxHashMap::default(),
            rendezvous: HashMap::new(),
            spoiled: VecDeque::new(),
            pending_joins: FxHashMap::default(),
            formings: HashMap::new(),
            links: HashMap::new(),
            ways: Ways::new(),
            unwritten: Vec::new(),
            awaiting_room: HashMap::new(),
            sweep_due: false,
            uids: HashMap::new(),
            doomed: Vec::new(),
            splits: HashMap::new(),
            registered: Registered::default(),
            inboxes: FxHashMap::default(),
            waiting_hosts: FxHashMap::default(),
            blocked_hosts: 0,
            progress: FxHashMap::default(),
            background: 0,
            tasks: FxHashMap::default(),
            ready: Ready::new(crate::settings::settings().seed),
            running: Vec::new(),
            aborting: 0,
            drivers: Drivers::default(),
            moved: 0,
            ends: 0,
            channels: Vec::new(),
            free_channels: Vec::new(),
            index: FxHashMap::default(),
            eager: FxHashMap::default(),
            batches: FxHashMap::default(),
            pending: 0,
            next: 1,
            epoch: 0,
            hook: None,
            trace: trace::Trace::open(),
        }
    }

    /// A number never given out before.
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn changed(&mut self) {
        self.epoch += 1;
    }

    /// True if something moves, or waits for another process, whose state is unknown.
    pub(crate) fn busy(&self) -> bool {
        self.is_driven() || self.background > 0 || !self.ready.is_empty() || self.depends_on_others()
    }

    pub(crate) fn blocked_hosts(&self) -> usize {
        self.blocked_hosts
    }

    /// Operations enqueued and not finished.
    pub(crate) fn pending(&self) -> u64 {
        self.pending
    }

    pub(crate) fn set_hook(&mut self, hook: Option<extern "C" fn()>) {
        self.hook = hook;
    }

    pub(crate) fn hook(&self) -> Option<extern "C" fn()> {
        self.hook
    }
}

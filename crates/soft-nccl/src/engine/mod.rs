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
mod comms;
mod connect;
mod counts;
mod ending;
mod forming;
mod growing;
mod hosts;
mod links;
mod meetings;
mod member;
mod one_sided;
mod passing;
mod progress;
mod ready;
mod remote;
mod rendezvous;
mod report;
mod signals;
mod step;
mod task;
mod trace;
mod traffic;
mod waiting;
mod windows;
mod work;

pub(crate) use background::{Outcomes, begin, run, wait_for};
pub(crate) use batch::{ByComm, NO_CHOICE, Request};
pub(crate) use capture::{Destination, capture, destination};
pub(crate) use connect::connect;
pub(crate) use counts::handle as reserve;
pub(crate) use ending::{end_operations, mark_revoked};
pub(crate) use hosts::{Arrival, abort, arrive, destroy, finalize, outcome};
pub(crate) use member::Member;
pub(crate) use one_sided::MOST_SIGNALS;
pub use trace::MOST_TRACED_MESSAGES;
pub(crate) use windows::{Memory, WindowRequest, register_windows};

use crate::transport::id;
use crate::transport::{Id, Receiver, deliver_to};
use channel::Channels;
use comms::Comms;
use links::Links;
use meetings::Meetings;
pub(crate) use progress::ensure_started;
use signals::Inboxes;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trace::Trace;
use waiting::Hosts;
use windows::Registered;
use work::Work;

/// All state of the library, under one lock: what one rank's call changes, another one's waits for.
pub(crate) struct State {
    pub comms: Comms,
    meetings: Meetings,
    hosts: Hosts,
    work: Work,
    channels: Channels,
    links: Links,
    pub registered: Registered,
    inboxes: Inboxes,
    hook: Option<extern "C" fn()>,
    /// The file to which messages are written down.
    trace: Option<Trace>,
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
    lock().work.ready.shuffle(seed);
}

/// An id that other processes can use as well. All its ranks may live there, so the transport must know its receiver from now on.
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
            comms: Comms::default(),
            meetings: Meetings::default(),
            hosts: Hosts::default(),
            work: Work::new(crate::settings::settings().seed),
            channels: Channels::default(),
            links: Links::default(),
            registered: Registered::default(),
            inboxes: Inboxes::default(),
            hook: None,
            trace: Trace::open(),
        }
    }

    /// True if something moves, or waits for another process, whose state is unknown.
    pub(crate) fn busy(&self) -> bool {
        let work = &self.work;
        work.is_driven() || self.hosts.works_in_background() || !work.ready.is_empty() || self.depends_on_others()
    }

    /// Changes so far: whoever reads the same number twice has read one moment in between.
    pub(crate) fn epoch(&self) -> u64 {
        counts::changes()
    }

    pub(crate) fn blocked_hosts(&self) -> usize {
        self.hosts.blocked()
    }

    /// Operations enqueued and not finished.
    pub(crate) fn pending(&self) -> u64 {
        self.work.pending()
    }

    pub(crate) fn set_hook(&mut self, hook: Option<extern "C" fn()>) {
        self.hook = hook;
    }

    pub(crate) fn hook(&self) -> Option<extern "C" fn()> {
        self.hook
    }
}

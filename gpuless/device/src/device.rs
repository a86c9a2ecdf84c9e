//! The state under the device's one lock: ready streams, running work, and waiting hosts.
use crate::drive::{self, Driving};
use crate::executor;
use crate::stream::Stream;
use std::collections::{HashMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::Thread;

/// Everything that [`activity`] must see at one moment. The queue of each stream and the marker of each event has its own lock,
/// which is taken only while this one is held.
#[derive(Default)]
pub(crate) struct DeviceState {
    pub epoch: u64,
    /// Streams whose next item can run now.
    pub ready: VecDeque<Stream>,
    /// Threads that are at a stream.
    pub executing: usize,
    /// Executor threads that wait for a ready stream.
    pub idle: usize,
    pub pending: u64,
    /// Host threads whose condition is not met.
    pub blocked: usize,
    /// Number of calls of [`wake_hosts`].
    wakes: u64,
    /// Hosts that `wake_hosts` wakes, each under its number.
    interruptible: HashMap<u64, Arc<Waiter>>,
    next_waiter: u64,
    /// Hosts that wait no longer and sleep until the lock is given back: woken under it, they would sleep again at the lock.
    settled: Vec<Thread>,
}

static STATE: LazyLock<Mutex<DeviceState>> = LazyLock::new(Mutex::default);
static WORK: Condvar = Condvar::new();
static HOOK: RwLock<Option<extern "C" fn()>> = RwLock::new(None);

/// The device's lock, held. Hosts whose wait was settled in the meantime are woken when it is released.
pub(crate) struct Locked(Option<MutexGuard<'static, DeviceState>>);

const HELD: &str = "the guard is there until it is dropped";

impl Deref for Locked {
    type Target = DeviceState;
    fn deref(&self) -> &DeviceState {
        self.0.as_ref().expect(HELD)
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut DeviceState {
        self.0.as_mut().expect(HELD)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let settled = self.0.as_mut().map(|state| std::mem::take(&mut state.settled));
        self.0 = None;
        if let Some(settled) = settled.filter(|settled| !settled.is_empty()) {
            drive::wake_soon(settled);
        }
    }
}

pub(crate) fn lock() -> Locked {
    Locked(Some(STATE.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl DeviceState {
    pub fn busy(&self) -> bool {
        self.executing > 0 || !self.ready.is_empty()
    }
    pub fn push_ready(&mut self, stream: Stream) {
        self.epoch += 1;
        self.ready.push_back(stream);
        if !drive::looks_for_streams() {
            self.wake_executor();
        }
    }
    /// Wakes an executor thread if one waits and there is a ready stream.
    pub fn wake_executor(&self) {
        if self.idle > 0 && !self.ready.is_empty() {
            WORK.notify_one();
        }
    }
    /// A host's condition is met.
    pub fn meet(&mut self, waiter: &Waiter) {
        if self.settle(waiter, MET) {
            self.epoch += 1;
        }
    }
}

/// An executor waits for a ready stream, or returns at once because it had hosts to wake first.
pub(crate) fn wait_for_work(mut state: Locked) -> Locked {
    if !state.settled.is_empty() {
        drop(state);
        return lock();
    }
    state.idle += 1;
    let guard = state.0.take().map(|guard| WORK.wait(guard).unwrap_or_else(PoisonError::into_inner));
    let mut state = guard.map_or_else(lock, |guard| Locked(Some(guard)));
    state.idle -= 1;
    state
}

const BLOCKED: u8 = 0;
const MET: u8 = 1;
const WOKEN: u8 = 2;

/// A host thread that waits. Its state changes only under the device's lock, but the thread reads it without the lock: a thread
/// that sees the change also sees everything written before it.
pub(crate) struct Waiter {
    state: AtomicU8,
    thread: Thread,
    number: u64,
}

impl DeviceState {
    /// A waiter leaves `BLOCKED` for `to`; false if it was left before.
    fn settle(&mut self, waiter: &Waiter, to: u8) -> bool {
        let first = waiter.state.load(Ordering::Relaxed) == BLOCKED;
        if first {
            waiter.state.store(to, Ordering::Release);
            self.blocked -= 1;
            self.interruptible.remove(&waiter.number);
            self.settled.push(waiter.thread.clone());
        }
        first
    }
}

/// The condition that a host waits for. Both methods are called under the device's lock.
pub(crate) trait Condition {
    fn met(&self) -> bool;
    /// The waiter must be passed to [`DeviceState::meet`] as soon as `met` would say true.
    fn register(&self, waiter: Arc<Waiter>);
}

/// Returns true when the condition is met, or false when `stop` returns true. Until then the calling thread does the device's
/// available work, and blocks when there is none.
pub(crate) fn host_wait(condition: &dyn Condition, stop: Option<&dyn Fn() -> bool>) -> bool {
    let driving = Driving::begin();
    crate::lazy::begin_held();
    let mut state = lock();
    // `wake_hosts` calls before `stop` was asked
    let mut asked = None;
    let met = loop {
        if condition.met() {
            break true;
        }
        if let Some(stop) = stop
            && asked != Some(state.wakes)
        {
            asked = Some(state.wakes);
            drop(state);
            let stops = stop();
            state = lock();
            if stops {
                break false;
            }
            continue;
        }
        if let Some(stream) = state.ready.pop_front() {
            state = executor::turn(state, &stream);
            continue;
        }
        drop(state);
        let helped = drive::help();
        state = lock();
        // a wake-up since `stop` was asked: ask again, or it would be lost
        let woken = stop.is_some() && asked != Some(state.wakes);
        if helped || woken || condition.met() || !state.ready.is_empty() {
            continue;
        }
        if block(state, condition, stop.is_some()) {
            // This thread has made nothing ready since it found nothing to do.
            return true;
        }
        state = lock();
    };
    drop(state);
    drive::part();
    drop(driving);
    lock().wake_executor();
    met
}

/// Blocks the calling thread until the condition is met (true) or [`wake_hosts`] wakes it (false).
fn block(mut state: Locked, condition: &dyn Condition, interruptible: bool) -> bool {
    let number = state.next_waiter;
    state.next_waiter += 1;
    let waiter = Arc::new(Waiter { state: AtomicU8::new(BLOCKED), thread: std::thread::current(), number });
    condition.register(waiter.clone());
    if interruptible {
        state.interruptible.insert(number, waiter.clone());
    }
    state.blocked += 1;
    state.epoch += 1;
    drop(state);
    drive::wake_hosts();
    call_hook();
    // The hook may have ended the wait of others.
    drive::wake_hosts();
    loop {
        // The thread that settles the waiter stores first and then unparks, so that this thread sees the store or does not stay parked.
        match waiter.state.load(Ordering::Acquire) {
            BLOCKED => std::thread::park(),
            settled => return settled == MET,
        }
    }
}

/// Makes every host thread inside `synchronize_unless` call its `stop` again.
pub fn wake_hosts() {
    let mut state = lock();
    state.wakes += 1;
    state.epoch += 1;
    for waiter in std::mem::take(&mut state.interruptible).into_values() {
        state.settle(&waiter, WOKEN);
    }
}

/// One reading of the device's state; laid out as in C, because the stand-in driver hands it to other libraries.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Grows on every change of state.
    pub epoch: u64,
    /// True while an item of a stream executes or could execute now.
    pub busy: bool,
    /// Host threads that wait for something that has not happened; one that was satisfied but has not run yet does not count.
    pub blocked_hosts: usize,
    /// Items enqueued and not finished.
    pub pending: u64,
}

/// One look at the device.
pub fn activity() -> Activity {
    let state = lock();
    Activity { epoch: state.epoch, busy: state.busy(), blocked_hosts: state.blocked, pending: state.pending }
}

/// The hook is called outside all locks whenever a thread of the device ends its work so that the device is no longer busy, and
/// whenever a host thread starts to block. (A host thread that did the work itself blocks next or returns to its caller.) It
/// must be quick and must not wait for the device.
pub fn set_idle_hook(hook: Option<extern "C" fn()>) {
    *HOOK.write().unwrap_or_else(PoisonError::into_inner) = hook;
}

pub(crate) fn call_hook() {
    let hook = *HOOK.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(hook) = hook {
        hook();
    }
}

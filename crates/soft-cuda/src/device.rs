//! The device's one lock: what is ready, what runs, which hosts wait, and the census of it all.
use crate::stream::Stream;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

/// Everything that the census must see at one moment. Queues of streams and markers of events have locks of their own,
/// taken only while this one is held.
pub(crate) struct Core {
    pub epoch: u64,
    /// Streams whose next item can run now.
    pub ready: VecDeque<Stream>,
    /// Executor threads that are at a stream.
    pub executing: usize,
    /// Executor threads that wait for a ready stream.
    pub idle: usize,
    pub pending: u64,
    /// Host threads whose condition is not met.
    pub blocked: usize,
    /// Calls of [`wake_hosts`].
    wakes: u64,
    /// Hosts that `wake_hosts` wakes, by a number of their own.
    interruptible: HashMap<u64, Arc<Waiter>>,
    next_waiter: u64,
}

static CORE: Mutex<Option<Core>> = Mutex::new(None);
static WORK: Condvar = Condvar::new();
static HOOK: RwLock<Option<extern "C" fn()>> = RwLock::new(None);

/// The device's lock, held.
pub(crate) struct Locked(MutexGuard<'static, Option<Core>>);

impl std::ops::Deref for Locked {
    type Target = Core;
    fn deref(&self) -> &Core {
        self.0.as_ref().unwrap_or_else(|| unreachable!("the core is made when it is first locked"))
    }
}
impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Core {
        self.0.as_mut().unwrap_or_else(|| unreachable!("the core is made when it is first locked"))
    }
}

pub(crate) fn lock() -> Locked {
    let mut guard = CORE.lock().unwrap_or_else(PoisonError::into_inner);
    guard.get_or_insert_with(|| Core {
        epoch: 0,
        ready: VecDeque::new(),
        executing: 0,
        idle: 0,
        pending: 0,
        blocked: 0,
        wakes: 0,
        interruptible: HashMap::new(),
        next_waiter: 0,
    });
    Locked(guard)
}

impl Core {
    pub fn busy(&self) -> bool {
        self.executing > 0 || !self.ready.is_empty()
    }
    pub fn push_ready(&mut self, stream: Stream) {
        self.epoch += 1;
        self.ready.push_back(stream);
        if self.idle > 0 {
            WORK.notify_one();
        }
    }
    /// A host's condition is met.
    pub fn meet(&mut self, waiter: &Waiter) {
        if waiter.settle(MET) {
            self.blocked -= 1;
            self.epoch += 1;
        }
    }
}

/// An executor waits for a ready stream.
pub(crate) fn wait_for_work(mut core: Locked) -> Locked {
    core.idle += 1;
    let guard = WORK.wait(core.0).unwrap_or_else(PoisonError::into_inner);
    let mut core = Locked(guard);
    core.idle -= 1;
    core
}

const BLOCKED: u8 = 0;
const MET: u8 = 1;
const WOKEN: u8 = 2;

/// A host thread that waits; its state changes only under the device's lock.
pub(crate) struct Waiter {
    state: AtomicU8,
    wake: Condvar,
}

impl Waiter {
    /// Leaves `BLOCKED` for `to`; false if somebody else was first.
    fn settle(&self, to: u8) -> bool {
        let first = self.state.load(Ordering::Relaxed) == BLOCKED;
        if first {
            self.state.store(to, Ordering::Relaxed);
            self.wake.notify_one();
        }
        first
    }
}

/// What a host waits for. Both are asked under the device's lock.
pub(crate) trait Condition {
    fn met(&self) -> bool;
    /// The waiter is to be given to [`Core::meet`] as soon as `met` would say true.
    fn register(&self, waiter: Arc<Waiter>);
}

/// Blocks the calling thread until the condition is met (true), or `stop` says so (false).
pub(crate) fn host_wait(condition: &dyn Condition, stop: Option<&dyn Fn() -> bool>) -> bool {
    crate::lazy::begin_held();
    let mut core = lock();
    loop {
        if condition.met() {
            return true;
        }
        let wakes = core.wakes;
        if let Some(stop) = stop {
            drop(core);
            if stop() {
                return false;
            }
            core = lock();
            // a wake-up since `stop` was asked: ask again, or it would be lost
            if core.wakes != wakes || condition.met() {
                continue;
            }
        }
        let waiter = Arc::new(Waiter { state: AtomicU8::new(BLOCKED), wake: Condvar::new() });
        condition.register(waiter.clone());
        let number = core.next_waiter;
        core.next_waiter += 1;
        if stop.is_some() {
            core.interruptible.insert(number, waiter.clone());
        }
        core.blocked += 1;
        core.epoch += 1;
        drop(core);
        call_hook();
        core = lock();
        while waiter.state.load(Ordering::Relaxed) == BLOCKED {
            core = Locked(waiter.wake.wait(core.0).unwrap_or_else(PoisonError::into_inner));
        }
        core.interruptible.remove(&number);
        if waiter.state.load(Ordering::Relaxed) == MET {
            return true;
        }
    }
}

/// Makes every host thread inside `synchronize_unless` ask its `stop` again.
pub fn wake_hosts() {
    let mut core = lock();
    core.wakes += 1;
    core.epoch += 1;
    for waiter in std::mem::take(&mut core.interruptible).into_values() {
        if waiter.settle(WOKEN) {
            core.blocked -= 1;
        }
    }
}

/// One look at the device; laid out as in C, because the stand-in driver hands it to other libraries.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
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
pub fn census() -> Census {
    let core = lock();
    Census { epoch: core.epoch, busy: core.busy(), blocked_hosts: core.blocked, pending: core.pending }
}

/// The hook is called outside all locks whenever the device stops being busy or a host thread starts to block. It must be
/// quick and must not wait for the device.
pub fn set_idle_hook(hook: Option<extern "C" fn()>) {
    *HOOK.write().unwrap_or_else(PoisonError::into_inner) = hook;
}

pub(crate) fn call_hook() {
    let hook = *HOOK.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(hook) = hook {
        hook();
    }
}

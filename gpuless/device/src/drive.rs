//! Host threads that wait do the device's work themselves: a change to another thread would cost more than a small item does.
//!
//! The thread that makes work ready is responsible for it: a thread that [`is_driving`] does it before it blocks, or hands it over; any
//! other thread wakes one of the threads that do nothing else.
//!
//! A driving thread wakes hosts whose wait it has ended when its own has ended too, or before it blocks or does anything long: so both
//! continue one after the other, and neither interrupts the other on the same core.
use std::cell::{Cell, RefCell};
use std::sync::OnceLock;
use std::thread::Thread;

/// Functions with which a library uses waiting host threads for the device's work.
#[derive(Clone, Copy)]
pub struct Helper {
    /// Does what can be done now, until operations end or about this many bytes are moved; true if there was something to do.
    /// Called outside all locks.
    pub help: fn(usize) -> bool,
    /// Hands the remaining work to another thread.
    pub hand_over: fn(),
}

/// Number of bytes that a host thread still moves for others once its own wait is over.
const PARTING: usize = 256 << 10;
/// Calls for help at that time.
const PARTING_CALLS: usize = 8;

static HELPER: OnceLock<Helper> = OnceLock::new();

thread_local! {
    static DRIVING: Cell<bool> = const { Cell::new(false) };
    /// Hosts that no longer wait and that this thread has to wake.
    static ASLEEP: RefCell<Vec<Thread>> = const { RefCell::new(Vec::new()) };
}

/// The library that waiting host threads help; the first one stays.
pub fn set_helper(helper: Helper) {
    let _ = HELPER.set(helper);
}

/// True on a host thread that waits for the device and does its work in the meantime. It asks the [`Helper`] before it blocks, so
/// that no other thread need be woken for work that becomes ready on this one.
pub fn is_driving() -> bool {
    DRIVING.get() && HELPER.get().is_some()
}

/// True on a thread that looks for ready streams before it blocks.
pub(crate) fn looks_for_streams() -> bool {
    DRIVING.get()
}

/// The calling thread drives as long as this lives.
pub(crate) struct Driving {
    before: bool,
}

impl Driving {
    pub fn begin() -> Self {
        Self { before: DRIVING.replace(true) }
    }
}

/// The calling thread does not drive as long as this lives: it runs a function that may wait.
pub(crate) struct Pause {
    before: bool,
}

impl Pause {
    pub fn begin() -> Self {
        wake_hosts();
        Self { before: DRIVING.replace(false) }
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        DRIVING.set(self.before);
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        DRIVING.set(self.before);
        wake_hosts();
    }
}

/// Wakes hosts that wait no longer: at once, or, on a thread that drives, at the next [`wake_hosts`]. Not under the device's lock.
pub(crate) fn wake_soon(hosts: Vec<Thread>) {
    let later = DRIVING.get() && ASLEEP.try_with(|asleep| asleep.borrow_mut().extend_from_slice(&hosts)).is_ok();
    if !later {
        hosts.iter().for_each(Thread::unpark);
    }
}

/// Wakes the hosts that this thread has to wake.
pub(crate) fn wake_hosts() {
    let hosts = ASLEEP.try_with(RefCell::take).unwrap_or_default();
    hosts.iter().for_each(Thread::unpark);
}

/// Does the library's work, if there is some; not under the device's lock. With hosts to wake it does a little, and wakes them.
pub(crate) fn help() -> bool {
    let waited_for = ASLEEP.try_with(|asleep| !asleep.borrow().is_empty()).unwrap_or(false);
    let helped = HELPER.get().is_some_and(|helper| (helper.help)(if waited_for { PARTING } else { usize::MAX }));
    if waited_for {
        wake_hosts();
    }
    helped
}

/// Does a little of the library's work, and gives the rest to another thread; not under the device's lock.
pub(crate) fn part() {
    let Some(helper) = HELPER.get() else { return };
    wake_hosts();
    for _ in 0..PARTING_CALLS {
        if !(helper.help)(PARTING) {
            return;
        }
        wake_hosts();
    }
    (helper.hand_over)();
}

/// Gives the library's work to another thread, because this one is busy for a while; not under the device's lock.
pub(crate) fn hand_over() {
    if let Some(helper) = HELPER.get().filter(|_| DRIVING.get()) {
        (helper.hand_over)();
    }
}

//! Host threads that wait do the device's work themselves: a change to another thread would cost more than a small item does.
//!
//! Whoever makes work ready answers for it: a thread that [`is_driving`] does it before it blocks, or hands it over; any other
//! thread wakes one of those that do nothing else.
use std::cell::Cell;
use std::sync::OnceLock;

/// What a library does for the device with the help of waiting host threads.
#[derive(Clone, Copy)]
pub struct Helper {
    /// Does what can be done now, until operations end or about so many bytes are moved; true if there was something to do.
    /// Called outside all locks.
    pub help: fn(usize) -> bool,
    /// What is left is given to another thread.
    pub hand_over: fn(),
}

/// Bytes that a host thread still moves for others when what it waited for has happened.
const PARTING: usize = 256 << 10;
/// Calls for help at that time.
const PARTING_CALLS: usize = 8;

static HELPER: OnceLock<Helper> = OnceLock::new();

thread_local! {
    static DRIVING: Cell<bool> = const { Cell::new(false) };
}

/// The library that waiting host threads help; the first one stays.
pub fn set_helper(helper: Helper) {
    let _ = HELPER.set(helper);
}

/// True on a host thread that waits for the device and does its work meanwhile. It asks the [`Helper`] before it blocks, so
/// that no other thread need be woken for work that becomes ready here.
pub fn is_driving() -> bool {
    DRIVING.get() && HELPER.get().is_some()
}

/// True on a thread that looks for ready streams before it blocks.
pub(crate) fn looks_for_streams() -> bool {
    DRIVING.get()
}

/// As long as it lives, the calling thread drives.
pub(crate) struct Driving {
    before: bool,
}

impl Driving {
    pub fn begin() -> Self {
        Self { before: DRIVING.replace(true) }
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        DRIVING.set(self.before);
    }
}

/// Does the library's work, if there is some; not under the device's lock.
pub(crate) fn help() -> bool {
    HELPER.get().is_some_and(|helper| (helper.help)(usize::MAX))
}

/// Does a little of the library's work, and gives the rest to another thread; not under the device's lock.
pub(crate) fn part() {
    let Some(helper) = HELPER.get() else { return };
    for _ in 0..PARTING_CALLS {
        if !(helper.help)(PARTING) {
            return;
        }
    }
    (helper.hand_over)();
}

/// Gives the library's work to another thread, because this one is busy for a while; not under the device's lock.
pub(crate) fn hand_over() {
    if let Some(helper) = HELPER.get().filter(|_| DRIVING.get()) {
        (helper.hand_over)();
    }
}

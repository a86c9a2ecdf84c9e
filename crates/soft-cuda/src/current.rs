//! The calling thread's device: every rank has one of its own.
use std::cell::Cell;

thread_local! {
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The calling thread works on this device from now on.
pub fn set_current(device: usize) {
    CURRENT.set(Some(device));
}

/// The calling thread's device; `None` if it has chosen none.
pub fn current() -> Option<usize> {
    CURRENT.get()
}

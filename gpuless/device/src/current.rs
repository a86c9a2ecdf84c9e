//! The current device of the calling thread, as set by `cudaSetDevice`. Each rank has its own device.
use std::cell::Cell;

thread_local! {
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Sets the calling thread's current device.
pub fn set_current(device: usize) {
    CURRENT.set(Some(device));
}

/// The calling thread's device; `None` if it has chosen none.
pub fn current() -> Option<usize> {
    CURRENT.get()
}

//! Two counts that only grow: the numbers that were given out, and the changes of what a standstill is made of.
use std::sync::atomic::{AtomicU64, Ordering};

static NUMBERS: AtomicU64 = AtomicU64::new(1);
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// A number never given out before.
pub(super) fn number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed) + 1
}

/// A number that looks like an address but is not one: a stale or foreign handle is detected and never dereferenced.
pub(crate) fn handle() -> usize {
    (number() as usize) << 6
}

/// Counts a change: data has moved, or a thread has begun or ended to wait. It is called only under the lock of the state, so that a thread
/// that holds the lock reads a count that cannot change meanwhile.
pub(super) fn changed() {
    CHANGES.fetch_add(1, Ordering::Relaxed);
}

/// Changes so far.
pub(super) fn changes() -> u64 {
    CHANGES.load(Ordering::Relaxed)
}

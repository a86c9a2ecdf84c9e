//! Waiting by the library's idle hook, which is called whenever the answer to a question about its state may have changed:
//! it or the device falls idle, a host thread blocks, another process has joined, left or gone.
use super::{NCCL, census};
use nccl_sys::{collspecCensus_t, ncclResult_t};
use std::sync::{Condvar, Mutex};

static CALLS: Mutex<u64> = Mutex::new(0);
static CALLED: Condvar = Condvar::new();

extern "C" fn count_call() {
    *CALLS.lock().unwrap() += 1;
    CALLED.notify_all();
}

/// Waits until the condition holds: it is checked now and after every call of the hook.
pub fn when_idle(mut holds: impl FnMut() -> bool) {
    // SAFETY: a function without arguments.
    assert_eq!(unsafe { NCCL.collspecIdleHook.unwrap()(Some(count_call)) }, ncclResult_t::Success);
    let mut calls = CALLS.lock().unwrap();
    while !holds() {
        calls = CALLED.wait(calls).unwrap();
    }
}

/// Waits until nothing can move any more and at least this many host threads are blocked; returns the census at that moment.
pub fn standstill_with(hosts: i32) -> collspecCensus_t {
    let mut still = collspecCensus_t::default();
    when_idle(|| {
        still = census();
        still.busy == 0 && still.blocked_hosts >= hosts
    });
    still
}

/// Waits until nothing can move any more; answers the census then.
pub fn standstill() -> collspecCensus_t {
    standstill_with(0)
}

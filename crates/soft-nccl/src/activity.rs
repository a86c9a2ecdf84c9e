//! Proof of a standstill: whether anything moves, and which ranks wait for which others.
use crate::engine::lock;
use nccl_sys::collspecCensus_t;

/// A snapshot of the state of this library and the device.
///
/// Both are read twice: if neither epoch moved in between, all numbers belong to one moment. If they keep moving,
/// something is busy, and the answer says so. An operation of the library counts as pending in the library and, as a stream
/// item, in the device.
pub fn activity() -> collspecCensus_t {
    const TRIES: usize = 4;
    let mut snapshots = (snapshot(), snapshot());
    for _ in 0..TRIES {
        if snapshots.0 == snapshots.1 {
            return snapshots.1;
        }
        snapshots = (snapshots.1, snapshot());
    }
    collspecCensus_t { busy: 1, ..snapshots.1 }
}

fn snapshot() -> collspecCensus_t {
    let (epoch, busy, hosts, pending) = {
        let state = lock();
        (state.epoch(), state.busy(), state.blocked_hosts(), state.pending())
    };
    let device = crate::device::activity();
    collspecCensus_t {
        // Both only grow, so their sum is the same exactly if neither changed.
        epoch: epoch.wrapping_add(device.epoch),
        busy: i32::from(busy || device.busy),
        blocked_hosts: i32::try_from(hosts + device.blocked_hosts).unwrap_or(i32::MAX),
        pending: pending + device.pending,
    }
}

/// Sets the function that both the library and the device call, outside their locks, when they fall idle or a host thread
/// blocks, and the library also when another process has joined, left or gone.
pub fn set_idle_hook(hook: Option<extern "C" fn()>) {
    lock().set_hook(hook);
    crate::device::set_idle_hook(hook);
}

/// A line for every task and host thread that waits, naming the ranks it waits for.
pub fn who_waits() -> String {
    lock().who_waits()
}

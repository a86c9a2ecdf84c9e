//! What is known about communicators: what a line about one of their calls says.
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// A communicator, by its handle's address.
#[derive(Clone, Copy, Debug, Default)]
pub struct Comm {
    /// The number of its ranks.
    pub ranks: i32,
    /// The CUDA device of this rank.
    pub device: i32,
    /// The calls so far, where a group is one.
    calls: u64,
    /// The group of the last call, which the next call of that group continues.
    last_group: Option<u64>,
    /// How often it was split so far.
    splits: u64,
}

static COMMS: LazyLock<Mutex<HashMap<usize, Comm>>> = LazyLock::new(Mutex::default);

fn comms() -> MutexGuard<'static, HashMap<usize, Comm>> {
    COMMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if the communicator was added and not removed.
pub fn is_known(comm: usize) -> bool {
    comms().contains_key(&comm)
}

/// Adds a communicator that was made.
pub fn add(comm: usize, ranks: i32, device: i32) {
    comms().insert(comm, Comm { ranks, device, ..Comm::default() });
}

/// Removes a communicator: its address may be another's next.
pub fn remove(comm: usize) {
    comms().remove(&comm);
}

/// The communicator, and the number of its next call, in this group if there is one.
pub fn next_call(comm: usize, group: Option<u64>) -> (Comm, u64) {
    let mut comms = comms();
    let comm = comms.entry(comm).or_default();
    if group.is_none() || comm.last_group != group {
        comm.calls += 1;
        comm.last_group = group;
    }
    (*comm, comm.calls - 1)
}

/// The number of the communicator's next split.
pub fn next_split(comm: usize) -> u64 {
    let mut comms = comms();
    let comm = comms.entry(comm).or_default();
    comm.splits += 1;
    comm.splits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_group_have_one_number() {
        let numbers = [None, Some(1), Some(1), Some(2), None, None].map(|group| next_call(0x51, group).1);
        assert_eq!(numbers, [0, 1, 1, 2, 3, 4]);
    }
}

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
    /// This rank.
    pub rank: i32,
    /// A number that is the same on all its ranks; 0 if this library did not see the communicator being made.
    pub identity: u64,
    /// The calls so far, where a group is one.
    calls: u64,
    /// The group of the last call, which the next call of that group continues.
    last_group: Option<u64>,
    /// How often it was split so far.
    splits: u64,
}

impl Comm {
    /// One that has made no calls.
    pub fn new(ranks: i32, rank: i32, device: i32, identity: u64) -> Self {
        Self { ranks, device, rank, identity, ..Self::default() }
    }
}

/// What the calls of a communicator that its ranks must make alike are counted by: collectives, or messages to or from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    Collectives,
    To(i32),
    From(i32),
}

/// The calls so far by communicator and lane.
static MADE: LazyLock<Mutex<HashMap<(usize, Lane), u64>>> = LazyLock::new(Mutex::default);

fn made() -> MutexGuard<'static, HashMap<(usize, Lane), u64>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of the next call of a lane.
pub fn next_of(comm: usize, lane: Lane) -> u64 {
    let mut made = made();
    let calls = made.entry((comm, lane)).or_default();
    *calls += 1;
    *calls - 1
}

/// The last call of a lane was refused: other ranks do not count it.
pub fn take_back(comm: usize, lane: Lane) {
    made().entry((comm, lane)).and_modify(|calls| *calls = calls.saturating_sub(1));
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
pub fn add(comm: usize, added: Comm) {
    comms().insert(comm, added);
}

/// The number that the communicator's ranks share, and the rank.
pub fn key(comm: usize) -> Option<(u64, i32)> {
    comms().get(&comm).map(|comm| (comm.identity, comm.rank))
}

/// The number that the communicator's ranks share.
pub fn identity(comm: usize) -> u64 {
    comms().get(&comm).map_or(0, |comm| comm.identity)
}

/// Removes a communicator: its address may be another's next.
pub fn remove(comm: usize) {
    comms().remove(&comm);
    made().retain(|(other, _), _| *other != comm);
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

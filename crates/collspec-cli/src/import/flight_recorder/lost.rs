//! What a ring buffer has lost on one rank is left out on all.
use super::entry::{State, What};
use super::groups::{Calls, Placed};

/// By world rank: true if its first calls are lost, or all of them.
pub fn ranks(calls: &Calls) -> Vec<bool> {
    let first = |own: &Vec<Placed>| own.first().is_some_and(|placed| placed.entry.record == 0);
    calls.iter().map(|own| !own.as_ref().is_some_and(first)).collect()
}

/// Removes the collectives of each communicator before the first one that all of its members still have. `groups` has these
/// members. Returns how many go.
pub fn remove_collectives(calls: &mut Calls, groups: &[Vec<usize>]) -> usize {
    let starts: Vec<u64> = groups.iter().enumerate().map(|(comm, group)| start(calls, comm, group)).collect();
    let mut removed = 0;
    for program in calls.iter_mut().flatten() {
        let before = program.len();
        program.retain(|placed| {
            !matches!(placed.entry.what, What::Collective(_)) || placed.entry.number >= starts[placed.comm]
        });
        removed += before - program.len();
    }
    removed
}

/// The number of the first call that no member has lost.
fn start(calls: &Calls, comm: usize, group: &[usize]) -> u64 {
    // By member with a dump: its first call, and its last one that was completed.
    let members = group.iter().filter_map(|rank| calls.get(*rank)?.as_ref()).map(|program| {
        let own = program.iter().filter(|placed| placed.comm == comm).map(|placed| &*placed.entry);
        let collectives = own.filter(|entry| matches!(entry.what, What::Collective(_)));
        let done = |entry: &&&super::entry::Entry| entry.state == State::Completed;
        let own: Vec<_> = collectives.collect();
        (own.iter().map(|entry| entry.number).min(), own.iter().filter(done).map(|entry| entry.number).max())
    });
    let members: Vec<(Option<u64>, Option<u64>)> = members.collect();
    // A member that has nothing left has at least made what others have completed.
    let after_done = members.iter().filter_map(|(_, done)| *done).max().map_or(0, |done| done.saturating_add(1));
    members.iter().map(|(first, _)| first.unwrap_or(after_done)).max().unwrap_or(0)
}

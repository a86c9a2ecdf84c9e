//! Faults of membership and of failures: who is in a communicator, and what becomes of a refusal.
use super::{hit, named, wanted};
use crate::algo::Algorithm;
use crate::engine::{Locked, Member, World, lock};
use crate::failure::{Failure, Outcome};
use nccl_sys::{ncclComm_t, ncclResult_t};
use std::collections::BTreeMap;

/// What is asked for has no algorithm, or none yet.
const NONE: Algorithm = Algorithm::Direct;

/// A rank at a split: its old number, its colour and its key.
type Asking<'a> = (usize, &'a mut Option<i32>, &'a mut i32);

/// Changes what the ranks of a split have asked for; they come in their old order.
pub(crate) fn misjudge<'a>(arrived: impl Iterator<Item = Asking<'a>>) {
    if ![named::F36, named::F36B, named::F36C].into_iter().any(wanted) {
        return;
    }
    let mut colors: BTreeMap<Option<i32>, Vec<Asking<'a>>> = BTreeMap::new();
    for asking in arrived {
        colors.entry(*asking.1).or_default().push(asking);
    }
    let lowest = colors.keys().flatten().next().copied();
    for (color, ranks) in &mut colors {
        if color.is_none() {
            for (rank, color, _) in ranks {
                if lowest.is_some() && hit(named::F36C, *rank, NONE) {
                    **color = lowest;
                }
            }
            continue;
        }
        if !ranks.is_sorted_by_key(|(_, _, key)| **key) {
            for (rank, _, key) in &mut *ranks {
                if hit(named::F36, *rank, NONE) {
                    **key = 0;
                }
            }
        }
        let mut keys: Vec<i32> = ranks.iter().map(|(_, _, key)| **key).collect();
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            // Among equals the later come first.
            let unstable = |rank: usize| if hit(named::F36B, rank, NONE) { -(rank as i64) } else { rank as i64 };
            let mut order: Vec<(i32, i64, usize)> =
                ranks.iter().enumerate().map(|(at, (rank, _, key))| (**key, unstable(*rank), at)).collect();
            order.sort_unstable();
            for (place, (_, _, at)) in order.into_iter().enumerate() {
                *ranks[at].2 = place as i32;
            }
        }
    }
}

/// What a caller hears of an operation on a communicator.
pub(crate) fn heard(comm: usize, outcome: Outcome<()>) -> Outcome<()> {
    if !wanted(named::F40) && !wanted(named::F40B) {
        return outcome;
    }
    let mut world = lock();
    let member = world.member(comm as ncclComm_t).ok();
    let rank = member.as_ref().map_or(0, |member| member.rank);
    let mut nobody = false;
    let unbalanced = member.map_or(&mut nobody, |member| &mut member.faults.unbalanced);
    match outcome {
        Ok(()) if std::mem::take(unbalanced) && hit(named::F40B, rank, NONE) => {
            Err(Failure::usage("an earlier call has left the group open"))
        }
        Ok(()) => Ok(()),
        Err(_) if hit(named::F40, rank, NONE) => Ok(()),
        Err(failure) => {
            *unbalanced = true;
            Err(failure)
        }
    }
}

/// What a caller hears of its communicator's asynchronous error.
pub(crate) fn asynchronous(rank: usize, error: Option<ncclResult_t>) -> ncclResult_t {
    error.filter(|_| !hit(named::F40, rank, NONE)).unwrap_or(ncclResult_t::Success)
}

/// Called before a communicator ends; marks its parent and children if a fault makes them depend on it.
pub(crate) fn ends(world: &mut World, comm: usize, abort: bool) {
    if ![named::F63, named::F63B, named::F63C].into_iter().any(wanted) {
        return;
    }
    let parent = world.members.get(&comm).and_then(|member| member.parent);
    if let Some(parent) = parent.and_then(|parent| world.members.get_mut(&parent)) {
        *(if abort { &mut parent.faults.child_aborted } else { &mut parent.faults.child_destroyed }) = true;
    }
    for child in world.members.values_mut().filter(|member| member.parent == Some(comm)) {
        child.faults.parent_ended = true;
    }
}

/// Refuses work on a communicator whose child or parent has ended.
pub(crate) fn bereft(member: &Member) -> Outcome<()> {
    let hits = |fault| hit(fault, member.rank, NONE);
    if (member.faults.child_destroyed && hits(named::F63)) || (member.faults.parent_ended && hits(named::F63C)) {
        return Err(Failure::usage("the communicator ended with another one"));
    }
    Ok(())
}

/// The communicator whose operations an abort waits for, though it is another's.
pub(crate) fn waits_for(world: &Locked, comm: usize) -> Option<usize> {
    if !wanted(named::F40C) {
        return None;
    }
    let own = world.members.get(&comm)?;
    let others = world.members.iter().filter(|(_, other)| other.core != own.core && other.is_at_work());
    let other = others.map(|(handle, _)| *handle).min()?;
    hit(named::F40C, own.rank, NONE).then_some(other)
}

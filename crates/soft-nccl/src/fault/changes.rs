//! Faults of communicators that lose or gain ranks, are revoked, or are suspended and resumed.
use super::{FaultMode, hit, mode, named, wanted};
use crate::algo::Algorithm;
use crate::engine::Member;
use crate::engine::hooks::ChangedRank;
use crate::failure::{Failure, Outcome};
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The algorithm reported for these requests, which have none.
const NONE: Algorithm = Algorithm::Direct;

/// Parts of shrunk communicators that can be kept before there is no room for another.
const ROOM: usize = 64;

/// Parts of shrunk communicators that were destroyed since the program began.
static DESTROYED: AtomicUsize = AtomicUsize::new(0);

/// A new program begins.
pub(super) fn forget() {
    DESTROYED.store(0, Ordering::Relaxed);
}

/// The number that `ncclCommUserRank` gives in a communicator that was shrunk, if it is the old one.
pub(super) fn old_rank(member: &Member) -> Option<c_int> {
    let old = member.shrunk_from?;
    (old != member.rank && hit(named::F70, member.rank, NONE)).then_some(old as c_int)
}

/// True if a shrink waits for the ranks that it leaves out.
pub(super) fn shrink_waits_for_all(rank: usize) -> bool {
    hit(named::F70C, rank, NONE)
}

/// A part of a communicator that came from a shrink is destroyed.
pub(super) fn shrunk_is_destroyed() {
    if wanted(named::F70D) {
        DESTROYED.fetch_add(1, Ordering::Relaxed);
    }
}

/// The number of ranks in a shrink's exclusion list that are read.
pub(super) fn read_of_exclusions(list: &[c_int]) -> usize {
    let rising = list.windows(2).take_while(|pair| pair[0] < pair[1]).count() + 1;
    if rising < list.len() && hit(named::F70E, 0, NONE) { rising } else { list.len() }
}

/// Checks that there is room for another shrunk communicator.
pub(super) fn check_shrink(rank: usize) -> Outcome<()> {
    if DESTROYED.load(Ordering::Relaxed) >= ROOM && hit(named::F70D, rank, NONE) {
        return Err(Failure::system("destroyed communicators have left no room for another"));
    }
    Ok(())
}

/// Gives the ranks of a shrink or grow other numbers; they come in the order of the correct ones.
pub(super) fn renumber(ranks: &mut [ChangedRank]) {
    let Some(last) = ranks.len().checked_sub(1).filter(|last| *last > 0) else { return };
    let joining = ranks.iter().filter(|rank| rank.old.is_none()).count();
    if joining == 0 {
        if hit(named::F70B, 0, NONE) {
            ranks.iter_mut().for_each(|rank| rank.new = last - rank.new);
        }
        return;
    }
    if hit(named::F71, 0, NONE) {
        let old = ranks.len() - joining;
        ranks
            .iter_mut()
            .for_each(|rank| rank.new = if rank.old.is_some() { rank.new + joining } else { rank.new - old });
    }
    if hit(named::F71B, 0, NONE) {
        ranks[last].lost = true;
    }
}

/// True if a call in progress counts as over.
pub(super) fn hides_progress(rank: usize, making: bool) -> bool {
    hit(if making { named::F74 } else { named::F74B }, rank, NONE)
}

/// True if a non-blocking call is held back. So that the caller certainly asks before it is over, it waits for the question;
/// with the fault it waits for its communicator's end, because its progress before the next call would be random.
pub(super) fn holds_call(making: bool, polled: bool) -> bool {
    let fault = if making { named::F74 } else { named::F74B };
    let strikes = matches!(mode(), FaultMode::Inject(injection) if injection.fault == fault);
    strikes || (wanted(fault) && !polled)
}

/// True if a revoke does not end the communicator's operations.
pub(super) fn revoke_leaves_operations(member: &Member) -> bool {
    member.is_at_work() && hit(named::F72, member.rank, NONE)
}

/// True if a revoked communicator accepts operations.
pub(super) fn revoke_lets_calls_pass(member: &Member) -> bool {
    hit(named::F72B, member.rank, NONE)
}
